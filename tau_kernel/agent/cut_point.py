"""Where a context may be cut in two, and where it is best cut."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from tau_kernel.tree import EntryDict, entries_to_messages, estimate_span_tokens

__all__ = ["CutPoint", "find_cut_point", "find_valid_cut_points", "last_turn_cut"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CutPoint:
    """A place between two entries.

    Args:
        first_kept: The place of the first entry that stays.
        turn_start: Where the turn that the cut divides began; None if it divides none.
    """

    first_kept: int
    turn_start: int | None


def find_valid_cut_points(
    entries: Sequence[EntryDict], start: int, end: int
) -> list[int]:
    """Give the places at which a context may begin, in order.

    Those are a user's, a model's or an extension's message, unless a tool result from
    there on answers a call from before: providers refuse a result without its call.

    Args:
        entries: A context's entries.
        start: The first place to consider.
        end: The place after the last.
    """
    divided = _divided_calls(entries)
    return [
        at for at in range(start, end) if not divided[at] and _may_be_first(entries[at])
    ]


def find_cut_point(
    entries: Sequence[EntryDict],
    start: int,
    end: int,
    keep_recent_tokens: int,
) -> CutPoint | None:
    """Find the cut that keeps about so many tokens at the end.

    Where the last message alone is larger, it is cut as late as it can be.

    Args:
        entries: A context's entries.
        start: The first place at which it may be cut.
        end: The place after the last.
        keep_recent_tokens: What should stay, in tokens.

    Returns:
        The cut, or None if there is no place for one.
    """
    points = find_valid_cut_points(entries, start, end)
    if not points:
        return None
    kept = 0
    for at in range(end - 1, start - 1, -1):
        kept += estimate_span_tokens(entries[at : at + 1])
        if kept >= keep_recent_tokens:
            place = bisect_left(points, at)
            point = points[place] if place < len(points) else points[-1]
            return _cut_at(entries, point, start)
    return _cut_at(entries, points[0], start)


def last_turn_cut(
    entries: Sequence[EntryDict], start: int, end: int
) -> CutPoint | None:
    """Find the cut that keeps the last turn alone; None if there is no place for it."""
    opening = None
    for point in reversed(find_valid_cut_points(entries, start, end)):
        if _is_user(entries[point]):
            if opening is not None:
                break
            opening = point
        elif opening is not None:
            # An extension's message just before the user's belongs to its turn.
            if not _opens_turn(entries, point):
                break
            opening = point
    return None if opening is None else _cut_at(entries, opening, start)


def _cut_at(entries: Sequence[EntryDict], point: int, start: int) -> CutPoint:
    turn_start = None
    if not _opens_turn(entries, point):
        turn_start = next(
            (at for at in range(point - 1, -1, -1) if _is_user(entries[at])), None
        )
    first_kept = point
    # What is recorded before a message, such as who sent it, stays with it.
    while first_kept > start and _is_record(entries[first_kept - 1]):
        first_kept -= 1
    return CutPoint(first_kept=first_kept, turn_start=turn_start)


def _divided_calls(entries: Sequence[EntryDict]) -> list[bool]:
    """Say for each place whether a cut there parts a call from its result."""
    called: dict[str, int] = {}
    change = [0] * (len(entries) + 1)
    for at, entry in enumerate(entries):
        if entry["type"] != "message":
            continue
        message = entry["message"]
        if message["role"] == "assistant":
            for block in message["content"]:
                if block["type"] == "toolCall":
                    called[block["id"]] = at
        elif message["role"] == "toolResult" and message["tool_call_id"] in called:
            change[called[message["tool_call_id"]] + 1] += 1
            change[at + 1] -= 1
    return [depth > 0 for depth in accumulate(change[:-1])]


def _may_be_first(entry: EntryDict) -> bool:
    if entry["type"] == "message":
        return entry["message"]["role"] in {"user", "assistant"}
    return entry["type"] == "customMessage"


def _is_user(entry: EntryDict) -> bool:
    return entry["type"] == "message" and entry["message"]["role"] == "user"


def _opens_turn(entries: Sequence[EntryDict], at: int) -> bool:
    """Whether a turn begins here, be it with an extension's message."""
    while at < len(entries) and (
        entries[at]["type"] == "customMessage" or _is_record(entries[at])
    ):
        at += 1
    return at < len(entries) and _is_user(entries[at])


def _is_record(entry: EntryDict) -> bool:
    return not entries_to_messages([entry])
