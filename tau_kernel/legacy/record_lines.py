"""The lines of a session file as JSON objects, hashed on the way.

A file is read once, from start to end, so that what was imported is what was hashed,
whatever another program appends meanwhile. Nothing is locked and nothing is changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tau_kernel.errors import SessionDamagedError
from tau_kernel.messages import JsonObject, load_line
from tau_kernel.tree import EntryDict

__all__ = ["HashedLines", "RecordLines", "StoredSession", "damage", "torn_notice"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSession:
    """What a file holds, in the v1 format.

    Args:
        header: Line 1, as it is stored.
        entries: In load order; whoever makes a log of them owns them.
        notices: What people should know of how it was read, a sentence each.
    """

    header: JsonObject
    entries: list[EntryDict]
    notices: tuple[str, ...] = ()


class HashedLines:
    """Lines with their newlines; `hexdigest` is of those that were taken so far."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        """Take the lines of a file that is open for reading in binary."""
        self._lines = iter(lines)
        self._digest = hashlib.sha256()

    def __iter__(self) -> Iterator[bytes]:
        """Give the lines that were not taken yet."""
        for line in self._lines:
            self._digest.update(line)
            yield line

    def hexdigest(self) -> str:
        """Give the SHA-256 of the bytes so far, in hex."""
        return self._digest.hexdigest()


class RecordLines:
    """The records in lines, each with the number of its line, the header's being 1.

    Attributes:
        notices: What people should know of the lines that were read.
    """

    def __init__(self, lines: Iterable[bytes], path: Path, advice: str) -> None:
        """Take the lines of a whole file.

        Args:
            lines: Each with its newline, but for the last of a torn file.
            path: How errors name the file.
            advice: What to do about a damaged line.
        """
        self.notices: list[str] = []
        self._lines = lines
        self._path = path
        self._advice = advice

    def __iter__(self) -> Iterator[tuple[int, JsonObject]]:
        """Give the records in order; a torn last line is left out, with a notice.

        Raises:
            SessionDamagedError: Another line holds no JSON object.
        """
        for number, line in enumerate(self._lines, start=1):
            if not line.strip():
                continue
            try:
                record = load_line(line)
            except ValueError as error:
                if number > 1 and not line.endswith(b"\n"):
                    self.notices.append(torn_notice(len(line)))
                    return
                raise self.damage(number, f"it is no JSON object ({error})") from error
            yield number, record

    def damage(self, number: int, fault: str) -> SessionDamagedError:
        """Make the error that a line cannot be read."""
        return damage(self._path, number, fault, self._advice)


def damage(path: Path, number: int, fault: str, advice: str) -> SessionDamagedError:
    """Make the error that a line of a file cannot be imported."""
    return SessionDamagedError(
        f"{path}:{number} cannot be imported: {fault}.\n{advice}; nothing was written"
    )


def torn_notice(size: int) -> str:
    """Say that the last line, of so many bytes, was left out."""
    return f"The last line is incomplete; its {size} bytes were left out."
