"""The output of a program: its start and end for the model, all of it in a file."""

from __future__ import annotations

import codecs
import os
import shutil
import tempfile
import threading
import weakref
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import IO, Final

from .path_policy import PathPolicy

__all__ = [
    "HEAD_BYTES",
    "SPOOL_FILES",
    "SPOOL_FILE_BYTES",
    "TAIL_BYTES",
    "CappedOutput",
    "Spool",
]

HEAD_BYTES: Final = 5_000
"""Bytes from the start of a long output that the model reads."""
TAIL_BYTES: Final = 15_000
"""Bytes from its end: where a program fails, it says so last."""
SPOOL_FILE_BYTES: Final = 64 * 1024 * 1024
"""Bytes of one output that its file holds at most."""
SPOOL_FILES: Final = 20
"""Files that are kept; the oldest goes when another is made."""

#: The bytes of a UTF-8 character but for its first.
_WITHIN: Final = range(0x80, 0xC0)


class Spool:
    """A private folder for long outputs, made when first needed.

    It is removed with its owner, and at the latest when this process exits in good
    order; what a killed process left stays for the system's cleaning of its temporary
    folder. From any thread.
    """

    def __init__(self) -> None:
        """Start without a folder."""
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._files: deque[Path] = deque()

    def create(self) -> IO[bytes]:
        """Open a new file that only this user may read; its name is its path.

        Raises:
            OSError: The temporary folder cannot be written.
        """
        with self._lock:
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="tau-output-"))
                weakref.finalize(self, _remove, self._folder, os.getpid())
            file = tempfile.NamedTemporaryFile(  # noqa: SIM115 - its taker closes it
                suffix=".txt", dir=self._folder, buffering=0, delete=False
            )
            self._files.append(Path(file.name))
            if len(self._files) > SPOOL_FILES:
                self._files.popleft().unlink(missing_ok=True)
            return file

    def opened_to(self, policy: PathPolicy) -> PathPolicy:
        """Allow, for reading, what is kept here, too."""
        if self._folder is None:
            return policy
        return replace(policy, allowed=(*policy.allowed, self._folder))


def _remove(folder: Path, owner: int) -> None:
    # A forked copy of this process exits, too, and must not clean up after it.
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


class CappedOutput:
    """Takes a program's output piece by piece and keeps a bounded part in memory."""

    def __init__(self, spool: Spool) -> None:
        """Start empty; a file is made in `spool` only if the output grows long."""
        self._spool = spool
        self._head = b""
        self._tail = bytearray()
        self._file: IO[bytes] | None = None
        self._kept = 0
        self._failure: str | None = None
        self.size = 0

    @property
    def is_cut(self) -> bool:
        """Whether the model reads a part of it only."""
        return self.size > HEAD_BYTES + TAIL_BYTES

    @property
    def path(self) -> str | None:
        """Where the whole output is, if it was too long and could be kept."""
        return None if self._file is None else str(self._file.name)

    def add(self, chunk: bytes) -> None:
        """Take the next piece."""
        was_cut = self.is_cut
        self.size += len(chunk)
        if self.is_cut and not was_cut:
            self._begin_file()
        self._keep(chunk)
        self._tail += chunk
        if not self._head and self.is_cut:
            self._head = bytes(self._tail[:HEAD_BYTES])
        if len(self._tail) > HEAD_BYTES + 2 * TAIL_BYTES:
            del self._tail[:-TAIL_BYTES]

    def close(self) -> None:
        """Close the file, which stays."""
        if self._file is not None:
            self._file.close()

    def text(self) -> str:
        """Give what the model reads: everything, or both ends and where the rest is."""
        if not self.is_cut:
            return _decode(self._tail)
        # Not final: the start of a character that the cut splits is left out.
        head = codecs.utf_8_decode(self._head, "replace", False)[0]  # noqa: FBT003 - the function takes it so
        tail = _decode(_whole_end(self._tail[-TAIL_BYTES:]))
        cut = self.size - HEAD_BYTES - TAIL_BYTES
        return f"{head}\n[… {cut} bytes are cut out here; {self._where()} …]\n{tail}"

    def tail(self, limit: int) -> str:
        """Give at most the last `limit` bytes as text, for showing what goes on."""
        if len(self._tail) <= limit:
            return _decode(self._tail)
        return "…" + _decode(_whole_end(self._tail[-limit:]))

    def _where(self) -> str:
        if self._failure is not None:
            return f"the whole output could not be kept: {self._failure}"
        if self.size > SPOOL_FILE_BYTES:
            return f"its first {SPOOL_FILE_BYTES} bytes are in {self.path}"
        return f"the whole output is in {self.path}, which read and grep can open"

    def _begin_file(self) -> None:
        try:
            self._file = self._spool.create()
        except OSError as error:
            self._failure = str(error)
        self._keep(bytes(self._tail))

    def _keep(self, chunk: bytes) -> None:
        if self._file is None or self._failure is not None:
            return
        left = memoryview(chunk)[: SPOOL_FILE_BYTES - self._kept]
        try:
            while left:
                written = self._file.write(left)
                self._kept += written
                left = left[written:]
        except OSError as error:
            # A full disk must not fail the program that runs.
            self._failure = str(error)


def _decode(data: bytes | bytearray) -> str:
    return data.decode("utf-8", errors="replace").replace("\r\n", "\n")


def _whole_end(data: bytearray) -> bytearray:
    # A cut may stand within a character, of which at most three bytes follow it.
    starts = (i for i, byte in enumerate(data[:4]) if byte not in _WITHIN)
    return data[next(starts, 0) :]
