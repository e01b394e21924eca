"""What a list says of a session file, from its head and its tail alone."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tau_kernel.errors import SessionDamagedError
from tau_kernel.messages import Message, message_text
from tau_kernel.tree import EntryDict, LogView, resolve_cursor

from .session_catalog import SessionInfo
from .session_file import parse_entry, parse_header

__all__ = ["read_session_info"]

#: Bytes that are read of each end of a file.
_END: Final = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ends:
    """The whole lines at both ends of a file; a short file is all head."""

    head: list[bytes]
    tail: list[bytes]
    written: datetime


def read_session_info(path: Path) -> SessionInfo:
    """Describe a session file, damaged or not, reading at most 128 kB of it.

    Raises:
        FileNotFoundError: There is no such file.
    """
    written = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    try:
        return _described(path, _read_ends(path))
    except FileNotFoundError:
        raise
    except (OSError, SessionDamagedError) as error:
        # A list shows what cannot be read beside what can.
        return SessionInfo(
            ref=str(path),
            id=path.stem.rpartition("_")[2],
            cwd="",
            name=None,
            created=written,
            modified=written,
            message_count=0,
            first_message="",
            last_message="",
            parent=None,
            error=str(error),
        )


def _read_ends(path: Path) -> _Ends:
    with path.open("rb") as file:
        found = os.fstat(file.fileno())
        written = datetime.fromtimestamp(found.st_mtime, UTC)
        if found.st_size <= 2 * _END:
            return _Ends(head=_whole_lines(file.read()), tail=[], written=written)
        head = _whole_lines(file.read(_END))
        file.seek(found.st_size - _END)
        # The first line of the tail began before it.
        tail = _whole_lines(file.read(_END))[1:]
        return _Ends(head=head, tail=tail, written=written)


def _whole_lines(block: bytes) -> list[bytes]:
    return block.split(b"\n")[:-1]


def _described(path: Path, ends: _Ends) -> SessionInfo:
    header = parse_header(ends.head[0] if ends.head else b"", path)
    head, fault = _entries(ends.head[1:], f"{path}:", first=2)
    tail, later_fault = _entries(ends.tail, f"{path}, line -", first=-len(ends.tail))
    entries = tail or head
    view = LogView(entries)
    talk = [m for m in map(_talk_of, view.path(resolve_cursor(entries))) if m]
    prompts = [m for m in map(_talk_of, head) if m and m["role"] == "user"]
    if not tail:
        prompts = [message for message in talk if message["role"] == "user"]
    return SessionInfo(
        ref=str(path),
        id=str(header["id"]),
        cwd=str(header["cwd"]),
        name=_name_in([*head, *tail]),
        created=_moment(str(header["timestamp"]), ends.written),
        modified=ends.written,
        message_count=len(talk),
        first_message=message_text(prompts[0]) if prompts else "",
        last_message=message_text(talk[-1]) if talk else "",
        parent=None if header.get("parent") is None else str(header["parent"]),
        error=fault or later_fault,
    )


def _entries(
    lines: list[bytes], where: str, *, first: int
) -> tuple[list[EntryDict], str | None]:
    entries: list[EntryDict] = []
    fault = None
    for number, line in enumerate(lines, start=first):
        try:
            entries.append(parse_entry(line))
        except ValueError as error:
            fault = fault or f"{where}{abs(number)} is damaged ({error})"
    return entries, fault


def _talk_of(entry: EntryDict) -> Message | None:
    if entry["type"] != "message":
        return None
    return (
        entry["message"] if entry["message"]["role"] in {"user", "assistant"} else None
    )


def _name_in(entries: list[EntryDict]) -> str | None:
    names = [entry["name"] for entry in entries if entry["type"] == "session_info"]
    return names[-1] if names else None


def _moment(written: str, otherwise: datetime) -> datetime:
    try:
        moment = datetime.fromisoformat(written)
    except ValueError:
        return otherwise
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
