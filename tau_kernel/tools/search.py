"""The tools that search: `grep` in files, `find` among names.

Both run in a process of their own (`search_worker`), because a pattern may backtrack
for ever and holds up every thread of its process while it does.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast

from tau_kernel.errors import ToolError
from tau_kernel.extensions import AgentToolResult
from tau_kernel.messages import JsonObject, JsonValue, clean_text

from .bash import command_environment
from .builtin_tool import BuiltinTool, Invocation, schema
from .in_thread import check_stop
from .path_policy import PathPolicy, Place, open_place, told
from .spool import Spool
from .supervised import Supervised

__all__ = [
    "FIND_PATHS",
    "GREP_FILE_BYTES",
    "GREP_HITS",
    "SEARCH_CHARS",
    "SEARCH_SECONDS",
    "find_tool",
    "grep_tool",
]

GREP_HITS: Final = 200
"""Lines that one call gives at most."""
GREP_LINE_CHARS: Final = 400
"""Characters of each of them."""
GREP_FILE_BYTES: Final = 16 * 1024 * 1024
"""Bytes of a file that is searched; a longer one is left out, and counted."""
FIND_PATHS: Final = 1000
"""Paths that one call gives at most."""
SEARCH_CHARS: Final = 100_000
"""Characters of all lines, or of all paths, that one call gives at most."""
SEARCH_SECONDS: Final = 15.0
"""Seconds after which a search gives what it has."""
_PATTERN_BYTES: Final = 10_000
#: Further seconds that a line has to be matched, before the process is killed.
_STUCK_SECONDS: Final = 2.0
_FIRST_FD: Final = 10
_WORKER: Final = Path(__file__).with_name("search_worker.py")


def grep_tool(
    policy: PathPolicy, spool: Spool, *, seconds: float = SEARCH_SECONDS
) -> BuiltinTool:
    """Make the tool, which may also search the outputs that `spool` keeps."""
    return BuiltinTool(
        name="grep",
        description=(
            "Search the lines of text files with a Python regular expression. Gives "
            f"path:line:text, up to {GREP_HITS} lines. Symbolic links, binary files "
            "and version control's own folders are left out."
        ),
        parameters=schema(
            "pattern",
            pattern=("text", "the regular expression"),
            path=("text", "folder or file; the working directory if left out"),
            files=("text", "glob of the files, such as *.py or src/**/*.{ts,tsx}"),
            ignore_case=("flag", "take capital and small letters as the same"),
        ),
        execution_mode="parallel",
        run=lambda call: _grep(call, spool.opened_to(policy), seconds),
    )


def find_tool(policy: PathPolicy, *, seconds: float = SEARCH_SECONDS) -> BuiltinTool:
    """Make the tool."""
    kind: JsonObject = {
        "type": "string",
        "enum": ["f", "d", "l"],
        "description": "files, folders (d) or symbolic links only",
    }
    return BuiltinTool(
        name="find",
        description=(
            f"Find files and folders below a folder, up to {FIND_PATHS} paths. "
            "Symbolic links are not followed, nor version control's own folders opened."
        ),
        parameters=schema(
            path=("text", "the folder; the working directory if left out"),
            name=("text", "glob of the name, or of the path if it has a slash"),
            type=kind,
            regex=("text", "Python regular expression to occur in the path"),
        ),
        execution_mode="parallel",
        run=lambda call: _find(call, policy, seconds),
    )


@dataclass(slots=True, kw_only=True)
class _Findings:
    """What a search gave so far; `end` is None if it was cut short."""

    hits: list[str] = field(default_factory=list)
    size: int = 0
    end: dict[str, int] | None = None
    is_complete: bool = False
    fault: str | None = None
    strays: list[str] = field(default_factory=list)


def _grep(call: Invocation, policy: PathPolicy, seconds: float) -> AgentToolResult:
    request: JsonObject = {
        "kind": "grep",
        "pattern": call.text("pattern"),
        "files": call.optional_text("files"),
        "ignore_case": call.flag("ignore_case"),
        "cap": GREP_HITS,
        "file_bytes": GREP_FILE_BYTES,
        "line_chars": GREP_LINE_CHARS,
        "seconds": seconds,
    }
    answer = _search(call, policy, request)
    return _result(answer, "line", "give a narrower pattern, path or files", seconds)


def _find(call: Invocation, policy: PathPolicy, seconds: float) -> AgentToolResult:
    request: JsonObject = {
        "kind": "find",
        "pattern": call.optional_text("regex"),
        "name": call.optional_text("name"),
        "type": call.optional_text("type"),
        "cap": FIND_PATHS,
        "seconds": seconds,
    }
    answer = _search(call, policy, request)
    return _result(answer, "path", "give a narrower path, name or regex", seconds)


def _search(call: Invocation, policy: PathPolicy, request: JsonObject) -> _Findings:
    place = policy.place(call.text("path", "."), call.cwd)
    with told(place):
        opened = open_place(place)
    try:
        # The shell between has uses of its own for the first ones.
        passed = fcntl.fcntl(opened, fcntl.F_DUPFD_CLOEXEC, _FIRST_FD)
    finally:
        os.close(opened)
    try:
        is_folder = stat.S_ISDIR(os.fstat(passed).st_mode)
        if not is_folder and request["kind"] == "find":
            msg = f"path {place.written!r} is a file; find searches folders"
            raise ToolError(msg)
        shown = _shown(place, call.cwd, is_folder=is_folder)
        whole = {**request, "fd": passed, "shown": clean_text(shown)}
        return _ask(call, whole, passed)
    finally:
        os.close(passed)


def _shown(place: Place, cwd: Path, *, is_folder: bool) -> str:
    """Give how paths below a place begin: from `cwd` where it is within."""
    top = Path(os.path.realpath(cwd))
    if place.real == top:
        return ""
    inside = place.real.is_relative_to(top)
    path = str(place.real.relative_to(top) if inside else place.real)
    return f"{path.removesuffix('/')}/" if is_folder else path


def _ask(call: Invocation, request: JsonObject, passed: int) -> _Findings:
    argument = json.dumps(request)
    if len(argument) > _PATTERN_BYTES:
        msg = f"the pattern is too long; what is asked may have {_PATTERN_BYTES} bytes"
        raise ToolError(msg)
    child = Supervised(
        # Without site packages: it starts in half the time, and needs none.
        [*(sys.executable, "-I", "-S", "-W", "ignore", str(_WORKER)), argument],
        env=command_environment(os.environ),
        cwd=call.cwd,
        pass_fds=(passed,),
    )
    forget = call.stop.on_abort(child.kill)
    try:
        with child:
            answer = _hear(child, cast("float", request["seconds"]) + _STUCK_SECONDS)
    finally:
        forget()
    check_stop(call.stop)
    if answer.fault is not None:
        msg = f"the pattern is no regular expression: {answer.fault}; mend it"
        raise ToolError(msg)
    return answer


def _hear(child: Supervised, seconds: float) -> _Findings:
    answer = _Findings()
    rest = b""
    until = time.monotonic() + seconds
    while not (child.is_drained and child.has_ended):
        left = until - time.monotonic()
        if left <= 0:
            break
        *lines, rest = (rest + child.read(left)).split(b"\n")
        for line in lines:
            _take(answer, line)
    else:
        _check_ended(child, answer)
    return answer


def _take(answer: _Findings, line: bytes) -> None:
    try:
        said: dict[str, JsonValue] = json.loads(line)
    except ValueError:
        answer.strays.append(line.decode(errors="replace"))
        return
    if "hit" in said:
        hit = cast("str", said["hit"])
        answer.size += len(hit)
        # One that does not fit is counted by the worker all the same.
        if answer.size <= SEARCH_CHARS:
            answer.hits.append(hit)
    elif "end" in said:
        answer.end = cast("dict[str, int]", said["end"])
        answer.is_complete = said["is_complete"] is True
    else:
        answer.fault = cast("str", said["fault"])


def _check_ended(child: Supervised, answer: _Findings) -> None:
    if answer.end is None and answer.fault is None:
        words = answer.strays[-1] if answer.strays else "it said nothing"
        msg = (
            f"the search ended early, with status {child.status}: {words}\n"
            "give a smaller folder, or search with bash"
        )
        raise ToolError(msg)


def _result(
    answer: _Findings, noun: str, narrower: str, seconds: float
) -> AgentToolResult:
    notes: list[str] = []
    counts = answer.end or {}
    if (more := counts.get("hits", 0) - len(answer.hits)) > 0:
        least = "" if answer.is_complete else "at least "
        notes.append(f"[{least}{more} more {noun}s match; {narrower}]")
    if answer.end is None:
        notes.append(
            f"[stopped after {seconds:g} s at a single {noun}: the pattern backtracks; "
            "make it simpler]"
        )
    elif not answer.is_complete:
        notes.append(f"[stopped after {seconds:g} s; {narrower}]")
    if large := counts.get("large", 0):
        size = GREP_FILE_BYTES // 1024 // 1024
        notes.append(f"[{large} file(s) over {size} MiB left out; use bash for those]")
    if unread := counts.get("unread", 0):
        notes.append(f"[{unread} place(s) could not be opened]")
    if not answer.hits:
        notes.insert(0, "(no match)")
    return AgentToolResult(
        "\n".join([*answer.hits, *notes]),
        is_error=answer.end is None,
        details={
            "matches": counts.get("hits", len(answer.hits)),
            "is_complete": answer.is_complete,
        },
    )
