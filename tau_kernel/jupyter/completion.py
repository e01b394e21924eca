"""What Tab and Shift-Tab say in a cell of the kernel.

Completion knows commands, ``@paths``, magics and the options of ``%%tau``. Where the
cell is Python, it says so and gives the part that Python's completer should see. All
positions are in code points.
"""

from __future__ import annotations

import heapq
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

from .attachments import BARE_PATH_CHARACTER, MENTION_START, find_mentions
from .cell_options import (
    OPTIONS,
    UNAVAILABLE,
    OptionSpec,
    option_named,
    scan_header,
)
from .cells import (
    PYTHON_MARKERS,
    TAU_MARKER,
    FirstLine,
    IPythonCell,
    KnownNames,
    PythonCell,
    first_line,
    parse,
)
from .code_ranges import code_ranges

__all__ = [
    "MOST_MATCHES",
    "CompletionSources",
    "Completions",
    "Delegated",
    "Match",
    "complete",
    "inspect",
]

MOST_MATCHES: Final = 200
"""Suggestions given at once; front ends narrow them down without asking again."""
_NAMES_LOOKED_AT: Final = 10_000
_OPEN_MENTION: Final = re.compile(
    rf"""{MENTION_START}(?:"(?P<quoted>[^"\n]*)|(?P<bare>{BARE_PATH_CHARACTER}*))\Z"""
)
#: Control characters, halves of surrogate pairs (names that are no UTF-8), line ends.
_UNWRITABLE: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionSources:
    """What there is to suggest.

    Args:
        names: The names that decide what a cell is.
        command_help: Commands with what they do, in Markdown.
        models: Names for ``model=``.
        tools: Names for ``tools=``.
        cwd: Where relative paths begin.
    """

    names: KnownNames
    command_help: Mapping[str, str] = field(default_factory=dict)
    models: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    cwd: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """One suggestion.

    Args:
        text: What replaces the completed part.
        type: ``command``, ``magic``, ``option``, ``value``, ``file`` or ``directory``.
        signature: A few words on it; may be empty.
    """

    text: str
    type: str
    signature: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completions:
    """Suggestions for the part of the cell from `start` to `end`."""

    matches: tuple[Match, ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Delegated:
    """A question for Python's own completer or inspector.

    Args:
        code: The Python of the cell.
        cursor_pos: The cursor in `code`.
        offset: What to add to positions in `code` for positions in the cell.
    """

    code: str
    cursor_pos: int
    offset: int


def complete(
    code: str, cursor_pos: int, sources: CompletionSources
) -> Completions | Delegated:
    """Suggest how the part of `code` before the cursor may go on.

    A cursor outside `code` counts as one at its nearer end.
    """
    cursor = min(max(cursor_pos, 0), len(code))
    line = first_line(code)
    if line is not None and line.start <= cursor <= line.end:
        at_start = _complete_first_line(code, cursor, line, sources)
        if at_start is not None:
            return at_start
    delegated = _delegated(code, cursor, line, sources.names)
    if delegated is not None:
        return delegated
    return _complete_mention(code, cursor, sources.cwd)


def _nothing(code: str, cursor: int) -> Completions:
    """Give no suggestions for the word before the cursor."""
    words = code[code.rfind("\n", 0, cursor) + 1 : cursor].split()
    is_in_word = bool(words) and not code[cursor - 1].isspace()
    start = cursor - len(words[-1]) if is_in_word else cursor
    return Completions(matches=(), start=start, end=cursor)


def _delegated(
    code: str, cursor: int, line: FirstLine | None, names: KnownNames
) -> Delegated | None:
    if line is None or line.word == TAU_MARKER:
        return None
    match parse(code, names):
        case PythonCell(code=python, offset=offset):
            if cursor < offset:
                return None
            inner = cursor - offset
            return Delegated(code=python, cursor_pos=inner, offset=offset)
        case IPythonCell():
            return Delegated(code=code, cursor_pos=cursor, offset=0)
        case _:
            return None


def _complete_first_line(
    code: str, cursor: int, line: FirstLine, sources: CompletionSources
) -> Completions | None:
    if cursor > line.word_end:
        if line.word != TAU_MARKER:
            return None
        return _complete_header(code, cursor, line, sources)
    typed = code[line.start : cursor]
    if typed.startswith("/"):
        matches = _command_matches(sources)
    elif typed.startswith("%"):
        matches = _magic_matches(sources.names)
    else:
        return None
    return _starting_with(typed, matches, line.start, cursor)


def _starting_with(
    typed: str, matches: Iterable[Match], start: int, end: int
) -> Completions:
    fitting = (match for match in matches if match.text.startswith(typed))
    return Completions(
        matches=tuple(islice(fitting, MOST_MATCHES)), start=start, end=end
    )


def _command_matches(sources: CompletionSources) -> Iterator[Match]:
    for name in sorted(sources.names.commands):
        about = sources.command_help.get(name, "").strip()
        signature = about.split("\n", 1)[0]
        yield Match(text=f"/{name}", type="command", signature=signature)


def _magic_matches(names: KnownNames) -> Iterator[Match]:
    yield Match(text=TAU_MARKER, type="magic", signature="options for this prompt")
    for marker in PYTHON_MARKERS:
        yield Match(text=marker, type="magic", signature="a Python cell")
    ours = {TAU_MARKER, *PYTHON_MARKERS}
    for name in sorted(names.cell_magics):
        if f"%%{name}" not in ours:
            yield Match(text=f"%%{name}", type="magic")
    for name in sorted(names.line_magics):
        yield Match(text=f"%{name}", type="magic")


def _complete_header(
    code: str, cursor: int, line: FirstLine, sources: CompletionSources
) -> Completions:
    words = scan_header(code[line.word_end : cursor])
    is_in_word = bool(words) and line.word_end + words[-1].end == cursor
    word = words[-1] if is_in_word else None
    if word is None or word.key is None:
        used = {word.key for word in scan_header(code[line.word_end : line.end])}
        start = cursor if word is None else line.word_end + word.start
        keys = (
            Match(text=f"{spec.name}=", type="option", signature=spec.rule)
            for spec in OPTIONS
            if spec.name not in used and spec.name not in UNAVAILABLE
        )
        return _starting_with(code[start:cursor], keys, start, cursor)
    spec = option_named(word.key)
    start = line.word_end + word.item_start
    # A closing quote behind the cursor is replaced by the suggestion's own.
    has_closing = not word.is_closed and code[cursor : cursor + 1] in {'"', "'"}
    end = cursor + 1 if has_closing else cursor
    if spec is None:
        return Completions(matches=(), start=start, end=cursor)
    typed = word.items[-1]
    if spec.source == "paths":
        return Completions(
            matches=tuple(_path_values(typed, sources.cwd)), start=start, end=end
        )
    values = (
        Match(text=_quoted(value), type="value", signature=f"for {spec.name}")
        for value in _values(spec, sources)
        if value.startswith(typed) and f"{spec.name}={value}" not in UNAVAILABLE
    )
    return Completions(
        matches=tuple(islice(values, MOST_MATCHES)), start=start, end=end
    )


def _values(spec: OptionSpec, sources: CompletionSources) -> tuple[str, ...]:
    match spec.source:
        case "models":
            return sources.models
        case "tools":
            return ("none", *sources.tools)
        case _:
            return spec.values


def _path_values(typed: str, cwd: Path) -> Iterator[Match]:
    for path, is_directory in _paths(typed, cwd):
        if is_directory:
            yield Match(text=_quoted(path, closing=""), type="directory")
        else:
            yield Match(text=_quoted(path), type="file")


def _quoted(value: str, *, closing: str = '"') -> str:
    """Write a value as `scan_header` reads it back, in quotes only if need be."""
    if not any(char.isspace() or char in "\"',\\" for char in value):
        return value
    inner = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{inner}{closing}'


def _complete_mention(code: str, cursor: int, cwd: Path) -> Completions:
    line_start = code.rfind("\n", 0, cursor) + 1
    found = _OPEN_MENTION.search(code[line_start:cursor])
    if found is None:
        return _nothing(code, cursor)
    start = line_start + found.start()
    if any(begin <= start < end for begin, end in code_ranges(code)):
        return _nothing(code, cursor)
    typed = found["bare"] if found["quoted"] is None else found["quoted"]
    is_quoted = found["quoted"] is not None
    has_closing = is_quoted and code[cursor : cursor + 1] == '"'
    matches = (
        _mention_match(
            path, is_directory=is_directory, quoted=is_quoted, closed=has_closing
        )
        for path, is_directory in _paths(typed, cwd)
    )
    return Completions(
        matches=tuple(match for match in matches if match is not None),
        start=start,
        end=cursor,
    )


def _mention_match(
    path: str, *, is_directory: bool, quoted: bool, closed: bool
) -> Match | None:
    kind = "directory" if is_directory else "file"
    bare = f"@{path}"
    if not quoted and [mention.path for mention in find_mentions(bare)] == [path]:
        return Match(text=bare, type=kind)
    if '"' in path or "\n" in path:
        return None
    closing = "" if is_directory or closed else '"'
    return Match(text=f'@"{path}{closing}', type=kind)


def _paths(typed: str, cwd: Path) -> tuple[tuple[str, bool], ...]:
    """Give what `typed` may go on to, directories with a slash, and whether each is."""
    folder, slash, prefix = typed.rpartition("/")
    folder += slash
    wanted = prefix.casefold()
    try:
        where = cwd / Path(os.path.expanduser(folder))  # noqa: PTH111 - Path.expanduser raises where there is no such user
        with os.scandir(where) as found:
            entries = [
                entry
                for entry in islice(found, _NAMES_LOOKED_AT)
                if entry.name.casefold().startswith(wanted)
                and (prefix.startswith(".") or not entry.name.startswith("."))
                and _is_writable(entry.name)
                # Read back, it would be somebody's home.
                and not (entry.name.startswith("~") and not folder)
            ]
    except (OSError, ValueError):
        # A folder that cannot be listed has nothing to suggest.
        return ()
    first = heapq.nsmallest(
        MOST_MATCHES, entries, key=lambda entry: (entry.name.casefold(), entry.name)
    )
    return tuple(
        (f"{folder}{entry.name}/", True)
        if _is_directory(entry)
        else (f"{folder}{entry.name}", False)
        for entry in first
    )


def _is_writable(name: str) -> bool:
    """Say whether a name can stand in a cell."""
    if not name.strip():
        return False
    return name.isprintable() or not any(
        unicodedata.category(char) in _UNWRITABLE for char in name
    )


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        # A link that leads back to itself, or past a folder that is closed to us.
        return False


def inspect(
    code: str, cursor_pos: int, sources: CompletionSources
) -> str | Delegated | None:
    """Explain the command, or the option of ``%%tau``, under the cursor.

    Returns:
        Markdown; a question for Python's inspector; or None where there is nothing
        to explain.
    """
    cursor = min(max(cursor_pos, 0), len(code))
    line = first_line(code)
    if line is None:
        return None
    is_in_first_word = line.start <= cursor <= line.word_end
    if line.word == TAU_MARKER:
        if is_in_first_word:
            return _explain_all()
        return _explain_word(code[line.word_end : line.end], cursor - line.word_end)
    name = line.word[1:]
    if line.word.startswith("/") and name in sources.names.commands:
        about = sources.command_help.get(name, "").strip()
        return f"**`/{name}`**\n\n{about}".strip() if is_in_first_word else None
    return _delegated(code, cursor, line, sources.names)


def _explain_all() -> str:
    rows = "\n".join(
        f"| `{spec.name}=` | {spec.description} | `{spec.name}={spec.example}` |"
        for spec in OPTIONS
        if spec.name not in UNAVAILABLE
    )
    return (
        "**`%%tau key=value …`** sets options for the prompt beneath it.\n\n"
        f"| option | what it does | example |\n|---|---|---|\n{rows}"
    )


def _explain_word(header: str, at: int) -> str | None:
    for word in scan_header(header):
        if word.start <= at <= word.end:
            spec = option_named(word.value if word.key is None else word.key)
            return None if spec is None else _explain(spec)
    return None


def _explain(spec: OptionSpec) -> str:
    lines = [f"**`{spec.name}=`** {spec.description}", f"Give {spec.rule}."]
    lines.append(f"Example: `%%tau {spec.name}={spec.example}`")
    keys = (spec.name, *(f"{spec.name}={value}" for value in spec.values))
    lines.extend(UNAVAILABLE[key] for key in keys if key in UNAVAILABLE)
    return "\n\n".join(lines)
