"""Read a session file of another program once, to go on with a copy of it.

Whichever format it has, the copy ends with a record of what was read: the file's name,
its format, its header and the SHA-256 of its bytes. No model reads that record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final, assert_never, cast

from tau_kernel.errors import StorageError
from tau_kernel.messages import JsonObject
from tau_kernel.tree import EntryDict, EntryLog, entry_fault

from .convert import convert_session
from .pi_session import read_pi_session
from .record_lines import (
    HashedLines,
    RecordLines,
    StoredSession,
    damage,
    torn_notice,
)
from .session_format import SessionFormat, format_of_lines
from .shelf import NoSessionFileError, parse_lines

__all__ = ["IMPORT_RECORD", "ImportedSession", "read_session"]

#: The custom type of the record that an imported session ends with.
IMPORT_RECORD: Final = "imported_from"

_V1: Final = 1
_MEND: Final = "Mend that line in a copy of the file and import the copy"
_REPAIR: Final = "Write a mended copy with /repair and the file's path, and import that"
_OTHER: Final = "Give a session file of τ or of pi; /import alone lists those here"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedSession:
    """A session of another program, ready to be stored as one of ours.

    Args:
        log: Its entries, the last of which says where they came from; the cursor is
            there, below the place where the session stood.
        format: What the file was.
        notices: What people should know of how it was read, a sentence each.
    """

    log: EntryLog
    format: SessionFormat
    notices: tuple[str, ...]


def read_session(path: Path, *, cwd: str, backend: str) -> ImportedSession:
    """Read a session file of any known format; it is neither changed nor locked.

    Args:
        path: The file.
        cwd: The directory of an older session that names none.
        backend: The backend of its model, which older files do not tell.

    Raises:
        NoSessionFileError: There is no such file.
        SessionDamagedError: It is no session, or a line of it is damaged. Only a last
            line that was not written to its end is left out instead, with a notice.
        StorageError: It cannot be read.
    """
    with _opened(path) as file:
        lines = HashedLines(file)
        head = _head_of(lines)
        known = _format_of(head, path)
        stored = _stored(known, chain(head, lines), path, cwd=cwd, backend=backend)
        digest = lines.hexdigest()
    log = EntryLog(str(stored.header.get("id") or path.stem), stored.entries)
    record: JsonObject = {
        "file": path.name,
        "format": known.value,
        "sha256": digest,
        "header": stored.header,
    }
    log.append_custom_entry(IMPORT_RECORD, record)
    return ImportedSession(log=log, format=known, notices=stored.notices)


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    try:
        with path.open("rb") as file:
            yield file
    except FileNotFoundError as error:
        msg = (
            f"there is no session file {str(path)!r}; "
            "/import alone lists those that were made in this directory"
        )
        raise NoSessionFileError(msg) from error
    except OSError as error:
        why = error.strerror or str(error)
        msg = f"{str(path)!r} cannot be read ({why}); mend that and try again"
        raise StorageError(error.errno, msg) from error


def _head_of(lines: Iterable[bytes]) -> list[bytes]:
    """Take lines until two of them are not blank."""
    head: list[bytes] = []
    filled = 0
    for line in lines:
        head.append(line)
        filled += bool(line.strip())
        if filled > 1:
            break
    return head


def _format_of(head: list[bytes], path: Path) -> SessionFormat:
    filled = [number for number, line in enumerate(head) if line.strip()]
    try:
        return format_of_lines([head[number] for number in filled])
    except ValueError as error:
        number = filled[0] + 1 if filled else 1
        fault = f"it begins no session ({error})"
        raise damage(path, number, fault, _OTHER) from error


def _stored(
    known: SessionFormat, lines: Iterable[bytes], path: Path, *, cwd: str, backend: str
) -> StoredSession:
    match known:
        case SessionFormat.OLDER:
            return _read_older(lines, path, cwd, backend)
        case SessionFormat.V1:
            return _read_v1(RecordLines(lines, path, _REPAIR))
        case SessionFormat.PI:
            return read_pi_session(RecordLines(lines, path, _MEND))
        case _:
            assert_never(known)


def _read_older(
    lines: Iterable[bytes], path: Path, cwd: str, backend: str
) -> StoredSession:
    records, extent = parse_lines(lines, str(path))
    converted = convert_session(records, cwd=cwd, backend=backend)
    notices: tuple[str, ...] = ()
    if extent.tail:
        notices = (torn_notice(len(extent.tail)),)
    return StoredSession(
        header=records[0], entries=list(converted.entries), notices=notices
    )


def _read_v1(lines: RecordLines) -> StoredSession:
    numbered = iter(lines)
    number, header = next(numbered)
    if header.get("version") != _V1:
        fault = (
            f"its version is {header.get('version')!r}, "
            f"and this program reads {_V1} of this format"
        )
        raise lines.damage(number, fault)
    entries: dict[str, EntryDict] = {}
    for number, record in numbered:
        if fault_found := entry_fault(record):
            raise lines.damage(number, fault_found)
        # Checked to be an entry.
        entry = cast("EntryDict", record)
        if entry["id"] in entries:
            raise lines.damage(number, f"the id {entry['id']!r} is taken")
        entries[entry["id"]] = entry
    return StoredSession(
        header=header, entries=list(entries.values()), notices=tuple(lines.notices)
    )
