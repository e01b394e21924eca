"""What is kept beside a session and may change: ``<session>.meta.json``.

The log never changes, so that what does has a file of its own. Whoever writes it holds
the session's lock.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tau_kernel.errors import SessionDamagedError
from tau_kernel.messages import JsonObject, JsonValue, clean_json, dump_line, load_line

from .line_file import storage_error
from .whole_file import write_whole

__all__ = ["metadata_path", "read_metadata", "update_metadata"]

_SUFFIX: Final = ".meta.json"
#: Bytes; a larger file is none of ours.
_LARGEST: Final = 1_000_000


def metadata_path(session: Path) -> Path:
    """Give the path of what is kept beside a session's file."""
    return session.with_name(session.name.removesuffix(".jsonl") + _SUFFIX)


def read_metadata(session: Path) -> JsonObject:
    """Read what is kept beside a session; nothing where there is no file.

    Raises:
        SessionDamagedError: The file is no JSON object.
        StorageError: It cannot be read.
    """
    path = metadata_path(session)
    try:
        if path.stat().st_size > _LARGEST:
            raise _damaged(path, "it is too large")
        return load_line(path.read_bytes())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise storage_error(path, error) from error
    except ValueError as error:
        if isinstance(error, SessionDamagedError):
            raise
        raise _damaged(path, str(error)) from error


def update_metadata(session: Path, fields: Mapping[str, JsonValue]) -> None:
    """Set fields beside a session and keep the others; for the lock's holder alone.

    Raises:
        SessionDamagedError: The file is no JSON object; it stays as it is.
        StorageError: The disk refused it; the old file stays.
    """
    known = read_metadata(session)
    wanted = {**known, **fields}
    if wanted == known:
        return
    line = dump_line({key: clean_json(value, key) for key, value in wanted.items()})
    path = metadata_path(session)
    try:
        write_whole(path, [line])
    except OSError as error:
        raise storage_error(path, error) from error


def _damaged(path: Path, why: str) -> SessionDamagedError:
    msg = (
        f"{path} is damaged: {why}\n"
        "the conversation itself is in another file; move this one away to go on"
    )
    return SessionDamagedError(msg)
