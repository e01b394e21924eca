"""A mended copy of a damaged session file, and a report of what became of its lines.

The damaged file is only read. What a readable line says is kept to the byte, save for
ids that name a lost entry; the copy is a session of its own, with an id of its own.
Reading is `salvage`'s concern, and finding lost places `lost_place`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import BinaryIO

from tau_kernel.errors import CallerError, SessionDamagedError, StorageError
from tau_kernel.messages import JsonObject, dump_line

from .line_file import storage_error
from .lost_place import MendedReferences, RehungEntry, mend_references
from .salvage import MendedLine, Salvage, salvage
from .session_catalog import SessionRefError
from .session_file import make_header
from .whole_file import write_whole
from .writer_lock import lock_for_writing

__all__ = [
    "DroppedLine",
    "MendedLine",
    "RehungEntry",
    "RepairReport",
    "repair_session",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedLine:
    """A line, or the unreadable part of one, that the copy does without.

    Args:
        number: Counted from 1, the header.
        reason: What kept it from being read, or which line says the same.
    """

    number: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairReport:
    """What a repair kept, dropped and changed, each in the order of lines.

    Args:
        source: The damaged file, unchanged.
        path: The mended copy.
        id: The copy's session id.
        kept: How many entries the copy holds.
        dropped: What could not be read, and what was there twice.
        rehung: Entries whose parent was lost.
        mended: What else is different.
    """

    source: Path
    path: Path
    id: str
    kept: int
    dropped: tuple[DroppedLine, ...]
    rehung: tuple[RehungEntry, ...]
    mended: tuple[MendedLine, ...]

    def lines(self) -> Iterator[str]:
        """Give the report in words, a line for each thing that was done."""
        counts = {
            "dropped": len(self.dropped),
            "re-hung": len(self.rehung),
            "mended": len(self.mended),
        }
        rest = ", ".join(f"{number} {what}" for what, number in counts.items())
        yield f"{self.source}: {self.kept} entries kept, {rest}"
        for dropped in self.dropped:
            yield f"line {dropped.number}: dropped ({dropped.reason})"
        for rehung in self.rehung:
            place = "no entry" if rehung.parent_id is None else rehung.parent_id
            yield (
                f"line {rehung.number}: {rehung.entry_id} hangs from {place} in place "
                f"of {rehung.lost_id} ({rehung.reason})"
            )
        for mended in self.mended:
            yield f"line {mended.number}: {mended.change}"
        yield f"the mended copy is session {self.id}; the original is unchanged"


def repair_session(path: str | Path) -> RepairReport:
    """Write a mended copy of a damaged session file beside it.

    The copy is called ``<name>.repaired.jsonl``, with a number where that is taken.
    An entry whose parent was lost hangs from the lost parent's own parent where the
    broken line still tells it, otherwise from the nearest earlier entry that survived.

    Args:
        path: The damaged file; nobody may be writing it.

    Raises:
        CallerError: The file is whole.
        SessionDamagedError: No entry of it can be read, or another version wrote it.
        SessionLockedError: Somebody writes it.
        SessionRefError: There is no such file.
        StorageError: It cannot be read, or the copy not be written; no copy is left.
    """
    path = Path(path)
    with _locked(path) as file:
        found = salvage(path, file)
        mended = mend_references(found.survivors, found.gaps)
        _require_mendable(path, found, mended)
        written = make_header(str(found.header["cwd"]), str(found.header["id"]))
        header = {**found.header, **written}
        lines = (survivor.line for survivor in mended.survivors)
        copy = _write_copy(path, header, lines)
    return RepairReport(
        source=path,
        path=copy,
        id=str(header["id"]),
        kept=len(mended.survivors),
        dropped=_dropped(found),
        rehung=mended.rehung,
        mended=tuple(
            sorted([*found.changes, *mended.changes], key=lambda one: one.number)
        ),
    )


@contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading and keep writers away, where it may be written."""
    try:
        file = _opened(path)
    except FileNotFoundError as error:
        msg = f"no session matches {str(path)!r}: there is no file"
        raise SessionRefError(msg) from error
    except OSError as error:
        raise _unreadable(path, error) from error
    with file:
        lock_for_writing(file.fileno(), path)
        try:
            yield file
        except StorageError:
            raise
        except OSError as error:
            raise _unreadable(path, error) from error


def _opened(path: Path) -> BinaryIO:
    try:
        # Network file systems lock only what is open for writing.
        return path.open("r+b")
    except PermissionError:
        return path.open("rb")


def _unreadable(path: Path, error: OSError) -> StorageError:
    why = error.strerror or str(error)
    return StorageError(error.errno, f"{str(path)!r} cannot be read ({why})")


def _require_mendable(path: Path, found: Salvage, mended: MendedReferences) -> None:
    if not found.survivors:
        msg = (
            f"nothing of {str(path)!r} can be mended: none of its lines can be read "
            "as an entry.\nRestore the file from a copy; nothing was written"
        )
        raise SessionDamagedError(msg)
    if found.gaps or found.repeats or found.changes or mended.rehung or mended.changes:
        return
    msg = (
        f"{str(path)!r} is whole, so there is nothing to mend and no copy was written; "
        "load the session as it is"
    )
    raise CallerError(msg)


def _dropped(found: Salvage) -> tuple[DroppedLine, ...]:
    lost = [(gap.number, gap.reason) for gap in found.gaps]
    lost += [(number, f"line {first} says the same") for number, first in found.repeats]
    return tuple(DroppedLine(number=n, reason=why) for n, why in sorted(lost))


def _write_copy(path: Path, header: JsonObject, lines: Iterable[bytes]) -> Path:
    names = _names(path)
    copy = next(names)
    try:
        # The lock on the original keeps a second repair from choosing the same name.
        while copy.exists():
            copy = next(names)
        _write_new(copy, [dump_line(header), *lines])
    except OSError as error:
        raise storage_error(copy, error) from error
    return copy


def _write_new(copy: Path, lines: Iterable[bytes]) -> None:
    try:
        write_whole(copy, lines)
    except BaseException:
        copy.unlink(missing_ok=True)
        raise


def _names(path: Path) -> Iterator[Path]:
    stem = path.name.removesuffix(".jsonl")
    yield path.with_name(f"{stem}.repaired.jsonl")
    for number in count(2):
        yield path.with_name(f"{stem}.repaired-{number}.jsonl")
