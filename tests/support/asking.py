"""Ask a model from a plain test, bounded in time, and abort it from another thread."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Final

from tau_kernel.messages import AbortSignal, Message, message_text, user_message
from tau_kernel.models import (
    DoneEvent,
    ErrorEvent,
    Model,
    ModelContext,
    StreamEvent,
    StreamOptions,
    TextDeltaEvent,
    ToolSpec,
    stream_simple,
)

__all__ = ["ask", "ask_and_abort", "context_of", "done", "failed", "prose"]

#: Seconds that any answer here may take; a busy machine is slow.
BOUND: Final = 120.0


def context_of(
    *messages: Message | str, tools: Sequence[ToolSpec] = ()
) -> ModelContext:
    """Make what a model reads; a plain string is a user's message."""
    return {
        "messages": [user_message(m) if isinstance(m, str) else m for m in messages],
        "tools": list(tools),
    }


def ask(
    model: Model,
    *messages: Message | str,
    tools: Sequence[ToolSpec] = (),
    options: StreamOptions | None = None,
) -> list[StreamEvent]:
    """Give all events of one answer."""
    return asyncio.run(_events(model, context_of(*messages, tools=tools), options))


def ask_and_abort(
    model: Model, prompt: str, when: Callable[[threading.Event], object]
) -> tuple[list[StreamEvent], float]:
    """Ask, and abort from another thread.

    Args:
        model: The one to ask.
        prompt: What to ask it.
        when: Called in the other thread with an event that is set at the first prose;
            the abort follows its return.

    Returns:
        The events, and the seconds from the abort to the end of the stream.
    """
    signal, has_text, aborted = AbortSignal(), threading.Event(), [0.0]

    def abort() -> None:
        when(has_text)
        aborted[0] = time.perf_counter()
        signal.abort()

    thread = threading.Thread(target=abort)
    thread.start()
    options = StreamOptions(abort_signal=signal)
    ended = [0.0]

    async def run() -> list[StreamEvent]:
        events = await _events(model, context_of(prompt), options, has_text)
        ended[0] = time.perf_counter()
        return events

    events = asyncio.run(run())
    thread.join()
    return events, ended[0] - aborted[0]


async def _events(
    model: Model,
    context: ModelContext,
    options: StreamOptions | None,
    has_text: threading.Event | None = None,
) -> list[StreamEvent]:
    events: list[StreamEvent] = []
    async with asyncio.timeout(BOUND):
        async with aclosing(stream_simple(model, context, options)) as stream:
            async for event in stream:
                events.append(event)
                if has_text is not None and isinstance(event, TextDeltaEvent):
                    has_text.set()
    return events


def done(events: Sequence[StreamEvent]) -> DoneEvent:
    """Give the last event, which must be a complete or aborted answer."""
    last = events[-1]
    assert isinstance(last, DoneEvent), last
    return last


def failed(events: Sequence[StreamEvent]) -> ErrorEvent:
    """Give the last event, which must be a failure of at most three lines."""
    last = events[-1]
    assert isinstance(last, ErrorEvent), last
    assert last.message.count("\n") < 3
    return last


def prose(events: Sequence[StreamEvent]) -> str:
    """Give the text of the complete or aborted answer."""
    return message_text(done(events).final)
