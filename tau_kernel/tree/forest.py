"""Who hangs from whom, over entries that are named by number.

Numbers make it quick: a list or a small table answers where ids would be hashed and
compared. The rules are those of `LogView.roots` and `LogView.children_of`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from operator import le
from typing import Final

from .entry import EntryDict

__all__ = ["ROOT", "EntryNumbers", "Forest"]

#: Stands for the parent of an entry that hangs from none.
ROOT: Final = -1


class EntryNumbers:
    """The entries of a log, numbered from 0 in load order, and their parents.

    Of a repeated id the last entry counts, at the place of the first.
    """

    def __init__(self, entries: Iterable[EntryDict]) -> None:
        """Number the entries; they are not copied."""
        self.entries: list[EntryDict] = list(entries)
        ids, parent_ids, times = _heads(self.entries)
        if len(set(ids)) < len(ids):
            self.entries = list(dict(zip(ids, self.entries, strict=True)).values())
            ids, parent_ids, times = _heads(self.entries)
        self._times = times
        # Most logs were written by one clock, and need no sorting.
        self._in_time = all(map(le, times, times[1:]))
        numbers: dict[str | None, int] = dict(zip(ids, range(len(ids)), strict=True))
        self._numbers = numbers
        #: The number of each entry's parent; `ROOT` where it hangs from none.
        self.parents = [numbers.get(one, ROOT) for one in parent_ids]
        self._missing: set[str | None] = set()
        for number, parent in enumerate(self.parents):
            # An entry that is its own parent hangs from none.
            if parent in (ROOT, number):
                self.parents[number] = ROOT
                self._missing.add(parent_ids[number])

    def number_of(self, entry_id: str) -> int | None:
        """Give the number of an entry; None where the id is unknown."""
        return self._numbers.get(entry_id)

    def add(self, entry: EntryDict) -> int | None:
        """Give one more entry a number.

        None, and nothing changed, where it changes what others hang from: its id is
        taken, or is that of a missing parent. Number all entries anew then.
        """
        entry_id, parent_id = entry["id"], entry["parentId"]
        if entry_id in self._numbers or entry_id in self._missing:
            return None
        number = len(self.entries)
        parent = self._numbers.get(parent_id, ROOT)
        if parent == ROOT:
            self._missing.add(parent_id)
        self.entries.append(entry)
        self.parents.append(parent)
        self._in_time = self._in_time and self._times[-1:] <= [entry["timestamp"]]
        self._times.append(entry["timestamp"])
        self._numbers[entry_id] = number
        return number

    def sort(self, brothers: list[int]) -> None:
        """Order numbers by time; what has the same time keeps its place."""
        if not self._in_time:
            brothers.sort(key=self._times.__getitem__)

    def place_among(self, number: int, brothers: Sequence[int]) -> int:
        """Say where a number belongs among ordered ones: by time, then by number."""
        times = self._times
        return bisect_right(
            brothers, (times[number], number), key=lambda one: (times[one], one)
        )


class Forest:
    """The children of some entries among these, in order of time.

    Each entry's parent is one of them too, or is none at all.
    """

    def __init__(self, numbers: EntryNumbers, members: Iterable[int]) -> None:
        """Sort entries under their parents.

        Args:
            numbers: What the entries are called.
            members: The entries, in load order.
        """
        self._numbers = numbers
        self.roots: list[int] = []
        # An entry mostly has one child; a list for each would be most of the work.
        self.first: dict[int, int] = {}
        self.several: dict[int, list[int]] = {}
        parents, first, several = numbers.parents, self.first, self.several
        for number in members:
            parent = parents[number]
            if parent == ROOT:
                self.roots.append(number)
            elif parent not in first:
                first[parent] = number
            elif parent in several:
                several[parent].append(number)
            else:
                several[parent] = [first[parent], number]
        for brothers in several.values():
            numbers.sort(brothers)

    def parent_of(self, number: int) -> int | None:
        """Give what an entry hangs from; None for a root."""
        parent = self._numbers.parents[number]
        return None if parent == ROOT else parent

    def children_of(self, number: int) -> Sequence[int]:
        """Give what hangs from an entry, in order of time."""
        several = self.several.get(number)
        if several is not None:
            return several
        return (self.first[number],) if number in self.first else ()

    def hang(self, number: int) -> int | None:
        """Make an entry a member, and give the brother that comes after it."""
        parent = self._numbers.parents[number]
        if parent == ROOT:
            brothers = self.roots
            at = bisect_right(brothers, number)
        elif parent in self.first:
            brothers = self.several.setdefault(parent, [self.first[parent]])
            at = self._numbers.place_among(number, brothers)
        else:
            self.first[parent] = number
            return None
        brothers.insert(at, number)
        return brothers[at + 1] if at + 1 < len(brothers) else None


def _heads(
    entries: Iterable[EntryDict],
) -> tuple[list[str], list[str | None], list[str]]:
    ids: list[str] = []
    parent_ids: list[str | None] = []
    times: list[str] = []
    for entry in entries:
        ids.append(entry["id"])
        parent_ids.append(entry["parentId"])
        times.append(entry["timestamp"])
    return ids, parent_ids, times
