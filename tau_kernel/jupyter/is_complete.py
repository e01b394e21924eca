"""Whether Enter in a console should run the cell or open another line.

A prompt is prose, which no rule can call unfinished; so only what visibly is keeps it
open. For Python cells the answer is IPython's.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from tau_kernel.errors import CallerError

from .cells import (
    TAU_MARKER,
    CommandCell,
    EmptyCell,
    IPythonCell,
    KnownNames,
    PromptCell,
    PythonCell,
    first_line,
    parse,
)
from .code_ranges import has_open_fence

__all__ = ["CompleteStatus", "is_complete"]

CompleteStatus: TypeAlias = Literal["complete", "incomplete", "invalid", "delegate"]
"""The protocol's words, and ``delegate``: ask IPython about the Python in the cell."""


def is_complete(code: str, names: KnownNames) -> CompleteStatus:
    r"""Judge a cell as it stands at the end of typing.

    A prompt is incomplete if it ends in a backslash that no backslash precedes, if
    a fence of code is open, or if it is a ``%%tau`` line with nothing beneath. A
    ``%%tau`` line that cannot be read is invalid, as soon as it is written.
    """
    try:
        cell = parse(code, names)
    except CallerError:
        return "incomplete" if _is_lone_header(code, names) else "invalid"
    match cell:
        case PromptCell(text=text):
            is_open = _ends_in_backslash(text) or has_open_fence(text)
            return "incomplete" if is_open else "complete"
        case PythonCell(code=python, offset=offset):
            is_lone = not python and code[offset - 1 : offset] != "\n"
            return "incomplete" if is_lone else "delegate"
        case IPythonCell():
            return "delegate"
        case CommandCell() | EmptyCell():
            return "complete"


def _is_lone_header(code: str, names: KnownNames) -> bool:
    line = first_line(code)
    if line is None or line.word != TAU_MARKER or code[line.end :].strip():
        return False
    try:
        parse(f"{code[: line.end]}\nprompt", names)
    except CallerError:
        return False
    return True


def _ends_in_backslash(text: str) -> bool:
    bare = text.rstrip(" \t")
    return (len(bare) - len(bare.rstrip("\\"))) % 2 == 1
