"""Replacing passages of a text, and the diff that shows it; no files here."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

__all__ = [
    "Passage",
    "find_passages",
    "replace_passages",
    "unified_diff",
]

_CONTEXT: Final = 3
_CRLF: Final = re.compile("\r\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A part of a text, from `start` up to `end` in characters, and its new text."""

    start: int
    end: int
    new: str


def find_passages(
    text: str, old: str, new: str, *, may_overlap: bool = False
) -> Iterator[Passage]:
    r"""Find each place where `old` stands.

    The ends of lines match whichever way they are written, and the new text gets those
    of what it replaces, or else of the text's first line.

    Args:
        text: The whole text, with its line ends as they are.
        old: What to look for; not empty.
        new: What to put there.
        may_overlap: Whether the next place may begin within one that was found.

    Yields:
        The places in their order.
    """
    plain, wanted, wish = (one.replace("\r\n", "\n") for one in (text, old, new))
    # Where `plain` has one character for two of `text`. Found by comparing text, not
    # by a pattern, which would keep every other thread waiting while it runs.
    ends = [found.start() - i for i, found in enumerate(_CRLF.finditer(text))]
    default = _line_end(text)
    at = plain.find(wanted)
    while at >= 0:
        behind = at + len(wanted)
        start, end = at + bisect_left(ends, at), behind + bisect_left(ends, behind)
        line_end = _line_end(text[start:end], default)
        yield Passage(start=start, end=end, new=wish.replace("\n", line_end))
        at = plain.find(wanted, at + 1 if may_overlap else behind)


def replace_passages(text: str, passages: Sequence[Passage]) -> str:
    """Give the text with each passage, in order and apart from each other, replaced."""
    pieces: list[str] = []
    at = 0
    for one in passages:
        pieces += (text[at : one.start], one.new)
        at = one.end
    return "".join([*pieces, text[at:]])


def unified_diff(name: str, text: str, passages: Sequence[Passage]) -> str:
    """Show a replacement as ``diff -u`` does, in time proportional to the text.

    Args:
        name: How the file is called.
        text: The text before.
        passages: In order and apart from each other.

    Returns:
        The diff, with line ends as the text has them; empty if nothing changes.
    """
    lines = _lines(text)
    changes = [one for one in _changes(text, lines, passages) if one.old or one.new]
    out = [f"--- a/{name}\n", f"+++ b/{name}\n"] if changes else []
    shift = 0
    for group in _grouped(changes):
        out += _hunk(lines, group, shift)
        shift += sum(len(one.new) - len(one.old) for one in group)
    return "".join(out)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """Lines from index `first` on that are replaced."""

    first: int
    old: tuple[str, ...]
    new: tuple[str, ...]

    @property
    def last(self) -> int:
        """The index behind the last line."""
        return self.first + len(self.old)


def _line_end(text: str, default: str = "\n") -> str:
    at = text.find("\n")
    if at < 0:
        return default
    return "\r\n" if text[:at].endswith("\r") else "\n"


def _lines(text: str) -> list[str]:
    # Not `splitlines`, to which a form feed ends a line, too.
    *whole, rest = text.split("\n")
    lines = [f"{line}\n" for line in whole]
    return [*lines, rest] if rest else lines


def _changes(
    text: str, lines: Sequence[str], passages: Sequence[Passage]
) -> Iterator[_Change]:
    """Give what happens to whole lines; passages that share a line as one change."""
    starts = [0, *accumulate(map(len, lines))]
    pending: list[Passage] = []
    last = -1
    for one in passages:
        first = _line_at(starts, one.start)
        if pending and first > last:
            yield _change(text, lines, starts, pending)
            pending = []
        pending.append(one)
        last = _line_at(starts, one.end)
    if pending:
        yield _change(text, lines, starts, pending)


def _line_at(starts: Sequence[int], place: int) -> int:
    # The last entry is the end of the text, which is still its last line.
    return max(0, min(bisect_right(starts, place) - 1, len(starts) - 2))


def _change(
    text: str, lines: Sequence[str], starts: Sequence[int], passages: Sequence[Passage]
) -> _Change:
    first = _line_at(starts, passages[0].start)
    last = _line_at(starts, passages[-1].end)
    begin, end = starts[first], starts[last + 1]
    moved = [
        Passage(start=one.start - begin, end=one.end - begin, new=one.new)
        for one in passages
    ]
    old = lines[first : last + 1]
    new = _lines(replace_passages(text[begin:end], moved))
    shorter = min(len(old), len(new))
    before = next((i for i in range(shorter) if old[i] != new[i]), shorter)
    rest = shorter - before
    after = next((i for i in range(rest) if old[-1 - i] != new[-1 - i]), rest)
    return _Change(
        first=first + before,
        old=tuple(old[before : len(old) - after]),
        new=tuple(new[before : len(new) - after]),
    )


def _grouped(changes: Sequence[_Change]) -> Iterator[list[_Change]]:
    """Put changes together whose contexts touch."""
    group: list[_Change] = []
    for one in changes:
        if group and one.first - group[-1].last > 2 * _CONTEXT:
            yield group
            group = []
        group.append(one)
    if group:
        yield group


def _hunk(lines: Sequence[str], group: Sequence[_Change], shift: int) -> Iterator[str]:
    begin = max(0, group[0].first - _CONTEXT)
    end = min(len(lines), group[-1].last + _CONTEXT)
    body: list[str] = []
    at = begin
    for one in group:
        body += [f" {line}" for line in lines[at : one.first]]
        body += [f"-{line}" for line in one.old]
        body += [f"+{line}" for line in one.new]
        at = one.last
    body += [f" {line}" for line in lines[at:end]]
    growth = sum(len(one.new) - len(one.old) for one in group)
    old_range = _range(begin, end - begin)
    new_range = _range(begin + shift, end - begin + growth)
    yield f"@@ -{old_range} +{new_range} @@\n"
    for line in body:
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _range(begin: int, count: int) -> str:
    # Of an empty range, the line before it is named.
    start = begin + 1 if count else begin
    return f"{start}" if count == 1 else f"{start},{count}"
