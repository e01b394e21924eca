"""The tool that replaces a passage of a file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import islice
from typing import Final

from tau_kernel.errors import ToolError
from tau_kernel.extensions import AgentToolResult

from .builtin_tool import BuiltinTool, Invocation, schema
from .file_text import DecodedText, decode_text, refuse_binary
from .in_thread import check_stop
from .passage import Passage, find_passages, replace_passages, unified_diff
from .path_policy import PathPolicy, Place, open_regular, told
from .replace_file import FileState, replace_file

__all__ = ["DIFF_CHARS", "EDIT_BYTES", "EDIT_PASSAGES", "edit_tool"]

EDIT_BYTES: Final = 4 * 1024 * 1024
"""Bytes of a file at most."""
EDIT_PASSAGES: Final = 50_000
"""Places that one call replaces at most."""
DIFF_CHARS: Final = 20_000
"""Characters of the diff that is kept with the result."""
_NAMED_LINES: Final = 10


def edit_tool(policy: PathPolicy) -> BuiltinTool:
    """Make the tool."""
    return BuiltinTool(
        name="edit",
        description=(
            "Replace a passage of a text file. The old text must match to the letter, "
            "white space included, and stand there once, unless all are to be replaced."
        ),
        parameters=schema(
            "path",
            "old_string",
            "new_string",
            path=("text", "the file"),
            old_string=("text", "the text to replace, with enough around it"),
            new_string=("text", "the text to put there"),
            replace_all=("flag", "replace every place where the old text stands"),
        ),
        execution_mode="sequential",
        run=lambda call: _run(call, policy),
    )


def _run(call: Invocation, policy: PathPolicy) -> AgentToolResult:
    place = policy.place(call.text("path"), call.cwd)
    _check_strings(call)
    with told(place):
        data, state = _content(place)
        refuse_binary(place.written, data)
        found = decode_text(data)
        passages = _chosen(call, found.text)
        check_stop(call.stop)
        new = _encoded(place, found, replace_passages(found.text, passages))
        replace_file(place, new, call.stop, expected=state)
    name = "/".join(place.parts) or place.root.name
    diff = unified_diff(name, found.text, passages)
    times = "1 passage" if len(passages) == 1 else f"{len(passages)} passages"
    lines = _line_numbers(found.text, passages)
    return AgentToolResult(
        f"Replaced {times} in {place.written!r} ({lines})",
        details={
            "path": str(place.real),
            "replacements": len(passages),
            "diff": _capped(diff),
        },
    )


def _check_strings(call: Invocation) -> None:
    old = call.text("old_string")
    if not old:
        msg = "old_string is empty; name the text to replace, or use write"
        raise ToolError(msg)
    if old == call.text("new_string"):
        msg = "new_string is the same as old_string; nothing would change"
        raise ToolError(msg)


def _content(place: Place) -> tuple[bytes, FileState]:
    opened = open_regular(place)
    with os.fdopen(opened, "rb") as file:
        data = file.read(EDIT_BYTES + 1)
        status = os.fstat(opened)
    if len(data) > EDIT_BYTES:
        msg = (
            f"{place.written!r} has {status.st_size} bytes, and edit takes {EDIT_BYTES}"
            "\nuse bash with a program such as sed"
        )
        raise ToolError(msg)
    return data, FileState.from_stat(status)


def _chosen(call: Invocation, text: str) -> Sequence[Passage]:
    """Give the passages to replace, apart from each other.

    Raises:
        ToolError: There is none, or more than one where one is meant.
    """
    old, path = call.text("old_string"), call.text("path")
    is_all = call.flag("replace_all")
    every = find_passages(text, old, call.text("new_string"), may_overlap=not is_all)
    found = list(islice(every, EDIT_PASSAGES + 1))
    if not found:
        msg = f"old_string does not stand in {path!r}\n{_hint(text, old)}"
        raise ToolError(msg)
    if len(found) > EDIT_PASSAGES:
        msg = (
            f"old_string stands over {EDIT_PASSAGES} times in {path!r}; give more text"
        )
        raise ToolError(msg)
    if len(found) > 1 and not is_all:
        msg = (
            f"old_string stands {len(found)} times in {path!r} "
            f"({_line_numbers(text, found)})\n"
            "give more of the text around the one you mean, or set replace_all"
        )
        raise ToolError(msg)
    return found


def _hint(text: str, old: str) -> str:
    wanted = next((line.strip() for line in old.split("\n") if line.strip()), "")
    lines = text.split("\n")
    near = [i for i, line in enumerate(lines, 1) if wanted and line.strip() == wanted]
    if not near:
        return "read the file, and copy the text from there"
    return (
        f"its first line, but for white space, stands at {_named(near)}; "
        "read the file there and copy the text"
    )


def _line_numbers(text: str, passages: Sequence[Passage]) -> str:
    numbers: list[int] = []
    line, at = 1, 0
    for one in passages:
        line += text.count("\n", at, one.start)
        at = one.start
        numbers.append(line)
    return _named(numbers)


def _named(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:_NAMED_LINES]))
    more = len(numbers) - _NAMED_LINES
    word = "line" if len(numbers) == 1 else "lines"
    return f"{word} {shown} and {more} more" if more > 0 else f"{word} {shown}"


def _encoded(place: Place, found: DecodedText, text: str) -> bytes:
    try:
        return text.encode(found.encoding)
    except UnicodeEncodeError as error:
        msg = (
            f"{place.written!r} is not UTF-8; Latin-1 has no {text[error.start]!r}\n"
            "leave it out, or write the whole file as utf-8"
        )
        raise ToolError(msg) from error


def _capped(diff: str) -> str:
    if len(diff) <= DIFF_CHARS:
        return diff
    return f"{diff[:DIFF_CHARS]}\n… {len(diff) - DIFF_CHARS} characters more"
