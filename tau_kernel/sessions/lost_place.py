"""Where the entries belong whose parent, target or boundary was lost with a line.

A broken line may still tell which entry it held and whose child that was; then its
children hang from there. Where it does not, the place is a guess, and is said to be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from tau_kernel.messages import JsonObject, dump_line
from tau_kernel.tree import EntryDict, copy_of_json, resolve_cursor

from .salvage import Gap, MendedLine, Survivor

__all__ = ["MendedReferences", "RehungEntry", "mend_references"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RehungEntry:
    """An entry that hangs from another one than before.

    Args:
        number: Its line in the damaged file, counted from 1, the header.
        entry_id: The entry.
        lost_id: The parent that was lost.
        parent_id: The entry it hangs from in the copy; None is a root.
        reason: Whether a line tells this, and which, or it is the nearest earlier.
    """

    number: int
    entry_id: str
    lost_id: str
    parent_id: str | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MendedReferences:
    """The survivors with no reference to a lost entry, and what changed for that."""

    survivors: tuple[Survivor, ...]
    rehung: tuple[RehungEntry, ...]
    changes: tuple[MendedLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where a lost entry's children go; `passed` are the lost ones in between."""

    entry_id: str | None
    reason: str
    passed: frozenset[str]


def mend_references(
    survivors: Sequence[Survivor], gaps: Sequence[Gap]
) -> MendedReferences:
    """Give every survivor a parent that exists, and likewise targets and boundaries.

    Args:
        survivors: In load order.
        gaps: What was lost between them.
    """
    places = _Places(survivors, gaps)
    mended: list[Survivor] = []
    rehung: list[RehungEntry] = []
    changes: list[MendedLine] = []
    passed: dict[str, frozenset[str]] = {}
    for at, survivor in enumerate(survivors):
        entry = copy_of_json(survivor.entry)
        place = places.of_parent(at)
        if place is not None:
            rehung.append(_rehung(survivor, place))
            entry["parentId"] = place.entry_id
            passed[entry["id"]] = place.passed
        changes += _mend_target(entry, survivor.number, places, at)
        mended.append(_with(survivor, entry))
    by_id = {survivor.entry["id"]: survivor.entry for survivor in mended}
    for at, survivor in enumerate(mended):
        entry = copy_of_json(survivor.entry)
        changes += _mend_boundary(entry, survivor.number, by_id, passed)
        mended[at] = _with(survivor, entry)
    return MendedReferences(
        survivors=tuple(mended), rehung=tuple(rehung), changes=tuple(changes)
    )


def _rehung(survivor: Survivor, place: _Place) -> RehungEntry:
    return RehungEntry(
        number=survivor.number,
        entry_id=survivor.entry["id"],
        lost_id=str(survivor.entry["parentId"]),
        parent_id=place.entry_id,
        reason=place.reason,
    )


def _with(survivor: Survivor, entry: EntryDict) -> Survivor:
    """Give a survivor another entry, and its old bytes where nothing is different."""
    if entry == survivor.entry:
        return survivor
    return replace(survivor, entry=entry, line=dump_line(cast("JsonObject", entry)))


