from __future__ import annotations

import asyncio
from dataclasses import FrozenInstanceError, fields
from typing import Any, cast, get_args

import pytest

from tau_kernel.errors import CallerError
from tau_kernel.messages import (
    ToolCallBlock,
    dump_line,
    load_line,
    now_ms,
    tool_result_message,
    user_message,
)
from tau_kernel.submissions import AgentEvent, AgentEventType, EventBus

CALL: ToolCallBlock = {"type": "toolCall", "id": "c", "name": "t", "arguments": {}}
RESULT = tool_result_message(CALL, [{"type": "text", "text": "ok"}])
#: One that sets each field to something other than its default.
FULL = AgentEvent(
    type="tool_execution_end",
    timestamp=1,
    message=RESULT,
    delta={"kind": "text", "text": "x"},
    entry_id="e",
    turn_index=0,
    tool_call_id="c",
    tool_name="t",
    args={"path": "x"},
    result=[{"type": "text", "text": "ok"}],
    details={"lines": 3},
    is_error=True,
    blocked=True,
    blocked_by="guard",
    tool_results=(RESULT,),
    messages=(user_message("hi"), RESULT),
    error="KeyError: 'x'",
    end_reason="error",
    submission_id="s",
    source="bus",
    submitter="cron",
    correlation={},
)


def emit(bus: EventBus, *events: AgentEvent) -> None:
    async def scenario() -> None:
        for event in events:
            await bus.emit(event)

    asyncio.run(scenario())


def start() -> AgentEvent:
    return AgentEvent(type="agent_start")


def test_the_types_of_events_are_a_closed_set() -> None:
    assert len(get_args(AgentEventType)) == 10
    with pytest.raises(CallerError, match="'agent_pause' is no event type"):
        AgentEvent(type=cast("AgentEventType", "agent_pause"))


def test_a_time_before_the_epoch_is_refused() -> None:
    with pytest.raises(CallerError, match="timestamp -1 is negative"):
        AgentEvent(type="agent_start", timestamp=-1)


def test_an_event_knows_when_it_was_made() -> None:
    before = now_ms()
    assert before <= start().timestamp <= now_ms()


def test_an_event_cannot_be_changed() -> None:
    name = "submission_id"
    with pytest.raises(FrozenInstanceError):
        setattr(FULL, name, "other")


def test_an_event_survives_the_way_through_json() -> None:
    defaults = {spec.name: spec.default for spec in fields(AgentEvent)}
    assert all(getattr(FULL, name) != value for name, value in defaults.items())
    assert AgentEvent.from_dict(load_line(dump_line(FULL.to_dict()))) == FULL


def test_no_stamp_and_an_empty_one_stay_apart() -> None:
    bare = AgentEvent.from_dict(start().to_dict())
    assert (bare.correlation, bare.messages, bare.tool_results) == (None, None, None)
    assert AgentEvent.from_dict(FULL.to_dict()).correlation == {}


@pytest.mark.parametrize(
    ("record", "fault"),
    [
        ({"type": "agent_start", "colour": "red"}, "no field 'colour'"),
        ({"type": "agent_pause"}, "no event type"),
        ({"timestamp": 1}, "without a type"),
    ],
)
def test_a_record_that_is_no_event_is_refused(
    record: dict[str, Any], fault: str
) -> None:
    with pytest.raises(CallerError, match=fault):
        AgentEvent.from_dict(record)


def test_listeners_of_a_type_hear_it_before_those_of_all() -> None:
    bus, heard = EventBus(), list[str]()
    bus.on("all", lambda event: heard.append(f"all {event.type}"))
    bus.on("agent_start", lambda event: heard.append(f"own {event.type}"))
    emit(bus, start(), AgentEvent(type="turn_start"))
    assert heard == ["own agent_start", "all agent_start", "all turn_start"]


def test_listeners_are_called_in_the_order_they_came() -> None:
    bus, heard = EventBus(), list[int]()
    for number in range(3):
        bus.on("agent_start", lambda _, number=number: heard.append(number))
    emit(bus, start())
    assert heard == [0, 1, 2]


def test_the_emitter_waits_for_a_listener_that_waits() -> None:
    async def scenario() -> list[str]:
        bus, go_on, heard = EventBus(), asyncio.Event(), list[str]()

        async def slow(event: AgentEvent) -> None:
            heard.append("begins")
            await go_on.wait()
            heard.append("ends")

        bus.on("agent_start", slow)
        bus.on("agent_start", lambda _: heard.append("after"))
        emission = asyncio.ensure_future(bus.emit(start()))
        emission.add_done_callback(lambda _: heard.append("emitted"))
        asyncio.get_running_loop().call_soon(go_on.set)
        await asyncio.wait_for(emission, 5)
        return heard

    assert asyncio.run(scenario()) == ["begins", "ends", "after", "emitted"]


