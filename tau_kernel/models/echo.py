"""The provider that says what it was told, word by word and without delay.

For smoke tests and benchmarks: no network, no file, no sampling.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from typing import Final

from tau_kernel.messages import Message

from .draft import Draft, estimated_usage
from .model import Model, ModelContext, StreamEvent, StreamOptions

__all__ = ["stream"]

_WORD: Final = re.compile(r"\s*\S+|\s+$")


async def stream(
    model: Model, context: ModelContext, options: StreamOptions
) -> AsyncGenerator[StreamEvent, None]:
    """Give back the newest user's message; an image becomes ``[image]``."""
    del options  # Nothing is sampled, and the dispatch watches the abort signal.
    draft = Draft(model)
    text = _newest_prompt(context["messages"])
    for word in _WORD.findall(text):
        yield draft.add_text(word)
        # Lets an abort and other tasks in, however long the prompt is.
        await asyncio.sleep(0)
    yield draft.done("stop", estimated_usage(context["messages"], text))


def _newest_prompt(messages: Sequence[Message]) -> str:
    for message in reversed(messages):
        if message["role"] != "user":
            continue
        content = message["content"]
        if isinstance(content, str):
            return content
        pieces = [
            block["text"] if block["type"] == "text" else "[image]" for block in content
        ]
        return " ".join(piece for piece in pieces if piece)
    return ""
