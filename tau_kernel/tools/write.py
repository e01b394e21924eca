"""The tool that writes a whole file."""

from __future__ import annotations

from tau_kernel.errors import ToolError
from tau_kernel.extensions import AgentToolResult

from .builtin_tool import BuiltinTool, Invocation, schema
from .path_policy import PathPolicy, told
from .replace_file import replace_file

__all__ = ["write_tool"]


def write_tool(policy: PathPolicy) -> BuiltinTool:
    """Make the tool."""
    return BuiltinTool(
        name="write",
        description=(
            "Write a whole text file, in place of what it held. Folders on the way are "
            "made. To change a part of a file, use edit."
        ),
        parameters=schema(
            "path",
            "content",
            path=("text", "the file"),
            content=("text", "all of its text, taken as it is"),
            encoding=("text", "a name such as latin-1; utf-8 if left out"),
        ),
        execution_mode="sequential",
        run=lambda call: _run(call, policy),
    )


def _run(call: Invocation, policy: PathPolicy) -> AgentToolResult:
    place = policy.place(call.text("path"), call.cwd)
    data = _encoded(call.text("content"), call.text("encoding", "utf-8"))
    with told(place):
        is_new = replace_file(place, data, call.stop)
    return AgentToolResult(
        f"{'Created' if is_new else 'Replaced'} {place.written!r}: {len(data)} bytes",
        details={"path": str(place.real), "bytes": len(data), "created": is_new},
    )


def _encoded(content: str, encoding: str) -> bytes:
    try:
        return content.encode(encoding)
    except UnicodeEncodeError as error:
        letter = content[error.start]
        msg = f"{encoding} has no {letter!r}; write the file as utf-8, or without it"
        raise ToolError(msg) from error
    # A NUL in the name is a ValueError.
    except (LookupError, ValueError) as error:
        msg = f"encoding {encoding!r} is no text encoding; use utf-8 or latin-1"
        raise ToolError(msg) from error
