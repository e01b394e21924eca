"""Well-formed conversations for tests of compaction, drawn or counted.

A turn is a user's message, completions that call tools and get their results, and an
answer. `talk` appends turns to a log, and with them what a session records besides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from hypothesis import strategies as st

from tau_kernel.messages import (
    AssistantBlock,
    AssistantMessage,
    CustomMessage,
    Message,
    ToolCallBlock,
    UsageDict,
    assistant_message,
    estimate_tokens,
    message_text,
    tool_result_message,
    user_message,
    zero_usage,
)
from tau_kernel.models import Model, ModelContext, StreamOptions
from tau_kernel.tree import SessionLog

__all__ = [
    "FakeWriter",
    "Turn",
    "answer",
    "call",
    "counted",
    "custom",
    "orphans",
    "result_of",
    "say",
    "talk",
    "turns",
    "words",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What happens in a turn; sizes are in tokens."""

    prompt: int = 5
    calls: tuple[int, ...] = ()
    results: int = 5
    answer: int = 5
    note: str = ""
    steered: bool = False


sizes: Final = st.sampled_from([1, 5, 40, 400])
turns: Final = st.lists(
    st.builds(
        Turn,
        prompt=sizes,
        calls=st.lists(st.integers(1, 3), max_size=3).map(tuple),
        results=sizes,
        answer=sizes,
        note=st.sampled_from(["", "", "before", "after", "end"]),
        steered=st.booleans(),
    ),
    max_size=12,
)


def words(name: str, tokens: int) -> str:
    """Give a text of so many tokens that begins with its name."""
    return f"{name} ".ljust(tokens * 4, "x")


def answer(*blocks: AssistantBlock, usage: UsageDict | None = None) -> AssistantMessage:
    return assistant_message(
        list(blocks),
        model="m",
        provider="p",
        api="a",
        usage=usage,
        stop_reason="toolUse" if _calls(blocks) else "stop",
    )


def say(text: str, *, total: int | None = None) -> AssistantMessage:
    usage: UsageDict | None = None
    if total is not None:
        usage = {**zero_usage(), "total_tokens": total}
    return answer({"type": "text", "text": text}, usage=usage)


def call(call_id: str, name: str = "read", path: str = "a.py") -> ToolCallBlock:
    return {
        "type": "toolCall",
        "id": call_id,
        "name": name,
        "arguments": {"path": path},
    }


def result_of(
    call_id: str, text: str = "done", *, name: str = "read", is_error: bool = False
) -> Message:
    return tool_result_message(
        call(call_id, name), [{"type": "text", "text": text}], is_error=is_error
    )


def custom(text: str, *, is_visible: bool = True) -> CustomMessage:
    return {
        "role": "custom",
        "customType": "note",
        "content": text,
        "display": True,
        "visibleToModel": is_visible,
    }


def talk(log: SessionLog, said: Sequence[Turn], name: str = "t") -> None:
    """Append turns as a session does; no two messages are alike."""
    for number, turn in enumerate(said):
        _one_turn(log, turn, f"{name}{number}")


def _one_turn(log: SessionLog, turn: Turn, name: str) -> None:
    log.append_custom_entry("submission", {"name": name})
    _note(log, turn, "before", name)
    log.append_message(user_message(words(f"{name} prompt", turn.prompt)))
    _note(log, turn, "after", name)
    for number, count in enumerate(turn.calls):
        ids = [f"{name}-{number}-{one}" for one in range(count)]
        log.append_message(answer(*(call(one) for one in ids)))
        for one in ids:
            log.append_message(result_of(one, words(f"{one} result", turn.results)))
        if turn.steered:
            log.append_message(user_message(f"{name} steered {number}"))
    log.append_message(say(words(f"{name} answer", turn.answer)))
    _note(log, turn, "end", name)


def _note(log: SessionLog, turn: Turn, place: str, name: str) -> None:
    if turn.note == place:
        log.append_custom_message(custom(f"{name} note"), "note")


def orphans(messages: Iterable[Message]) -> set[str]:
    """Give the ids of results whose call is not among the messages before them."""
    called: set[str] = set()
    found: set[str] = set()
    for message in messages:
        if message["role"] == "assistant":
            called |= {block["id"] for block in _calls(message["content"])}
        elif message["role"] == "toolResult" and message["tool_call_id"] not in called:
            found.add(message["tool_call_id"])
    return found


def counted(messages: Iterable[Message]) -> int:
    """Give the tokens of messages, counted one by one."""
    return sum(estimate_tokens(message) for message in messages)


def _calls(blocks: Iterable[AssistantBlock]) -> list[ToolCallBlock]:
    return [block for block in blocks if block["type"] == "toolCall"]


@dataclass(slots=True)
class FakeWriter:
    """Stands where a model is asked: answers, and keeps what it was asked."""

    texts: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    systems: list[str] = field(default_factory=list)
    options: list[StreamOptions] = field(default_factory=list)
    models: list[Model] = field(default_factory=list)

    async def __call__(
        self, model: Model, context: ModelContext, options: StreamOptions
    ) -> AssistantMessage:
        system, user = context["messages"]
        self.systems.append(message_text(system))
        self.requests.append(message_text(user))
        self.options.append(options)
        self.models.append(model)
        text = self.texts.pop(0) if self.texts else f"summary {len(self.requests)}"
        usage: UsageDict = {**zero_usage(), "output_tokens": 1, "total_tokens": 3}
        return answer({"type": "text", "text": text}, usage=usage)
