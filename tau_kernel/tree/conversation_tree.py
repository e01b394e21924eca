"""A conversation as a tree to walk: paths, contexts, rows, completions.

It reads entries and a cursor and writes nothing; `navigate` moves a cursor of its own.
What a model sees at a leaf is decided in `log_view`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, get_args

from tau_kernel.errors import CallerError
from tau_kernel.messages import Message

from .entry import EntryDict, UnknownEntryError
from .log_view import LogView, entries_to_messages
from .preview import entry_preview, flat_text

__all__ = [
    "ConversationTree",
    "MessageIdCompletion",
    "MessageIdMatch",
    "MessageIdScope",
    "TreeNode",
    "entries_to_messages",
    "role_of",
]

MessageIdScope: TypeAlias = Literal[
    "in_session", "ancestors_of_cursor", "descendants_of_cursor"
]
_SCOPES: Final = get_args(MessageIdScope)
_COMPLETION_LIMIT: Final = 50


@dataclass(frozen=True, slots=True)
class TreeNode:
    """One row of the tree and the rows below it, oldest first.

    Args:
        id: The entry's id.
        parent_id: The entry it hangs from, as the log has it.
        kind: The entry's type.
        role: The role of its message, if it has one.
        preview: Its first line.
        is_leaf: Whether the cursor stands here.
        children: The nodes that hang from it.
    """

    id: str
    parent_id: str | None
    kind: str
    role: str | None
    preview: str
    is_leaf: bool
    children: list[TreeNode] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class MessageIdMatch:
    """An entry's id and the line that people know it by."""

    entry_id: str
    preview: str


@dataclass(frozen=True, slots=True)
class MessageIdCompletion:
    """Matches in tree order up to a limit, and how many there were without it."""

    matches: tuple[MessageIdMatch, ...]
    total: int