class _Places:
    """Finds the places of lost entries; each has one, for all that refer to it."""

    def __init__(self, survivors: Sequence[Survivor], gaps: Sequence[Gap]) -> None:
        self._survivors = survivors
        self._lines = {one.entry["id"]: one.number for one in survivors}
        self._order = {one.entry["id"]: at for at, one in enumerate(survivors)}
        self._parents = {one.entry["id"]: one.entry["parentId"] for one in survivors}
        self._gaps = gaps
        self._told = {gap.entry_id: gap for gap in gaps if gap.entry_id is not None}
        self._found: dict[str, _Place] = {}

    def of_parent(self, at: int) -> _Place | None:
        """Give survivor `at` another parent where its own is lost; None if it lives.

        Called once for each survivor, in load order.
        """
        entry = self._survivors[at].entry
        place = self.of(entry["parentId"], at)
        if place is None:
            parent_id = entry["parentId"]
            # A log grows downwards, so every ring has a parent that stands later.
            if parent_id is None or self._order[parent_id] < at:
                return None
            if not self._is_below(parent_id, entry["id"]):
                return None
            place = self._nearest(parent_id, at, frozenset())
        if self._is_below(place.entry_id, entry["id"]):
            place = replace(
                place, entry_id=None, reason="every other place is below it"
            )
        self._parents[entry["id"]] = place.entry_id
        return place

    def _is_below(self, entry_id: str | None, above: str) -> bool:
        met: set[str] = set()
        while entry_id is not None and entry_id not in met:
            if entry_id == above:
                return True
            met.add(entry_id)
            entry_id = self._parents.get(entry_id)
        return False

    def of(self, lost_id: str | None, at: int) -> _Place | None:
        """Give the place of an entry that survivor `at` refers to; None if it lives."""
        if lost_id is None or lost_id in self._lines:
            return None
        if lost_id not in self._found:
            self._found[lost_id] = self._find(lost_id, at)
        return self._found[lost_id]

    def _find(self, lost_id: str, at: int) -> _Place:
        passed: set[str] = set()
        current: str = lost_id
        while (gap := self._told.get(current)) is not None and current not in passed:
            passed.add(current)
            if gap.is_root:
                reason = f"the lost line {gap.number} was a root"
                return _Place(entry_id=None, reason=reason, passed=frozenset(passed))
            if gap.parent_id is None:
                break
            if gap.parent_id in self._lines:
                reason = f"the lost line {gap.number} hung from it"
                return _Place(
                    entry_id=gap.parent_id, reason=reason, passed=frozenset(passed)
                )
            current = gap.parent_id
        passed.add(current)
        return self._nearest(current, at, frozenset(passed))

    def _nearest(self, lost_id: str, at: int, passed: frozenset[str]) -> _Place:
        before = at
        if lost_id in self._told:
            before = self._told[lost_id].before
        else:
            # It was most likely in the last line that does not tell what it held.
            for gap in self._gaps:
                if gap.entry_id is None and gap.before <= at:
                    before = gap.before
        earlier = [one.entry for one in self._survivors[: min(before, at)]]
        entry_id = resolve_cursor(earlier)
        if entry_id is None:
            reason = "no entry before it survived"
        else:
            reason = f"line {self._lines[entry_id]} is the nearest earlier entry"
        return _Place(entry_id=entry_id, reason=reason, passed=passed)


def _mend_target(
    entry: EntryDict, number: int, places: _Places, at: int
) -> list[MendedLine]:
    if entry["type"] == "navigate":
        key, lost_id = "targetId", entry["targetId"]
        place = places.of(lost_id, at)
        if place is not None:
            entry["targetId"] = place.entry_id
    elif entry["type"] == "branch_summary":
        key, lost_id = "fromId", entry["fromId"]
        place = places.of(lost_id, at)
        if place is not None:
            entry["fromId"] = place.entry_id
    else:
        return []
    if place is None:
        return []
    what = f"its {key} {lost_id!r} is lost; it became {place.entry_id!r}"
    return [MendedLine(number=number, change=f"{what} ({place.reason})")]


def _mend_boundary(
    entry: EntryDict,
    number: int,
    by_id: Mapping[str, EntryDict],
    passed: Mapping[str, frozenset[str]],
) -> list[MendedLine]:
    if entry["type"] != "compaction" and entry["type"] != "elide":
        return []
    lost_id = entry["firstKeptId"]
    if lost_id is None or lost_id in by_id:
        return []
    entry["firstKeptId"] = _next_below(lost_id, entry["parentId"], by_id, passed)
    what = f"its firstKeptId {lost_id!r} is lost; it became {entry['firstKeptId']!r}"
    return [MendedLine(number=number, change=what)]


def _next_below(
    lost_id: str,
    leaf: str | None,
    by_id: Mapping[str, EntryDict],
    passed: Mapping[str, frozenset[str]],
) -> str | None:
    """Find the entry on the path to `leaf` that a lost entry stood just above."""
    met: set[str] = set()
    while leaf is not None and leaf in by_id and leaf not in met:
        if lost_id in passed.get(leaf, ()):
            return leaf
        met.add(leaf)
        leaf = by_id[leaf]["parentId"]
    return None
