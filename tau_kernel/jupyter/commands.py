"""The commands that a cell may begin with."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from tau_kernel.errors import CallerError

from . import session_commands
from .command_call import CommandCall

__all__ = ["COMMANDS", "Command", "run_command"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command of the kernel.

    Args:
        description: What it does, one sentence.
        run: Does it on the session's thread and gives what the cell shows beside its
            other outputs, Markdown; nothing if empty.
    """

    description: str
    run: Callable[[CommandCall], Awaitable[str]]


async def _help(call: CommandCall) -> str:
    if call.args:
        msg = f"/help takes no arguments, got {call.args!r}; write /help alone"
        raise CallerError(msg)
    rows = [f"- `/{name}`: {one.description}" for name, one in COMMANDS.items()]
    return "\n".join(rows)


async def _model(call: CommandCall) -> str:
    conversation = call.conversation
    config = conversation.config()
    if call.args:
        model = conversation.model(call.args, config)
        conversation.choose_model(call.args)
        return f"The model is `{model.name}` from the next prompt on."
    return f"The model is `{conversation.model(None, config).name}`."


COMMANDS: Final[Mapping[str, Command]] = MappingProxyType(
    {
        "help": Command(description="Lists the commands.", run=_help),
        "model": Command(
            description="Shows the model, or chooses the one that is named.",
            run=_model,
        ),
        "tree": Command(
            description="Shows the conversation as a tree.", run=session_commands.tree
        ),
        "name": Command(
            description="Shows the conversation's name, or gives it one.",
            run=session_commands.name,
        ),
        "fork": Command(
            description="Goes on in a copy of the conversation.",
            run=session_commands.fork,
        ),
        "resume": Command(
            description="Lists the stored conversations, or goes on with one of them.",
            run=session_commands.resume,
        ),
        "import": Command(
            description="Lists other programs' sessions, or goes on in a copy of one.",
            run=session_commands.import_,
        ),
        "repair": Command(
            description="Writes a mended copy of a damaged session.",
            run=session_commands.repair,
        ),
        "replay": Command(
            description="Draws the answer to a submission again.",
            run=session_commands.replay,
        ),
    }
)


async def run_command(name: str, call: CommandCall) -> str:
    """Run a command and give what the cell shows, as Markdown.

    Raises:
        CallerError: The command does not take what was written after it.
    """

    async def on_session_thread() -> str:
        return await COMMANDS[name].run(call)

    running = call.conversation.thread.run(on_session_thread())
    return await asyncio.wrap_future(running)
