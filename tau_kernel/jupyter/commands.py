"""The commands that a cell may begin with."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from tau_kernel.errors import CallerError

from .cells import CommandCell
from .conversation import Conversation

__all__ = ["COMMANDS", "Command", "run_command"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command of the kernel.

    Args:
        description: What it does, one sentence.
        run: Does it on the session's thread and gives what the cell shows, Markdown.
    """

    description: str
    run: Callable[[str, Conversation], Awaitable[str]]


async def _help(args: str, conversation: Conversation) -> str:
    del conversation
    if args:
        msg = f"/help takes no arguments, got {args!r}; write /help alone"
        raise CallerError(msg)
    rows = [f"- `/{name}`: {one.description}" for name, one in COMMANDS.items()]
    return "\n".join(rows)


async def _model(args: str, conversation: Conversation) -> str:
    config = conversation.config()
    if args:
        model = conversation.model(args, config)
        conversation.choose_model(args)
        return f"The model is `{model.name}` from the next prompt on."
    return f"The model is `{conversation.model(None, config).name}`."


COMMANDS: Final[Mapping[str, Command]] = MappingProxyType(
    {
        "help": Command(description="Lists the commands.", run=_help),
        "model": Command(
            description="Shows the model, or chooses the one that is named.",
            run=_model,
        ),
    }
)


async def run_command(cell: CommandCell, conversation: Conversation) -> str:
    """Run a command and give what the cell shows, as Markdown.

    Raises:
        CallerError: The command does not take what was written after it.
    """
    work = COMMANDS[cell.name].run(cell.args.strip(), conversation)

    async def on_session_thread() -> str:
        return await work

    return await asyncio.wrap_future(conversation.thread.run(on_session_thread()))
