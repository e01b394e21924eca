"""Which notebook a conversation was held in, as its server told the kernel."""

from __future__ import annotations

from pathlib import Path

from tau_kernel.errors import SessionDamagedError, StorageError
from tau_kernel.sessions import FileSession, read_metadata, update_metadata

__all__ = ["note_notebook", "notebook_of"]

_FIELD = "notebook"


def note_notebook(session: FileSession, notebook: str) -> None:
    """Keep beside a session that `notebook` goes on with it.

    Raises:
        SessionDamagedError: What is kept beside it is damaged.
        StorageError: The disk refused it.
    """
    if session.read_only is None:
        update_metadata(session.path, {_FIELD: notebook})


def notebook_of(session: Path) -> str | None:
    """Give the notebook that went on with a session last, if it is known."""
    try:
        notebook = read_metadata(session).get(_FIELD)
    except (SessionDamagedError, StorageError):
        # A list of sessions shows them all the same; opening this one tells.
        return None
    return notebook if isinstance(notebook, str) else None
