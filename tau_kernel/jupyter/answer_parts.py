"""Where a Markdown text that is still arriving may be cut into parts.

`MarkdownCutter` reads each character once. It knows of Markdown what cutting needs,
top-level blocks, lists and fences, and nothing of how a part is shown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

__all__ = ["HARD_LIMIT", "SOFT_LIMIT", "MarkdownCutter"]

SOFT_LIMIT: Final = 4096
"""Bytes of UTF-8 from which a part ends at the next boundary between blocks."""
HARD_LIMIT: Final = 16_384
"""Bytes of UTF-8 from which a part ends wherever it must."""

_FENCE: Final = re.compile(
    r"(?P<lead>[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?)"
    r"(?P<marks>`{3,}|~{3,})(?P<info>.*)"
)
_LIST_ITEM: Final = re.compile(r" {0,3}(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")
_HEADING: Final = re.compile(r"#{1,6}(?:[ \t]|$)")
_TOP_LEVEL_INDENT: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fence:
    indent: str
    marks: str
    info: str
    in_list: bool

    def is_closed_by(self, line: str) -> bool:
        bare = line.strip()
        return len(bare) >= len(self.marks) and not bare.strip(self.marks[0])

    def is_left_by(self, line: str) -> bool:
        return self.in_list and bool(line.strip()) and not line[0].isspace()

    @property
    def opening(self) -> str:
        return f"{self.indent}{self.marks}{self.info}\n"

    @property
    def closing(self) -> str:
        return f"{self.indent}{self.marks}\n"


class MarkdownCutter:
    """Take a growing text in and give its finished parts out.

    Joined, parts and tail are the text; only a fence that had to be cut is closed at
    the end of one part and opened again, with its info string, in the next.
    """

    def __init__(self, *, soft: int = SOFT_LIMIT, hard: int = HARD_LIMIT) -> None:
        """Begin an empty part.

        Args:
            soft: Bytes from which the next boundary ends a part.
            hard: Bytes from which a part ends without one.
        """
        self._soft = soft
        self._hard = hard
        self._lines: list[str] = []
        self._size = 0
        self._partial: list[str] = []
        self._partial_size = 0
        self._boundary = 0
        self._fence: _Fence | None = None
        self._in_list = False
        self._at_gap = True

    @property
    def tail(self) -> str:
        """The part that is still open."""
        return "".join([*self._lines, *self._partial])

    def feed(self, text: str) -> tuple[str, ...]:
        """Add `text` and give the parts that it completed, oldest first."""
        done: list[str] = []
        *complete, rest = text.split("\n")
        for line in complete:
            whole = "".join([*self._partial, line, "\n"])
            self._partial, self._partial_size = [], 0
            self._read(whole)
            self._cut(done)
        if rest:
            self._partial.append(rest)
            self._partial_size += _bytes(rest)
            self._cut(done)
        return tuple(done)

    def _read(self, line: str) -> None:
        """Take one complete line into the open part."""
        if self._is_block_start(line) and self._lines:
            self._boundary = len(self._lines)
        self._lines.append(line)
        self._size += _bytes(line)

    def _is_block_start(self, line: str) -> bool:
        """Tell whether a top-level block begins here, and follow the structure."""
        if self._fence is not None and self._fence.is_left_by(line):
            self._fence = None
        if self._fence is not None:
            if self._fence.is_closed_by(line):
                self._at_gap = not self._fence.in_list
                self._fence = None
            return False
        if not line.strip():
            self._at_gap = True
            return False
        inner = line[0].isspace()
        item = _LIST_ITEM.match(line) is not None
        starts = not inner and (self._at_gap or _HEADING.match(line) is not None)
        continues_list = item and self._in_list
        if item:
            self._in_list = True
        elif starts:
            self._in_list = False
        self._at_gap = False
        self._open_fence(line)
        return starts and not continues_list

    def _open_fence(self, line: str) -> None:
        found = _FENCE.match(line.rstrip("\n"))
        if found is None:
            return
        lead, marks, info = found.group("lead", "marks", "info")
        if "`" in info and marks[0] == "`":
            return
        in_list = self._in_list and bool(lead)
        if len(lead) > _TOP_LEVEL_INDENT and not in_list:
            return
        if not lead:
            self._in_list = False
        self._fence = _Fence(
            indent=" " * len(lead), marks=marks, info=info, in_list=in_list
        )

    def _cut(self, done: list[str]) -> None:
        while self._boundary and self._size + self._partial_size > self._soft:
            self._end_part(done, self._boundary)
        while self._size + self._partial_size > self._hard:
            self._force(done)

    def _end_part(self, done: list[str], count: int) -> None:
        """End the part after its first `count` lines."""
        done.append("".join(self._lines[:count]))
        self._lines = self._lines[count:]
        self._size = sum(map(_bytes, self._lines))
        self._boundary = 0

    def _force(self, done: list[str]) -> None:
        """End a part that has grown too long for its blocks."""
        fence = self._fence
        if self._partial_size > self._hard // 2:
            self._break_line()
        if fence is None:
            self._end_part(done, len(self._lines))
            return
        done.append("".join([*self._lines, fence.closing]))
        self._lines = [fence.opening]
        self._size = _bytes(fence.opening)
        self._boundary = 0

    def _break_line(self) -> None:
        """Move the beginning of an overlong line among the complete ones."""
        line = "".join(self._partial)
        # A character has at most four bytes, so this many never exceed the limit.
        room = max(self._hard // 4, 1)
        space = line.rfind(" ", room // 2, room) + 1
        head, rest = line[: space or room], line[space or room :]
        if self._fence is not None:
            head += "\n"
        self._lines.append(head)
        self._size += _bytes(head)
        self._partial = [rest]
        self._partial_size = _bytes(rest)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
