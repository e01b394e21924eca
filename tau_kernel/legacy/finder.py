"""Find the session files of other programs that can be imported.

A file is described from its first 64 kB, and only as many are as are shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tau_kernel.messages import JsonObject, JsonValue, load_line

from .session_format import SessionFormat, format_of_lines
from .shelf import folder_of

__all__ = ["FoundSession", "FoundSessions", "find_sessions", "session_folders"]

#: Bytes that are read of a file.
_READ: Final = 64 * 1024
_TITLE: Final = 50
#: Below a home: where τ and pi keep their sessions, in folders named alike.
_BASES: Final = (Path(".tau/sessions"), Path(".pi/agent/sessions"))


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSession:
    """A file that holds a session.

    Args:
        path: What `read_session` takes.
        format: Whose it is.
        modified: When it was last written, in UTC.
        title: Its name, else its first prompt, in a line of some 50 characters; empty
            where the file's start has neither.
    """

    path: Path
    format: SessionFormat
    modified: datetime
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSessions:
    """The newest sessions in some folders.

    Args:
        sessions: Last written first.
        passed_over: How many files were looked at that are no sessions, or cannot be
            read.
        left: How many older files were not looked at.
    """

    sessions: tuple[FoundSession, ...]
    passed_over: int
    left: int


def session_folders(home: Path, cwd: str) -> tuple[Path, ...]:
    """Give the folders of other programs' sessions that were made in `cwd`.

    Args:
        home: The person's home directory.
        cwd: An absolute path.
    """
    return tuple(folder_of(home / base, cwd) for base in _BASES)


def find_sessions(folders: Iterable[Path], *, most: int) -> FoundSessions:
    """Find the newest sessions in folders and below; a folder need not exist.

    Args:
        folders: Where to look for ``.jsonl`` files.
        most: How many sessions to give at most.
    """
    written = {
        path: modified
        for folder in folders
        for path in folder.rglob("*.jsonl")
        if (modified := _modified(path)) is not None
    }
    newest = sorted(written, key=lambda path: (written[path], path), reverse=True)
    sessions: list[FoundSession] = []
    seen = 0
    for path in newest:
        if len(sessions) == most:
            break
        seen += 1
        found = _described(path, written[path])
        if found is not None:
            sessions.append(found)
    return FoundSessions(
        sessions=tuple(sessions),
        passed_over=seen - len(sessions),
        left=len(newest) - seen,
    )


def _modified(path: Path) -> datetime | None:
    try:
        return datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except OSError:
        # Deleted since its folder was read, or a link to nothing.
        return None


def _described(path: Path, modified: datetime) -> FoundSession | None:
    try:
        with path.open("rb") as file:
            block = file.read(_READ)
        lines = [line for line in block.split(b"\n") if line.strip()]
        known = format_of_lines(lines)
    except (OSError, ValueError):
        # The caller is told how many of these there were.
        return None
    title = _title(list(_records(lines)))
    return FoundSession(path=path, format=known, modified=modified, title=title)


def _records(lines: list[bytes]) -> Iterator[JsonObject]:
    for line in lines:
        try:
            yield load_line(line)
        except ValueError:
            # The last one may go on beyond what was read; an import names damage.
            continue


def _title(records: list[JsonObject]) -> str:
    names = [_name_in(record) for record in records]
    prompts = (_prompt_in(record) for record in records)
    title = " ".join(next(filter(None, (*reversed(names), *prompts)), "").split())
    return title if len(title) <= _TITLE else f"{title[:_TITLE]}…"


def _name_in(record: JsonObject) -> str:
    match record:
        case {"type": "session_info", "name": str(name)}:
            return name
        case {"type": "session", "session_name": str(name)}:
            return name
        case _:
            return ""


def _prompt_in(record: JsonObject) -> str:
    match record:
        case {"type": "message", "message": {"role": "user", "content": content}}:
            return _text_in(content)
        case _:
            return ""


def _text_in(content: JsonValue) -> str:
    match content:
        case str(text):
            return text
        case list(blocks):
            return "".join(map(_text_in, blocks))
        case {"type": "text", "text": str(text)}:
            return text
        case _:
            return ""
