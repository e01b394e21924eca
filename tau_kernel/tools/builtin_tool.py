"""One built-in tool: its declaration, and how a call of it is run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tau_kernel.errors import ToolError
from tau_kernel.extensions import AgentToolResult, ToolContext, ToolExecutionMode
from tau_kernel.messages import AbortSignal, JsonObject, JsonValue

from .in_thread import run_in_thread

__all__ = ["BuiltinTool", "Invocation", "schema"]

_TYPES: Final = {"text": "string", "number": "integer", "flag": "boolean"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """One call: its arguments, which fit the schema, and what it may use.

    Args:
        params: The arguments.
        stop: Raised when nobody waits for the call any more.
        on_update: Takes what is there so far; from any thread, never waits.
        cwd: Where relative paths begin.
    """

    params: JsonObject
    stop: AbortSignal
    on_update: Callable[[JsonValue], None]
    cwd: Path

    def text(self, name: str, default: str | None = None) -> str:
        """Give an argument that is text."""
        value = self.params.get(name, default)
        assert isinstance(value, str), f"the schema makes {name!r} text"
        return value

    def optional_text(self, name: str) -> str | None:
        """Give an argument that is text, or None if it was left out."""
        return None if self.params.get(name) is None else self.text(name)

    def number(self, name: str, default: int) -> int:
        """Give an argument that is a whole number."""
        value = self.params.get(name, default)
        assert isinstance(value, int | float), f"the schema makes {name!r} a number"
        # To a JSON schema, 5.0 is an integer, too.
        return int(value)

    def flag(self, name: str) -> bool:
        """Whether a switch was given and is on."""
        return self.params.get(name) is True


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltinTool:
    """A tool whose work blocks, and is run in a thread of its own.

    Args:
        name: The name that the model calls it by.
        description: What the model is told about it.
        parameters: The JSON schema of its arguments.
        execution_mode: Whether it may run beside the other calls of one message.
        run: The work; it looks at the call's `stop` where it may take long.
    """

    name: str
    description: str
    parameters: JsonObject
    execution_mode: ToolExecutionMode
    run: Callable[[Invocation], AgentToolResult]

    async def execute(
        self,
        tool_call_id: str,
        params: JsonObject,
        signal: AbortSignal,
        on_update: Callable[[JsonValue], None],
        ctx: ToolContext,
    ) -> AgentToolResult:
        """Run one call whose arguments fit the schema.

        Cancelling it, or raising `signal`, ends it within milliseconds, with its child
        processes; see `run_in_thread` for what may stay behind.

        Raises:
            ToolError: It failed in a way that the model should read.
        """
        del tool_call_id

        def work(stop: AbortSignal) -> AgentToolResult:
            try:
                return self.run(
                    Invocation(
                        params=params, stop=stop, on_update=on_update, cwd=ctx.cwd
                    )
                )
            except OSError as error:
                msg = f"{self.name} failed: {error}"
                raise ToolError(msg) from error

        return await run_in_thread(work, signal)


def schema(*required: str, **properties: tuple[str, str] | JsonObject) -> JsonObject:
    """Give the JSON schema of a tool's arguments.

    Args:
        required: The arguments that must be there.
        properties: Each argument's kind (text, number from 1 up, or flag) with the
            words about it, or its whole schema.
    """
    return {
        "type": "object",
        "properties": {name: _property(one) for name, one in properties.items()},
        "required": list(required),
        "additionalProperties": False,
    }


def _property(one: tuple[str, str] | JsonObject) -> JsonObject:
    if isinstance(one, dict):
        return one
    kind, words = one
    found: JsonObject = {"type": _TYPES[kind], "description": words}
    return {**found, "minimum": 1} if kind == "number" else found
