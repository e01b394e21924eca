"""Files that are there whole or not at all, whatever happens while they are written."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable
from pathlib import Path

from .line_file import sync_folder

__all__ = ["write_whole"]


def write_whole(path: Path, lines: Iterable[bytes]) -> None:
    """Write a file, or replace it, for its owner alone.

    It is written under another name, synced and renamed, so that a reader finds the
    old file or the new one.

    Raises:
        OSError: The disk refused it. The old file stays, unless only the folder could
            not be synced: then the new one is there, and may be lost with the power.
    """
    draft = path.with_name(f".{uuid.uuid4().hex}.draft")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(draft, flags, 0o600), "wb") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
