"""One older session in memory: its records, where it stands, and copies of it.

It writes nothing; `session_manager` hands to a shelf what goes into it. Paths and
contexts are those of `tau_kernel.tree`, over the converted records.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from tau_kernel.errors import CallerError
from tau_kernel.messages import Message, now_ms
from tau_kernel.tree import ConversationTree, LogView, copy_of_json

from .convert import entry_of
from .records import LegacyRecord, id_of, kind_of, make_record, parent_of
from .shelf import Extent

__all__ = ["OpenSession", "session_record"]

_Changes: TypeAlias = "dict[str, str | int | None]"


def session_record(
    cwd: str, model: str | None = None, *, copied: LegacyRecord | None = None
) -> LegacyRecord:
    """Make the first record of a session, with a new id.

    Args:
        cwd: The directory of a session that is no copy of one.
        model: The model that it starts with.
        copied: The first record of the session that it is a copy of; what that says is
            said again, and its id becomes the parent.
    """
    changes: _Changes = {
        "type": "session",
        "id": uuid.uuid4().hex,
        "parent_id": None if copied is None else id_of(copied),
        "timestamp": now_ms(),
    }
    if copied is not None:
        return {**copy_of_json(copied), **changes}
    return {
        **changes,
        "cwd": cwd,
        "model": model,
        "model_name": None,
        "system_prompt": None,
        "session_name": None,
    }


class OpenSession:
    """The records of one session and a place among them."""

    def __init__(self, path: str, records: list[LegacyRecord], extent: Extent) -> None:
        """Stand where the last record leaves the session.

        Args:
            path: Where a shelf keeps it.
            records: This object's from here on; the first is the ``session`` record.
            extent: How far it reaches there.
        """
        self.path = path
        self.records = records
        self.extent = extent
        self._view = LogView(map(entry_of, records))
        self._active: str | None = id_of(records[-1])

    @property
    def active(self) -> str | None:
        """The entry that the next one hangs from; None is the root."""
        return self._active

    @property
    def root(self) -> LegacyRecord:
        """The ``session`` record."""
        return self.records[0]

    @property
    def notice(self) -> str | None:
        """What people should know of how the file was read, or None."""
        if not self.extent.tail:
            return None
        return (
            f"{self.path}: the last line is incomplete and was not read; "
            f"the next append moves its {len(self.extent.tail)} bytes to a .torn file"
        )

    def move_to(self, entry_id: str | None) -> None:
        """Stand at an entry.

        Raises:
            UnknownEntryError: No entry has the id; it is a KeyError.
        """
        if entry_id is not None:
            self._view.entry(entry_id)
        self._active = entry_id

    def made(self, entries: Iterable[Mapping[str, object]]) -> list[LegacyRecord]:
        """Make records that may be appended here, one after another.

        Raises:
            CallerError: One may not: a value breaks a rule, its id is taken, its parent
                names no entry, or it is a second ``session``.
        """
        made: dict[str, LegacyRecord] = {}
        parent_id = id_of(self.root) if self._active is None else self._active

        def is_known(entry_id: str) -> bool:
            return entry_id in made or self._view.contains(entry_id)

        for entry in entries:
            record = make_record(entry, parent_id, is_taken=is_known)
            self._check_place(record, is_known)
            parent_id = id_of(record)
            made[parent_id] = record
        return list(made.values())

    def _check_place(
        self, record: LegacyRecord, is_known: Callable[[str], bool]
    ) -> None:
        if kind_of(record) == "session":
            msg = (
                "a session has one entry of type 'session', its first; "
                "begin another session with new_session"
            )
            raise CallerError(msg)
        parent_id = parent_of(record)
        if parent_id is not None and not is_known(parent_id):
            msg = (
                f"the parent {parent_id!r} is no entry of session "
                f"{id_of(self.root)!r}; leave 'parent_id' out to append at the active "
                "entry"
            )
            raise CallerError(msg)

    def grow(self, extent: Extent, added: Iterable[LegacyRecord]) -> None:
        """Take in what a shelf has kept, and stand at the last of it."""
        self.extent = extent
        for record in added:
            self.records.append(record)
            self._view.add(entry_of(record))
            self._active = id_of(record)

    def news(self, wanted: Iterable[LegacyRecord]) -> list[LegacyRecord]:
        """Give those of `wanted` that this session has not.

        Raises:
            CallerError: It has one with other values, which would be an edit.
        """
        known = {id_of(record): record for record in self.records}
        return [record for record in wanted if not _is_stored(record, known)]

    def context(self) -> list[Message]:
        """Give copies of the messages that a model sees here."""
        return copy_of_json(self._view.context_for(self._active))

    def check_boundary(self, entry_id: str) -> None:
        """Refuse a boundary at which a context could not resume.

        Raises:
            UnknownEntryError: No entry has the id; it is a KeyError.
            CallerError: The entry is not on the active path.
        """
        self._view.entry(entry_id)
        if any(entry["id"] == entry_id for entry in self._view.path(self._active)):
            return
        msg = (
            f"the first kept entry {entry_id!r} is not on the path to the active "
            f"entry {self._active!r}, so nothing would be kept; "
            "choose an entry of that path, or navigate below it first"
        )
        raise CallerError(msg)

    def copy_of_path(self, entry_id: str) -> list[LegacyRecord]:
        """Give a new session with the path to an entry, itself included.

        Raises:
            UnknownEntryError: No entry has the id; it is a KeyError.
        """
        return self._copy(entry["id"] for entry in self._view.path(entry_id))

    def copy_before(self, entry_id: str) -> list[LegacyRecord]:
        """Give a new session with the path to an entry, itself left out.

        Raises:
            UnknownEntryError: No entry has the id; it is a KeyError.
        """
        self._refuse_root(entry_id)
        return self._copy(entry["id"] for entry in self._view.path(entry_id)[:-1])

    def copy_from(self, entry_id: str) -> list[LegacyRecord]:
        """Give a new session with an entry and all that hangs below it.

        Raises:
            UnknownEntryError: No entry has the id; it is a KeyError.
        """
        self._view.entry(entry_id)
        below = ConversationTree(self._view, None).descendants_of(entry_id)
        return self._copy((entry_id, *below))

    def _refuse_root(self, entry_id: str) -> None:
        if entry_id == id_of(self.root):
            msg = (
                f"nothing comes before the entry {entry_id!r}, the session's first; "
                "fork at another one, or give position='at'"
            )
            raise CallerError(msg)

    def _copy(self, ids: Iterable[str]) -> list[LegacyRecord]:
        """Copy records, ids included, in load order below a root of their own."""
        wanted = set(ids) - {id_of(self.root)}
        root = session_record("", copied=self.root)
        copies: list[LegacyRecord] = [root]
        for record in self.records:
            if id_of(record) in wanted:
                copy = copy_of_json(record)
                if parent_of(copy) not in wanted:
                    copy["parent_id"] = root["id"]
                if self._boundary_is_cut_off(record, wanted):
                    copy["first_kept_id"] = root["id"]
                copies.append(copy)
        return copies

    def _boundary_is_cut_off(self, record: LegacyRecord, wanted: set[str]) -> bool:
        """Whether a compaction resumes above what is copied, and so keeps all of it."""
        boundary = record.get("first_kept_id")
        if kind_of(record) != "compaction" or boundary in wanted:
            return False
        path = self._view.path(id_of(record))
        return any(entry["id"] == boundary for entry in path)


def _is_stored(record: LegacyRecord, known: Mapping[str, LegacyRecord]) -> bool:
    entry_id = record.get("id")
    stored = known.get(entry_id) if isinstance(entry_id, str) else None
    if stored is None:
        return False
    # What the record leaves out was filled in when it was stored.
    changed = sorted(key for key in record if stored.get(key) != record[key])
    if changed:
        msg = (
            f"the entry {entry_id!r} is stored with other values of {changed}; "
            "entries are never changed, append another one"
        )
        raise CallerError(msg)
    return True
