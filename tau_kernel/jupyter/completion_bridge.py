"""Completion, inspection and is_complete as replies, Python's part left to IPython."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

from .cells import KnownNames, PythonCell, parse
from .commands import COMMANDS
from .completion import (
    Completions,
    CompletionSources,
    Delegated,
    complete,
    inspect,
)
from .conversation import Conversation
from .is_complete import is_complete
from .replies import Reply

__all__ = ["CompletionBridge"]

#: ipykernel's own methods give their reply, or a coroutine or future that does.
PythonAnswer: TypeAlias = "Reply | Awaitable[Reply]"


class CompletionBridge:
    """Answers what a front end asks while a cell is written."""

    def __init__(
        self, conversation: Conversation, names: Callable[[], KnownNames]
    ) -> None:
        """Suggest what `conversation` and `names` know at the time of asking."""
        self._conversation = conversation
        self._names = names

    async def complete(
        self, code: str, cursor_pos: int, python: Callable[[str, int], PythonAnswer]
    ) -> Reply:
        """Give a complete_reply's content; `python` completes the Python in a cell."""
        # A person is typing: time enough to import what the prompt will need.
        self._conversation.warm()
        match complete(code, cursor_pos, self._sources()):
            case Delegated(code=inner, cursor_pos=at, offset=offset):
                return _shifted(await _settled(python(inner, at)), offset)
            case Completions() as found:
                return _completed(found)

    async def inspect(
        self, code: str, cursor_pos: int, python: Callable[[str, int], PythonAnswer]
    ) -> Reply:
        """Give an inspect_reply's content."""
        match inspect(code, cursor_pos, self._sources()):
            case Delegated(code=inner, cursor_pos=at):
                return await _settled(python(inner, at))
            case None:
                return {"status": "ok", "found": False, "data": {}, "metadata": {}}
            case str(text):
                data = {"text/markdown": text, "text/plain": text}
                return {"status": "ok", "found": True, "data": data, "metadata": {}}

    async def is_complete(
        self, code: str, python: Callable[[str], PythonAnswer]
    ) -> Reply:
        """Give an is_complete_reply's content."""
        self._conversation.warm()
        names = self._names()
        status = is_complete(code, names)
        if status == "delegate":
            cell = parse(code, names)
            inner = cell.code if isinstance(cell, PythonCell) else code
            return await _settled(python(inner))
        return {"status": status, **({"indent": ""} if status == "incomplete" else {})}

    def _sources(self) -> CompletionSources:
        return CompletionSources(
            names=self._names(),
            command_help={name: one.description for name, one in COMMANDS.items()},
            models=tuple(self._conversation.model_names()),
            tools=tuple(self._conversation.tool_names()),
            cwd=Path.cwd(),
        )


async def _settled(answer: PythonAnswer) -> Reply:
    return await answer if isinstance(answer, Awaitable) else answer


def _completed(found: Completions) -> Reply:
    experimental = [
        {
            "start": found.start,
            "end": found.end,
            "text": match.text,
            "type": match.type,
            "signature": match.signature,
        }
        for match in found.matches
    ]
    return {
        "status": "ok",
        "matches": [match.text for match in found.matches],
        "cursor_start": found.start,
        "cursor_end": found.end,
        "metadata": {"_jupyter_types_experimental": experimental},
    }


def _shifted(reply: Reply, offset: int) -> Reply:
    """Move the positions of a reply from the Python in a cell to the cell."""
    metadata = dict(reply.get("metadata", {}))
    typed = metadata.get("_jupyter_types_experimental")
    if typed is not None:
        metadata["_jupyter_types_experimental"] = [
            {**one, "start": one["start"] + offset, "end": one["end"] + offset}
            for one in typed
        ]
    return {
        **reply,
        "cursor_start": reply["cursor_start"] + offset,
        "cursor_end": reply["cursor_end"] + offset,
        "metadata": metadata,
    }
