"""What the bytes of a file mean: text in which encoding, an image, or neither."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from tau_kernel.errors import ToolError

__all__ = ["SNIFFED_BYTES", "DecodedText", "decode_text", "image_type", "refuse_binary"]

SNIFFED_BYTES: Final = 8192
"""Bytes from the start of a file that tell what it is."""

TextEncoding: TypeAlias = Literal["utf-8", "latin-1"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedText:
    """Text and the encoding that gives its bytes back; a byte order mark stays in."""

    text: str
    encoding: TextEncoding


def decode_text(data: bytes) -> DecodedText:
    """Read bytes as UTF-8, or else as Latin-1, which takes any byte."""
    try:
        return DecodedText(text=data.decode("utf-8"), encoding="utf-8")
    except UnicodeDecodeError:
        return DecodedText(text=data.decode("latin-1"), encoding="latin-1")


def refuse_binary(written: str, data: bytes) -> None:
    """Refuse bytes that are no text.

    Raises:
        ToolError: There is a NUL among them.
    """
    if b"\0" in data:
        msg = (
            f"Binary file {written!r}: it holds NUL bytes\n"
            "use bash with a program that knows its format"
        )
        raise ToolError(msg)


def image_type(start: bytes) -> str | None:
    """Give the media type of an image that models can see, by how the file begins."""
    if start.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if start.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if start.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if start.startswith(b"RIFF") and start[8:12] == b"WEBP":
        return "image/webp"
    return None
