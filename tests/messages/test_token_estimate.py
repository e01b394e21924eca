from __future__ import annotations

from typing import cast

import pytest

from tau_kernel.messages import (
    AssistantBlock,
    CustomMessage,
    ImageBlock,
    Message,
    assistant_message,
    estimate_tokens,
    estimated_tokens,
    system_message,
    user_message,
)

IMAGE: ImageBlock = {"type": "image", "data": "A" * 100_000, "mime_type": "image/png"}
CALL: AssistantBlock = {
    "type": "toolCall",
    "id": "c1",
    "name": "read",
    "arguments": {"path": "a.py"},
}
#: As a newer program may have stored it.
UNKNOWN = cast("AssistantBlock", {"type": "smell", "data": "A" * 1000})


def _assistant(*blocks: AssistantBlock) -> Message:
    return assistant_message(list(blocks), model="m", provider="p", api="a")


def _custom(text: str, *, is_visible: bool) -> CustomMessage:
    return {
        "role": "custom",
        "customType": "note",
        "content": text,
        "display": True,
        "visibleToModel": is_visible,
    }


@pytest.mark.parametrize(("size", "tokens"), [(0, 0), (1, 1), (4, 1), (5, 2), (8, 2)])
def test_four_ascii_characters_are_a_token_and_a_rest_counts_whole(
    size: int, tokens: int
) -> None:
    assert estimated_tokens("x" * size) == tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("日" * 100, 75), ("ж" * 100, 50), ("\N{GRINNING FACE}" * 100, 100)],
)
def test_other_scripts_take_more_tokens_than_their_characters_say(
    text: str, tokens: int
) -> None:
    assert estimated_tokens(text) == tokens


def test_a_lone_surrogate_can_be_counted() -> None:
    assert estimated_tokens("\ud800") == 1


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        (user_message("12345678"), 2),
        (user_message("12345678", [IMAGE, IMAGE]), 2402),
        ({"role": "user", "content": "12345"}, 2),
        (system_message("12345678"), 2),
        (_assistant({"type": "text", "text": "1234"}), 1),
        (_assistant({"type": "thinking", "thinking": "12345"}), 2),
        # 4 characters of a name, 15 of {"path":"a.py"}.
        (_assistant(CALL), 5),
        (_assistant(UNKNOWN), 0),
        (_assistant({"type": "thinking", "thinking": "1234"}, CALL), 6),
        (_custom("12345678", is_visible=True), 2),
        (_custom("12345678", is_visible=False), 0),
    ],
)
def test_a_message_takes_what_its_blocks_take(message: Message, tokens: int) -> None:
    assert estimate_tokens(message) == tokens


def test_the_blocks_of_a_message_are_rounded_together() -> None:
    one: AssistantBlock = {"type": "text", "text": "x"}
    assert estimate_tokens(_assistant(one, one, one, one)) == 1
