"""The v1 format of session files: names, header, and reading lines strictly.

Line 1 is the header, every later line one entry. Reading never changes a file.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import re
import shlex
import sys
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from tau_kernel.errors import SessionDamagedError
from tau_kernel.messages import JsonObject, clean_text, load_line
from tau_kernel.tree import EntryDict, entry_fault, entry_timestamp

__all__ = [
    "SessionContent",
    "folder_of",
    "make_header",
    "parse_entry",
    "parse_header",
    "path_of",
    "read_content",
    "repair_command",
]

_VERSION: Final = 1
#: Most file systems refuse names of more than 255 bytes.
_LONGEST_NAME: Final = 200


def folder_of(base: Path, cwd: str) -> Path:
    """Give the folder of the sessions made in `cwd`."""
    dashed = re.sub(r"[/\\:]", "-", os.path.abspath(cwd).lstrip("/"))  # noqa: PTH100 - links stay as typed
    if len(os.fsencode(dashed)) > _LONGEST_NAME:
        digest = hashlib.sha256(os.fsencode(dashed)).hexdigest()[:16]
        dashed = f"{dashed[:50]}-{digest}"
    return base / f"--{dashed}--"


def make_header(cwd: str, parent: str | None) -> JsonObject:
    """Make the header of a new session, with a new id."""
    return {
        "type": "session",
        "version": _VERSION,
        "id": uuid.uuid4().hex,
        "timestamp": entry_timestamp(),
        "cwd": clean_text(os.path.abspath(cwd)),  # noqa: PTH100 - links stay as typed
        "parent": parent,
    }


def path_of(base: Path, header: JsonObject) -> Path:
    """Give the path of the session that has this header."""
    written = re.sub("[:.]", "-", str(header["timestamp"]))
    folder = folder_of(base, str(header["cwd"]))
    return folder / f"{written}_{header['id']}.jsonl"


def repair_command(path: Path) -> str:
    """Give the command that mends a session file, as a shell takes it."""
    return f"tau-kernel repair {shlex.quote(str(path))}"


def parse_header(line: bytes, path: Path) -> JsonObject:
    """Decode line 1 of a session file.

    Raises:
        SessionDamagedError: It is no header of this version.
    """
    fault = None
    header: JsonObject = {}
    try:
        header = _decoded(line)
    except ValueError as error:
        fault = str(error)
    else:
        fault = _header_fault(header)
    if fault is None:
        return header
    advice = f"{repair_command(path)!r} writes a mended copy, if its entries are whole"
    if header.get("version", _VERSION) != _VERSION:
        advice = "use the program that wrote it"
    msg = (
        f"{path}:1 is no session header: {fault}.\n"
        f"Nothing in the file was changed; {advice}"
    )
    raise SessionDamagedError(msg)


def _decoded(line: bytes) -> JsonObject:
    try:
        return load_line(line)
    except json.JSONDecodeError as error:
        # Its own text counts lines within this one.
        msg = f"{error.msg} at character {error.pos + 1}"
        raise ValueError(msg) from error


def _header_fault(header: JsonObject) -> str | None:
    if header.get("type") != "session":
        return f"its type is {header.get('type')!r}, not 'session'"
    if header.get("version") != _VERSION:
        return (
            f"its version is {header.get('version')!r}; this program reads {_VERSION}"
        )
    for key in ("id", "timestamp", "cwd"):
        if not isinstance(header.get(key), str):
            return f"{key!r} is no text"
    if not isinstance(header.get("parent"), str | None):
        return "'parent' is neither an id nor null"
    return None


def parse_entry(line: bytes) -> EntryDict:
    """Decode a line that must hold an entry.

    Raises:
        ValueError: It holds none; the message says why.
    """
    record = _decoded(line)
    if fault := entry_fault(record):
        raise ValueError(fault)
    # A log repeats a few kinds; one copy of each is kept.
    record["type"] = sys.intern(cast("str", record["type"]))
    return cast("EntryDict", record)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionContent:
    """What a session file holds.

    Args:
        header: Line 1.
        entries: What could be read, in load order.
        damage: The number of each line that could not be read, and why.
        tail: What follows the last newline and is no entry; empty in a whole file.
        is_open_ended: Whether the last line lacks only its newline.
        size: The bytes read, the tail included.
    """

    header: JsonObject
    entries: list[EntryDict]
    damage: tuple[tuple[int, str], ...]
    tail: bytes
    is_open_ended: bool
    size: int


def read_content(path: Path) -> SessionContent:
    """Read a whole session file.

    Raises:
        OSError: It cannot be read.
        SessionDamagedError: Its header cannot be.
    """
    with path.open("rb") as lines, _without_collecting():
        first = lines.readline()
        header = parse_header(first, path)
        return _read_entries(header, first, lines)


@contextmanager
def _without_collecting() -> Iterator[None]:
    # A long file makes a million objects and no garbage; the collector would walk
    # them all again each time their number has grown by a quarter.
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _read_entries(
    header: JsonObject, first: bytes, lines: Iterable[bytes]
) -> SessionContent:
    entries: list[EntryDict] = []
    ids: dict[str, str] = {}
    damage: list[tuple[int, str]] = []
    size = len(first)
    tail, line = b"", first
    for number, line in enumerate(lines, start=2):
        size += len(line)
        try:
            entry = parse_entry(line)
            if entry["id"] in ids:
                damage.append((number, f"the id {entry['id']!r} is taken"))
                continue
        except ValueError as error:
            if line.endswith(b"\n"):
                damage.append((number, str(error)))
            else:
                tail = line
            continue
        ids[entry["id"]] = entry["id"]
        if entry["parentId"] is not None:
            entry["parentId"] = ids.get(entry["parentId"], entry["parentId"])
        entries.append(entry)
    return SessionContent(
        header=header,
        entries=entries,
        damage=tuple(damage),
        tail=tail,
        is_open_ended=not tail and not line.endswith(b"\n"),
        size=size,
    )
