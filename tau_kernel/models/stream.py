"""Ask a model: `stream_simple` for events, `complete_simple` for the answer alone.

The provider is chosen here, and here alone is a stream aborted: a provider is
cancelled where it waits. Trying again belongs to the agent's loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Final

from tau_kernel.errors import ConfigError, ModelError
from tau_kernel.messages import (
    AbortSignal,
    AssistantMessage,
    convert_to_llm,
    zero_usage,
)

from . import echo, local, pydantic_ai, scripted
from .draft import Draft
from .model import (
    DoneEvent,
    ErrorEvent,
    Model,
    ModelContext,
    Provider,
    StreamEvent,
    StreamOptions,
)

__all__ = ["PROVIDERS", "complete_simple", "stream_simple", "warm"]

#: The built-in providers by the `api` of a model.
PROVIDERS: Final[Mapping[str, Provider]] = {
    "echo": echo,
    "scripted": scripted,
    "local": local,
    "openai-completions": pydantic_ai,
    "anthropic-messages": pydantic_ai,
    "google-generative-ai": pydantic_ai,
    "pydantic-ai": pydantic_ai,
}


async def stream_simple(
    model: Model, context: ModelContext, options: StreamOptions | None = None
) -> AsyncGenerator[StreamEvent, None]:
    """Ask `model` and give its answer as it comes.

    The last event is a `DoneEvent` or an `ErrorEvent`. When the abort signal is
    raised, from any thread, the stream ends within 50 ms with a `DoneEvent` whose
    stop reason is ``aborted`` and which keeps prose and thinking; a tool call that
    nobody will answer is left out. Cancelling the task, or closing the generator,
    lets go of connection and thread.

    Raises:
        ConfigError: No provider serves the model's `api`; nothing was asked.
    """
    provider = PROVIDERS.get(model.api)
    if provider is None:
        msg = (
            f"model {model.name!r} has the unknown api {model.api!r}; "
            f"use one of {', '.join(PROVIDERS)}"
        )
        raise ConfigError(msg)
    asked = options or StreamOptions()
    signal = asked.abort_signal or AbortSignal()
    readable: ModelContext = {
        "messages": convert_to_llm(context["messages"]),
        "tools": context["tools"],
    }
    partial = Draft(model).partial()
    async with aclosing(provider.stream(model, readable, asked)) as events:
        scope = _AbortScope(signal)
        forget = signal.on_abort(scope.raise_from_any_thread)
        try:
            while (event := await scope.next_event(events)) is not None:
                if not isinstance(event, DoneEvent | ErrorEvent):
                    partial = event.partial
                yield event
                if isinstance(event, DoneEvent | ErrorEvent):
                    return
        except ConfigError as error:
            yield ErrorEvent(message=str(error))
            return
        except ModelError as error:
            yield ErrorEvent(
                message=str(error),
                retry_after=error.retry_after,
                retryable=error.retryable,
            )
            return
        finally:
            forget()
    yield _aborted(partial)


def warm(model: Model) -> None:
    """Import what the first request to `model` would wait for.

    It takes seconds with a service, nothing otherwise; call it in a thread.
    """
    provider = PROVIDERS.get(model.api)
    if provider is not None and provider.stream is pydantic_ai.stream:
        pydantic_ai.warm()


async def complete_simple(
    model: Model, context: ModelContext, options: StreamOptions | None = None
) -> AssistantMessage:
    """Ask `model` and give its whole answer; an aborted one says so itself.

    Raises:
        ModelError: The provider failed.
        ConfigError: No provider serves the model's `api`.
    """
    async with aclosing(stream_simple(model, context, options)) as events:
        async for event in events:
            if isinstance(event, DoneEvent):
                return event.final
            if isinstance(event, ErrorEvent):
                raise ModelError(
                    event.message,
                    retry_after=event.retry_after,
                    retryable=event.retryable,
                )
    msg = f"the stream of {model.name!r} ended without a last event"
    raise AssertionError(msg)


class _AbortScope:
    """Cancels the task that waits for a provider, as `asyncio.timeout` would.

    Waiting in the caller's own task costs nothing per event, and the provider's
    `finally` blocks run before the stream ends.
    """

    def __init__(self, signal: AbortSignal) -> None:
        self._signal = signal
        self._loop = asyncio.get_running_loop()
        self._waiting: asyncio.Task[object] | None = None
        self._cancelled = False

    def raise_from_any_thread(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._cancel)

    async def next_event(
        self, events: AsyncGenerator[StreamEvent, None]
    ) -> StreamEvent | None:
        """Give the provider's next event, or None when aborted."""
        if self._signal.is_aborted():
            return None
        task = asyncio.current_task()
        assert task is not None, "an async generator runs in a task"
        cancelling = task.cancelling()
        self._waiting = task
        try:
            event = await anext(events)
        except asyncio.CancelledError:
            # A cancellation that came besides ours is the caller's and goes on.
            if self._cancelled and task.cancelling() - 1 <= cancelling:
                return None
            raise
        finally:
            self._waiting = None
            if self._cancelled:
                task.uncancel()
        return None if self._cancelled else event

    def _cancel(self) -> None:
        if self._waiting is not None and not self._cancelled:
            self._cancelled = True
            self._waiting.cancel()


def _aborted(partial: AssistantMessage) -> DoneEvent:
    final = partial.copy()
    final["content"] = [
        block for block in partial["content"] if block["type"] != "toolCall"
    ]
    usage = zero_usage()
    final["stop_reason"] = "aborted"
    final["usage"] = usage
    return DoneEvent(final=final, usage=usage)
