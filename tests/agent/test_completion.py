from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tau_kernel.agent import run_agent_loop
from tau_kernel.errors import ModelError
from tau_kernel.messages import AssistantMessage, message_text, user_message, zero_usage
from tau_kernel.models import (
    DoneEvent,
    ErrorEvent,
    StreamEvent,
    TextDeltaEvent,
    ThinkingDeltaEvent,
    ToolCallDeltaEvent,
)

if TYPE_CHECKING:
    from .conftest import Kit

PROMPT = [user_message("hi")]


def run(kit: Kit, *events: StreamEvent) -> None:
    stream = kit.stream([list(events)])
    asyncio.run(run_agent_loop(PROMPT, kit.bench.spec(), kit.bench.ports(stream)))


def thought(kit: Kit, thinking: str, text: str = "") -> AssistantMessage:
    message: AssistantMessage = kit.answer(text)
    message["content"].insert(0, {"type": "thinking", "thinking": thinking})
    return message


def done(final: AssistantMessage) -> DoneEvent:
    return DoneEvent(final=final, usage=final["usage"] or zero_usage())


def test_each_growth_tells_its_kind_and_the_message_so_far(kit: Kit) -> None:
    whole = thought(kit, "hm", "yes")
    run(
        kit,
        ThinkingDeltaEvent(delta="hm", partial=thought(kit, "hm")),
        TextDeltaEvent(delta="yes", partial=whole),
        ToolCallDeltaEvent(partial=whole),
        done(whole),
    )
    updates = [e for e in kit.bench.events if e.type == "message_update"]
    assert [event.delta for event in updates] == [
        {"kind": "thinking", "text": "hm"},
        {"kind": "text", "text": "yes"},
        {"kind": "toolCall", "text": ""},
    ]
    so_far = [message_text(event.message) for event in updates if event.message]
    assert so_far == ["", "yes", "yes"]
    assert kit.bench.types().count("message_start") == 1


def test_an_answer_without_growth_begins_and_ends(kit: Kit) -> None:
    run(kit, done(kit.answer("at once")))
    assert kit.bench.types()[2:4] == ["message_start", "message_end"]


def test_a_final_message_that_is_an_error_ends_the_run(kit: Kit) -> None:
    final = kit.answer("half", kit.call("t"), stop_reason="error")
    final["error_message"] = "filtered"
    with pytest.raises(ModelError, match="filtered"):
        run(kit, done(final))
    [kept] = kit.bench.stored
    assert kept["role"] == "assistant"
    assert kept["content"] == [{"type": "text", "text": "half"}]
    assert (kept["stop_reason"], kept["error_message"]) == ("error", "filtered")
    assert kit.bench.events[-1].error == "ModelError: filtered"


def test_an_error_without_a_reason_says_so(kit: Kit) -> None:
    with pytest.raises(ModelError, match="gave no reason"):
        run(kit, done(kit.answer("half", stop_reason="error")))


def test_a_stream_that_says_it_was_aborted_ends_the_run_as_such(kit: Kit) -> None:
    run(kit, done(kit.answer("half", kit.call("t"), stop_reason="aborted")))
    [kept] = kit.bench.stored
    assert kept["content"] == [{"type": "text", "text": "half"}]
    assert kit.bench.events[-1].end_reason == "aborted"


def test_what_began_with_a_call_alone_ends_for_listeners_and_is_not_kept(
    kit: Kit,
) -> None:
    begun = kit.answer("", kit.call("t"))
    with pytest.raises(ModelError, match="gone"):
        run(kit, ToolCallDeltaEvent(partial=begun), ErrorEvent(message="gone"))
    assert kit.bench.stored == []
    types = kit.bench.types()
    assert (types.count("message_start"), types.count("message_end")) == (1, 1)
    end = next(e for e in kit.bench.events if e.type == "message_end")
    assert (end.entry_id, end.message and end.message["content"]) == (None, [])
