"""What a head may ask of stored sessions, whatever stores them.

The store of JSONL files that implements this is `file_catalog`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

from tau_kernel.errors import CallerError
from tau_kernel.messages import JsonObject, Message
from tau_kernel.tree import SessionLog

__all__ = [
    "ConversationSession",
    "SessionCatalog",
    "SessionInfo",
    "SessionRefError",
    "short_title",
]

_TITLE_LENGTH = 50


class SessionRefError(CallerError, LookupError):
    """A reference names no session, or more than one."""


def short_title(name: str | None, first_message: str, otherwise: str) -> str:
    """Give what people know a session by, at most some 50 characters of it."""
    if name:
        return name
    line = " ".join(first_message.split())
    if len(line) > _TITLE_LENGTH:
        return line[:_TITLE_LENGTH] + "..."
    return line or otherwise


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """What a list says of one session without loading it.

    Args:
        ref: What `SessionCatalog.load` takes.
        id: The session's identity.
        cwd: The directory it was made in.
        name: Its name, if it has one.
        created: When it was made, with a time zone.
        modified: When it was last written, with a time zone.
        message_count: Users' and assistants' messages on the path to the cursor; of a
            file that is too long to be read for a list, those near its end.
        first_message: Text of the first user message.
        last_message: Text of the last user or assistant message.
        parent: Id of the session it was forked from.
        error: Why it cannot be used as it is, naming file and line; None if it can.
    """

    ref: str
    id: str
    cwd: str
    name: str | None
    created: datetime
    modified: datetime
    message_count: int
    first_message: str
    last_message: str
    parent: str | None
    error: str | None = None

    def display_title(self) -> str:
        """Give the name, else the start of the first message, else the id."""
        return short_title(self.name, self.first_message, self.id)


@runtime_checkable
class ConversationSession(SessionLog, Protocol):
    """A log with what heads show and set of a session."""

    @property
    def header(self) -> JsonObject:
        """The session's header, a copy each time."""
        ...

    @property
    def messages(self) -> list[Message]:
        """Copies of all messages in load order, whatever branch they are on."""
        ...

    @property
    def context(self) -> list[Message]:
        """Copies of the messages that a model sees at the cursor."""
        ...

    @property
    def model(self) -> str:
        """The newest model on record; a ValueError where there is none."""
        ...

    @property
    def backend(self) -> str:
        """The newest model's backend; a ValueError where there is none."""
        ...

    def append_model_change(self, model: str, backend: str) -> str:
        """Record another model at the cursor and move there."""
        ...

    def append_session_info(self, name: str) -> str:
        """Record another name at the cursor and move there."""
        ...

    def display_title(self) -> str:
        """Give the name, else the start of the first user message, else the model."""
        ...


class SessionCatalog(ABC):
    """Makes, lists, loads and copies sessions of one store."""

    @abstractmethod
    def create(
        self,
        cwd: str,
        model: str,
        backend: str,
        *,
        system_prompt: str | None = None,
        name: str | None = None,
    ) -> ConversationSession:
        """Make a stored session."""

    @abstractmethod
    def create_ephemeral(
        self,
        cwd: str,
        model: str,
        backend: str,
        *,
        system_prompt: str | None = None,
        name: str | None = None,
    ) -> ConversationSession:
        """Make a session that is never stored and never listed."""

    @abstractmethod
    def load(self, ref: str) -> ConversationSession:
        """Load the session of a `SessionInfo.ref`, or raise."""

    @abstractmethod
    def fork(self, source: ConversationSession, cwd: str) -> ConversationSession:
        """Make a stored copy of a session, entry ids included; the source stays."""

    @abstractmethod
    def list(self, cwd: str | None = None) -> list[SessionInfo]:
        """List the stored sessions, last written first.

        Args:
            cwd: List only those made in this directory; None lists all.
        """

    def most_recent(self, cwd: str | None = None) -> ConversationSession | None:
        """Load the session written last, passing over those with an error.

        Args:
            cwd: As for `list`.
        """
        for info in self.list(cwd):
            if info.error is None:
                return self.load(info.ref)
        return None

    def resolve_ref(self, ref: str, *, cwd: str | None = None) -> ConversationSession:
        """Load the session that has an id, or the only one whose id starts so.

        Args:
            ref: A session's id or its start.
            cwd: As for `list`.

        Raises:
            SessionRefError: No session matches, or more than one does; it is a
                LookupError.
        """
        return self.load(self.find_ref(ref, cwd=cwd))

    def find_ref(self, ref: str, *, cwd: str | None = None) -> str:
        """Give the `SessionInfo.ref` of the session that `resolve_ref` would load.

        Args:
            ref: A session's id or its start.
            cwd: As for `list`.

        Raises:
            SessionRefError: No session matches, or more than one does; it is a
                LookupError.
        """
        infos = self.list(cwd)
        found = [info for info in infos if info.id == ref] or [
            info for info in infos if ref and info.id.startswith(ref)
        ]
        if not found:
            msg = f"no session matches {ref!r}; list the sessions to see their ids"
            raise SessionRefError(msg)
        if len(found) > 1:
            ids = ", ".join(info.id for info in found[:5])
            msg = f"{ref!r} matches multiple sessions ({ids}); give more of the id"
            raise SessionRefError(msg)
        return found[0].ref
