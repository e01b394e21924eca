from __future__ import annotations

from typing import Final

from asking import ask, done, prose

from tau_kernel.messages import ImageBlock, assistant_message, user_message
from tau_kernel.models import TextDeltaEvent, resolve_model

ECHO: Final = resolve_model("echo")


def test_the_prompt_comes_back_word_by_word() -> None:
    events = ask(ECHO, "one  two\nthree ")
    deltas = [event.delta for event in events if isinstance(event, TextDeltaEvent)]
    assert deltas == ["one", "  two", "\nthree", " "]
    assert prose(events) == "one  two\nthree "


def test_the_newest_user_message_is_the_one() -> None:
    answer = assistant_message([], model="m", provider="p", api="echo")
    assert prose(ask(ECHO, "old", answer, "new")) == "new"


def test_an_image_is_named() -> None:
    image: ImageBlock = {"type": "image", "data": "", "mime_type": "image/png"}
    assert prose(ask(ECHO, user_message("see", [image]))) == "see [image]"


def test_nothing_comes_of_nothing() -> None:
    assert prose(ask(ECHO)) == ""


def test_usage_is_estimated_and_says_so() -> None:
    usage = done(ask(ECHO, "12345")).usage
    assert (usage["input_tokens"], usage["output_tokens"]) == (2, 2)
    assert usage["total_tokens"] == 4
    assert usage["extra"] == {"estimated": True}
