"""Reading a log without copying it: index, ancestry, and what a model sees.

The fold from a path to messages lives here and nowhere else. It is a pure function of
the leaf's ancestors, so what it gave for a leaf stays true while the log grows; that
is why the newest folds may be kept and continued.
"""

from __future__ import annotations

from bisect import insort
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, overload

from tau_kernel.messages import Message, UserMessage, estimate_tokens

from .entry import ANCHOR_KINDS, EntryDict, UnknownEntryError

__all__ = [
    "LogView",
    "compaction_note",
    "entries_to_messages",
    "estimate_span_tokens",
    "fold_path",
    "is_system_entry",
    "noted_compaction",
]

#: Enough for the main line and the branches that usually run beside it.
_KEPT_FOLDS: Final = 8

_COMPACTION_HEAD: Final = "[[Compaction summary: "
_NOTE_TAIL: Final = "]]"


def is_system_entry(entry: EntryDict) -> bool:
    """Whether an entry is a system message, which every anchor carries across."""
    return entry["type"] == "message" and entry["message"]["role"] == "system"


def fold_path(path: Sequence[EntryDict]) -> list[EntryDict]:
    """Cut a path, root first, as its last anchor says.

    What stays, in this order: system messages from before the boundary, the anchor,
    the entries from the boundary to the anchor, the entries after the anchor.
    """
    at = _last_anchor(path)
    if at is None:
        return list(path)
    anchor = path[at]
    boundary = _boundary_of(anchor)
    carried: list[EntryDict] = []
    kept: list[EntryDict] = []
    for entry in path[:at]:
        if kept or entry["id"] == boundary:
            kept.append(entry)
        elif is_system_entry(entry):
            carried.append(entry)
    return [*carried, anchor, *kept, *path[at + 1 :]]


def _last_anchor(path: Sequence[EntryDict]) -> int | None:
    for at in range(len(path) - 1, -1, -1):
        if path[at]["type"] in ANCHOR_KINDS:
            return at
    return None


def _boundary_of(entry: EntryDict) -> str | None:
    if entry["type"] == "compaction" or entry["type"] == "elide":
        return entry["firstKeptId"]
    return None


def entries_to_messages(entries: Iterable[EntryDict]) -> list[Message]:
    """Give the messages that folded entries contribute, in their order.

    Args:
        entries: As `fold_path` gives them. Messages are passed on, not copied.
    """
    messages: list[Message] = []
    for entry in entries:
        if entry["type"] == "message" or entry["type"] == "customMessage":
            messages.append(entry["message"])
        elif entry["type"] == "compaction":
            messages.append(compaction_note(entry["summary"]))
        elif entry["type"] == "branch_summary":
            messages.append(_note(f"[[Branch summary: {entry['summary']}]]"))
    return messages


def estimate_span_tokens(entries: Iterable[EntryDict]) -> int:
    """Estimate what entries take of a context, in tokens."""
    return sum(estimate_tokens(message) for message in entries_to_messages(entries))


def compaction_note(summary: str) -> UserMessage:
    """Make the message in which a model reads a compaction's summary."""
    return _note(f"{_COMPACTION_HEAD}{summary}{_NOTE_TAIL}")


def noted_compaction(message: Message) -> str | None:
    """Give the summary that a `compaction_note` tells; None for other messages."""
    match message:
        case {"role": "user", "content": [{"type": "text", "text": str(text)}]} if (
            text.startswith(_COMPACTION_HEAD) and text.endswith(_NOTE_TAIL)
        ):
            return text[len(_COMPACTION_HEAD) : -len(_NOTE_TAIL)]
        case _:
            return None


def _note(text: str) -> UserMessage:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


@dataclass(slots=True)
class _Fold:
    """What one leaf's path folds to; continued in place when the path grows."""

    entries: list[EntryDict]
    messages: list[Message]


#: The ids below an id. Most entries have one child, and a list for each of them would
#: be most of what the index takes.
_Children: TypeAlias = dict[str, str | list[str]]


def _hang(children: _Children, parent_id: str, entry_id: str) -> str | list[str]:
    """Put an id behind its siblings, and give them all."""
    siblings = children.get(parent_id)
    if siblings is None:
        children[parent_id] = entry_id
        return entry_id
    if isinstance(siblings, str):
        children[parent_id] = siblings = [siblings]
    siblings.append(entry_id)
    return siblings


