"""Tools that a kernel under test loads: ``--TauKernel.tools=kernel_tools:waits``."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast

from IPython.core.interactiveshell import InteractiveShell

from tau_kernel.extensions import ToolContext, ToolExecutionMode
from tau_kernel.messages import AbortSignal, JsonObject, JsonValue

__all__ = [
    "ALL",
    "arguments_for",
    "asks",
    "asks_itself",
    "breaks",
    "breaks_oddly",
    "exits",
    "returns_an_object",
    "waits",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTool:
    """A tool that runs one function of its context."""

    name: str
    run: Callable[[ToolContext], Awaitable[object]]
    description: str = "for tests"
    parameters: JsonObject = field(default_factory=lambda: {"type": "object"})
    execution_mode: ToolExecutionMode = "parallel"

    async def execute(
        self,
        tool_call_id: str,
        params: JsonObject,
        signal: AbortSignal,
        on_update: Callable[[JsonValue], None],
        ctx: ToolContext,
    ) -> JsonValue:
        on_update("begun")
        return cast("JsonValue", await self.run(ctx))


async def _wait(ctx: ToolContext) -> object:
    return await asyncio.Event().wait()


async def _ask(ctx: ToolContext) -> object:
    return await ctx.ui.input("name", "nobody")


async def _break(ctx: ToolContext) -> object:
    msg = "the tool broke"
    raise RuntimeError(msg)


async def _exit(ctx: ToolContext) -> object:
    raise SystemExit(3)


async def _break_with_a_surrogate(ctx: ToolContext) -> object:
    msg = "half \ud83d here"
    raise RuntimeError(msg)


async def _ask_the_conversation(ctx: ToolContext) -> object:
    names = InteractiveShell.instance().user_ns
    return names["tau"].ask("wait for me").text


async def _return_an_object(ctx: ToolContext) -> object:
    return {"when": object()}


async def _return_text(ctx: ToolContext) -> object:
    return "done"


waits: Final = KernelTool(name="waits", run=_wait)
asks: Final = KernelTool(name="asks", run=_ask)
breaks: Final = KernelTool(name="breaks", run=_break)
returns_an_object: Final = KernelTool(name="returns_an_object", run=_return_an_object)
returns_text: Final = KernelTool(name="returns_text", run=_return_text)
exits: Final = KernelTool(name="exits", run=_exit)
breaks_oddly: Final = KernelTool(name="breaks_oddly", run=_break_with_a_surrogate)
asks_itself: Final = KernelTool(name="asks_itself", run=_ask_the_conversation)

ALL: Final = ("waits", "asks", "breaks", "returns_an_object")


def arguments_for(*names: str) -> tuple[list[str], dict[str, str]]:
    """Give the kernel's arguments and environment that load these tools."""
    arguments = [f"--TauKernel.tools=kernel_tools:{name}" for name in names]
    return arguments, {"PYTHONPATH": str(Path(__file__).parent)}
