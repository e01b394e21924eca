"""What an entry of the log is: its kinds, how one is made, checked and copied.

An entry is one JSON object, told apart by its ``type``. Keys are camelCase, as the v1
session format has them. Where entries are kept is `session_log`'s and the stores'
concern; what they mean to a model is `log_view`'s.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final, Literal, NotRequired, TypeAlias, TypedDict, TypeVar, cast

from tau_kernel.errors import CallerError
from tau_kernel.messages import (
    CustomMessage,
    JsonObject,
    JsonValue,
    Message,
    UsageDict,
    clean_json,
)

__all__ = [
    "ANCHOR_KINDS",
    "BranchSummaryEntryDict",
    "CompactionEntryDict",
    "CustomEntryDict",
    "CustomMessageEntryDict",
    "ElideEntryDict",
    "EntryDict",
    "MessageEntryDict",
    "ModelChangeEntryDict",
    "NavigateEntryDict",
    "SessionInfoEntryDict",
    "ThinkingChangeEntryDict",
    "UnknownEntryError",
    "copy_of_json",
    "entry_fault",
    "entry_timestamp",
    "make_entry",
]


class _EntryHead(TypedDict):
    """What every entry carries; ``timestamp`` is ISO 8601 in UTC with milliseconds."""

    id: str
    parentId: str | None
    timestamp: str


class MessageEntryDict(_EntryHead):
    """A message of the conversation."""

    type: Literal["message"]
    message: Message
    copiedFrom: NotRequired[str]


class CustomMessageEntryDict(_EntryHead):
    """A message that an extension put into the conversation."""

    type: Literal["customMessage"]
    customType: str
    message: CustomMessage
    copiedFrom: NotRequired[str]


class CustomEntryDict(_EntryHead):
    """A record that no model reads."""

    type: Literal["customEntry"]
    customType: str
    data: JsonObject


class CompactionEntryDict(_EntryHead):
    """An anchor that stands, with its summary, for what comes before a boundary."""

    type: Literal["compaction"]
    summary: str
    firstKeptId: str | None
    tokensBefore: int
    summarizerModelId: NotRequired[str]
    summaryUsage: NotRequired[UsageDict]
    coveredEntries: NotRequired[int]
    coveredTokens: NotRequired[int]
    agentSpecId: NotRequired[str | None]


class ElideEntryDict(_EntryHead):
    """An anchor that hides what comes before a boundary and says nothing for it."""

    type: Literal["elide"]
    firstKeptId: str | None
    coveredEntries: NotRequired[int]
    coveredTokens: NotRequired[int]
    agentSpecId: NotRequired[str | None]


class BranchSummaryEntryDict(_EntryHead):
    """What happened on a branch that was left; ``fromId`` is None on a copy."""

    type: Literal["branch_summary"]
    summary: str
    fromId: str | None
    copiedFrom: NotRequired[str]


class NavigateEntryDict(_EntryHead):
    """A move of the cursor; a ``targetId`` of None is the place before the root."""

    type: Literal["navigate"]
    targetId: str | None


class ModelChangeEntryDict(_EntryHead):
    """The model that answers from here on."""

    type: Literal["model_change"]
    model: str
    backend: str


class ThinkingChangeEntryDict(_EntryHead):
    """The reasoning level from here on."""

    type: Literal["thinking_change"]
    level: str


class SessionInfoEntryDict(_EntryHead):
    """The session's name from here on."""

    type: Literal["session_info"]
    name: str


EntryDict: TypeAlias = (
    MessageEntryDict
    | CustomMessageEntryDict
    | CustomEntryDict
    | CompactionEntryDict
    | ElideEntryDict
    | BranchSummaryEntryDict
    | NavigateEntryDict
    | ModelChangeEntryDict
    | ThinkingChangeEntryDict
    | SessionInfoEntryDict
)

#: The kinds that cut what a model sees of the path above them.
ANCHOR_KINDS: Final = frozenset({"compaction", "elide"})

_HEAD_KEYS: Final = frozenset(_EntryHead.__annotations__) | {"type"}
_REDRAWS: Final = 100
_Json = TypeVar("_Json")


