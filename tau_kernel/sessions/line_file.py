"""A locked file that grows by whole lines or not at all."""

from __future__ import annotations

import errno
import fcntl
import os
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Final

from tau_kernel.errors import CallerError, SessionLockedError, StorageError

from .writer_lock import let_go_in_children, lock_for_writing

__all__ = ["LineFile", "make_private_folder", "storage_error", "sync_folder"]

_FLAGS: Final = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
_CLOSED: Final = -1


def storage_error(path: Path, error: OSError) -> StorageError:
    """Say of which file the disk refused what, keeping the system's error number."""
    why = error.strerror or str(error)
    msg = (
        f"{str(path)!r} was refused by the disk ({why}); what was stored before is "
        "unchanged.\n"
        "Free some space or mend its permissions, then try again"
    )
    return StorageError(error.errno, msg)


def make_private_folder(folder: Path) -> None:
    """Make a folder and its missing parents, each for its owner alone.

    Raises:
        StorageError: One cannot be made.
    """
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        try:
            one.mkdir(mode=0o700, exist_ok=True)
            # A file is found after a power failure only if its folders are.
            sync_folder(one.parent)
        except OSError as error:
            raise storage_error(one, error) from error


class LineFile:
    """An open file with the writer's lock; each append is one write of one line."""

    def __init__(self, path: Path, *, fresh: bool) -> None:
        """Open or make the file and take its lock.

        Args:
            path: The file; a fresh one is made with mode 0600.
            fresh: Whether it must not exist yet; otherwise it must.

        Raises:
            OSError: It cannot be opened so; no fresh file is left.
            SessionLockedError: Somebody writes it already.
        """
        self.path = path
        self._new_name = fresh
        flags = _FLAGS | os.O_CREAT | os.O_EXCL if fresh else _FLAGS
        self._fd = os.open(path, flags, 0o600)
        try:
            lock_for_writing(self._fd, path)
            self._size = os.fstat(self._fd).st_size
        except BaseException:
            os.close(self._fd)
            if fresh:
                path.unlink(missing_ok=True)
            raise
        self._release = weakref.finalize(self, _unlock_and_close, self._fd, os.getpid())
        self._inherited = False
        let_go_in_children(self)

    @property
    def size(self) -> int:
        """The length in bytes, by this writer's own account."""
        return self._size

    def append(self, line: bytes) -> None:
        """Write one whole line, or leave the file as it was.

        Args:
            line: Its bytes, newline included.

        Raises:
            StorageError: The disk refused it, or another program changed the file.
            SessionLockedError: This process was forked from the one that writes.
            CallerError: The file is closed.
        """
        fd = self._writable()
        self._check_untouched(fd)
        try:
            written = os.write(fd, line)
            if written != len(line):
                short = f"only {written} of {len(line)} bytes fit"
                raise OSError(errno.ENOSPC, short)  # noqa: TRY301 - one way to undo
            self._size += len(line)
        except OSError as error:
            self._undo(fd)
            raise storage_error(self.path, error) from error
        except BaseException:
            # An interrupt may fall between the write and its account.
            self._undo(fd)
            raise

    def cut(self, size: int) -> None:
        """Shorten the file to `size` bytes.

        Raises:
            StorageError: The disk refused it.
        """
        try:
            os.ftruncate(self._writable(), size)
        except OSError as error:
            raise storage_error(self.path, error) from error
        self._size = size

    def sync(self) -> None:
        """Wait until all that was appended is on the disk.

        Raises:
            StorageError: The disk failed; what is in the file is uncertain.
        """
        try:
            os.fsync(self._writable())
            if self._new_name:
                sync_folder(self.path.parent)
                self._new_name = False
        except OSError as error:
            why = error.strerror or str(error)
            msg = (
                f"{str(self.path)!r} could not be synced to the disk ({why}); what "
                "was appended last may be lost if the machine stops.\n"
                "Fork the session to a disk that works"
            )
            raise StorageError(error.errno, msg) from error

    def close(self) -> None:
        """Give the lock back. Idempotent; in a forked child it does nothing."""
        # The number of a closed descriptor may be given to another file at once.
        self._fd = _CLOSED
        self._release()

    def let_go_in_child(self) -> None:
        """Close the inherited descriptor; the parent keeps file and lock."""
        if self._release.detach() is not None:
            fd, self._fd = self._fd, _CLOSED
            os.close(fd)
            self._inherited = True

    def _writable(self) -> int:
        if self._inherited:
            msg = (
                f"{str(self.path)!r} is written by the process that this one was "
                "forked from; write it there, or export a fork"
            )
            raise SessionLockedError(msg)
        if self._fd == _CLOSED:
            msg = f"{str(self.path)!r} is closed; load the session again"
            raise CallerError(msg)
        return self._fd

    def _check_untouched(self, fd: int) -> None:
        found = os.fstat(fd)
        if found.st_nlink == 0:
            msg = f"{str(self.path)!r} was deleted; fork the session to keep it"
            raise StorageError(errno.ENOENT, msg)
        if found.st_size != self._size:
            msg = (
                f"{str(self.path)!r} has {found.st_size} bytes where {self._size} "
                "were written: another program changed it.\n"
                "Nothing was written; load the session again"
            )
            raise StorageError(errno.ESTALE, msg)

    def _undo(self, fd: int) -> None:
        try:
            os.ftruncate(fd, self._size)
        except OSError as error:
            # From here on the length disagrees, so every later append is refused, and
            # the next load cuts the torn line off.
            raise storage_error(self.path, error) from error


def _unlock_and_close(fd: int, owner: int) -> None:
    # The finalizer may also run at the exit of a child that skipped the fork hook.
    if os.getpid() == owner:
        # Closing gives the lock back as well, unless a child just forked has the file.
        with suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_UN)
        os.close(fd)


def sync_folder(folder: Path) -> None:
    """Wait until a folder's names are on the disk.

    Raises:
        OSError: The disk failed.
    """
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
