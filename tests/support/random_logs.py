"""Logs of every kind of entry, grown from random actions.

A property draws `actions`, grows a log with `grow` and picks entries of it with
`picked`. `state_of` is what a refused operation must leave alone.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from hypothesis import strategies as st

from tau_kernel.messages import (
    AssistantMessage,
    CustomMessage,
    Message,
    ToolResultMessage,
    assistant_message,
    system_message,
    user_message,
)
from tau_kernel.tree import EntryDict, SessionLog

__all__ = [
    "Action",
    "actions",
    "answering",
    "calling",
    "contexts_of",
    "grow",
    "note",
    "picked",
    "picks",
    "said",
    "state_of",
]

Action: TypeAlias = tuple[str, int]

#: Repeated ones are drawn more often; two call ids make pairs likely.
_ACTIONS: Final = (
    *("say", "say", "say", "answer", "answer", "call", "call", "result", "result"),
    *("navigate", "navigate", "beside"),
    *("system", "custom", "record", "elide", "compact", "summary"),
)

picks: Final = st.integers(0, 200)
actions: Final = st.lists(st.tuples(st.sampled_from(_ACTIONS), picks), max_size=30)


def said(text: str) -> AssistantMessage:
    return assistant_message(
        [{"type": "text", "text": text}], model="m", provider="p", api="a"
    )


def calling(*call_ids: str) -> AssistantMessage:
    return assistant_message(
        [
            {"type": "toolCall", "id": call_id, "name": "read", "arguments": {}}
            for call_id in call_ids
        ],
        model="m",
        provider="p",
        api="a",
        stop_reason="toolUse",
    )


def answering(call_id: str) -> ToolResultMessage:
    return {
        "role": "toolResult",
        "tool_call_id": call_id,
        "tool_name": "read",
        "content": [{"type": "text", "text": f"result of {call_id}"}],
        "details": None,
        "is_error": False,
        "timestamp": 0,
    }


def note(text: str) -> CustomMessage:
    return {
        "role": "custom",
        "customType": "note",
        "content": text,
        "display": True,
        "visibleToModel": True,
    }


def grow(log: SessionLog, steps: list[Action]) -> None:
    """Append a first message, then what the actions say."""
    log.append_message(user_message("first"))
    for action, pick in steps:
        _act(log, action, pick)


def picked(log: SessionLog, pick: int) -> str:
    return log.view()[pick % len(log.view())]["id"]


def state_of(log: SessionLog) -> tuple[str | None, list[EntryDict], bytes]:
    """Give cursor, entries and the bytes of the file, if there is one."""
    path = getattr(log, "path", None)
    return log.cursor, log.entries(), path.read_bytes() if path else b""


def contexts_of(log: SessionLog) -> dict[str, list[Message]]:
    """Give what a model sees at each entry."""
    return {e["id"]: log.view().context_for(e["id"]) for e in log.view()}


def _act(log: SessionLog, action: str, pick: int) -> None:
    some = picked(log, pick)
    match action:
        case "say":
            log.append_message(user_message(str(pick)))
        case "answer":
            log.append_message(said(str(pick)))
        case "call":
            log.append_message(calling(f"call-{pick % 2}"))
        case "result":
            log.append_message(answering(f"call-{pick % 2}"))
        case "navigate":
            log.append_navigate(some)
        case "beside":
            log.append_at(some, "message", {"message": user_message("beside")})
        case "system":
            log.append_message(system_message(str(pick)))
        case "custom":
            log.append_custom_message(note(str(pick)), "note")
        case "record":
            log.append_custom_entry("agent_spec", {"n": pick})
        case _:
            _splice(log, action, some)


def _splice(log: SessionLog, action: str, some: str) -> None:
    match action:
        case "elide":
            log.append_elide(
                some, covered_entries=1, covered_tokens=1, agent_spec_id=None
            )
        case "compact":
            log.append_compaction(
                "compacted",
                some,
                1,
                summarizer_model_id="m",
                summary_usage={},
                covered_entries=1,
                covered_tokens=1,
                agent_spec_id=None,
            )
        case _:
            log.append_branch_summary("left", some)
