"""Sessions in JSONL files, and sessions that are never stored.

`session_file` knows the format, `line_file` how a line gets to the disk; this is where
a log and its file come together, and what happens to files that are not whole.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final, cast

from tau_kernel.errors import (
    CallerError,
    SessionDamagedError,
    StorageError,
    TauError,
)
from tau_kernel.messages import JsonObject, dump_line
from tau_kernel.tree import EntryDict, SessionLog, copy_of_json

from .conversation_log import ConversationLog
from .line_file import LineFile, make_private_folder, storage_error
from .session_catalog import SessionRefError
from .session_file import (
    SessionContent,
    make_header,
    path_of,
    read_content,
    repair_command,
)

__all__ = ["EphemeralSession", "FileSession"]

_NOT_WRITABLE: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


class EphemeralSession(ConversationLog):
    """A session in memory, gone with the process."""

    def __init__(self, cwd: str) -> None:
        """Start empty, with a new id."""
        super().__init__(make_header(cwd, None))


class FileSession(ConversationLog):
    """A session whose every entry is in its file before an append returns.

    Get one from `create`, `load`, `read` or `fork`. It holds the writer's lock until
    `close`, unless `read_only` says why not.
    """

    def __init__(
        self,
        path: Path,
        header: JsonObject,
        entries: list[EntryDict],
        file: LineFile | TauError,
        *,
        notice: str | None = None,
    ) -> None:
        """Join what was read with the open file, or with the reason there is none."""
        super().__init__(header, entries, sink=_sink_of(file))
        self._path = path
        self._file = file
        self._notice = notice

    @classmethod
    def create(  # noqa: D417 - the rest is `SessionCatalog.create`'s
        cls,
        base: Path,
        cwd: str,
        model: str,
        backend: str,
        *,
        system_prompt: str | None = None,
        name: str | None = None,
    ) -> FileSession:
        """Make a session and its file.

        Args:
            base: The folder of all sessions.

        Raises:
            StorageError: The disk refused it; no file is left.
        """
        session = cls._start(base, make_header(cwd, None), ())
        try:
            session.begin(model, backend, system_prompt, name)
        except BaseException:
            session.close()
            session.path.unlink(missing_ok=True)
            raise
        return session

    @classmethod
    def fork(cls, base: Path, cwd: str, source: SessionLog) -> FileSession:
        """Make a file that holds a copy of a session, entry ids included.

        The copy stands on its own; its header names the source. The cursor is where
        the source's last entry leaves it.

        Args:
            base: The folder of all sessions.
            cwd: The directory that the copy belongs to.
            source: Any log, also one that is read only or open elsewhere.

        Raises:
            StorageError: The disk refused it; no file is left.
        """
        session = cls._start(base, make_header(cwd, source.id), source.view())
        try:
            session.sync()
        except BaseException:
            session.close()
            session.path.unlink(missing_ok=True)
            raise
        return session

    @classmethod
    def load(cls, path: str | Path) -> FileSession:
        """Open a session for writing.

        A torn last line is cut off, kept in ``<file>.torn`` and told in `notice`. A
        file that is damaged elsewhere, or may not be written, opens read only.

        Raises:
            SessionLockedError: Somebody else writes it.
            SessionDamagedError: Its header cannot be read.
            SessionRefError: There is no such file; it is a LookupError.
            StorageError: It cannot be opened.
        """
        path = Path(path)
        file: LineFile | TauError
        try:
            file = LineFile(path, fresh=False)
        except TauError:
            raise
        except OSError as error:
            if error.errno not in _NOT_WRITABLE:
                raise _unreadable(path, error) from error
            file = StorageError(error.errno, f"{path} may not be written")
        try:
            content = _content_of(path)
            if isinstance(file, TauError):
                return cls._reading(path, content, file)
            return cls._mended(path, content, file)
        except BaseException:
            if isinstance(file, LineFile):
                file.close()
            raise

    @classmethod
    def read(cls, path: str | Path) -> FileSession:
        """Open a session for reading, whoever else may be writing it.

        Raises:
            SessionDamagedError: Its header cannot be read.
            SessionRefError: There is no such file; it is a LookupError.
            StorageError: It cannot be opened.
        """
        path = Path(path)
        why = CallerError(f"{path} was opened for reading; load it to write")
        return cls._reading(path, _content_of(path), why)

    @property
    def path(self) -> Path:
        """The session's file."""
        return self._path

    @property
    def read_only(self) -> str | None:
        """Why nothing can be appended, naming file and line; None where it can."""
        return str(self._file) if isinstance(self._file, TauError) else None

    @property
    def notice(self) -> str | None:
        """What people should know of how the file was opened, or None."""
        return self._notice

    def sync(self) -> None:
        """Wait until every entry is on the disk; nothing to wait for when read only.

        Raises:
            StorageError: The disk failed.
        """
        if isinstance(self._file, LineFile):
            self._file.sync()

    def close(self) -> None:
        """Give the writer's lock back; later appends are refused. Idempotent."""
        if isinstance(self._file, LineFile):
            self._file.close()

    @classmethod
    def _start(
        cls, base: Path, header: JsonObject, entries: Collection[EntryDict]
    ) -> FileSession:
        path = path_of(base, header)
        make_private_folder(path.parent)
        try:
            file = LineFile(path, fresh=True)
        except TauError:
            raise
        except OSError as error:
            raise storage_error(path, error) from error
        try:
            file.append(dump_line(header))
            for entry in entries:
                file.append(_line_of(entry))
        except BaseException:
            file.close()
            path.unlink(missing_ok=True)
            raise
        return cls(path, header, [copy_of_json(entry) for entry in entries], file)

    @classmethod
    def _reading(
        cls, path: Path, content: SessionContent, why: TauError
    ) -> FileSession:
        notice = None
        if content.damage:
            why = _damage_error(path, content)
        if content.tail:
            notice = f"{path}: the last line is incomplete and was not read"
        return cls(path, content.header, content.entries, why, notice=notice)

    @classmethod
    def _mended(
        cls, path: Path, content: SessionContent, file: LineFile
    ) -> FileSession:
        if content.damage:
            file.close()
            return cls._reading(path, content, _damage_error(path, content))
        notice = None
        try:
            if content.is_open_ended:
                file.append(b"\n")
            elif content.tail:
                notice = _cut_tail(path, content, file)
        except StorageError as error:
            file.close()
            return cls._reading(path, content, error)
        return cls(path, content.header, content.entries, file, notice=notice)


