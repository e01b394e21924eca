"""The catalog of the sessions that are files below one folder."""

from __future__ import annotations

from pathlib import Path

from tau_kernel.tree import SessionLog

from .repair import RepairReport, repair_session
from .session_catalog import SessionCatalog, SessionInfo
from .session_file import folder_of
from .session_listing import read_session_info
from .session_store import EphemeralSession, FileSession

__all__ = ["FileSessionCatalog"]


class FileSessionCatalog(SessionCatalog):
    """Sessions as JSONL files in one folder for each working directory."""

    def __init__(self, base: Path) -> None:
        """Use a folder, which need not exist yet."""
        self._base = base

    def create(
        self,
        cwd: str,
        model: str,
        backend: str,
        *,
        system_prompt: str | None = None,
        name: str | None = None,
    ) -> FileSession:
        """Make a session and its file; this process writes it.

        Raises:
            StorageError: The disk refused it; no file is left.
        """
        return FileSession.create(
            self._base, cwd, model, backend, system_prompt=system_prompt, name=name
        )

    def create_ephemeral(
        self,
        cwd: str,
        model: str,
        backend: str,
        *,
        system_prompt: str | None = None,
        name: str | None = None,
    ) -> EphemeralSession:
        """Make a session that is never stored and never listed."""
        session = EphemeralSession(cwd)
        session.begin(model, backend, system_prompt, name)
        return session

    def load(self, ref: str) -> FileSession:
        """Load a session file for writing; see `FileSession.load`."""
        return FileSession.load(ref)

    def fork(self, source: SessionLog, cwd: str) -> FileSession:
        """Make a file that holds a copy of a session; see `FileSession.fork`."""
        return FileSession.fork(self._base, cwd, source)

    def list(self, cwd: str | None = None) -> list[SessionInfo]:
        """List the session files, last written first, damaged ones with their error.

        At most 128 kB of each file is read.

        Args:
            cwd: List only those made in this directory; None lists all.
        """
        if cwd is None:
            paths = self._base.glob("*/*.jsonl")
        else:
            paths = folder_of(self._base, cwd).glob("*.jsonl")
        infos = [info for info in map(_info_or_gone, paths) if info is not None]
        return sorted(infos, key=lambda info: (info.modified, info.ref), reverse=True)

    def repair(self, ref: str) -> RepairReport:
        """Write a mended copy of a damaged session; see `repair_session`.

        Args:
            ref: As for `find_ref`.
        """
        return repair_session(self.find_ref(ref))

    def find_ref(self, ref: str, *, cwd: str | None = None) -> str:
        """Find a session by the path of its file, its id, or the start of its id.

        Args:
            ref: The reference; a path counts only if its file exists.
            cwd: Search only the sessions made in this directory; None searches all.

        Raises:
            SessionRefError: No session matches, or more than one does; it is a
                LookupError.
        """
        if ref.endswith(".jsonl") and Path(ref).is_file():
            return ref
        return super().find_ref(ref, cwd=cwd)


def _info_or_gone(path: Path) -> SessionInfo | None:
    try:
        return read_session_info(path)
    except FileNotFoundError:
        # Deleted since its folder was read.
        return None
