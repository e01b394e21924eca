"""Which parts of a prompt are code by Markdown's marks.

In code an ``@`` is a decorator or an address and a backslash is the author's own.
Indented blocks do not count: in a prompt an indent is mostly layout.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

__all__ = ["code_ranges", "has_open_fence"]

_FENCE: Final = re.compile(r"[ \t]*(`{3,}|~{3,})(.*)")
_TICKS: Final = re.compile(r"`+")


def code_ranges(text: str) -> tuple[tuple[int, int], ...]:
    """Give the ranges of `text` that are fenced or stand between backticks.

    Returns:
        Pairs of start and end in code points, ascending, marks included. A fence
        that nothing closes reaches to the end.
    """
    ranges: list[tuple[int, int]] = []
    fence_start = 0
    is_open = False
    for start, line, was_open, is_open in _lines(text):
        if is_open and not was_open:
            fence_start = start
        elif was_open and not is_open:
            ranges.append((fence_start, start + len(line)))
        elif not is_open:
            ranges.extend(_between_backticks(line, start))
    if is_open:
        ranges.append((fence_start, len(text)))
    return tuple(ranges)


def has_open_fence(text: str) -> bool:
    """Say whether a fence of ``` or ~~~ is opened and not closed."""
    *_, (_, _, _, is_open) = _lines(text)
    return is_open


def _lines(text: str) -> Iterator[tuple[int, str, bool, bool]]:
    """Give each line: its start, itself, and whether a fence is open before, after."""
    open_marks = ""
    start = 0
    for line in text.split("\n"):
        marks = _marks_after(line, open_marks)
        yield start, line, bool(open_marks), bool(marks)
        open_marks = marks
        start += len(line) + 1


def _marks_after(line: str, open_marks: str) -> str:
    fence = _FENCE.match(line)
    if fence is None:
        return open_marks
    marks, rest = fence[1], fence[2]
    if open_marks:
        is_closing = marks.startswith(open_marks) and not rest.strip()
        return "" if is_closing else open_marks
    return marks if marks[0] == "~" or "`" not in rest else ""


def _between_backticks(line: str, start: int) -> Iterator[tuple[int, int]]:
    runs = list(_TICKS.finditer(line))
    # From the right, so that each run finds its partner in one pass.
    partner: dict[int, int] = {}
    nearest: dict[int, int] = {}
    for index in range(len(runs) - 1, -1, -1):
        length = len(runs[index][0])
        if length in nearest:
            partner[index] = nearest[length]
        nearest[length] = index
    index = 0
    while index < len(runs):
        end = partner.get(index)
        if end is not None:
            yield start + runs[index].start(), start + runs[end].end()
            index = end
        index += 1
