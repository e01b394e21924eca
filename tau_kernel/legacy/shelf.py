"""Where older sessions are kept: files that only ever grow, or memory.

Reading changes nothing, not even a torn last line: it is set aside by the first
append after it. Nobody holds such a file open, so an append checks that the file is
still the one that was read, and refuses where another program wrote meanwhile.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, cast

from tau_kernel.errors import (
    CallerError,
    SessionDamagedError,
    SessionLockedError,
    StorageError,
)
from tau_kernel.messages import dump_line, load_line
from tau_kernel.tree import copy_of_json

from .convert import iso_time
from .records import LegacyRecord, id_of, kind_of, record_fault

__all__ = [
    "Extent",
    "FileShelf",
    "MemoryShelf",
    "NoSessionFileError",
    "Shelf",
    "folder_of",
    "is_v1_file",
    "parse_lines",
]

_LONGEST_NAME: Final = 200


class NoSessionFileError(CallerError, FileNotFoundError):
    """There is no session at a path; nothing was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """How far a session reached when it was last seen.

    Args:
        size: Its length in bytes, the tail included.
        tail: The bytes of a torn last line; empty in a whole file.
        is_open_ended: Whether the last record lacks only its newline.
    """

    size: int = 0
    tail: bytes = b""
    is_open_ended: bool = False


class Shelf(Protocol):
    """A place for older sessions, each known by its path."""

    def create(self, records: Sequence[LegacyRecord], cwd: str) -> str:
        """Keep a new session, made in `cwd`, and give its path."""
        ...

    def read(self, path: str) -> tuple[list[LegacyRecord], Extent]:
        """Give a session's records, the caller's to keep, and how far they reach."""
        ...

    def append(
        self, path: str, seen: Extent, records: Sequence[LegacyRecord]
    ) -> Extent:
        """Append records, all or none, to a session that reached as far as `seen`."""
        ...

    def paths(self) -> list[str]:
        """Give the paths of all sessions, readable or not."""
        ...

    def is_made_in(self, path: str, cwd: str) -> bool:
        """Whether a session whose record does not say is taken to be of `cwd`."""
        ...


class MemoryShelf:
    """Sessions that are gone with the process; their paths name no files."""

    def __init__(self) -> None:
        """Start empty."""
        self._records: dict[str, list[LegacyRecord]] = {}

    def create(self, records: Sequence[LegacyRecord], cwd: str) -> str:
        """Keep a new session and give its path."""
        del cwd  # The records have it.
        path = f"memory:{id_of(records[0])}"
        self._records[path] = copy_of_json(list(records))
        return path

    def read(self, path: str) -> tuple[list[LegacyRecord], Extent]:
        """Give a session's records, as copies.

        Raises:
            NoSessionFileError: No session has the path.
        """
        if path not in self._records:
            msg = f"no session is kept in memory as {path!r}; use a path from list_all"
            raise NoSessionFileError(msg)
        records = copy_of_json(self._records[path])
        return records, Extent(size=len(records))

    def append(
        self, path: str, seen: Extent, records: Sequence[LegacyRecord]
    ) -> Extent:
        """Append records to a session."""
        self._records[path].extend(copy_of_json(list(records)))
        return Extent(size=seen.size + len(records))

    def paths(self) -> list[str]:
        """Give the paths of all sessions, in the order they were made."""
        return list(self._records)

    def is_made_in(self, path: str, cwd: str) -> bool:
        """Say yes: nothing but its record tells where it was made."""
        del path, cwd
        return True


class FileShelf:
    """Sessions in JSONL files below one folder, by the directory they were made in."""

    def __init__(self, base: Path) -> None:
        """Use `base`, which need not exist."""
        self._base = base

    def create(self, records: Sequence[LegacyRecord], cwd: str) -> str:
        """Make a file that holds `records` and give its path.

        Raises:
            StorageError: The disk refused it; no file is left.
        """
        written = iso_time(cast("int", records[0]["timestamp"]))
        name = f"{re.sub('[:.]', '-', written)}_{id_of(records[0])}.jsonl"
        path = folder_of(self._base, cwd) / name
        data = b"".join(map(dump_line, records))
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            raise _refused(path, error) from error
        try:
            _write_whole(fd, data)
        except OSError as error:
            path.unlink(missing_ok=True)
            raise _refused(path, error) from error
        finally:
            os.close(fd)
        return str(path)

    def read(self, path: str) -> tuple[list[LegacyRecord], Extent]:
        """Give what a file holds; the file stays as it is.

        Raises:
            NoSessionFileError: There is no such file.
            SessionDamagedError: A line is no record, or the file has another format.
            StorageError: It cannot be read.
        """
        try:
            with Path(path).open("rb") as lines:
                return parse_lines(lines, path)
        except FileNotFoundError as error:
            msg = f"there is no session file {path!r}; use a path from list_all"
            raise NoSessionFileError(msg) from error
        except OSError as error:
            raise _refused(Path(path), error) from error

    def append(
        self, path: str, seen: Extent, records: Sequence[LegacyRecord]
    ) -> Extent:
        """Append records to a file in one write.

        A torn last line is first moved to ``<file>.torn``.

        Raises:
            StorageError: The disk refused it, or another program changed the file
                since it was read; no record was added.
            SessionLockedError: Somebody else is writing it at this moment.
        """
        kept = seen.size - len(seen.tail)
        start = b"\n" if seen.is_open_ended else b""
        data = start + b"".join(map(dump_line, records))
        try:
            with _locked(Path(path)) as fd:
                _check_untouched(fd, Path(path), seen.size)
                if seen.tail:
                    _set_aside(Path(path), seen.tail)
                    os.ftruncate(fd, kept)
                _write_whole(fd, data)
        except StorageError:
            raise
        except OSError as error:
            raise _refused(Path(path), error) from error
        return Extent(size=kept + len(data))

    def paths(self) -> list[str]:
        """Give the paths of all files below the folder but those of the v1 format."""
        found = sorted(self._base.rglob("*.jsonl"))
        return [str(path) for path in found if not is_v1_file(path)]

    def is_made_in(self, path: str, cwd: str) -> bool:
        """Whether a file lies in the folder of `cwd`."""
        return Path(path).parent == folder_of(self._base, cwd)