class LogView(Sequence[EntryDict]):
    """The entries of one log in load order, with an index; it grows with the log.

    Everything handed out is the log's own: read it, never change it. Iterating is in
    load order. A place of None is the one before the root and has an empty path.
    """

    def __init__(self, entries: Iterable[EntryDict] = ()) -> None:
        """Index `entries`, not copied; of a repeated id the last one counts."""
        self._entries: list[EntryDict] = list(entries)
        self._by_id: dict[str, EntryDict] = {
            entry["id"]: entry for entry in self._entries
        }
        self._children: _Children | None = None
        self._folds: OrderedDict[str, _Fold] = OrderedDict()

    def __len__(self) -> int:
        """Give the number of entries."""
        return len(self._entries)

    @overload
    def __getitem__(self, at: int) -> EntryDict: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[EntryDict]: ...

    def __getitem__(self, at: int | slice) -> EntryDict | Sequence[EntryDict]:
        """Give the entry, or the entries, at a place in load order."""
        return self._entries[at]

    def add(self, entry: EntryDict) -> None:
        """Take in one more entry; only the owner of the log calls this."""
        self._entries.append(entry)
        self._by_id[entry["id"]] = entry
        parent_id = entry["parentId"]
        if self._children is None or parent_id is None or parent_id == entry["id"]:
            return
        siblings = _hang(self._children, parent_id, entry["id"])
        if not isinstance(siblings, str):
            # To the right of its equals, so that ties keep load order.
            insort(siblings, siblings.pop(), key=self._time_of)

    def contains(self, entry_id: str) -> bool:
        """Whether an id names an entry."""
        return entry_id in self._by_id

    def entry(self, entry_id: str) -> EntryDict:
        """Give the entry of an id.

        Raises:
            UnknownEntryError: No entry has the id; it is a KeyError and a ValueError.
        """
        try:
            return self._by_id[entry_id]
        except KeyError:
            msg = (
                f"no entry has the id {entry_id!r}; "
                "use an id that the tree of this session shows"
            )
            raise UnknownEntryError(msg) from None

    def parent_of(self, entry_id: str) -> EntryDict | None:
        """Give the entry that `entry_id` hangs from; None for roots and orphans."""
        parent_id = self.entry(entry_id)["parentId"]
        return None if parent_id is None else self._by_id.get(parent_id)

    def path(self, leaf: str | None) -> list[EntryDict]:
        """Give the entries from the root to `leaf`, every kind, none left out.

        Raises:
            UnknownEntryError: `leaf` names no entry.
        """
        if leaf is None:
            return []
        by_id = self._by_id
        found: list[EntryDict] = []
        current: EntryDict | None = self.entry(leaf)
        while current is not None and len(found) <= len(by_id):
            found.append(current)
            parent_id = current["parentId"]
            current = None if parent_id is None else by_id.get(parent_id)
        if current is not None:
            # The file holds a ring of parents; each entry counts where it is first met.
            found = list({entry["id"]: entry for entry in found}.values())
        found.reverse()
        return found

    def context_entries(self, leaf: str | None) -> list[EntryDict]:
        """Give the path to `leaf` as its last anchor cuts it.

        Raises:
            UnknownEntryError: `leaf` names no entry.
        """
        return [] if leaf is None else list(self._fold(leaf).entries)

    def context_for(self, leaf: str | None) -> list[Message]:
        """Give the messages that a model sees at `leaf`, in a list of the caller's own.

        Raises:
            UnknownEntryError: `leaf` names no entry.
        """
        return [] if leaf is None else list(self._fold(leaf).messages)

    def children_of(self, entry_id: str) -> list[str]:
        """Give the ids below an entry, oldest first; an unknown id has none."""
        below = self._children_index().get(entry_id, [])
        return [below] if isinstance(below, str) else list(below)

    def roots(self) -> list[str]:
        """Give, in load order, the ids that hang from no entry, orphans included."""
        return [
            entry["id"]
            for entry in self._by_id.values()
            if entry["parentId"] == entry["id"] or not self._has_parent(entry)
        ]

    def _has_parent(self, entry: EntryDict) -> bool:
        return entry["parentId"] is not None and entry["parentId"] in self._by_id

    def _children_index(self) -> _Children:
        if self._children is None:
            children: _Children = {}
            for entry in self._by_id.values():
                parent_id = entry["parentId"]
                if parent_id is not None and parent_id != entry["id"]:
                    _hang(children, parent_id, entry["id"])
            for siblings in children.values():
                if not isinstance(siblings, str):
                    siblings.sort(key=self._time_of)
            self._children = children
        return self._children

    def _time_of(self, entry_id: str) -> str:
        return self._by_id[entry_id]["timestamp"]

    def _fold(self, leaf: str) -> _Fold:
        newer = self._since_a_kept_fold(leaf)
        if newer is None:
            entries = fold_path(self.path(leaf))
            fold = _Fold(entries, entries_to_messages(entries))
        else:
            base, added = newer
            fold = self._folds.pop(base)
            fold.entries.extend(added)
            fold.messages.extend(entries_to_messages(added))
        self._folds[leaf] = fold
        if len(self._folds) > _KEPT_FOLDS:
            self._folds.popitem(last=False)
        return fold

    def _since_a_kept_fold(self, leaf: str) -> tuple[str, list[EntryDict]] | None:
        """Find an ancestor whose fold `leaf` continues, and what lies between.

        None where there is none, or where an anchor in between changes what is above.
        """
        added: list[EntryDict] = []
        current = leaf
        while current not in self._folds:
            entry = self.entry(current) if current == leaf else self._by_id.get(current)
            if entry is None or entry["type"] in ANCHOR_KINDS:
                return None
            added.append(entry)
            parent_id = entry["parentId"]
            if parent_id is None or len(added) > len(self._by_id):
                return None
            current = parent_id
        return current, added[::-1]