class UnknownEntryError(CallerError, KeyError):
    """An id names no entry; nothing was changed."""

    # KeyError would show the message in quotes.
    __str__ = Exception.__str__


def entry_timestamp() -> str:
    """Give the wall clock's time as entries carry it."""
    written = datetime.now(UTC).isoformat(timespec="milliseconds")
    return written.removesuffix("+00:00") + "Z"


def make_entry(
    kind: str,
    parent_id: str | None,
    payload: Mapping[str, object],
    *,
    is_taken: Callable[[str], bool],
) -> EntryDict:
    """Make an entry that shares nothing with `payload`.

    Args:
        kind: The entry's ``type``.
        parent_id: The entry it hangs from, or None for a root.
        payload: The fields besides id, type, parent and time.
        is_taken: Whether an id is in use in the log.

    Raises:
        CallerError: `payload` is no JSON, or sets a field that the log sets.
    """
    if reserved := _HEAD_KEYS & payload.keys():
        msg = (
            f"the payload of a {kind!r} entry sets {sorted(reserved)}, "
            "which the log itself sets; leave them out"
        )
        raise CallerError(msg)
    entry: JsonObject = {
        "type": kind,
        "id": _free_id(is_taken),
        "parentId": parent_id,
        "timestamp": entry_timestamp(),
    }
    entry.update(cast("JsonObject", clean_json(dict(payload), "payload")))
    if fault := entry_fault(entry):
        msg = f"an entry of type {kind!r} cannot be appended: {fault}"
        raise CallerError(msg)
    return cast("EntryDict", entry)


def _free_id(is_taken: Callable[[str], bool]) -> str:
    for _ in range(_REDRAWS):
        drawn = uuid.uuid4().hex[:8]
        if not is_taken(drawn):
            return drawn
    msg = f"{_REDRAWS} ids in a row were taken; the source of randomness is broken"
    raise RuntimeError(msg)


def entry_fault(record: JsonObject) -> str | None:
    """Say what keeps a decoded object from being an entry, or None.

    Kinds that are unknown here pass on their head alone: a newer program may have
    written them, and they mean nothing to a model.
    """
    kind = record.get("type")
    if not isinstance(kind, str) or not kind:
        return "'type' is no name"
    if not isinstance(record.get("id"), str) or not record["id"]:
        return "'id' is no name"
    if not isinstance(record.get("timestamp"), str):
        return "'timestamp' is no text"
    for key in _ID_FIELDS.get(kind, _PARENT_ALONE):
        value = record.get(key, 0)
        if value is not None and not isinstance(value, str):
            return f"{key!r} is neither an id nor null"
    for key in _TEXTS.get(kind, ()):
        if not isinstance(record.get(key), str):
            return f"{key!r} is no text"
    return _message_fault(record) if kind in _MESSAGE_KINDS else None


_MESSAGE_KINDS: Final = frozenset({"message", "customMessage"})
_PARENT_ALONE: Final = ("parentId",)
#: The fields that hold an id or null, by kind; others have `_PARENT_ALONE`.
_ID_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "compaction": ("parentId", "firstKeptId"),
    "elide": ("parentId", "firstKeptId"),
    "branch_summary": ("parentId", "fromId"),
    "navigate": ("parentId", "targetId"),
}
_TEXTS: Final[Mapping[str, tuple[str, ...]]] = {
    "compaction": ("summary",),
    "branch_summary": ("summary",),
    "customMessage": ("customType",),
    "customEntry": ("customType",),
    "model_change": ("model", "backend"),
    "session_info": ("name",),
}


def _message_fault(record: JsonObject) -> str | None:
    message = record.get("message")
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        return "'message' is no object with a role"
    content = message.get("content")
    if isinstance(content, str):
        return None
    if not isinstance(content, list):
        return "the content of its message is neither text nor blocks"
    for block in content:
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            return "a block of its message has no type"
    return None


def copy_of_json(value: _Json) -> _Json:
    """Give a copy of JSON that shares no list or object with `value`."""
    return cast("_Json", _copied(cast("JsonValue", value)))


def _copied(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return value
