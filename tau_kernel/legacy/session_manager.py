"""Older sessions, opened, walked, grown and copied through one object.

A session stays in the older format here; `convert` makes it a v1 one. Nothing that is
stored is changed or taken away: what a method adds, it appends.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, cast

from tau_kernel.errors import CallerError, SessionDamagedError, StorageError
from tau_kernel.messages import JsonObject, Message
from tau_kernel.tree import copy_of_json, summarize_branch

from .open_session import OpenSession, session_record
from .records import LegacyRecord, id_of, kind_of, text_of
from .shelf import FileShelf, MemoryShelf, NoSessionFileError, Shelf

__all__ = ["SessionInfo", "SessionManager", "SessionState", "summarize_branch"]


#: What the first record tells of a session, once and for all.
_TOLD: Final = ("model", "model_name", "cwd", "system_prompt", "session_name")


@dataclass(slots=True)
class SessionInfo:
    """What a list says of a session.

    Args:
        session_path: Its file, or its name in memory; `SessionManager.load` takes it.
        session_name: What people call it.
        cwd: The directory that it was made in.
        model: The id of its model.
        model_name: What people call that model.
        created_at: In milliseconds since 1970.
        message_count: The entries of type ``message``.
        status: ``idle``, or ``error`` where it cannot be read.
        entries: Its entries, where it is kept in memory.
        error: Why it cannot be read.
    """

    session_path: str
    session_name: str | None = None
    cwd: str | None = None
    model: str | None = None
    model_name: str | None = None
    created_at: int = 0
    message_count: int = 0
    status: str = "idle"
    entries: list[JsonObject] | None = None
    error: str | None = None


@dataclass(slots=True)
class SessionState:
    """A session as it was loaded: copies, the caller's to keep and change.

    Args:
        entries: All entries in load order.
        session_path: Its file, or its name in memory.
        active_entry_id: Where it stands; None is the root.
        model: The id of its model.
        model_name: What people call that model.
        cwd: The directory that it was made in.
        system_prompt: What its model was told first.
        session_name: What people call it.
        notice: What people should know of how it was read, or None.
    """

    entries: list[JsonObject] = field(default_factory=list)
    session_path: str = ""
    active_entry_id: str | None = None
    model: str | None = None
    model_name: str | None = None
    cwd: str | None = None
    system_prompt: str | None = None
    session_name: str | None = None
    notice: str | None = None


class SessionManager:
    """The sessions below one folder, one of them open.

    Opening holds no lock. A method that would write where another program wrote since
    the session was opened refuses, so that neither's entries are lost.
    """

    def __init__(self, cwd: str | None = None, sessions_dir: str | None = None) -> None:
        """Open nothing yet.

        Args:
            cwd: The directory whose sessions are listed and made; the current one
                where None.
            sessions_dir: The folder of all sessions; ``~/.tau/sessions`` where None.
        """
        self._cwd = os.path.abspath(cwd or Path.cwd())  # noqa: PTH100 - links stay
        base = sessions_dir or Path.home() / ".tau" / "sessions"
        self._shelf: Shelf = FileShelf(Path(base))
        self._open: OpenSession | None = None

    @classmethod
    def in_memory(cls, cwd: str | None = None) -> SessionManager:
        """Give a manager that touches no file, with an empty session open."""
        manager = cls(cwd)
        manager._shelf = MemoryShelf()
        manager.new_session()
        return manager

    @property
    def cwd(self) -> str:
        """The directory whose sessions are listed and made."""
        return self._cwd

    @property
    def session_path(self) -> str | None:
        """The path of the open session, or None."""
        return None if self._open is None else self._open.path

    @property
    def active_entry_id(self) -> str | None:
        """Where the open session stands; None is its root, or that none is open."""
        return None if self._open is None else self._open.active

    def new_session(self, model_id: str | None = None) -> str:
        """Make a session, open it, and give its path.

        Args:
            model_id: The model that it starts with.

        Raises:
            StorageError: The disk refused it; the open session stayed open.
        """
        path = self._shelf.create([session_record(self._cwd, model_id)], self._cwd)
        self.load(path)
        return path

    def load(self, session_path: str) -> SessionState:
        """Open a session at its last entry.

        A torn last line is left out and told in the state's notice; the next append
        sets it aside. The file is only read.

        Raises:
            NoSessionFileError: There is none; it is a FileNotFoundError.
            SessionDamagedError: A line is damaged, and named; the session that was
                open stays open.
        """
        self._open = self._read(session_path)
        return _state_of(self._open)

    def save(self, state: SessionState) -> None:
        """Append those entries of `state` that its session has not.

        Where that session is open, it then stands at the state's active entry.

        Raises:
            CallerError: An entry breaks a rule, or differs from the stored one of its
                id, or the active entry is unknown; or name, model, prompt or directory
                are others, which an older file cannot tell. Nothing was written.
            NoSessionFileError: There is no such session.
            StorageError: The disk refused it, or another program wrote meanwhile.
        """
        opened = self._open
        if opened is None or opened.path != state.session_path:
            opened = self._read(state.session_path)
        _refuse_retelling(state, opened.root)
        new = opened.made(opened.news(state.entries))
        active = state.active_entry_id
        known = (id_of(record) for record in (*opened.records, *new))
        if active is not None and active not in known:
            msg = (
                f"the active entry {active!r} is none of the state's entries; "
                "name one of them, or None for the root"
            )
            raise CallerError(msg)
        if new:
            self._append(opened, new)
        opened.move_to(active)

    def append_entry(self, entry: Mapping[str, object]) -> str:
        """Append an entry at the active one, move there, and give its id.

        Args:
            entry: Its type and payload. An id, parent and time are filled in where it
                has none.

        Raises:
            CallerError: A value breaks the rules of its type, its id is taken, its
                parent is unknown, or no session is open; nothing was written.
            StorageError: The disk refused it, or another program wrote meanwhile.
        """
        opened = self._opened()
        made = opened.made([entry])
        self._append(opened, made)
        return id_of(made[0])

    def apply_compaction(
        self,
        first_kept_entry_id: str,
        summary: str,
        compacted_entry_ids: list[str] | None = None,
        tokens_saved: int = 0,
    ) -> str:
        """Append a summary that stands for what comes before a boundary.

        Give its id. The entries before stay, and navigating to one shows them again.

        Args:
            first_kept_entry_id: Where the context resumes, on the active path.
            summary: What a model reads in place of the rest.
            compacted_entry_ids: What it stands for, for the record.
            tokens_saved: About how many tokens that saves, for the record.

        Raises:
            UnknownEntryError: No entry has that id; it is a KeyError.
            CallerError: The boundary is off the active path; nothing was written.
        """
        self._opened().check_boundary(first_kept_entry_id)
        return self.append_entry(
            {
                "type": "compaction",
                "first_kept_id": first_kept_entry_id,
                "summary": summary,
                "compacted_entries": compacted_entry_ids or [],
                "tokens_saved": tokens_saved,
            }
        )

    def get_active_messages(self) -> list[Message]:
        """Give copies of the messages that a model sees at the active entry.

        A compaction on the path shows as its summary. The system prompt of the
        session's record is no message.
        """
        return self._opened().context()

    def navigate(self, entry_id: str | None) -> SessionState:
        """Move to an entry, None being the root, and give the session there.

        The place is not stored: a session opens at its last entry.

        Raises:
            UnknownEntryError: No entry has the id; it is a KeyError, and the session
                stands where it stood.
        """
        opened = self._opened()
        opened.move_to(entry_id)
        return _state_of(opened)

    def fork(self, entry_id: str, position: Literal["before", "at"] = "before") -> str:
        """Make a session from a part of the open one, and give its path.

        Entries keep their ids; the open session stays open and as it is.

        Args:
            entry_id: Where the two part.
            position: ``before`` takes the path to the entry without the entry; ``at``
                takes the entry and all that hangs below it.

        Raises:
            UnknownEntryError: No entry has the id; it is a KeyError.
            CallerError: The position is unknown, or nothing comes before the entry.
        """
        opened = self._opened()
        if position not in {"before", "at"}:
            msg = f"position is {position!r}, but must be 'before' or 'at'"
            raise CallerError(msg)
        if position == "before":
            return self._kept(opened.copy_before(entry_id))
        return self._kept(opened.copy_from(entry_id))

    def clone(self, entry_id: str) -> str:
        """Make a session from the path to an entry, itself included; give its path.

        Raises:
            UnknownEntryError: No entry has the id; it is a KeyError.
        """
        return self._kept(self._opened().copy_of_path(entry_id))

    def list_sessions(self) -> list[SessionInfo]:
        """Give the sessions made in this manager's directory, newest first."""
        return [
            info
            for info in self.list_all()
            if info.cwd == self._cwd
            or (
                info.cwd is None
                and self._shelf.is_made_in(info.session_path, self._cwd)
            )
        ]

    def list_all(self) -> list[SessionInfo]:
        """Give the sessions of all directories, newest first.

        One that cannot be read is listed too, last, and says why.
        """
        infos = [_info_of(self._shelf, path) for path in self._shelf.paths()]
        return sorted(infos, key=lambda info: info.created_at, reverse=True)

    def _opened(self) -> OpenSession:
        if self._open is None:
            msg = "no session is open; load one, or make one with new_session"
            raise CallerError(msg)
        return self._open

    def _read(self, path: str) -> OpenSession:
        if not path:
            msg = "the session path is empty; use a path from list_all or new_session"
            raise CallerError(msg)
        return OpenSession(path, *self._shelf.read(path))

    def _append(self, opened: OpenSession, records: list[LegacyRecord]) -> None:
        opened.grow(self._shelf.append(opened.path, opened.extent, records), records)

    def _kept(self, records: list[LegacyRecord]) -> str:
        return self._shelf.create(records, text_of(records[0], "cwd") or self._cwd)


