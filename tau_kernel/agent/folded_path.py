"""A context's entries, and which of them are older than the anchor before them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tau_kernel.tree import ANCHOR_KINDS, EntryDict, is_system_entry

__all__ = ["FoldedPath"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldedPath:
    """The entries of a context, as `LogView.context_entries` gives them.

    An anchor stands before the entries that it keeps although it was appended after
    them. Its parent is the last of them, which is how they are told from those that
    came later.

    Args:
        entries: In the context's order.
        anchor: The place of the anchor that cut the path; None if nothing did.
        fresh: The place of the first entry appended after that anchor, 0 without one;
            the number of entries where there is none.
    """

    entries: Sequence[EntryDict]
    anchor: int | None
    fresh: int

    @classmethod
    def from_entries(cls, entries: Sequence[EntryDict]) -> FoldedPath:
        """Find the anchor and what came after it."""
        anchor = _anchor_of(entries)
        fresh = 0 if anchor is None else _first_after(entries, anchor)
        return cls(entries=entries, anchor=anchor, fresh=fresh)

    @property
    def first_cut(self) -> int:
        """The first place at which the context may be cut again.

        It is after every compaction: one that is kept as an ordinary entry goes on
        telling its summary, which the new summary tells too.
        """
        newest = self.newest_compaction
        if newest is None:
            return 0 if self.anchor is None else self.anchor + 1
        return self.fresh if newest == self.anchor else newest + 1

    @property
    def newest_compaction(self) -> int | None:
        """The place of the newest compaction whose summary the context tells.

        Its summary covers those of the older ones.
        """
        if self.anchor is None:
            return None
        if self.entries[self.anchor]["type"] == "compaction":
            return self.anchor
        for at in range(self.fresh - 1, self.anchor, -1):
            if self.entries[at]["type"] == "compaction":
                return at
        return None


def _anchor_of(entries: Sequence[EntryDict]) -> int | None:
    for at, entry in enumerate(entries):
        if not is_system_entry(entry):
            return at if entry["type"] in ANCHOR_KINDS else None
    return None


def _first_after(entries: Sequence[EntryDict], anchor: int) -> int:
    last_kept = entries[anchor]["parentId"]
    for at in range(anchor + 1, len(entries)):
        if entries[at]["id"] == last_kept:
            return at + 1
    return anchor + 1
