"""Making a text fit where only so many tokens do: cut out its middle, or divide it."""

from __future__ import annotations

from typing import Final

from .token_estimate import BYTES_PER_TOKEN, estimated_tokens

__all__ = ["cut_middle", "text_pieces"]

#: Room for the words that say what was left out, in bytes.
_MARKER_BYTES: Final = 64


def cut_middle(text: str, tokens: int) -> str:
    """Give the text, or its start and end with a line between them that says so.

    Args:
        text: What may be too long.
        tokens: The estimated tokens that the result may have, at least 32.
    """
    if estimated_tokens(text) <= tokens:
        return text
    data = _encoded(text)
    half = (tokens * BYTES_PER_TOKEN - _MARKER_BYTES) // 2
    head = _whole_characters(data, half)
    tail = _whole_characters(data, len(data) - half)
    left_out = len(_decoded(data[head:tail]))
    marker = f"\n[… {left_out:,} characters left out …]\n"
    return _decoded(data[:head]) + marker + _decoded(data[tail:])


def text_pieces(text: str, tokens: int, *, at_most: int) -> list[str]:
    """Divide a text, at the end of a line where one is near.

    Joined, the pieces are the text. Where more of them were needed, its middle is cut
    out as `cut_middle` does.

    Args:
        text: What may be too long for one piece.
        tokens: The estimated tokens that a piece may have, at least 32.
        at_most: How many pieces there may be, from 1.
    """
    limit = tokens * BYTES_PER_TOKEN
    pieces = _divided(_encoded(text), limit)
    if len(pieces) <= at_most:
        return pieces
    # A piece may end at a line well before its limit, so half of it is certain.
    whole = tokens if at_most == 1 else tokens * at_most // 2
    return _divided(_encoded(cut_middle(text, whole)), limit)


def _divided(data: bytes, limit: int) -> list[str]:
    pieces: list[str] = []
    start = 0
    while len(data) - start > limit:
        newline = data.rfind(b"\n", start + limit // 2, start + limit)
        end = newline + 1 if newline >= 0 else _whole_characters(data, start + limit)
        pieces.append(_decoded(data[start:end]))
        start = end
    pieces.append(_decoded(data[start:]))
    return pieces


def _whole_characters(data: bytes, at: int) -> int:
    """Give the last place up to `at` that is not within a character."""
    while 0 < at < len(data) and data[at] & 0xC0 == 0x80:  # noqa: PLR2004 - of UTF-8
        at -= 1
    return at


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")
