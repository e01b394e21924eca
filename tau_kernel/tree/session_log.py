"""The log of a conversation: what it can do, one in memory, and branches over any.

The rules of appending stand once, in `EntryAppender`; where entries go is the concern
of the class that implements `append_at`. A store on disk is `tau_kernel.sessions`.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol, runtime_checkable

from tau_kernel.errors import CallerError
from tau_kernel.messages import CustomMessage, Message, UsageDict

from .entry import ANCHOR_KINDS, EntryDict, copy_of_json, make_entry
from .log_view import LogView

__all__ = [
    "BranchView",
    "EntryAppender",
    "EntryLog",
    "InMemorySessionLog",
    "SessionLog",
    "agent_spec_in_force",
    "open_branch",
    "resolve_cursor",
    "session_log_is_addressable",
]

_DURABLE_LOCATIONS: Final = ("path", "root_doc_id")


@runtime_checkable
class SessionLog(Protocol):
    """An append-only log of entries with one cursor, and one process that writes it.

    Unknown ids are refused with a ValueError before anything is written. Work beside
    the main line goes through a `BranchView`, work in a second process through an
    exported copy.
    """

    @property
    def id(self) -> str:
        """The session's lasting identity, never a path."""
        ...

    @property
    def cursor(self) -> str | None:
        """The entry that the next one hangs from; None is the place before the root."""
        ...

    def entries(self) -> list[EntryDict]:
        """Give copies of all entries, every kind, in load order."""
        ...

    def view(self) -> LogView:
        """Give the entries without copying; they are the log's and for reading only."""
        ...

    def append_at(
        self, parent_id: str | None, entry_type: str, payload: Mapping[str, object]
    ) -> str:
        """Append below `parent_id`, leave the cursor alone, and give the new id."""
        ...

    def append_message(self, message: Message) -> str:
        """Append a message at the cursor and move there."""
        ...

    def append_custom_message(self, message: CustomMessage, custom_type: str) -> str:
        """Append an extension's message at the cursor and move there."""
        ...

    def append_custom_entry(self, custom_type: str, data: Mapping[str, object]) -> str:
        """Append a record that no model reads at the cursor and move there."""
        ...

    def append_compaction(
        self,
        summary: str,
        first_kept_id: str,
        tokens_before: int,
        *,
        summarizer_model_id: str,
        summary_usage: UsageDict | Mapping[str, int],
        covered_entries: int,
        covered_tokens: int,
        agent_spec_id: str | None,
    ) -> str:
        """Append an anchor with a summary at the cursor and move there."""
        ...

    def append_elide(
        self,
        first_kept_id: str,
        *,
        covered_entries: int,
        covered_tokens: int,
        agent_spec_id: str | None,
    ) -> str:
        """Append an anchor without a summary at the cursor and move there."""
        ...

    def append_branch_summary(self, summary: str, from_id: str | None) -> str:
        """Append the summary of a left branch below `from_id` and move there."""
        ...

    def append_navigate(self, target_id: str | None) -> str:
        """Record that the cursor moves to `target_id`, and move it."""
        ...


