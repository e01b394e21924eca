"""The entries of older sessions as values, and what is reported of such sessions.

A value is built from one JSON object by `from_dict`, which is strict, and written back
by `to_dict`. What files are made of is `records`, where they are kept `shelf`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import ClassVar, Final, Literal, Self, TypeAlias, cast, get_args

from tau_kernel.errors import CallerError
from tau_kernel.messages import JsonObject, JsonValue
from tau_kernel.tree import copy_of_json

from .records import LegacyRecord, record_fault

__all__ = [
    "BranchSummary",
    "CloneResult",
    "CompactionEntry",
    "CustomMessageEntry",
    "ForkResult",
    "LegacyEntry",
    "MessageEntry",
    "SessionEntry",
    "SessionInfo",
    "SessionState",
    "SessionStatus",
    "ToolResultEntry",
    "entry_from_dict",
]

SessionStatus: TypeAlias = Literal["idle", "running", "aborting", "error"]


_STATUSES: Final = get_args(SessionStatus)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """What all entries have; `timestamp` is in milliseconds since 1970."""

    id: str
    parent_id: str | None = None
    timestamp: int

    def __post_init__(self) -> None:
        """Refuse values that no entry of this type may have."""
        record = self.to_dict()
        fault = _type_fault(type(self), record) or record_fault(record)
        if fault:
            msg = f"{type(self).__name__} cannot be made: {fault}"
            raise CallerError(msg)

    def to_dict(self) -> LegacyRecord:
        """Give the JSON object that a file has, sharing nothing with this value."""
        written = {spec.name: getattr(self, spec.name) for spec in fields(self)}
        return cast(
            "LegacyRecord", copy_of_json({"type": written.pop("type")} | written)
        )

    @classmethod
    def from_dict(cls, record: LegacyRecord) -> Self:
        """Build the entry that an object describes; other fields of it are left out.

        Raises:
            CallerError: A value is missing or breaks a rule, or the type is another.
        """
        if fault := _type_fault(cls, record) or record_fault(record):
            msg = f"this is no {cls.__name__}: {fault}"
            raise CallerError(msg)
        known = {spec.name for spec in fields(cls)}
        build = cast("Callable[..., Self]", cls)
        return build(**{key: record[key] for key in record if key in known})


def _type_fault(cls: type[_Entry], record: LegacyRecord) -> str | None:
    wanted = next(spec.default for spec in fields(cls) if spec.name == "type")
    found = record.get("type")
    return None if found == wanted else f"'type' is {found!r}, but must be {wanted!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEntry(_Entry):
    """The first entry, which tells what the session started with.

    Args:
        parent_id: The session that it is a copy of, or None.
        cwd: The directory that it was made in.
        model: The id of its model.
        model_name: What people call that model.
        system_prompt: What its model was told first.
        session_name: What people call the session.
    """

    type: Literal["session"] = "session"
    cwd: str | None = None
    model: str | None = None
    model_name: str | None = None
    system_prompt: str | None = None
    session_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageEntry(_Entry):
    """A message of a user, a model or the system, as it was said."""

    type: Literal["message"] = "message"
    message: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResultEntry(_Entry):
    """What a tool gave back to the call of an assistant's message.

    Args:
        tool_call_id: The call.
        tool_name: The tool.
        content: Blocks, for the model.
        is_error: Whether the tool failed.
    """

    type: Literal["toolResult"] = "toolResult"
    tool_call_id: str
    tool_name: str
    content: list[JsonObject]
    is_error: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomMessageEntry(_Entry):
    """A message that an extension put in, of a type that the extension names."""

    type: Literal["customMessage"] = "customMessage"
    custom_type: str
    message: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionEntry(_Entry):
    """A summary that stands for what comes before a boundary.

    Args:
        first_kept_id: The boundary: where the context resumes.
        summary: What a model reads in place of the rest.
        compacted_entries: The entries that it stands for.
        tokens_saved: About how many tokens that saves.
    """

    type: Literal["compaction"] = "compaction"
    first_kept_id: str
    summary: str
    compacted_entries: list[str] = field(default_factory=list)
    tokens_saved: int = 0


LegacyEntry: TypeAlias = (
    SessionEntry | MessageEntry | ToolResultEntry | CustomMessageEntry | CompactionEntry
)

_CLASSES: Final[Mapping[str, type[LegacyEntry]]] = {
    "session": SessionEntry,
    "message": MessageEntry,
    "toolResult": ToolResultEntry,
    "customMessage": CustomMessageEntry,
    "compaction": CompactionEntry,
}


def entry_from_dict(record: LegacyRecord) -> LegacyEntry:
    """Build the entry that an object describes, of the class of its type.

    Raises:
        CallerError: The type is unknown, or a value breaks its rules.
    """
    kind = record.get("type")
    found = _CLASSES.get(kind) if isinstance(kind, str) else None
    if found is None:
        msg = f"'type' is {kind!r}, but must be one of {list(_CLASSES)}"
        raise CallerError(msg)
    return found.from_dict(record)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionState:
    """Where a session is in its life; times are in milliseconds since 1970.

    Args:
        session_id: The id of its first entry.
        status: What it is doing.
        message_count: Its messages, on all branches.
        turn_count: Its messages of users, on all branches.
        is_compacted: Whether it has a compaction.
        created_at: When it began.
        updated_at: When its newest entry was made.
    """

    session_id: str
    status: SessionStatus = "idle"
    message_count: int = 0
    turn_count: int = 0
    is_compacted: bool = False
    created_at: int
    updated_at: int

    def __post_init__(self) -> None:
        """Refuse a status outside the closed set."""
        _check_status(self.status)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    """What is shown of a session that is not loaded; times are as in `SessionState`.

    Args:
        id: The session's id; drawn where none is given.
        name: What people call it.
        session_path: Its file.
        cwd: The directory that it was made in.
        model: The id of its model.
        model_name: What people call that model.
        status: What it is doing.
        message_count: Its messages, on all branches.
        turn_count: Its messages of users, on all branches.
        tool_count: Its results of tools, on all branches.
        created_at: When it began.
        updated_at: When its newest entry was made.
    """

    #: How this class takes values: none but its own, and none is changed later.
    model_config: ClassVar[Mapping[str, JsonValue]] = MappingProxyType(
        {"extra": "forbid", "frozen": True}
    )

    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    name: str | None = None
    session_path: str
    cwd: str | None = None
    model: str | None = None
    model_name: str | None = None
    status: SessionStatus = "idle"
    message_count: int = 0
    turn_count: int = 0
    tool_count: int = 0
    created_at: int
    updated_at: int

    def __post_init__(self) -> None:
        """Refuse a status outside the closed set."""
        _check_status(self.status)


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchSummary:
    """What a tree of sessions shows of one of them; times are as in `SessionState`.

    Args:
        branch_id: The session's id.
        parent_id: The session that it was copied from, or None.
        session_path: Its file.
        status: What it is doing.
        message_count: Its messages.
        is_compacted: Whether it has a compaction.
        created_at: When it began.
        updated_at: When its newest entry was made.
    """

    branch_id: str
    parent_id: str | None = None
    session_path: str
    status: SessionStatus = "idle"
    message_count: int = 0
    is_compacted: bool = False
    created_at: int
    updated_at: int

    def __post_init__(self) -> None:
        """Refuse a status outside the closed set."""
        _check_status(self.status)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkResult:
    """What a fork made.

    Args:
        original_session_id: The session that was forked.
        new_session_id: The session that was made.
        new_session_path: Its file.
        forked_at: When, in milliseconds since 1970.
        branches: Both sessions, the original first.
    """

    original_session_id: str
    new_session_id: str
    new_session_path: str
    forked_at: int
    branches: list[BranchSummary] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneResult:
    """What a clone made.

    Args:
        original_session_id: The session that was cloned.
        cloned_session_id: The session that was made.
        cloned_session_path: Its file.
        entry_count: The entries that it has from the original.
        cloned_at: When, in milliseconds since 1970.
    """

    original_session_id: str
    cloned_session_id: str
    cloned_session_path: str
    entry_count: int
    cloned_at: int


def _check_status(status: SessionStatus) -> None:
    if status not in _STATUSES:
        msg = f"status is {status!r}, but must be one of {list(_STATUSES)}"
        raise CallerError(msg)
