"""The tool that lists a folder."""

from __future__ import annotations

import heapq
import os
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from tau_kernel.extensions import AgentToolResult

from .builtin_tool import BuiltinTool, Invocation, schema
from .in_thread import check_stop
from .path_policy import PathPolicy, Place, open_place, parent_of, told

__all__ = ["LS_CHARS", "LS_ENTRIES", "ls_tool"]

LS_ENTRIES: Final = 1000
"""Names that one call gives at most."""
LS_CHARS: Final = 100_000
"""Characters of all lines at most; a link may lead to a long path."""


def ls_tool(policy: PathPolicy) -> BuiltinTool:
    """Make the tool."""
    return BuiltinTool(
        name="ls",
        description=(
            "List a folder by name; folders end in a slash. "
            f"Gives up to {LS_ENTRIES} names."
        ),
        parameters=schema(
            path=("text", "the folder; the working directory if left out"),
            all=("flag", "also names that begin with a dot"),
            long=("flag", "also mode, size in bytes and time of change (UTC)"),
        ),
        execution_mode="parallel",
        run=lambda call: _run(call, policy),
    )


def _run(call: Invocation, policy: PathPolicy) -> AgentToolResult:
    place = policy.place(call.text("path", "."), call.cwd)
    with told(place):
        opened = _open(place)
        if opened is None:
            with parent_of(place) as (folder, name):
                lines, count = [_line(call, folder, name)], 1
        else:
            try:
                lines, count = _folder(call, opened)
            finally:
                os.close(opened)
    if (more := count - len(lines)) > 0:
        lines.append(f"[{more} more names; find with a name or pattern narrows them]")
    return AgentToolResult(
        "\n".join(lines) or "(empty folder)",
        details={"path": str(place.real), "entries": count},
    )


def _open(place: Place) -> int | None:
    """Open a folder; None if the place is a file, which needs not be readable."""
    with parent_of(place) as (folder, name):
        if not stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode):
            return None
    return open_place(place)


def _folder(call: Invocation, opened: int) -> tuple[list[str], int]:
    """Give the first lines by name, and how many there are in all."""
    count = 0

    def shown() -> Iterator[str]:
        nonlocal count
        with os.scandir(opened) as entries:
            for entry in entries:
                check_stop(call.stop)
                if call.flag("all") or not entry.name.startswith("."):
                    count += 1
                    yield entry.name

    # A folder may hold millions; the names that are not shown are not kept either.
    names = heapq.nsmallest(LS_ENTRIES, shown())
    lines: list[str] = []
    left = LS_CHARS
    for name in names:
        line = _line(call, opened, name)
        if (left := left - len(line)) < 0:
            break
        lines.append(line)
    return lines, count


def _line(call: Invocation, folder: int, name: str) -> str:
    try:
        status = os.lstat(name, dir_fd=folder)
    except OSError as error:
        return f"{name}  [{error.strerror}]"
    mark = "/" if stat.S_ISDIR(status.st_mode) else ""
    if not call.flag("long"):
        return f"{name}{mark}"
    changed = datetime.fromtimestamp(status.st_mtime, UTC)
    target = _target(folder, name) if stat.S_ISLNK(status.st_mode) else ""
    return (
        f"{stat.filemode(status.st_mode)} {status.st_size:>12} "
        f"{changed:%Y-%m-%dT%H:%M:%SZ} {name}{mark}{target}"
    )


def _target(folder: int, name: str) -> str:
    try:
        return f" -> {os.readlink(name, dir_fd=folder)}"
    except OSError:
        return " -> [gone]"