class EntryAppender(ABC):
    """The rules of appending, over whatever takes the entries.

    It owns one cursor. The cursor moves only after an entry was taken, so a refused
    or failed append leaves everything as it was.
    """

    def __init__(self, cursor: str | None) -> None:
        """Start at `cursor`."""
        self._cursor = cursor

    @property
    def cursor(self) -> str | None:
        """The entry that the next one hangs from; None is the place before the root."""
        return self._cursor

    @abstractmethod
    def view(self) -> LogView:
        """Give the entries without copying; they are the log's and for reading only."""

    @abstractmethod
    def append_at(
        self, parent_id: str | None, entry_type: str, payload: Mapping[str, object]
    ) -> str:
        """Append below `parent_id`, leave the cursor alone, and give the new id."""

    def entries(self) -> list[EntryDict]:
        """Give copies of all entries, every kind, in load order."""
        return [copy_of_json(entry) for entry in self.view()]

    def append_message(self, message: Message) -> str:
        """Append a message at the cursor and move there.

        Raises:
            CallerError: The message is no JSON; nothing was appended.
        """
        return self._append("message", {"message": message})

    def append_custom_message(self, message: CustomMessage, custom_type: str) -> str:
        """Append an extension's message at the cursor and move there."""
        payload = {"customType": custom_type, "message": message}
        return self._append("customMessage", payload)

    def append_custom_entry(self, custom_type: str, data: Mapping[str, object]) -> str:
        """Append a record that no model reads at the cursor and move there."""
        payload = {"customType": custom_type, "data": dict(data)}
        return self._append("customEntry", payload)

    def append_compaction(
        self,
        summary: str,
        first_kept_id: str,
        tokens_before: int,
        *,
        summarizer_model_id: str,
        summary_usage: UsageDict | Mapping[str, int],
        covered_entries: int,
        covered_tokens: int,
        agent_spec_id: str | None,
    ) -> str:
        """Append an anchor with a summary at the cursor and move there.

        Args:
            summary: What stands for the folded entries.
            first_kept_id: The entry that the context resumes at.
            tokens_before: Size of the context that was folded, in tokens.
            summarizer_model_id: The model that wrote the summary.
            summary_usage: What writing it cost.
            covered_entries: How many entries the anchor removes from the context.
            covered_tokens: Their size in tokens.
            agent_spec_id: The ``agent_spec`` in force over them; it is not checked.

        Raises:
            CallerError: `first_kept_id` names no entry; nothing was appended.
        """
        payload = {
            "summary": summary,
            "firstKeptId": first_kept_id,
            "tokensBefore": tokens_before,
            "summarizerModelId": summarizer_model_id,
            "summaryUsage": dict(summary_usage),
            "coveredEntries": covered_entries,
            "coveredTokens": covered_tokens,
            "agentSpecId": agent_spec_id,
        }
        return self._append("compaction", payload)

    def append_elide(
        self,
        first_kept_id: str,
        *,
        covered_entries: int,
        covered_tokens: int,
        agent_spec_id: str | None,
    ) -> str:
        """Append an anchor without a summary at the cursor and move there.

        The arguments are those of `append_compaction`.

        Raises:
            CallerError: `first_kept_id` names no entry; nothing was appended.
        """
        payload = {
            "firstKeptId": first_kept_id,
            "coveredEntries": covered_entries,
            "coveredTokens": covered_tokens,
            "agentSpecId": agent_spec_id,
        }
        return self._append("elide", payload)

    def append_branch_summary(self, summary: str, from_id: str | None) -> str:
        """Append the summary of a left branch below `from_id` and move there.

        So the branch that was left is no ancestor of what follows.

        Raises:
            CallerError: `from_id` names no entry; nothing was appended.
        """
        payload = {"summary": summary, "fromId": from_id}
        self._cursor = self.append_at(from_id, "branch_summary", payload)
        return self._cursor

    def append_navigate(self, target_id: str | None) -> str:
        """Record that the cursor moves to `target_id`, and move it.

        Raises:
            CallerError: `target_id` names no entry; the cursor stayed.
        """
        entry_id = self.append_at(self._cursor, "navigate", {"targetId": target_id})
        self._cursor = target_id
        return entry_id

    def _append(self, kind: str, payload: Mapping[str, object]) -> str:
        self._cursor = self.append_at(self._cursor, kind, payload)
        return self._cursor


class EntryLog(EntryAppender):
    """The log itself: entries in memory, each handed to a sink before it counts."""

    def __init__(
        self,
        session_id: str,
        entries: Sequence[EntryDict] = (),
        *,
        sink: Callable[[EntryDict], None] | None = None,
    ) -> None:
        """Start from entries that are already stored.

        Args:
            session_id: The session's identity.
            entries: In load order; the log owns them from here on.
            sink: Makes an entry durable. What it raises reaches the caller of the
                append, and the log stays as it was.
        """
        super().__init__(resolve_cursor(entries))
        self._id = session_id
        self._view = LogView(entries)
        self._sink = sink

    @property
    def id(self) -> str:
        """The session's lasting identity, never a path."""
        return self._id

    def view(self) -> LogView:
        """Give the entries without copying; they are the log's and for reading only."""
        return self._view

    def append_at(
        self, parent_id: str | None, entry_type: str, payload: Mapping[str, object]
    ) -> str:
        """Append below `parent_id`, leave the cursor alone, and give the new id.

        Args:
            parent_id: The entry to hang from, or None for a new root.
            entry_type: A kind of `EntryDict`.
            payload: That kind's fields; copied, with unsendable text mended.

        Raises:
            CallerError: An id in it names no entry, or `payload` does not fit;
                nothing was appended.
        """
        self._require(parent_id, "the parent")
        if entry_type in ANCHOR_KINDS:
            self._require(payload.get("firstKeptId"), "the first kept entry")
        elif entry_type == "navigate":
            self._require(payload.get("targetId"), "the target")
        elif entry_type == "branch_summary":
            self._require(payload.get("fromId"), "the branch point")
        entry = make_entry(entry_type, parent_id, payload, is_taken=self._view.contains)
        if self._sink is not None:
            self._sink(entry)
        self._view.add(entry)
        return entry["id"]

    def _require(self, entry_id: object, what: str) -> None:
        if entry_id is None:
            return
        if isinstance(entry_id, str) and self._view.contains(entry_id):
            return
        msg = (
            f"{what} {entry_id!r} is no entry of session {self._id}; "
            "use an id that the tree of this session shows"
        )
        raise CallerError(msg)


