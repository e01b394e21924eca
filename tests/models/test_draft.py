from __future__ import annotations

from typing import Final

from tau_kernel.messages import zero_usage
from tau_kernel.models import Draft, resolve_model
from tau_kernel.models.draft import tool_call_block

ECHO: Final = resolve_model("echo")


def test_text_after_thinking_begins_a_block_of_its_own() -> None:
    draft = Draft(ECHO)
    draft.add_text("a")
    draft.add_thinking("b")
    draft.add_thinking("c")
    draft.add_text("d")
    assert draft.blocks() == [
        {"type": "text", "text": "a"},
        {"type": "thinking", "thinking": "bc"},
        {"type": "text", "text": "d"},
    ]


def test_a_partial_does_not_change_afterwards() -> None:
    draft = Draft(ECHO)
    first = draft.add_text("a").partial
    draft.add_text("b")
    assert first["content"] == [{"type": "text", "text": "a"}]


def test_a_tool_call_replaces_the_one_of_its_id() -> None:
    draft = Draft(ECHO)
    draft.add_tool_call(tool_call_block("c", "look", {}))
    event = draft.add_tool_call(tool_call_block("c", "look", {"at": 1}))
    assert event.partial["content"] == [
        {"type": "toolCall", "id": "c", "name": "look", "arguments": {"at": 1}}
    ]


def test_tool_calls_alone_are_no_text() -> None:
    draft = Draft(ECHO)
    draft.add_tool_call(tool_call_block("c", "look", {}))
    assert not draft.has_text()
    draft.add_thinking("hm")
    assert draft.has_text()


def test_the_end_carries_reason_usage_and_the_providers_id() -> None:
    usage = zero_usage()
    event = Draft(ECHO).done("length", usage, response_id="r1")
    assert event.final["stop_reason"] == "length"
    assert event.final["response_id"] == "r1"
    assert event.final["usage"] is event.usage is usage
    assert (event.final["model"], event.final["api"]) == ("echo", "echo")
