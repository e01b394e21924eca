from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Final

import pytest
from asking import ask, context_of, done, prose

from tau_kernel.errors import ConfigError, ModelError
from tau_kernel.messages import AbortSignal, CustomMessage, message_text
from tau_kernel.models import (
    DoneEvent,
    Model,
    StreamOptions,
    TextDeltaEvent,
    complete_simple,
    resolve_model,
    stream_simple,
)

ECHO: Final = resolve_model("echo")


def scripted(tmp_path: Path, line: str) -> Model:
    path = tmp_path / "script.jsonl"
    path.write_text(line)
    return resolve_model(f"scripted:{path}")


def test_the_whole_answer_is_what_the_stream_ends_with() -> None:
    answer = asyncio.run(complete_simple(ECHO, context_of("one two")))
    assert message_text(answer) == "one two"
    assert answer["stop_reason"] == "stop"


def test_a_failure_is_raised_with_what_the_provider_said_of_trying_again(
    tmp_path: Path,
) -> None:
    line = '{"error": {"message": "slow down", "status": 429, "retry_after": 4}}'
    model = scripted(tmp_path, line)
    with pytest.raises(ModelError, match="slow down") as failure:
        asyncio.run(complete_simple(model, context_of("hi")))
    assert failure.value.retryable
    assert failure.value.retry_after == 4


def test_an_unknown_api_is_refused_with_the_known_ones() -> None:
    model = Model(id="m", name="m", api="carrier-pigeon", provider="p")
    with pytest.raises(ConfigError, match=r"carrier-pigeon.*echo"):
        asyncio.run(complete_simple(model, context_of("hi")))


def test_a_script_that_vanished_is_an_error_event(tmp_path: Path) -> None:
    model = scripted(tmp_path, '{"text": "x"}')
    Path(model.source).unlink()
    with pytest.raises(ModelError, match=r"script\.jsonl"):
        asyncio.run(complete_simple(model, context_of("hi")))


@pytest.mark.parametrize(("visible", "heard"), [(True, "aside"), (False, "hi")])
def test_custom_messages_are_read_where_they_are_visible(
    heard: str, *, visible: bool
) -> None:
    aside: CustomMessage = {
        "role": "custom",
        "customType": "note",
        "content": "aside",
        "display": True,
        "visibleToModel": visible,
    }
    assert prose(ask(ECHO, "hi", aside)) == heard


def test_what_was_aborted_before_it_began_asks_nobody(tmp_path: Path) -> None:
    model = scripted(tmp_path, '{"text": "x"}')
    signal = AbortSignal()
    signal.abort()
    options = StreamOptions(abort_signal=signal)
    events = ask(model, "hi", options=options)
    assert len(events) == 1
    assert done(events).final["stop_reason"] == "aborted"
    assert done(events).final["content"] == []
    assert prose(ask(model, "hi")) == "x"


def test_an_abort_between_two_events_ends_the_stream() -> None:
    signal = AbortSignal()

    async def abort_at_second() -> DoneEvent:
        options = StreamOptions(abort_signal=signal)
        stream = stream_simple(ECHO, context_of("one two three"), options)
        seen = 0
        async with aclosing(stream) as events:
            async for event in events:
                if isinstance(event, DoneEvent):
                    return event
                seen += isinstance(event, TextDeltaEvent)
                if seen == 2:
                    signal.abort()
        msg = "no end"
        raise AssertionError(msg)

    last = asyncio.run(abort_at_second())
    assert message_text(last.final) == "one two"
    assert last.final["stop_reason"] == "aborted"


def test_an_aborted_answer_leaves_out_calls_that_nobody_will_answer(
    tmp_path: Path,
) -> None:
    line = '{"text": "So", "tool_calls": [{"name": "a"}, {"name": "b"}]}'
    model = scripted(tmp_path, line)
    signal = AbortSignal()

    async def abort_at_call() -> DoneEvent:
        options = StreamOptions(abort_signal=signal)
        async with aclosing(stream_simple(model, context_of("hi"), options)) as events:
            async for event in events:
                if isinstance(event, DoneEvent):
                    return event
                if not isinstance(event, TextDeltaEvent):
                    signal.abort()
        msg = "no end"
        raise AssertionError(msg)

    final = asyncio.run(abort_at_call()).final
    assert final["content"] == [{"type": "text", "text": "So"}]


def test_an_abort_leaves_the_callers_task_uncancelled(tmp_path: Path) -> None:
    model = scripted(tmp_path, '{"text": "Hel", "stall": true}')
    signal = AbortSignal()

    async def run() -> int:
        options = StreamOptions(abort_signal=signal)
        asyncio.get_running_loop().call_soon(signal.abort)
        await complete_simple(model, context_of("hi"), options)
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    assert asyncio.run(asyncio.wait_for(run(), 60)) == 0


def test_cancelling_the_task_is_no_abort(tmp_path: Path) -> None:
    model = scripted(tmp_path, '{"text": "Hel", "stall": true}')

    async def cancelled() -> bool:
        work = asyncio.ensure_future(complete_simple(model, context_of("hi")))
        asyncio.get_running_loop().call_soon(work.cancel)
        await asyncio.wait([work], timeout=60)
        return work.cancelled()

    assert asyncio.run(cancelled())


def test_a_cancellation_that_meets_an_abort_is_not_swallowed(tmp_path: Path) -> None:
    model = scripted(tmp_path, '{"text": "Hel", "stall": true}')
    signal = AbortSignal()

    async def both() -> bool:
        options = StreamOptions(abort_signal=signal)
        work = asyncio.ensure_future(complete_simple(model, context_of("hi"), options))
        stalled = asyncio.Event()
        asyncio.get_running_loop().call_later(0.02, stalled.set)
        await stalled.wait()
        signal.abort()
        asyncio.get_running_loop().call_soon(work.cancel)
        await asyncio.wait([work], timeout=60)
        return work.cancelled()

    assert asyncio.run(both())


def test_a_signal_outlives_its_stream_without_listeners() -> None:
    signal = AbortSignal()
    ask(ECHO, "hi", options=StreamOptions(abort_signal=signal))
    assert signal._listeners == {}


def test_an_abort_from_another_thread_reaches_a_waiting_stream(tmp_path: Path) -> None:
    model = scripted(tmp_path, '{"stall": true}')
    signal = AbortSignal()
    abort: Callable[[], object] = signal.abort
    thread = threading.Thread(target=abort)

    async def run() -> str:
        options = StreamOptions(abort_signal=signal)
        asyncio.get_running_loop().call_soon(thread.start)
        return (await complete_simple(model, context_of("hi"), options))["stop_reason"]

    assert asyncio.run(asyncio.wait_for(run(), 60)) == "aborted"
    thread.join()
