"""The tool that reads a file: lines of text, or an image."""

from __future__ import annotations

import base64
import codecs
import os
from dataclasses import dataclass
from typing import Final

from tau_kernel.errors import ToolError
from tau_kernel.extensions import AgentToolResult

from .builtin_tool import BuiltinTool, Invocation, schema
from .file_text import SNIFFED_BYTES, decode_text, image_type, refuse_binary
from .in_thread import check_stop
from .path_policy import PathPolicy, Place, open_regular, told
from .spool import Spool

__all__ = ["IMAGE_BYTES", "READ_BYTES", "READ_LINES", "read_tool"]

READ_LINES: Final = 4096
"""Lines that one call gives unless it asks for fewer or more."""
READ_BYTES: Final = 128 * 1024
"""Bytes that one call gives at most."""
IMAGE_BYTES: Final = 3_750_000
"""Bytes of an image at most: 5 MB in base64, which providers take."""
_CHUNK: Final = 1024 * 1024


def read_tool(policy: PathPolicy, spool: Spool) -> BuiltinTool:
    """Make the tool, which may also open the outputs that `spool` keeps."""
    return BuiltinTool(
        name="read",
        description=(
            f"Read a text file, up to {READ_LINES} lines or {READ_BYTES // 1024} kB at "
            "a time, or look at a PNG, JPEG, GIF or WebP image."
        ),
        parameters=schema(
            "path",
            path=("text", "the file"),
            offset=("number", "the first line to give, from 1"),
            limit=("number", "how many lines to give"),
        ),
        execution_mode="parallel",
        run=lambda call: _run(call, spool.opened_to(policy)),
    )


def _run(call: Invocation, policy: PathPolicy) -> AgentToolResult:
    place = policy.place(call.text("path"), call.cwd)
    with told(place):
        opened = open_regular(place)
        try:
            start = os.read(opened, SNIFFED_BYTES)
            if (mime_type := image_type(start)) is not None:
                return _image(place, opened, mime_type)
            refuse_binary(place.written, start)
            os.lseek(opened, 0, os.SEEK_SET)
            window = _window(call, opened)
            size = os.fstat(opened).st_size
        finally:
            os.close(opened)
    refuse_binary(place.written, window.data)
    return _text(place, window, size)


def _image(place: Place, opened: int, mime_type: str) -> AgentToolResult:
    size = os.fstat(opened).st_size
    if size > IMAGE_BYTES:
        msg = (
            f"image {place.written!r} has {size} bytes, and models take {IMAGE_BYTES}\n"
            "make a smaller copy with bash, and read that"
        )
        raise ToolError(msg)
    data = os.pread(opened, IMAGE_BYTES, 0)
    return AgentToolResult(
        [
            {
                "type": "image",
                "data": base64.b64encode(data).decode(),
                "mime_type": mime_type,
            }
        ],
        details={"path": str(place.real), "bytes": len(data), "mime_type": mime_type},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    """The lines that were asked for.

    Args:
        data: Their bytes.
        first: The number of the first, from 1.
        count: How many there are.
        is_split: Whether the last of them is too long and goes on.
        has_more: Whether something follows.
    """

    data: bytes
    first: int
    count: int
    is_split: bool
    has_more: bool


def _window(call: Invocation, opened: int) -> _Window:
    """Take the lines that a call asks for, with a bounded part of the file in memory.

    Raises:
        ToolError: The file ends before the first of them, or the call was aborted.
    """
    first = call.number("offset", 1)
    # More lines than bytes there cannot be; what counts them takes no larger number.
    limit = min(call.number("limit", READ_LINES), READ_BYTES)
    data = _skip(call, opened, first - 1)
    while len(data) <= READ_BYTES and (chunk := os.read(opened, _CHUNK)):
        check_stop(call.stop)
        data += chunk
    if not data and first > 1:
        raise _beyond(call, first - 1)
    fits = len(data) <= READ_BYTES
    *lines, rest = data[: READ_BYTES + 1].split(b"\n", limit)
    has_more = bool(rest) or not fits
    is_split = False
    if fits and rest and len(lines) < limit:
        lines, has_more = [*lines, rest], False
    elif not lines and rest:
        # A line that does not fit is given only where nothing else would be.
        lines, is_split = [_whole_characters(rest[:READ_BYTES])], True
    return _Window(
        data=b"\n".join(lines),
        first=first,
        count=len(lines),
        is_split=is_split,
        has_more=has_more,
    )


def _skip(call: Invocation, opened: int, lines: int) -> bytes:
    """Pass over lines; give what was read beyond them."""
    left, last = lines, b""
    while left:
        check_stop(call.stop)
        chunk = os.read(opened, _CHUNK)
        if not chunk:
            raise _beyond(call, lines - left + (last not in {b"", b"\n"}))
        ends = chunk.count(b"\n")
        if ends >= left:
            return chunk.split(b"\n", left)[left]
        left, last = left - ends, chunk[-1:]
    return b""


def _beyond(call: Invocation, lines: int) -> ToolError:
    msg = (
        f"offset {call.number('offset', 1)} is beyond the end of {call.text('path')!r}"
        f"\nit has {lines} lines; begin at one of them"
    )
    return ToolError(msg)


def _whole_characters(data: bytes) -> bytes:
    """Leave out the character that the end of the data splits."""
    try:
        return data[: codecs.utf_8_decode(data, "strict", False)[1]]  # noqa: FBT003 - the function takes it so
    except UnicodeDecodeError:
        return data


def _text(place: Place, window: _Window, size: int) -> AgentToolResult:
    decoded = decode_text(window.data)
    text = decoded.text.removeprefix("\ufeff").replace("\r\n", "\n").removesuffix("\r")
    last = window.first + window.count - 1
    notes: list[str] = []
    if decoded.encoding != "utf-8":
        notes.append("[not UTF-8; read as Latin-1]")
    if window.is_split:
        notes.append(
            f"[line {last} is too long: only its first {len(window.data)} bytes are "
            "here; use grep or bash for the rest]"
        )
    if window.has_more:
        notes.append(
            f"[the file goes on, {size} bytes in all; continue with offset={last + 1}]"
        )
    return AgentToolResult(
        "\n".join([text if window.count else "(empty file)", *notes]),
        details={
            "path": str(place.real),
            "first_line": window.first,
            "lines": window.count,
            "has_more": window.has_more,
            "encoding": decoded.encoding,
        },
    )