def test_one_that_was_taken_off_hears_nothing() -> None:
    bus, heard = EventBus(), list[AgentEvent]()
    bus.on("agent_start", heard.append)
    bus.off("agent_start", heard.append)
    bus.off("agent_start", heard.append)
    bus.off("never heard of", heard.append)
    emit(bus, start())
    assert heard == []


def test_ending_one_registration_twice_leaves_another_of_the_same_listener() -> None:
    bus, heard = EventBus(), list[AgentEvent]()
    end = bus.on("agent_start", heard.append)
    bus.on("agent_start", heard.append)
    end()
    end()
    emit(bus, start())
    assert len(heard) == 1


def test_a_listener_may_end_itself_while_it_is_called() -> None:
    bus, heard = EventBus(), list[str]()

    def once(event: AgentEvent) -> None:
        heard.append("once")
        end()

    end = bus.on("agent_start", once)
    bus.on("agent_start", lambda _: heard.append("always"))
    emit(bus, start(), start())
    assert heard == ["once", "always", "always"]


def test_only_listeners_of_the_channel_itself_count() -> None:
    bus = EventBus()
    bus.on("all", lambda _: None)
    assert not bus.has_listeners("agent_start")
    end = bus.on("agent_start", lambda _: None)
    assert bus.has_listeners("agent_start")
    end()
    assert not bus.has_listeners("agent_start")


def test_a_channel_carries_arguments_past_the_listeners_of_all() -> None:
    bus, heard = EventBus(), list[object]()

    async def hear(*args: object, **kwargs: object) -> None:
        heard.append((args, kwargs))

    bus.on("branch_end", hear)
    bus.on("all", heard.append)
    asyncio.run(bus.emit_channel("branch_end", "lane", error=None))
    asyncio.run(bus.emit_channel("nobody_listens"))
    assert heard == [(("lane",), {"error": None})]


def raise_from(event: AgentEvent) -> None:
    msg = f"at {event.type}"
    raise LookupError(msg)


async def raise_later(event: AgentEvent) -> None:
    raise_from(event)


@pytest.mark.parametrize("failing", [raise_from, raise_later])
def test_one_that_fails_is_reported_and_the_others_hear(
    failing: Any,  # noqa: ANN401 - either of the two above
    capsys: pytest.CaptureFixture[str],
) -> None:
    bus, heard, reports = EventBus(), list[AgentEvent](), list[str]()
    bus.on_error(lambda error, channel: reports.append(f"{channel}: {error!r}"))
    bus.on("agent_start", failing)
    bus.on("agent_start", heard.append)
    bus.on("all", heard.append)
    emit(bus, start())
    assert len(heard) == 2
    assert reports == ["agent_start: LookupError('at agent_start')"]
    assert capsys.readouterr().err == ""


def test_a_failure_that_nobody_is_told_of_goes_to_stderr(
    capsys: pytest.CaptureFixture[str],
) -> None:
    bus = EventBus()
    bus.on_error(lambda error, channel: None)()
    bus.on("agent_start", raise_from)
    emit(bus, start())
    told = capsys.readouterr().err
    assert told.startswith("[τ] a listener of 'agent_start' failed:\n")
    assert told.endswith("LookupError: at agent_start\n")


def test_a_reporter_that_fails_keeps_no_other_from_hearing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    bus, reports = EventBus(), list[str]()

    def fail(error: Exception, channel: str) -> None:
        raise ZeroDivisionError

    bus.on_error(fail)
    bus.on_error(lambda error, channel: reports.append(channel))
    bus.on("agent_start", raise_from)
    emit(bus, start())
    assert reports == ["agent_start"]
    told = capsys.readouterr().err
    assert "LookupError: at agent_start" in told
    assert "ZeroDivisionError" in told


def test_ending_one_error_listener_twice_leaves_its_twin() -> None:
    bus, reports = EventBus(), list[str]()

    def note(error: Exception, channel: str) -> None:
        reports.append(channel)

    end = bus.on_error(note)
    bus.on_error(note)
    end()
    end()
    bus.on("agent_start", raise_from)
    emit(bus, start())
    assert reports == ["agent_start"]


def test_a_cancelled_listener_cancels_the_emission() -> None:
    async def cancelled(event: AgentEvent) -> None:
        raise asyncio.CancelledError

    bus = EventBus()
    bus.on("agent_start", cancelled)
    with pytest.raises(asyncio.CancelledError):
        emit(bus, start())
