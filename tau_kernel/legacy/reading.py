"""Read an older file once, to go on with a copy of it in the v1 format."""

from __future__ import annotations

from pathlib import Path

from .convert import ConvertedSession, convert_session
from .shelf import FileShelf, is_v1_file

__all__ = ["is_older_file", "read_older_file"]


def is_older_file(path: Path) -> bool:
    """Say whether a file does not begin as a session of the v1 format does."""
    return not is_v1_file(path)


def read_older_file(path: Path, *, cwd: str, backend: str) -> ConvertedSession:
    """Read and convert a file, which stays as it is.

    Args:
        path: The file.
        cwd: The directory of a session that names none.
        backend: The backend of its model, which older files do not tell.

    Raises:
        NoSessionFileError: There is no such file.
        SessionDamagedError: A line of it is no record of an older session.
        StorageError: It cannot be read.
    """
    records, _ = FileShelf(path.parent).read(str(path))
    return convert_session(records, cwd=cwd, backend=backend)
