"""The loop: ask the model, run its tools, ask again, until it has nothing to call.

A function over values. What it may use of a session comes in as ports, so that it runs
against scripted streams just as well. What a request may cost, and whether one that
failed is made again, is `completion`'s affair.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tau_kernel.messages import AssistantMessage, Message, ToolCallBlock
from tau_kernel.submissions import AgentEvent, EndReason

from .completion import complete
from .loop_types import LoopOutcome, LoopPorts, LoopSpec
from .tool_batch import BatchOutcome, run_tool_batch

if TYPE_CHECKING:
    from tau_kernel.messages import JsonObject

__all__ = ["run_agent_loop"]


async def run_agent_loop(
    context: Sequence[Message], spec: LoopSpec, ports: LoopPorts
) -> LoopOutcome:
    """Run completions and tools from `context` until there is nothing left to do.

    Args:
        context: The conversation so far; read, never changed.
        spec: What to run.
        ports: Where to report and store.

    Returns:
        What was added, each message stored before the event of its end, and why the
        run ended. An abort is an ordinary end; what there was is stored, well-formed.

    Raises:
        ModelError: The provider failed.
        LimitError: The budget lets no further completion through.
        Exception: What a tool raised other than `ToolError`, or the store.
    """
    run = _Run(context, spec, ports)
    await ports.emit(AgentEvent(type="agent_start"))
    try:
        reason = await run.until_done()
    except asyncio.CancelledError:
        await ports.emit(run.end_event("aborted"))
        raise
    except Exception as error:
        await ports.emit(run.end_event("error", error))
        raise
    await ports.emit(run.end_event(reason))
    return LoopOutcome(messages=tuple(run.added), end_reason=reason)


class _Run:
    """The state of one run: the growing context, and how often a batch repeated."""

    def __init__(
        self, context: Sequence[Message], spec: LoopSpec, ports: LoopPorts
    ) -> None:
        self._context = list(context)
        self._spec = spec
        self._ports = ports
        self._failing_calls: list[tuple[str, JsonObject]] = []
        self._failures_in_a_row = 0
        self.added: list[Message] = []

    def end_event(
        self, reason: EndReason, error: Exception | None = None
    ) -> AgentEvent:
        """Make the event that closes the run."""
        return AgentEvent(
            type="agent_end",
            messages=tuple(self.added),
            end_reason=reason,
            is_error=error is not None,
            error=None if error is None else f"{type(error).__name__}: {error}",
        )

    async def until_done(self) -> EndReason:
        """Run turn after turn and say why no other follows."""
        index = 0
        while self._spec.max_turns is None or index < self._spec.max_turns:
            if self._ports.signal.is_aborted():
                return "aborted"
            if (reason := await self._turn(index)) is not None:
                return reason
            index += 1
        return "max_turns"

    async def _turn(self, index: int) -> EndReason | None:
        await self._ports.emit(AgentEvent(type="turn_start", turn_index=index))
        await self._deliver_steering()
        completion = await complete(self._context, self._spec, self._ports)
        message = completion.message
        if message is None:
            await self._end_turn(index, None, None)
            return "aborted"
        self._add(message)
        calls = _calls_of(message)
        if not calls:
            await self._end_turn(index, message, None)
            if message["stop_reason"] == "aborted":
                return "aborted"
            return None if len(self._ports.steer) else "done"
        # Renderers know by the second end, without usage, that tools follow.
        bare: AssistantMessage = {**message, "usage": None}
        await self._ports.emit(
            AgentEvent(type="message_end", message=bare, entry_id=completion.entry_id)
        )
        cut_off = message["stop_reason"] == "length"
        batch = await run_tool_batch(calls, self._spec, self._ports, is_cut_off=cut_off)
        for result in batch.results:
            self._add(result)
        await self._end_turn(index, message, batch)
        if self._ports.signal.is_aborted():
            return "aborted"
        if batch.terminate:
            return "terminate"
        return "repeat_tool_calls" if self._repeats(calls, batch) else None

    async def _deliver_steering(self) -> None:
        for delivered in self._ports.steer.take():
            message, entry_id = delivered.message, delivered.entry_id
            self._add(message)
            await self._ports.emit(AgentEvent(type="message_start", message=message))
            await self._ports.emit(
                AgentEvent(type="message_end", message=message, entry_id=entry_id)
            )

    async def _end_turn(
        self, index: int, message: AssistantMessage | None, batch: BatchOutcome | None
    ) -> None:
        await self._ports.emit(
            AgentEvent(
                type="turn_end",
                turn_index=index,
                message=message,
                tool_results=batch.results if batch else (),
            )
        )

    def _repeats(self, calls: Sequence[ToolCallBlock], batch: BatchOutcome) -> bool:
        limit = self._spec.repeat_tool_call_limit
        if not all(result["is_error"] for result in batch.results):
            self._failing_calls, self._failures_in_a_row = [], 0
            return False
        signature = [(call["name"], call["arguments"]) for call in calls]
        same = signature == self._failing_calls
        self._failures_in_a_row = self._failures_in_a_row + 1 if same else 1
        self._failing_calls = signature
        return limit is not None and self._failures_in_a_row >= limit

    def _add(self, message: Message) -> None:
        self._context.append(message)
        self.added.append(message)


def _calls_of(message: AssistantMessage) -> list[ToolCallBlock]:
    return [block for block in message["content"] if block["type"] == "toolCall"]
