"""One line of an older session file: its kinds, its rules, how one is made.

A record is one JSON object with snake_case keys and times in milliseconds. What it
means is said by `convert`, where it is kept by `shelf`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, TypeAlias, cast

from tau_kernel.errors import CallerError
from tau_kernel.messages import JsonObject, JsonValue, clean_json, now_ms

__all__ = [
    "RECORD_KINDS",
    "LegacyRecord",
    "id_of",
    "kind_of",
    "make_record",
    "newest_time",
    "parent_of",
    "record_fault",
    "text_of",
]

LegacyRecord: TypeAlias = JsonObject

#: From here on a year has five digits, which no ISO time of an entry has.
_TOO_LATE: Final = 253_402_300_800_000
_SHOWN: Final = 60
_REDRAWS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """What a value must be, in words and as a check."""

    words: str
    holds: Callable[[JsonValue], bool]
    required: bool = True


def _is_text(value: JsonValue) -> bool:
    return isinstance(value, str)


def _is_count(value: JsonValue) -> bool:
    # JSON's true and false are ints to Python.
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_time(value: JsonValue) -> bool:
    return _is_count(value) and cast("int", value) < _TOO_LATE


def _is_ids(value: JsonValue) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_blocks(value: JsonValue) -> bool:
    return isinstance(value, list) and all(
        isinstance(item, dict) and isinstance(item.get("type"), str) for item in value
    )


def _is_message(value: JsonValue) -> bool:
    if not isinstance(value, dict):
        return False
    content = value.get("content")
    return isinstance(content, str) or _is_blocks(content)


def _has_role(value: JsonValue) -> bool:
    return isinstance(value, dict) and isinstance(value.get("role"), str)


def _no_role(value: JsonValue) -> bool:
    return isinstance(value, dict) and "role" not in value


_NAME: Final = _Rule(
    words="a text of at least one character",
    holds=lambda value: isinstance(value, str) and bool(value),
)
_TEXT: Final = _Rule(words="a text", holds=_is_text)
_PERHAPS_TEXT: Final = _Rule(
    words="a text or null",
    holds=lambda value: value is None or isinstance(value, str),
    required=False,
)
_BLOCKS: Final = _Rule(
    words="a list of blocks, each an object with a type", holds=_is_blocks
)
_MESSAGE: Final = _Rule(
    words="an object with a role, and with content that is a text or a list of blocks",
    holds=lambda value: _is_message(value) and _has_role(value),
)
_CUSTOM_MESSAGE: Final = _Rule(
    words="an object with content that is a text or a list of blocks",
    holds=lambda value: _is_message(value) and (_has_role(value) or _no_role(value)),
)

_HEAD: Final[Mapping[str, _Rule]] = {
    "type": _NAME,
    "id": _NAME,
    "parent_id": _PERHAPS_TEXT,
    "timestamp": _Rule(
        words="a whole number of milliseconds since 1970, before the year 10000",
        holds=_is_time,
    ),
}
_PAYLOAD: Final[Mapping[str, Mapping[str, _Rule]]] = {
    "session": dict.fromkeys(
        ("cwd", "model", "model_name", "session_name", "system_prompt"), _PERHAPS_TEXT
    ),
    "message": {"message": _MESSAGE},
    "toolResult": {
        "tool_call_id": _TEXT,
        "tool_name": _TEXT,
        "content": _BLOCKS,
        "is_error": _Rule(
            words="true or false",
            holds=lambda value: isinstance(value, bool),
            required=False,
        ),
    },
    "customMessage": {"custom_type": _TEXT, "message": _CUSTOM_MESSAGE},
    "compaction": {
        "first_kept_id": _TEXT,
        "summary": _TEXT,
        "compacted_entries": _Rule(
            words="a list of ids", holds=_is_ids, required=False
        ),
        "tokens_saved": _Rule(
            words="a whole number of tokens, 0 or more",
            holds=_is_count,
            required=False,
        ),
    },
}
#: The kinds whose meaning is known here.
RECORD_KINDS: Final = tuple(_PAYLOAD)


def record_fault(record: LegacyRecord) -> str | None:
    """Say which value of a record breaks which rule, or None.

    A kind that is unknown here passes on its head alone, and fields besides those of
    its kind pass on any kind: other programs may have written them.
    """
    fault = _first_fault(record, _HEAD)
    if fault is not None:
        return fault
    return _first_fault(record, _PAYLOAD.get(kind_of(record), {}))


def _first_fault(record: LegacyRecord, rules: Mapping[str, _Rule]) -> str | None:
    for name, rule in rules.items():
        if name not in record:
            if rule.required:
                return f"{name!r} is missing; it must be {rule.words}"
        elif not rule.holds(record[name]):
            shown = repr(record[name])
            if len(shown) > _SHOWN:
                shown = f"{shown[:_SHOWN]}…"
            return f"{name!r} is {shown}, but must be {rule.words}"
    return None


def kind_of(record: LegacyRecord) -> str:
    """Give the record's ``type``."""
    return cast("str", record["type"])


def id_of(record: LegacyRecord) -> str:
    """Give the record's id."""
    return cast("str", record["id"])


def parent_of(record: LegacyRecord) -> str | None:
    """Give the id that the record hangs from, or None."""
    return cast("str | None", record.get("parent_id"))


def text_of(record: LegacyRecord, name: str) -> str | None:
    """Give an optional text of a record, or None where it has none."""
    return cast("str | None", record.get(name))


def newest_time(records: Iterable[LegacyRecord]) -> int:
    """Give the latest time among records, in milliseconds since 1970; 0 for none."""
    return max((cast("int", record["timestamp"]) for record in records), default=0)


def make_record(
    fields: Mapping[str, object],
    parent_id: str | None,
    *,
    is_taken: Callable[[str], bool],
) -> LegacyRecord:
    """Make a record that shares nothing with `fields`.

    Args:
        fields: Its type and payload. An id, a parent or a time that it names is kept;
            what it leaves out is filled in.
        parent_id: The parent where `fields` names none.
        is_taken: Whether an id is in use in the session.

    Raises:
        CallerError: A value breaks the rules of its kind, the kind is unknown, or the
            id is taken.
    """
    given = cast("JsonObject", clean_json(dict(fields), "entry"))
    record: LegacyRecord = {
        "type": given.get("type"),
        "id": given["id"] if "id" in given else _free_id(is_taken),
        "parent_id": parent_id,
        "timestamp": now_ms(),
    }
    record.update(given)
    if fault := _kind_fault(record) or record_fault(record):
        msg = f"the entry cannot be appended: {fault}. Nothing was written"
        raise CallerError(msg)
    if is_taken(id_of(record)):
        msg = (
            f"the id {record['id']!r} is taken in this session; "
            "leave 'id' out to have one drawn"
        )
        raise CallerError(msg)
    return record


def _kind_fault(record: LegacyRecord) -> str | None:
    kind = record["type"]
    if kind in RECORD_KINDS:
        return None
    near = get_close_matches(str(kind), RECORD_KINDS, n=1)
    meant = f"; did you mean {near[0]!r}?" if near else ""
    return f"'type' is {kind!r}, but must be one of {list(RECORD_KINDS)}{meant}"


def _free_id(is_taken: Callable[[str], bool]) -> str:
    for _ in range(_REDRAWS):
        drawn = uuid.uuid4().hex[:8]
        if not is_taken(drawn):
            return drawn
    msg = f"{_REDRAWS} ids in a row were taken; the source of randomness is broken"
    raise RuntimeError(msg)