def _state_of(opened: OpenSession) -> SessionState:
    told = {name: text_of(opened.root, name) for name in _TOLD}
    return SessionState(
        entries=copy_of_json(opened.records),
        session_path=opened.path,
        active_entry_id=opened.active,
        notice=opened.notice,
        **told,
    )


def _refuse_retelling(state: SessionState, root: LegacyRecord) -> None:
    for name in _TOLD:
        wanted, stored = getattr(state, name), text_of(root, name)
        if wanted is not None and wanted != stored:
            msg = (
                f"the state's {name} is {wanted!r}, but {stored!r} is stored; an "
                "older file tells it once, so convert the session to change it"
            )
            raise CallerError(msg)


def _info_of(shelf: Shelf, path: str) -> SessionInfo:
    try:
        records, _ = shelf.read(path)
    except (SessionDamagedError, StorageError, NoSessionFileError) as error:
        # A list shows what cannot be read beside what can.
        return SessionInfo(session_path=path, status="error", error=str(error))
    root = records[0]
    return SessionInfo(
        session_path=path,
        session_name=text_of(root, "session_name"),
        cwd=text_of(root, "cwd"),
        model=text_of(root, "model"),
        model_name=text_of(root, "model_name"),
        created_at=cast("int", root["timestamp"]),
        message_count=sum(kind_of(record) == "message" for record in records),
        entries=records if isinstance(shelf, MemoryShelf) else None,
    )
