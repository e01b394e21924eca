"""What can still be read of a damaged session file, line by line.

Beyond a whole line this finds entries that were glued together where a newline was
lost, and text whose bytes are no UTF-8 any more. Where a line cannot be read it finds
which entry it held, if the start of the line tells. Nothing here writes.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from tau_kernel.errors import SessionDamagedError
from tau_kernel.messages import JsonObject, dump_line, load_line
from tau_kernel.tree import EntryDict

from .session_file import folder_of, make_header, parse_entry, parse_header

__all__ = ["Gap", "MendedLine", "Salvage", "Survivor", "salvage"]

_ENTRY_START: Final = re.compile(rb'\{\s*"type"\s*:')
_HEAD: Final = re.compile(
    rb'"id"\s*:\s*"([^"\\]+)"(?:\s*,\s*"parentId"\s*:\s*(?:(null)|"([^"\\]+)"))?'
)
_CWD: Final = re.compile(rb'"cwd"\s*:\s*"(?:[^"\\]|\\.)*"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Survivor:
    """An entry that could be read.

    Args:
        number: Its line in the damaged file, counted from 1, the header.
        entry: The entry.
        line: Its bytes with a newline, as they were.
    """

    number: int
    entry: EntryDict
    line: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A line, or a part of one, that could not be read.

    Args:
        number: The line, counted from 1, the header.
        reason: What is wrong with it.
        before: How many survivors stand before it.
        entry_id: The entry that it held, if it still tells.
        parent_id: The parent of that entry, if it still tells.
        is_root: Whether it tells that the entry had no parent.
    """

    number: int
    reason: str
    before: int
    entry_id: str | None = None
    parent_id: str | None = None
    is_root: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MendedLine:
    """A line that a repair makes different, besides its parent.

    Args:
        number: In the damaged file, counted from 1, the header.
        change: What is different.
    """

    number: int
    change: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Salvage:
    """What is left of a damaged file.

    Args:
        header: As it was, or made anew from what the file still tells.
        survivors: In load order, each with an id of its own.
        gaps: What could not be read.
        repeats: Numbers of lines that say again what another line says, and which.
        changes: What of header and survivors is not as it was.
    """

    header: JsonObject
    survivors: tuple[Survivor, ...]
    gaps: tuple[Gap, ...]
    repeats: tuple[tuple[int, int], ...]
    changes: tuple[MendedLine, ...]


def salvage(path: Path, lines: Iterable[bytes]) -> Salvage:
    """Read what can be read of a session file.

    Args:
        path: Names the file, and its directory where the header is lost.
        lines: The file's, with their newlines.

    Raises:
        SessionDamagedError: Another version of the format wrote it.
    """
    numbered = enumerate(lines, start=1)
    _, first = next(numbered, (1, b""))
    finds = _Finds()
    first = finds.as_utf8(1, first)
    header = _header_in(path, first, finds)
    for number, line in numbered:
        finds.take(number, line)
    if header is None:
        header = _header_anew(path, first, finds)
    return Salvage(
        header=header,
        survivors=tuple(finds.survivors),
        gaps=tuple(finds.gaps),
        repeats=tuple(finds.repeats),
        changes=tuple(finds.changes),
    )


class _Finds:
    """What the lines read so far gave."""

    def __init__(self) -> None:
        self.survivors: list[Survivor] = []
        self.gaps: list[Gap] = []
        self.repeats: list[tuple[int, int]] = []
        self.changes: list[MendedLine] = []
        self._by_id: dict[str, Survivor] = {}

    def take(self, number: int, line: bytes) -> None:
        """Take what a line holds, and say what of it is lost."""
        rest, pieces = _pieces_of(line)
        if rest.strip() or not pieces:
            self._miss(number, rest)
        elif len(pieces) > 1:
            self._change(number, f"{len(pieces)} entries were glued together")
        for piece in pieces:
            self.keep(number, piece)

    def keep(self, number: int, line: bytes) -> None:
        """Take one entry of a line."""
        text = self.as_utf8(number, line)
        entry = parse_entry(text)
        taken = self._by_id.get(entry["id"])
        if taken is not None:
            if taken.entry == entry:
                self.repeats.append((number, taken.number))
                return
            entry["id"] = self._free_id()
            text = dump_line(cast("JsonObject", entry))
            what = (
                f"its id {taken.entry['id']!r} was that of line {taken.number}; "
                f"it became {entry['id']!r}"
            )
            self._change(number, what)
        text = text.rstrip(b"\r\n") + b"\n"
        survivor = Survivor(number=number, entry=entry, line=text)
        self._by_id[entry["id"]] = survivor
        self.survivors.append(survivor)

    def as_utf8(self, number: int, line: bytes) -> bytes:
        """Give a line with what is no UTF-8 replaced, and say so if something was."""
        text = line.decode("utf-8", "replace").encode()
        if text != line:
            self._change(number, "bytes that were no UTF-8 became U+FFFD")
        return text

    def _miss(self, number: int, rest: bytes) -> None:
        head = _HEAD.search(rest)
        told = (None, None, None) if head is None else head.groups()
        self.gaps.append(
            Gap(
                number=number,
                reason=_fault_of(rest),
                before=len(self.survivors),
                entry_id=_name_of(told[0]),
                parent_id=_name_of(told[2]),
                is_root=told[1] is not None,
            )
        )

    def _change(self, number: int, what: str) -> None:
        self.changes.append(MendedLine(number=number, change=what))

    def _free_id(self) -> str:
        while (drawn := uuid.uuid4().hex[:8]) in self._by_id:
            pass
        return drawn


