"""What older records mean in the v1 format of `tau_kernel.tree`.

`entry_of` converts one record and leaves messages as they are: that is how an older
session is folded. `convert_session` makes a whole v1 session, its messages completed
to the shapes of `tau_kernel.messages`. Both are pure, and neither loses a value: what
v1 has no field for stays beside the rest, under ``legacy``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, cast

from tau_kernel.errors import CallerError
from tau_kernel.messages import JsonObject, JsonValue, dump_line
from tau_kernel.tree import EntryDict, EntryLog, copy_of_json

from .records import LegacyRecord, id_of, kind_of, parent_of, record_fault, text_of

__all__ = ["ConvertedSession", "convert_session", "entry_of", "iso_time"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_HEAD: Final = frozenset({"type", "id", "parent_id", "timestamp"})
#: Where an entry keeps what v1 has no field for.
_REST: Final = "legacy"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedSession:
    """A whole session in the v1 format.

    Args:
        header: Line 1 of its file.
        entries: The later lines, in load order; read them, never change them.
    """

    header: JsonObject
    entries: tuple[EntryDict, ...]

    def to_log(self) -> EntryLog:
        """Give a log that starts with copies of the entries, such as a store forks."""
        return EntryLog(str(self.header["id"]), copy_of_json(list(self.entries)))

    def lines(self) -> Iterator[bytes]:
        """Give the lines of its file, each with its newline."""
        yield dump_line(self.header)
        for entry in self.entries:
            # An entry is a JSON object; a TypedDict cannot say so.
            yield dump_line(cast("JsonObject", entry))


def iso_time(milliseconds: int) -> str:
    """Give a time as v1 entries carry it.

    Args:
        milliseconds: Since 1970, as older records carry it.
    """
    moment = _EPOCH + timedelta(milliseconds=milliseconds)
    written = moment.isoformat(timespec="milliseconds")
    return written.removesuffix("+00:00") + "Z"


def entry_of(record: LegacyRecord) -> EntryDict:
    """Convert one record that breaks no rule, its id and its parent kept.

    A ``session`` record and one of an unknown kind become records that no model
    reads. Nothing is shared with `record`.
    """
    match kind_of(record):
        case "message":
            return _entry(record, "message", {"message": record["message"]}, "message")
        case "toolResult":
            return _tool_result_entry(record)
        case "customMessage":
            fields = {
                "customType": record["custom_type"],
                "message": {"role": "custom", **cast("JsonObject", record["message"])},
            }
            return _entry(record, "customMessage", fields, "custom_type", "message")
        case "compaction":
            return _compaction_entry(record)
        case kind:
            data = {key: record[key] for key in record if key not in _HEAD}
            fields = {"customType": f"legacy:{kind}", "data": data}
            return _entry(record, "customEntry", fields, *data)


def _entry(
    record: LegacyRecord, kind: str, fields: JsonObject, *told: str
) -> EntryDict:
    """Join head and fields; `told` are the record's keys that the fields hold."""
    entry: JsonObject = {
        "type": kind,
        "id": id_of(record),
        "parentId": parent_of(record),
        "timestamp": iso_time(cast("int", record["timestamp"])),
        **fields,
    }
    rest = {
        key: value
        for key, value in record.items()
        if key not in _HEAD and key not in told
    }
    if rest:
        entry[_REST] = rest
    return cast("EntryDict", copy_of_json(entry))


def _tool_result_entry(record: LegacyRecord) -> EntryDict:
    message: JsonObject = {
        "role": "toolResult",
        "tool_call_id": record["tool_call_id"],
        "tool_name": record["tool_name"],
        "content": record["content"],
        "details": record.get("details"),
        "is_error": record.get("is_error", False),
        "timestamp": record["timestamp"],
    }
    told = message.keys() - {"role", "timestamp"}
    return _entry(record, "message", {"message": message}, *told)


def _compaction_entry(record: LegacyRecord) -> EntryDict:
    saved = record.get("tokens_saved", 0)
    fields: JsonObject = {
        "summary": record["summary"],
        "firstKeptId": record["first_kept_id"],
        # What was saved is all that is known of the size before.
        "tokensBefore": saved,
        "coveredTokens": saved,
    }
    covered = record.get("compacted_entries")
    if isinstance(covered, list) and covered:
        fields["coveredEntries"] = len(covered)
    told = ("summary", "first_kept_id", "tokens_saved")
    return _entry(record, "compaction", fields, *told)


def convert_session(
    records: Sequence[LegacyRecord],
    *,
    cwd: str,
    backend: str,
    cursor: str | None = None,
) -> ConvertedSession:
    """Convert a session to the v1 format; the same records give the same session.

    Ids, parents and order are kept. Before the first record stand entries for what it
    says of model, name and system prompt. Every context is what it was, with the
    system prompt, if there is one, before it.

    Args:
        records: A ``session`` record and what came after it, in load order.
        cwd: The directory of a session that names none.
        backend: The backend of the model that the session names, which older files do
            not tell.
        cursor: Where the session reopens; None is at its last entry.

    Raises:
        CallerError: A record breaks a rule, two share an id, the first is no
            ``session`` record, or `cursor` names none of them.
    """
    for number, record in enumerate(records):
        if fault := record_fault(record):
            msg = f"record {number} cannot be converted: {fault}; mend it first"
            raise CallerError(msg)
    if not records or kind_of(records[0]) != "session":
        found = f"type {records[0]['type']!r}" if records else "none"
        msg = (
            f"the first record must be of type 'session', but is of {found}; "
            "give all records of the file, in their order"
        )
        raise CallerError(msg)
    if len({id_of(record) for record in records}) < len(records):
        msg = "two records have the same id; give each an id of its own"
        raise CallerError(msg)
    conversion = _Conversion(records, backend)
    return ConvertedSession(
        header=_header(records[0], cwd), entries=tuple(conversion.entries(cursor))
    )