def _sink_of(file: LineFile | TauError) -> Callable[[EntryDict], None]:
    # No method of the session: a ring of references would keep the lock of a session
    # that nobody has any more until the next garbage collection.
    def store(entry: EntryDict) -> None:
        if isinstance(file, TauError):
            # A new one, so that no earlier traceback hangs on it.
            raise type(file)(*file.args)
        file.append(_line_of(entry))

    return store


def _line_of(entry: EntryDict) -> bytes:
    # An entry is a JSON object; a TypedDict cannot say so.
    return dump_line(cast("JsonObject", entry))


def _content_of(path: Path) -> SessionContent:
    try:
        return read_content(path)
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> Exception:
    if isinstance(error, FileNotFoundError):
        return SessionRefError(f"no session matches {str(path)!r}: there is no file")
    why = error.strerror or str(error)
    return StorageError(error.errno, f"{str(path)!r} cannot be opened ({why})")


def _damage_error(path: Path, content: SessionContent) -> SessionDamagedError:
    line, why = content.damage[0]
    more = len(content.damage) - 1
    others = f" and {more} more" if more else ""
    return SessionDamagedError(
        f"{path}:{line} is damaged ({why}){others}; the session is read only.\n"
        f"What could be read is shown; {repair_command(path)!r} writes a mended copy "
        "to go on with"
    )


def _cut_tail(path: Path, content: SessionContent, file: LineFile) -> str:
    """Put a torn last line aside, then cut it off; in this order nothing is lost."""
    aside = path.with_name(f"{path.name}.torn")
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    try:
        fd = os.open(aside, flags, 0o600)
        with os.fdopen(fd, "wb") as torn:
            torn.write(content.tail + b"\n")
            torn.flush()
            os.fsync(torn.fileno())
    except OSError as error:
        raise storage_error(aside, error) from error
    file.cut(content.size - len(content.tail))
    return (
        f"{path}: the last line was incomplete; {len(content.tail)} bytes were "
        f"cut off and kept in {aside.name}"
    )
