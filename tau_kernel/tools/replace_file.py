"""Putting a file in place as a whole, so that nobody ever sees half of it."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from dataclasses import dataclass
from typing import Final

from tau_kernel.errors import ToolError
from tau_kernel.messages import AbortSignal

from .in_thread import check_stop
from .path_policy import Place, parent_of, refuse_special

__all__ = ["FileState", "replace_file"]

_CREATE: Final = (
    os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY
)
_CHUNK: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class FileState:
    """What tells whether a file is still the one that was read."""

    inode: int
    size: int
    changed_ns: int

    @classmethod
    def from_stat(cls, status: os.stat_result) -> FileState:
        """Take it from what the system says of a file."""
        return cls(
            inode=status.st_ino, size=status.st_size, changed_ns=status.st_mtime_ns
        )


def replace_file(
    place: Place, data: bytes, stop: AbortSignal, *, expected: FileState | None = None
) -> bool:
    """Write a file beside the old one, sync it and move it into place.

    A file that exists keeps its mode, and its owner where the system allows; other
    hard links to it keep the old content. Folders that are missing are made.

    Args:
        place: What to write.
        data: Its whole content.
        stop: An abort before the move leaves the old file; after it, the new one.
        expected: The file that must still be there.

    Returns:
        Whether there was no such file.

    Raises:
        ToolError: It is no regular file, is not the expected one, or the call was
            aborted; the old file is unchanged.
        OSError: The system refused; the old file is unchanged.
    """
    with parent_of(place, make=True) as (folder, name):
        old = _state_of(place, folder, name)
        # The name's own length may leave no room for more letters.
        temporary = f".tau-{secrets.token_hex(8)}.tmp"
        # What an existing file hides stays hidden while it is written.
        mode = 0o666 if old is None else 0o600
        opened = os.open(temporary, _CREATE, mode, dir_fd=folder)
        try:
            try:
                _write(opened, data, stop)
                if old is not None:
                    _take_after(opened, old)
                os.fsync(opened)
            finally:
                os.close(opened)
            _check_expected(place, expected, _state_of(place, folder, name))
            check_stop(stop)
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            os.unlink(temporary, dir_fd=folder)
            raise
        _sync_folder(folder)
    return old is None


def _state_of(place: Place, folder: int, name: str) -> os.stat_result | None:
    try:
        status = os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        return None
    refuse_special(place, status)
    if stat.S_ISDIR(status.st_mode):
        msg = f"path {place.written!r} is a folder; name a file in it"
        raise ToolError(msg)
    return status


def _check_expected(
    place: Place, expected: FileState | None, found: os.stat_result | None
) -> None:
    if expected is None:
        return
    if found is None or FileState.from_stat(found) != expected:
        msg = (
            f"{place.written!r} was changed by something else meanwhile\n"
            "nothing was written; read it again, and repeat the change"
        )
        raise ToolError(msg)


def _write(opened: int, data: bytes, stop: AbortSignal) -> None:
    left = memoryview(data)
    while left:
        check_stop(stop)
        left = left[os.write(opened, left[:_CHUNK]) :]


def _take_after(opened: int, old: os.stat_result) -> None:
    # Only the superuser may give a file away; anybody else's copy is their own.
    with contextlib.suppress(PermissionError):
        os.fchown(opened, old.st_uid, old.st_gid)
    # A symbolic link that was put there meanwhile has a mode of no meaning.
    if stat.S_ISREG(old.st_mode):
        os.fchmod(opened, stat.S_IMODE(old.st_mode))


def _sync_folder(folder: int) -> None:
    # Not every file system can sync a folder; the file itself is on the disk.
    with contextlib.suppress(OSError):
        readable = os.open(
            os.curdir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder
        )
        try:
            os.fsync(readable)
        finally:
            os.close(readable)