def _name_of(told: bytes | None) -> str | None:
    return None if told is None else told.decode("utf-8", "replace")


def _fault_of(line: bytes) -> str:
    try:
        parse_entry(line)
    except ValueError as error:
        return str(error)
    return "it holds no entry"


def _is_entry(line: bytes) -> bool:
    try:
        parse_entry(line.decode("utf-8", "replace").encode())
    except ValueError:
        return False
    return True


def _pieces_of(line: bytes) -> tuple[bytes, list[bytes]]:
    """Part a line into what cannot be read and the entries that follow it.

    A quoted ``{"type":`` has backslashes, so one without is no text. What it begins
    counts only if it reaches to the end as an entry, as no part of an entry does.
    """
    pieces: list[bytes] = []
    rest = line
    while rest and not _is_entry(rest):
        starts = (match.start() for match in _ENTRY_START.finditer(rest, 1))
        at = next((start for start in starts if _is_entry(rest[start:])), None)
        if at is None:
            return rest, pieces
        pieces.insert(0, rest[at:])
        rest = rest[:at]
    return b"", [rest, *pieces] if rest else pieces


def _header_in(path: Path, line: bytes, finds: _Finds) -> JsonObject | None:
    try:
        return parse_header(line, path)
    except SessionDamagedError:
        if _is_of_another_version(line):
            raise
    head, pieces = _pieces_of(line)
    # A header has what an entry of an unknown kind must have.
    if pieces and load_line(pieces[0]).get("type") == "session":
        head = pieces.pop(0)
    for piece in pieces:
        finds.keep(1, piece)
    try:
        header = parse_header(head, path)
    except SessionDamagedError:
        return None
    what = "the header and the entries glued to it were parted"
    finds.changes.append(MendedLine(number=1, change=what))
    return header


def _is_of_another_version(line: bytes) -> bool:
    try:
        record = load_line(line)
    except ValueError:
        return False
    return record.get("type") == "session" and record.get("version", 1) != 1


def _header_anew(path: Path, line: bytes, finds: _Finds) -> JsonObject:
    cwd, whence = next(_directories(path, line, finds.survivors))
    header = make_header(cwd, None)
    told = _HEAD.search(line) if b'"session"' in line else None
    header["id"] = path.stem.rpartition("_")[2] if told is None else _name_of(told[1])
    what = f"the header was made anew; the directory {cwd!r} is {whence}"
    finds.changes.append(MendedLine(number=1, change=what))
    return header


def _directories(
    path: Path, line: bytes, survivors: Iterable[Survivor]
) -> Iterator[tuple[str, str]]:
    """Give what may be the session's directory, most reliable first."""
    if told := _CWD.search(line):
        with suppress(ValueError):
            cwd = str(load_line(b"{" + told[0] + b"}")["cwd"])
            yield cwd, "what was left of it"
    for survivor in survivors:
        entry = survivor.entry
        if entry["type"] == "customEntry" and entry["customType"] == "agent_spec":
            data: object = entry.get("data")
            if isinstance(data, dict) and isinstance(data.get("cwd"), str):
                yield data["cwd"], f"that of line {survivor.number}"
    folder = path.absolute().parent
    guess = "/" + folder.name.strip("-").replace("-", "/")
    if folder_of(folder.parent, guess) == folder:
        yield guess, "guessed from the folder's name"
    yield str(folder), "the folder of the file"