class InMemorySessionLog(EntryLog):
    """A log that lives as long as the process; a fresh one has no entries."""

    def __init__(self, id: str | None = None) -> None:  # noqa: A002 - the reference's name
        """Start empty.

        Args:
            id: The session's identity; drawn where None.
        """
        super().__init__(uuid.uuid4().hex if id is None else id)


class BranchView(EntryAppender):
    """A second cursor over one log, for work beside its main line.

    It shares identity, entries and storage with the log and writes through it, below
    its own cursor; the log's cursor never moves. Nothing on disk tells its entries
    from others: what belongs to a conversation is decided by ancestry.
    """

    def __init__(
        self, log: SessionLog, parent_id: str | None, *, lane: str, label: str
    ) -> None:
        """Start at `parent_id`, whose path is what the branch inherits.

        Args:
            log: The log to write through.
            parent_id: Where the branch starts; see `open_branch`, which checks it.
            lane: Names the branch's live output; it is not stored.
            label: What people see for it.
        """
        super().__init__(parent_id)
        self._log = log
        self.lane = lane
        self.label = label

    @property
    def id(self) -> str:
        """The identity of the session that this is a branch of."""
        return self._log.id

    @property
    def path(self) -> object:
        """Where the log is stored, or None; a branch is stored where its log is."""
        return getattr(self._log, "path", None)

    def view(self) -> LogView:
        """Give the whole log's entries: the inherited path is among them."""
        return self._log.view()

    def append_at(
        self, parent_id: str | None, entry_type: str, payload: Mapping[str, object]
    ) -> str:
        """Append to the log below `parent_id`; neither cursor moves."""
        return self._log.append_at(parent_id, entry_type, payload)


def open_branch(log: SessionLog, parent_id: str | None, *, label: str) -> BranchView:
    """Open a branch with a lane of its own.

    Args:
        log: The log to write through.
        parent_id: Where the branch starts; its path is what the branch inherits.
        label: What people see for it.

    Raises:
        CallerError: `parent_id` names no entry.
    """
    if parent_id is not None:
        log.view().entry(parent_id)
    return BranchView(log, parent_id, lane=uuid.uuid4().hex, label=label)


def resolve_cursor(entries: Sequence[EntryDict]) -> str | None:
    """Give the cursor that a log reopens at: where its last entry left it.

    A ``navigate`` leaves it at its target, any other entry at itself. A ``navigate``
    to an entry that was lost is passed over.
    """
    known: set[str] | None = None
    for entry in reversed(entries):
        if entry["type"] != "navigate":
            return entry["id"]
        target = entry["targetId"]
        if target is None:
            return None
        if known is None:
            known = {one["id"] for one in entries}
        if target in known:
            return target
    return None


def agent_spec_in_force(
    entries: Iterable[EntryDict], leaf_id: str | None
) -> str | None:
    """Give the id of the ``agent_spec`` nearest above `leaf_id`, itself included.

    None where no ancestor is one, as in a log that no agent session wrote.
    """
    view = entries if isinstance(entries, LogView) else LogView(entries)
    if leaf_id is None or not view.contains(leaf_id):
        return None
    seen: set[str] = set()
    entry: EntryDict | None = view.entry(leaf_id)
    while entry is not None and entry["id"] not in seen:
        if entry["type"] == "customEntry" and entry["customType"] == "agent_spec":
            return entry["id"]
        seen.add(entry["id"])
        entry = view.parent_of(entry["id"])
    return None


def session_log_is_addressable(log: object) -> bool:
    """Whether a catalog can hand this session out again later.

    That is so where the log names its durable location, which a log in memory does
    not.
    """
    return any(getattr(log, name, None) is not None for name in _DURABLE_LOCATIONS)
