"""How many tokens a text or a message takes, where no tokenizer says.

The one estimate of the project: a token is four bytes of UTF-8. That is four
characters of English prose. A character of Chinese counts three quarters of a token
and an emoji a whole one, as byte-level tokenizers see them; four characters of any
script would be far too few tokens for them.
"""

from __future__ import annotations

from typing import Final, cast

from .codec import dump_line
from .message import JsonObject, Message

__all__ = ["BYTES_PER_TOKEN", "estimate_tokens", "estimated_tokens"]

#: Bytes of UTF-8 that make one token, roughly.
BYTES_PER_TOKEN: Final = 4

#: What providers charge for a picture of usual size, as bytes of text: 1200 tokens.
_IMAGE_BYTES: Final = 4800


def estimated_tokens(text: str) -> int:
    """Estimate the tokens of a text from its size in UTF-8, rounded up."""
    return _tokens(_size(text))


def estimate_tokens(message: Message) -> int:
    """Estimate the tokens that a message takes of a request.

    Counted are its text, thinking, the names and arguments of its tool calls, and
    1200 for each image. A custom message that models do not see takes none, nor does
    a block of a kind that is unknown here.
    """
    if message["role"] == "custom" and message.get("visibleToModel", True) is False:
        return 0
    content = message["content"]
    if isinstance(content, str):
        return estimated_tokens(content)
    return _tokens(sum(_block_size(cast("JsonObject", block)) for block in content))


def _tokens(size: int) -> int:
    return -(-size // BYTES_PER_TOKEN)


def _size(text: str) -> int:
    # ASCII is known without a look at the text, and is what most of it is.
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _block_size(block: JsonObject) -> int:
    match block:
        case {"type": "text", "text": str(text)}:
            return _size(text)
        case {"type": "thinking", "thinking": str(text)}:
            return _size(text)
        case {"type": "toolCall", "name": str(name), "arguments": dict(arguments)}:
            return _size(name) + len(dump_line(arguments).strip())
        case {"type": "image"}:
            return _IMAGE_BYTES
        case _:
            return 0