class ConversationTree:
    """Entries and a cursor, read as a tree.

    What it hands out belongs to the entries: read it, never change it.
    """

    def __init__(self, entries: Iterable[EntryDict], cursor: str | None) -> None:
        """Index entries that hold still, or a log's view.

        Args:
            entries: In load order. A `LogView` is used as it is, without copying; the
                tree then grows with its log.
            cursor: Where the tree stands; it is not checked.
        """
        self._view = entries if isinstance(entries, LogView) else LogView(entries)
        self._cursor = cursor

    @property
    def cursor(self) -> str | None:
        """Where this tree stands."""
        return self._cursor

    def contains(self, entry_id: str) -> bool:
        """Whether an id names an entry."""
        return self._view.contains(entry_id)

    def entry(self, entry_id: str) -> EntryDict:
        """Give the entry of an id.

        Raises:
            UnknownEntryError: No entry has the id; it is a KeyError.
        """
        return self._view.entry(entry_id)

    def navigate(self, entry_id: str | None) -> None:
        """Move the cursor; None is the place before the root.

        Raises:
            UnknownEntryError: No entry has the id; the cursor stayed.
        """
        if entry_id is not None:
            self._view.entry(entry_id)
        self._cursor = entry_id

    def path(self, leaf: str | None = None) -> list[EntryDict]:
        """Give the entries from the root to `leaf`, every kind, none left out.

        Args:
            leaf: Where the path ends; None is the cursor.

        Raises:
            UnknownEntryError: The leaf names no entry.
        """
        return self._view.path(self._cursor if leaf is None else leaf)

    def context_entries(self, leaf: str | None = None) -> list[EntryDict]:
        """Give the path to `leaf` as its last anchor cuts it.

        Args:
            leaf: Where the path ends; None is the cursor. Where that is None too, it
                is the log's first entry; `LogView` gives nothing there.

        Raises:
            UnknownEntryError: The leaf names no entry.
        """
        return self._view.context_entries(self._leaf(leaf))

    def context_for(self, leaf: str | None = None) -> list[Message]:
        """Give the messages that a model sees at `leaf`.

        Args:
            leaf: As for `context_entries`.

        Raises:
            UnknownEntryError: The leaf names no entry.
        """
        return self._view.context_for(self._leaf(leaf))

    def _leaf(self, leaf: str | None) -> str | None:
        chosen = self._cursor if leaf is None else leaf
        return self._view[0]["id"] if chosen is None and len(self._view) else chosen

    def children_of(self, entry_id: str | None) -> list[str]:
        """Give the ids that hang from an entry, oldest first.

        Args:
            entry_id: None gives the roots, in load order. An unknown id has no
                children.
        """
        if entry_id is None:
            return self._view.roots()
        return self._view.children_of(entry_id)

    def descendants_of(self, entry_id: str | None) -> list[str]:
        """Give every id below an entry, level by level, itself left out.

        Args:
            entry_id: None gives the whole tree. An unknown id has no descendants.
        """
        return list(_breadth_first(entry_id, self.children_of))

    def tree(self) -> list[TreeNode]:
        """Give the roots in load order, each with all that hangs from it.

        An entry whose parent is missing is a root.
        """
        roots = [self._node(entry_id) for entry_id in self._view.roots()]
        waiting = deque(roots)
        while waiting:
            node = waiting.popleft()
            node.children.extend(map(self._node, self._view.children_of(node.id)))
            waiting.extend(node.children)
        return roots

    def _node(self, entry_id: str) -> TreeNode:
        entry = self._view.entry(entry_id)
        return TreeNode(
            id=entry_id,
            parent_id=entry["parentId"],
            kind=entry["type"],
            role=role_of(entry),
            preview=entry_preview(self._view, entry),
            is_leaf=entry_id == self._cursor,
        )

    def message_text(self, entry_id: str) -> str:
        """Give an entry's message as plain text, or "" where it has none.

        Raises:
            UnknownEntryError: No entry has the id; it is a KeyError.
        """
        entry = self._view.entry(entry_id)
        if entry["type"] == "message" or entry["type"] == "customMessage":
            return flat_text(entry["message"])
        return ""

    def subtree_text(self, from_id: str) -> str:
        """Give an entry and all below it as text, level by level, a line for each.

        An unknown id gives "".
        """
        if not self.contains(from_id):
            return ""
        below: dict[str, list[str]] = {}
        for entry in self._view:
            if entry["parentId"] is not None:
                below.setdefault(entry["parentId"], []).append(entry["id"])
        ids = _breadth_first(from_id, lambda entry_id: below.get(entry_id or "", []))
        lines = [_told(self._view.entry(entry_id)) for entry_id in (from_id, *ids)]
        return "\n".join(line for line in lines if line is not None)

    def fork_admission_reason(self, target_id: str | None) -> str | None:
        """Say why no turn may start at an entry, or give None.

        A turn may not start below tool calls that nothing answered: what would answer
        them later is no ancestor. None as a target is always fit.

        Raises:
            CallerError: The target names no entry.
        """
        if target_id is None:
            return None
        pending: dict[str, str] = {}
        for entry in self._view.path(target_id):
            if entry["type"] != "message":
                continue
            message = entry["message"]
            if message["role"] == "assistant":
                pending = {
                    block["id"]: block["name"]
                    for block in message["content"]
                    if block["type"] == "toolCall"
                }
            elif message["role"] == "toolResult":
                pending.pop(message["tool_call_id"], None)
        if not pending:
            return None
        calls = ", ".join(f"{name} ({call})" for call, name in pending.items())
        return (
            f"entry {target_id!r} has tool calls without results: {calls}; "
            "fork from an entry where its turn is complete"
        )

    def complete_message_id(
        self,
        scope: MessageIdScope = "in_session",
        cursor: str | None = None,
        query: str = "",
        limit: int = _COMPLETION_LIMIT,
    ) -> MessageIdCompletion:
        """Give the entries that a half-typed id, or some words, may mean.

        Args:
            scope: Which entries count; ancestors include the cursor, descendants do
                not.
            cursor: What the two scopes are relative to; None is the tree's own.
            query: The start of an id, in its case, or a part of a preview, in any.
            limit: How many matches to give.

        Raises:
            UnknownEntryError: The scope needs a cursor that names no entry.
            CallerError: The scope is unknown.
        """
        found: list[MessageIdMatch] = []
        total = 0
        for entry_id in self._in_scope(
            scope, self._cursor if cursor is None else cursor
        ):
            preview = entry_preview(self._view, self._view.entry(entry_id))
            if entry_id.startswith(query) or query.casefold() in preview.casefold():
                total += 1
                if total <= limit:
                    found.append(MessageIdMatch(entry_id, preview))
        return MessageIdCompletion(tuple(found), total)

    def _in_scope(self, scope: MessageIdScope, cursor: str | None) -> list[str]:
        if scope not in _SCOPES:
            msg = f"scope {scope!r} is unknown; use one of {', '.join(_SCOPES)}"
            raise CallerError(msg)
        if scope == "in_session":
            return list(self._preorder(self._view.roots()))
        if cursor is None or not self.contains(cursor):
            msg = (
                f"the cursor {cursor!r} names no entry, and {scope!r} is relative to "
                "it; give the id of an entry, or use 'in_session'"
            )
            raise UnknownEntryError(msg)
        if scope == "ancestors_of_cursor":
            return [entry["id"] for entry in self._view.path(cursor)]
        return list(self._preorder(self._view.children_of(cursor)))

    def _preorder(self, first: list[str]) -> Iterator[str]:
        waiting = first[::-1]
        seen: set[str] = set()
        while waiting:
            entry_id = waiting.pop()
            if entry_id not in seen:
                seen.add(entry_id)
                yield entry_id
                waiting.extend(reversed(self._view.children_of(entry_id)))


def _breadth_first(
    start: str | None, children_of: Callable[[str | None], list[str]]
) -> Iterator[str]:
    waiting = deque(children_of(start))
    seen = {start}
    while waiting:
        entry_id = waiting.popleft()
        if entry_id not in seen:
            seen.add(entry_id)
            yield entry_id
            waiting.extend(children_of(entry_id))


def role_of(entry: EntryDict) -> str | None:
    """Give the role of an entry's message, or None where it has none."""
    if entry["type"] == "message" or entry["type"] == "customMessage":
        return entry["message"]["role"]
    return None


def _told(entry: EntryDict) -> str | None:
    if entry["type"] == "message" or entry["type"] == "customMessage":
        return f"[{entry['message']['role']}]: {flat_text(entry['message'])}"
    if entry["type"] == "compaction" or entry["type"] == "branch_summary":
        return f"[{entry['type']}]: {entry['summary']}"
    return None