def _header(session: LegacyRecord, cwd: str) -> JsonObject:
    return {
        "type": "session",
        "version": 1,
        "id": id_of(session),
        "timestamp": iso_time(cast("int", session["timestamp"])),
        "cwd": text_of(session, "cwd") or cwd,
        "parent": parent_of(session),
    }


class _Conversion:
    """One session on its way to v1: what its entries must agree on."""

    def __init__(self, records: Sequence[LegacyRecord], backend: str) -> None:
        self._records = records
        self._session = records[0]
        self._backend = backend
        self._taken = {id_of(record) for record in records}

    def entries(self, cursor: str | None) -> Iterator[EntryDict]:
        last: str | None = None
        for entry in self._opening():
            yield cast("EntryDict", entry)
            last = str(entry["id"])
        root = entry_of(self._session)
        # The first record names, as its parent, the session that it was copied from;
        # the header has that. Children still find the record by its own id.
        root["parentId"] = last
        yield root
        for record in self._records[1:]:
            yield self._completed(record)
        if cursor is not None and cursor != id_of(self._records[-1]):
            yield cast("EntryDict", self._move_to(cursor))

    def _opening(self) -> Iterator[JsonObject]:
        last: str | None = None
        model = text_of(self._session, "model")
        name = text_of(self._session, "session_name")
        prompt = text_of(self._session, "system_prompt")
        if model is not None:
            fields: JsonObject = {"model": model, "backend": self._backend}
            yield (entry := self._made("model_change", last, fields))
            last = str(entry["id"])
        if name is not None:
            yield (entry := self._made("session_info", last, {"name": name}))
            last = str(entry["id"])
        if prompt is not None and not self._is_said(prompt):
            message: JsonObject = {
                "role": "system",
                "content": prompt,
                "timestamp": self._session["timestamp"],
            }
            yield self._made("message", last, {"message": message})

    def _is_said(self, prompt: str) -> bool:
        """Whether the session has the prompt among its messages, too."""
        for record in self._records:
            message = record.get("message")
            if not isinstance(message, dict) or message.get("role") != "system":
                continue
            if message.get("content") in (prompt, [{"type": "text", "text": prompt}]):
                return True
        return False

    def _move_to(self, cursor: str) -> JsonObject:
        if cursor not in self._taken:
            msg = (
                f"the cursor {cursor!r} names no entry of session "
                f"{id_of(self._session)!r}; use an id of one of its entries"
            )
            raise CallerError(msg)
        last = self._records[-1]
        return self._made("navigate", id_of(last), {"targetId": cursor}, last)

    def _made(
        self,
        kind: str,
        parent_id: str | None,
        fields: JsonObject,
        after: LegacyRecord | None = None,
    ) -> JsonObject:
        when = (after or self._session)["timestamp"]
        return {
            "type": kind,
            "id": self._drawn_id(kind),
            "parentId": parent_id,
            "timestamp": iso_time(cast("int", when)),
            **fields,
        }

    def _drawn_id(self, kind: str) -> str:
        # From the session's id, so that converting again gives the same entries.
        attempt = 0
        while True:
            seed = f"{id_of(self._session)}:{kind}:{attempt}"
            drawn = hashlib.sha256(seed.encode()).hexdigest()[:8]
            if drawn not in self._taken:
                self._taken.add(drawn)
                return drawn
            attempt += 1

    def _completed(self, record: LegacyRecord) -> EntryDict:
        entry = entry_of(record)
        if entry["type"] == "message" or entry["type"] == "customMessage":
            message = cast("JsonObject", entry["message"])
            match message["role"]:
                case "assistant":
                    self._complete_answer(message)
                case "toolResult":
                    message["content"] = _blocks(message["content"])
                    message.setdefault("details", None)
                    message.setdefault("is_error", False)
                case "custom":
                    message.setdefault("customType", record.get("custom_type", ""))
                    message.setdefault("display", True)
                    visible = message.get("visible_to_model", True)
                    message.setdefault("visibleToModel", visible)
            message.setdefault("timestamp", record["timestamp"])
        return entry

    def _complete_answer(self, message: JsonObject) -> None:
        blocks = message["content"] = _blocks(message["content"])
        calls = any(_is_call(block) for block in blocks)
        message.setdefault("api", "")
        message.setdefault("provider", "")
        message.setdefault("model", text_of(self._session, "model") or "")
        message.setdefault("response_id", None)
        message.setdefault("usage", None)
        message.setdefault("stop_reason", "toolUse" if calls else "stop")
        message.setdefault("error_message", None)


def _blocks(content: JsonValue) -> list[JsonValue]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    assert isinstance(content, list), "records has a rule for content"
    return content


def _is_call(block: JsonValue) -> bool:
    return isinstance(block, dict) and block.get("type") == "toolCall"
