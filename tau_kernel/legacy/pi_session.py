"""A pi-style session, of any version, as entries of the v1 format.

Each record becomes one entry, in its place: ids, parents, order and times are kept
where they are usable. A record of an unknown kind or shape becomes one that no model
reads, with the whole of it inside. What messages are is `pi_message`'s concern.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, cast

from tau_kernel.messages import JsonObject, JsonValue
from tau_kernel.tree import EntryDict

from .convert import iso_time
from .pi_message import Meaning, message_meaning
from .record_lines import RecordLines, StoredSession

__all__ = ["read_pi_session"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
#: In these milliseconds the years of UTC have four digits, as ISO 8601 wants them.
_EARLIEST: Final = -62_135_596_800_000
_TOO_LATE: Final = 253_402_300_800_000
_NEWEST_VERSION: Final = 3
_HEAD: Final = frozenset({"type", "id", "parentId", "timestamp"})
#: Where an entry keeps what v1 has no field for.
_REST: Final = "legacy"
_SHOWN: Final = 5


def read_pi_session(lines: RecordLines) -> StoredSession:
    """Convert a whole session; the same lines give the same entries.

    Args:
        lines: All lines of the file, the header first.

    Raises:
        SessionDamagedError: A line holds no record, or a parent that is no id.
    """
    (_, header), *records = lines
    for number, record in records:
        parent_id = record.get("parentId")
        if not isinstance(parent_id, str | None):
            fault = f"'parentId' is {parent_id!r}, which is neither an id nor null"
            raise lines.damage(number, fault)
    conversion = _Conversion(header, [record for _, record in records])
    entries = list(conversion.entries())
    notices = (*conversion.notices(), *lines.notices)
    return StoredSession(header=header, entries=entries, notices=notices)


class _Conversion:
    """One session on its way to v1: what its entries must agree on."""

    def __init__(self, header: JsonObject, records: list[JsonObject]) -> None:
        self._header = header
        self._records = records
        self._named = {
            name
            for record in records
            for name in (record.get("id"), record.get("parentId"))
            if isinstance(name, str)
        }
        self._known = {
            name for r in records if isinstance(name := r.get("id"), str) and name
        }
        #: The newest entry that a name of the file stands for.
        self._ids: dict[str, str] = {}
        #: The entry of each record so far; records count from 0, the header.
        self._at: list[str | None] = [None]
        self._taken: set[str] = set()
        self._root: str | None = None
        self._milliseconds = _milliseconds(header.get("timestamp")) or 0
        self._unknown: Counter[str] = Counter()
        self._blocks: Counter[str] = Counter()
        self._renamed = 0
        self._orphans = 0

    def entries(self) -> Iterator[EntryDict]:
        """Give the entries, in load order."""
        for opening in self._opening():
            yield cast("EntryDict", opening)
            self._root = cast("str", opening["id"])
        for record in self._records:
            yield self._converted(record)

    def notices(self) -> Iterator[str]:
        """Say what is different from the file, after all entries were given."""
        version = self._header.get("version")
        if isinstance(version, int) and version > _NEWEST_VERSION:
            yield (
                f"The file has version {version} of its format, and what is known "
                f"here is version {_NEWEST_VERSION}: look whether anything is missing."
            )
        if self._unknown:
            yield (
                f"{_counted(self._unknown)} of unknown kind or shape became records "
                "that no model reads."
            )
        if self._blocks:
            yield (
                f"{_counted(self._blocks)} of messages' blocks are of types that no "
                "model can be sent, and were set aside."
            )
        if self._renamed:
            yield f"{self._renamed} ids were empty or taken; new ones were drawn."
        if self._orphans:
            yield (
                f"{self._orphans} entries hang from entries that the file does not "
                "have; each begins a tree of its own."
            )

    def _opening(self) -> Iterator[JsonObject]:
        """Give what older headers say of the model, as entries above all others."""
        last: str | None = None
        match self._header:
            case {"modelId": str(model)}:
                fields: JsonObject = {
                    "model": model,
                    "backend": _provider(self._header),
                }
                yield (entry := self._opened("model_change", last, fields))
                last = str(entry["id"])
        match self._header:
            case {"thinkingLevel": str(level)}:
                yield self._opened("thinking_change", last, {"level": level})

    def _opened(
        self, kind: str, parent_id: str | None, fields: JsonObject
    ) -> JsonObject:
        return {
            "type": kind,
            "id": self._drawn_id(kind),
            "parentId": parent_id,
            "timestamp": iso_time(self._milliseconds),
            **fields,
        }

    def _converted(self, record: JsonObject) -> EntryDict:
        told = {"type", "parentId"}
        moment = _milliseconds(record.get("timestamp"))
        if moment is not None:
            told.add("timestamp")
        # An entry without a time was written no earlier than the one before it.
        self._milliseconds = self._milliseconds if moment is None else moment
        parent_id = self._parent_of(record)
        meaning = self._meaning(record, told) or self._unread(record, told)
        self._blocks.update(meaning.unknown_blocks)
        entry_id = self._id_of(record)
        if entry_id == record.get("id"):
            told.add("id")
        entry: JsonObject = {
            "type": meaning.kind,
            "id": entry_id,
            "parentId": parent_id,
            "timestamp": iso_time(self._milliseconds),
            **meaning.fields,
        }
        rest = {key: value for key, value in record.items() if key not in told}
        if meaning.rest:
            rest["message"] = meaning.rest
        if rest:
            entry[_REST] = rest
        return cast("EntryDict", entry)

    def _parent_of(self, record: JsonObject) -> str | None:
        if "parentId" not in record:
            # Version 1 is a list: each entry follows the one before it.
            return self._at[-1] or self._root
        parent_id = cast("str | None", record["parentId"])
        if parent_id is None:
            return self._root
        if parent_id not in self._ids and parent_id not in self._known:
            self._orphans += 1
        return self._ids.get(parent_id, parent_id)

    def _id_of(self, record: JsonObject) -> str:
        name = record.get("id")
        if isinstance(name, str) and name and name not in self._taken:
            drawn = name
            self._taken.add(drawn)
        else:
            drawn = self._drawn_id(f"{len(self._at)}")
            self._renamed += "id" in record
        if isinstance(name, str):
            self._ids[name] = drawn
        self._at.append(drawn)
        return drawn

    def _drawn_id(self, what: str) -> str:
        # From the session's id, so that importing again gives the same entries.
        attempt = 0
        while True:
            seed = f"{self._header.get('id')}:{what}:{attempt}"
            drawn = hashlib.sha256(seed.encode()).hexdigest()[:8]
            if drawn not in self._taken and drawn not in self._named:
                self._taken.add(drawn)
                return drawn
            attempt += 1

    def _unread(self, record: JsonObject, told: set[str]) -> Meaning:
        told.update(record)
        kind = str(record.get("type"))
        message = record.get("message")
        if kind == "message" and isinstance(message, dict):
            kind = f"message of {message.get('role')}"
        self._unknown[kind] += 1
        fields: JsonObject = {"customType": "imported", "data": dict(record)}
        return Meaning(kind="customEntry", fields=fields)

    def _meaning(self, record: JsonObject, told: set[str]) -> Meaning | None:
        """Give what a record means and add to `told` the keys that this holds."""
        match record:
            case {"type": "message", "message": dict(message)}:
                told.add("message")
                return message_meaning(message, self._milliseconds)
            case {"type": "custom_message"}:
                return self._custom_message(record, told)
            case {"type": "compaction", "summary": str()}:
                return self._compaction(record, told)
            case {"type": "branch_summary", "summary": str(summary)}:
                told.add("summary")
                from_id = self._reference(record, "fromId", told)
                fields: JsonObject = {"summary": summary, "fromId": from_id}
                return Meaning(kind="branch_summary", fields=fields)
            case {"type": "label"}:
                return _record_of(record, "label", told)
            case {"type": "custom", "customType": str(name)}:
                # Under a name of its own: records of ours have meanings here.
                told |= {"customType", "data"}
                data = record.get("data", {})
                kept: JsonObject = data if isinstance(data, dict) else {"value": data}
                fields = {"customType": f"pi:{name}", "data": kept}
                return Meaning(kind="customEntry", fields=fields)
            case _:
                return _setting(record, told)

    def _custom_message(self, record: JsonObject, told: set[str]) -> Meaning | None:
        message = {key: value for key, value in record.items() if key not in _HEAD}
        told.update(message)
        return message_meaning({"role": "custom", **message}, self._milliseconds)

    def _compaction(self, record: JsonObject, told: set[str]) -> Meaning:
        told.add("summary")
        kept = self._reference(record, "firstKeptEntryId", told)
        index = record.get("firstKeptEntryIndex")
        if kept is None and type(index) is int and 0 <= index < len(self._at):
            told.add("firstKeptEntryIndex")
            # The header is before the first entry, as is whatever stands above it.
            kept = self._at[index] or next(filter(None, self._at), None)
        tokens = record.get("tokensBefore")
        known = type(tokens) is int and tokens >= 0
        if known:
            told.add("tokensBefore")
        fields: JsonObject = {
            "summary": record["summary"],
            "firstKeptId": kept,
            "tokensBefore": tokens if known else 0,
        }
        return Meaning(kind="compaction", fields=fields)

    def _reference(self, record: JsonObject, key: str, told: set[str]) -> str | None:
        """Give the entry that a key names; what names none stays in the rest."""
        name = record.get(key)
        if not isinstance(name, str) or name not in self._known:
            return None
        told.add(key)
        return self._ids.get(name, name)


def _setting(record: JsonObject, told: set[str]) -> Meaning | None:
    match record:
        case {"type": "model_change", "modelId": str(model)}:
            provider = _provider(record)
            told |= {"modelId", "provider"} if provider else {"modelId"}
            fields: JsonObject = {"model": model, "backend": provider}
            return Meaning(kind="model_change", fields=fields)
        case {"type": "thinking_level_change", "thinkingLevel": str(level)}:
            told.add("thinkingLevel")
            return Meaning(kind="thinking_change", fields={"level": level})
        case {"type": "session_info"}:
            name = record.get("name")
            if not isinstance(name, str | None):
                return None
            told.add("name")
            return Meaning(kind="session_info", fields={"name": name or ""})
        case _:
            return None


def _record_of(record: JsonObject, name: str, told: set[str]) -> Meaning:
    data = {key: value for key, value in record.items() if key not in _HEAD}
    told.update(data)
    return Meaning(kind="customEntry", fields={"customType": name, "data": data})


def _provider(record: JsonObject) -> str:
    provider = record.get("provider")
    return provider if isinstance(provider, str) else ""


def _milliseconds(written: JsonValue) -> int | None:
    """Give a time, ISO 8601 or a number since 1970, in milliseconds; or None."""
    try:
        if isinstance(written, str):
            moment = datetime.fromisoformat(written)
            aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            written = (aware - _EPOCH) // timedelta(milliseconds=1)
    except ValueError:
        return None
    if type(written) is int and _EARLIEST <= written < _TOO_LATE:
        return written
    return None


def _counted(kinds: Mapping[str, int]) -> str:
    """Give a count and the names that make it up, the most frequent first."""
    ranked = sorted(kinds.items(), key=lambda item: (-item[1], item[0]))
    names = ", ".join(repr(name) for name, _ in ranked[:_SHOWN])
    more = ", …" if len(ranked) > _SHOWN else ""
    return f"{sum(kinds.values())} ({names}{more})"