def folder_of(base: Path, cwd: str) -> Path:
    """Give the folder, below that of all sessions, of those made in `cwd`."""
    dashed = re.sub(r"[/\\:]", "-", cwd.lstrip("/"))
    if len(os.fsencode(dashed)) > _LONGEST_NAME:
        digest = hashlib.sha256(os.fsencode(dashed)).hexdigest()[:16]
        dashed = f"{dashed[:50]}-{digest}"
    return base / f"--{dashed}--"


def parse_lines(lines: Iterable[bytes], path: str) -> tuple[list[LegacyRecord], Extent]:
    """Give the records of a file's lines, and how far they reach.

    Args:
        lines: Each with its newline; the last may lack it.
        path: How errors name the file.

    Raises:
        SessionDamagedError: A line is no record, or the file has another format.
    """
    records: list[LegacyRecord] = []
    seen: dict[str, int] = {}
    size = 0
    is_open_ended = False
    for number, line in enumerate(lines, start=1):
        size += len(line)
        if not line.strip():
            continue
        is_open_ended = not line.endswith(b"\n")
        record, fault = _record_in(line, seen)
        if record is not None and not records:
            fault = _session_fault(record)
        if fault is not None or record is None:
            if is_open_ended and record is None and records:
                return records, Extent(size=size, tail=line)
            raise _damaged(path, number, fault or "it is empty")
        seen[id_of(record)] = number
        records.append(record)
    if not records:
        raise _damaged(path, 1, "it is empty, but must be a 'session' record")
    return records, Extent(size=size, is_open_ended=is_open_ended)


def _record_in(
    line: bytes, seen: dict[str, int]
) -> tuple[LegacyRecord | None, str | None]:
    """Give the record of a line and what is wrong with it; None where it is no JSON."""
    try:
        record = load_line(line)
    except ValueError as error:
        return None, f"it is no JSON object ({error})"
    fault = record_fault(record)
    if fault is None and id_of(record) in seen:
        first = seen[id_of(record)]
        fault = f"'id' is {record['id']!r}, but must differ from that of line {first}"
    return record, fault


def _session_fault(record: LegacyRecord) -> str | None:
    if "version" in record and record.get("type") == "session":
        return (
            f"'version' is {record['version']!r}, but an older session has none; "
            "open this file with the session catalog"
        )
    if fault := record_fault(record):
        return fault
    if kind_of(record) != "session":
        return f"'type' is {record['type']!r}, but must be 'session' on the first line"
    return None


def _damaged(path: str, number: int, fault: str) -> SessionDamagedError:
    msg = (
        f"{path}:{number} is no line of an older session file: {fault}.\n"
        "Mend that line, or restore the file from a copy; nothing in it was changed"
    )
    return SessionDamagedError(msg)


def is_v1_file(path: Path) -> bool:
    """Say whether a file begins as a session of the v1 format does."""
    try:
        with path.open("rb") as file:
            header = load_line(file.readline())
    except (OSError, ValueError):
        # Reading it whole says what is wrong.
        return False
    return header.get("type") == "session" and "version" in header


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            msg = f"{str(path)!r} is being written by somebody else; try again later"
            raise SessionLockedError(msg) from error
        yield fd
    finally:
        # Closing gives the lock back.
        os.close(fd)


def _check_untouched(fd: int, path: Path, size: int) -> None:
    found = os.fstat(fd).st_size
    if found != size:
        msg = (
            f"{str(path)!r} has {found} bytes where {size} were read: another program "
            "changed it.\nNothing was written; load the session again"
        )
        raise StorageError(errno.ESTALE, msg)


def _set_aside(path: Path, tail: bytes) -> None:
    aside = path.with_name(f"{path.name}.torn")
    fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        _write_whole(fd, tail + b"\n")
    finally:
        os.close(fd)


def _write_whole(fd: int, data: bytes) -> None:
    size = os.fstat(fd).st_size
    try:
        written = os.write(fd, data)
    except OSError:
        os.ftruncate(fd, size)
        raise
    if written != len(data):
        os.ftruncate(fd, size)
        short = f"only {written} of {len(data)} bytes fit"
        raise OSError(errno.ENOSPC, short)


def _refused(path: Path, error: OSError) -> StorageError:
    why = error.strerror or str(error)
    msg = (
        f"{str(path)!r} was refused by the disk ({why}); nothing of it was kept.\n"
        "Free some space or mend its permissions, then try again"
    )
    return StorageError(error.errno, msg)
