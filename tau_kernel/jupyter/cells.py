"""What a cell is: a prompt, a command, Python or IPython's.

`parse` is a function of the text and of the names that exist, and of nothing else.
The first line that is not blank decides, and only if its marker stands in its first
column: a space before it makes the cell a prompt. Running the cell, reading attached
files and refusing options that are not available are left to others.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from tau_kernel.errors import CallerError

from .cell_options import CellOptions, parse_options

__all__ = [
    "PYTHON_MARKERS",
    "TAU_MARKER",
    "Cell",
    "CommandCell",
    "EmptyCell",
    "FirstLine",
    "IPythonCell",
    "KnownNames",
    "PromptCell",
    "PythonCell",
    "first_line",
    "parse",
]

TAU_MARKER: Final = "%%tau"
PYTHON_MARKERS: Final = ("%%python", "%%py")

_HELP: Final = re.compile(r"([^\W\d]\w*)(?:\.[^\W\d]\w*)*\?{1,2}")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownNames:
    """The names that decide what a cell is.

    Args:
        commands: Names of commands, without the slash.
        line_magics: Names of IPython's line magics, without the percent sign.
        cell_magics: Names of IPython's cell magics, likewise.
        is_bound: Whether a name exists in the namespace of Python cells; it must
            not raise.
    """

    commands: frozenset[str]
    line_magics: frozenset[str]
    cell_magics: frozenset[str]
    is_bound: Callable[[str], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptCell:
    """A prompt: the cell as it was written, or what stands beneath ``%%tau``."""

    text: str
    options: CellOptions = field(default_factory=CellOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandCell:
    """A command: its name without the slash, and the rest of the cell, stripped."""

    name: str
    args: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonCell:
    """Python for the kernel's own namespace.

    Args:
        code: Everything behind the marker; code on the marker's line belongs to it.
        offset: Where `code` begins in the cell, in code points.
    """

    code: str
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IPythonCell:
    """A cell that IPython runs as it stands."""

    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptyCell:
    """A cell of nothing but white space."""


Cell: TypeAlias = PromptCell | CommandCell | PythonCell | IPythonCell | EmptyCell


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstLine:
    """The first line of a cell that is not blank.

    Args:
        start: Where it begins in the cell, in code points.
        end: Where it ends: at its line break or at the end of the cell.
        body: Where the next line begins; None if there is none.
        word: Its text up to the first white space; empty if white space leads.
    """

    start: int
    end: int
    body: int | None
    word: str

    @property
    def word_end(self) -> int:
        """Where `word` ends in the cell."""
        return self.start + len(self.word)


def first_line(text: str) -> FirstLine | None:
    """Find the first line of `text` that is not blank, or None."""
    start = 0
    for line in text.split("\n"):
        end = start + len(line)
        if line.strip():
            word = "" if line[0].isspace() else line.split(maxsplit=1)[0]
            body = end + 1 if end < len(text) else None
            return FirstLine(start=start, end=end, body=body, word=word)
        start = end + 1
    return None


def parse(text: str, names: KnownNames) -> Cell:
    """Tell what the cell `text` is.

    A prompt without a ``%%tau`` line is `text` itself, blank lines and all; beneath
    one it is everything after that line's break.

    Raises:
        CallerError: The first line is a ``%%tau`` line with a wrong option, or with
            no prompt beneath it. No other text raises.
    """
    line = first_line(text)
    if line is None:
        return EmptyCell()
    if line.word == TAU_MARKER:
        return _prompt_with_options(text, line)
    if line.word in PYTHON_MARKERS:
        return _python(text, line)
    if line.word[:1] == "/" and line.word[1:] in names.commands:
        return CommandCell(name=line.word[1:], args=text[line.word_end :].strip())
    if _is_ipython(text, line.word, names):
        return IPythonCell(code=text)
    return PromptCell(text=text)


def _prompt_with_options(text: str, line: FirstLine) -> PromptCell:
    options = parse_options(text[line.word_end : line.end])
    body = "" if line.body is None else text[line.body :]
    if not body.strip():
        msg = (
            "%%tau stands without a prompt\n"
            "write the prompt on the lines beneath the options"
        )
        raise CallerError(msg)
    return PromptCell(text=body, options=options)


def _python(text: str, line: FirstLine) -> PythonCell:
    rest = text[line.word_end : line.end]
    if rest.strip():
        offset = line.word_end + len(rest) - len(rest.lstrip())
    else:
        offset = len(text) if line.body is None else line.body
    return PythonCell(code=text[offset:], offset=offset)


def _is_ipython(text: str, word: str, names: KnownNames) -> bool:
    stripped = text.strip()
    if word.startswith("%"):
        # A question about a magic is the whole of its cell.
        magic = word.rstrip("?") if word == stripped else word
        if magic.startswith("%%"):
            return magic[2:] in names.cell_magics
        return magic[1:] in names.line_magics
    if not word or len(stripped.splitlines()) > 1:
        return False
    if word.startswith("!"):
        return bool(stripped.lstrip("!").strip())
    asked = _HELP.fullmatch(stripped)
    return asked is not None and names.is_bound(asked[1])
