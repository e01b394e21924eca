"""What a tool may return, brought to one form, and the check of its arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard, cast

from jsonschema_rs import Draft202012Validator

from tau_kernel.extensions import AgentToolResult
from tau_kernel.messages import clean_json, dump_line

if TYPE_CHECKING:
    from tau_kernel.messages import (
        ImageBlock,
        JsonObject,
        JsonValue,
        TextBlock,
    )

__all__ = ["argument_fault", "tool_result_of"]

_RESULT_KEYS = frozenset({"content", "is_error", "details", "terminate"})


def tool_result_of(tool_name: str, returned: object) -> AgentToolResult:
    """Bring what a tool returned to one form, its content a list of blocks.

    Args:
        tool_name: How errors name the tool.
        returned: An `AgentToolResult`, a dict with its fields, a list of blocks, a
            string, or any other JSON, which the model then reads as JSON.

    Raises:
        CallerError: Part of it is no JSON; the message names tool, path and type.
    """
    where = f"result of tool {tool_name!r}"
    if isinstance(returned, AgentToolResult):
        return AgentToolResult(
            _blocks(clean_json(_plain(returned.content), where)),
            is_error=returned.is_error,
            details=clean_json(returned.details, f"details of tool {tool_name!r}"),
            terminate=returned.terminate,
        )
    value = clean_json(returned, where)
    if isinstance(value, dict) and "content" in value and value.keys() <= _RESULT_KEYS:
        return AgentToolResult(
            _blocks(value["content"]),
            is_error=value.get("is_error") is True,
            details=value.get("details"),
            terminate=value.get("terminate") is True,
        )
    return AgentToolResult(_blocks(value))


def argument_fault(parameters: JsonObject, arguments: JsonObject) -> str | None:
    """Say what is wrong with a call's arguments, or None if they fit the schema."""
    faults = Draft202012Validator(parameters).iter_errors(arguments)
    # The outermost one explains those within.
    fault = min(faults, key=lambda one: len(one.instance_path), default=None)
    if fault is None:
        return None
    where = "".join(f"[{part!r}]" for part in fault.instance_path)
    return f"arguments{where}: {fault.message}"


def _plain(content: object) -> object:
    # A str is a Sequence as well; every other sequence of blocks becomes a list.
    return content if isinstance(content, str) else list(cast("list[object]", content))


def _blocks(value: JsonValue) -> list[TextBlock | ImageBlock]:
    if _is_blocks(value):
        return value
    text = value if isinstance(value, str) else _as_json(value)
    return [{"type": "text", "text": text}]


def _is_blocks(value: JsonValue) -> TypeGuard[list[TextBlock | ImageBlock]]:
    return isinstance(value, list) and all(
        isinstance(block, dict)
        and (
            (block.get("type") == "text" and isinstance(block.get("text"), str))
            or (block.get("type") == "image" and isinstance(block.get("data"), str))
        )
        for block in value
    )


def _as_json(value: JsonValue) -> str:
    wrapped = dump_line({"v": value}).decode()
    return wrapped.strip().removeprefix('{"v":').removesuffix("}")
