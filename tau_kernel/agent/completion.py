"""One completion of a model: streamed, reported and stored."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, assert_never, cast

from tau_kernel.errors import ModelError
from tau_kernel.messages import (
    AssistantMessage,
    StopReason,
    convert_to_llm,
    system_message,
)
from tau_kernel.models import (
    DoneEvent,
    ErrorEvent,
    ModelContext,
    StreamEvent,
    TextDeltaEvent,
    ThinkingDeltaEvent,
    ToolCallDeltaEvent,
    ToolSpec,
)
from tau_kernel.submissions import AgentEvent, DeltaDict

from .retry import ask_again

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tau_kernel.messages import Message

    from .loop_types import LoopPorts, LoopSpec

__all__ = ["Completion", "complete"]

#: Seconds that a provider has, after an abort, to end its stream by itself.
_PATIENCE: Final = 0.015


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """A finished message and its entry; no message if an abort left nothing."""

    message: AssistantMessage | None
    entry_id: str | None


async def complete(
    context: Sequence[Message], spec: LoopSpec, ports: LoopPorts
) -> Completion:
    """Stream one completion, and store what came of it.

    A request that failed before it showed anything is made again, as `spec` says.

    Raises:
        LimitError: A limit is met; nothing was asked.
        ModelError: The provider failed, or its stream had no end. What it said
            before is stored, marked as an error, without tool calls.
        CancelledError: This task was cancelled; the same is stored as aborted.
    """
    ports.budget.check()
    draft = _Draft(spec, ports)
    work = ports.tasks.start(draft.consume(_request(context, spec)))
    try:
        final = await ports.tasks.finish(work, ports.signal, patience=_PATIENCE)
    except asyncio.CancelledError:
        await draft.break_off("aborted", None)
        raise
    except Exception as error:
        await draft.break_off("error", str(error))
        raise
    if final is None or final["stop_reason"] == "aborted":
        draft.partial = final or draft.partial
        return await draft.break_off("aborted", None)
    if final["stop_reason"] == "error":
        draft.partial = final
        words = final["error_message"] or "the provider gave no reason"
        await draft.break_off("error", words)
        raise ModelError(words)
    return await draft.end(final)


def _request(context: Sequence[Message], spec: LoopSpec) -> ModelContext:
    messages = convert_to_llm(context)
    if spec.system_prompt and not (messages and messages[0]["role"] == "system"):
        messages.insert(0, system_message(spec.system_prompt))
    tools: list[ToolSpec] = [
        {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
        }
        for tool in spec.tools
    ]
    return {"messages": messages, "tools": tools}


class _Draft:
    """The message while it grows; what is there survives the stream's end."""

    def __init__(self, spec: LoopSpec, ports: LoopPorts) -> None:
        self._spec = spec
        self._ports = ports
        self._started = False
        self.partial: AssistantMessage | None = None

    async def consume(self, request: ModelContext) -> AssistantMessage:
        """Report the stream and give its final message."""
        return await ask_again(
            partial(self._ask, request),
            self._spec.retry,
            self._ports.announce,
            is_untouched=lambda: self.partial is None,
        )

    async def _ask(self, request: ModelContext) -> AssistantMessage:
        spec, ports = self._spec, self._ports
        options = replace(
            spec.options,
            abort_signal=ports.signal,
            max_tokens=ports.budget.answer_tokens() or spec.options.max_tokens,
        )
        stream = ports.stream(spec.model, request, options)
        try:
            async for event in stream:
                if (final := await self._take(event)) is not None:
                    return final
        finally:
            # An abandoned generator would be closed later, in another task.
            if (aclose := getattr(stream, "aclose", None)) is not None:
                await aclose()
        msg = (
            f"the stream of model {spec.model.id!r} ended without a final message; "
            "the connection may have broken, try again"
        )
        raise ModelError(msg, retryable=True)

    async def _take(self, event: StreamEvent) -> AssistantMessage | None:
        match event:
            case TextDeltaEvent(delta=delta, partial=partial):
                await self._grow(partial, {"kind": "text", "text": delta})
            case ThinkingDeltaEvent(delta=delta, partial=partial):
                await self._grow(partial, {"kind": "thinking", "text": delta})
            case ToolCallDeltaEvent(partial=partial):
                await self._grow(partial, {"kind": "toolCall", "text": ""})
            case DoneEvent(final=final):
                return final
            case ErrorEvent(message=words, retry_after=wait, retryable=retryable):
                raise ModelError(words, retry_after=wait, retryable=retryable)
            case _:
                assert_never(event)
        return None

    async def _grow(self, partial: AssistantMessage, delta: DeltaDict) -> None:
        self.partial = partial
        await self._start(partial)
        await self._ports.emit(
            AgentEvent(type="message_update", message=partial, delta=delta)
        )

    async def _start(self, message: AssistantMessage) -> None:
        if not self._started:
            self._started = True
            await self._ports.emit(AgentEvent(type="message_start", message=message))

    async def end(self, message: AssistantMessage) -> Completion:
        """Store the finished message, then report its end."""
        entry_id = self._ports.record(message)
        if message["usage"] is not None:
            self._ports.budget.record(message["usage"], self._spec.model)
        await self._start(message)
        await self._ports.emit(
            AgentEvent(type="message_end", message=message, entry_id=entry_id)
        )
        return Completion(message=message, entry_id=entry_id)

    async def break_off(self, reason: StopReason, words: str | None) -> Completion:
        """Store what is there of an unfinished message, if it says anything.

        Its tool calls are left out: their arguments may be cut, and nobody will
        answer them.
        """
        if self.partial is None:
            return Completion(message=None, entry_id=None)
        content = [
            block
            for block in self.partial["content"]
            if (block["type"] == "text" and block["text"])
            or (block["type"] == "thinking" and block["thinking"])
        ]
        rest = {"content": content, "stop_reason": reason, "error_message": words}
        message = cast("AssistantMessage", {**self.partial, **rest})
        if content:
            return await self.end(message)
        if self._started:
            await self._ports.emit(AgentEvent(type="message_end", message=message))
        return Completion(message=None, entry_id=None)
