from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tau_kernel.errors import SessionDamagedError, StorageError
from tau_kernel.sessions import (
    FileSession,
    FileSessionCatalog,
    read_metadata,
    update_metadata,
)


@pytest.fixture
def session(tmp_path: Path) -> FileSession:
    """Give a stored session, open for writing."""
    return FileSession.create(tmp_path, "/work", "m", "b")


def beside(session: FileSession) -> Path:
    return session.path.with_suffix(".meta.json")


def test_a_session_has_no_metadata_until_some_is_set(session: FileSession) -> None:
    assert read_metadata(session.path) == {}
    assert not beside(session).exists()


def test_fields_are_set_and_the_others_kept(session: FileSession) -> None:
    update_metadata(session.path, {"notebook": "a.ipynb", "more": [1]})
    update_metadata(session.path, {"notebook": "b.ipynb"})
    assert read_metadata(session.path) == {"notebook": "b.ipynb", "more": [1]}


def test_metadata_is_for_its_owner_alone(session: FileSession) -> None:
    update_metadata(session.path, {"notebook": "a.ipynb"})
    assert stat.S_IMODE(beside(session).stat().st_mode) == 0o600


def test_what_is_set_already_is_not_written_again(session: FileSession) -> None:
    update_metadata(session.path, {"notebook": "a.ipynb"})
    before = beside(session).stat().st_ino
    update_metadata(session.path, {"notebook": "a.ipynb"})
    assert before == beside(session).stat().st_ino


def test_damaged_metadata_is_told_and_left_alone(session: FileSession) -> None:
    beside(session).write_bytes(b"{not json")
    for touch in (
        lambda: read_metadata(session.path),
        lambda: update_metadata(session.path, {"notebook": "a.ipynb"}),
    ):
        with pytest.raises(SessionDamagedError, match=r"meta\.json is damaged"):
            touch()
    assert beside(session).read_bytes() == b"{not json"


def test_a_file_that_is_far_too_large_is_not_read(session: FileSession) -> None:
    with beside(session).open("wb") as file:
        file.truncate(2_000_000)
    with pytest.raises(SessionDamagedError, match="too large"):
        read_metadata(session.path)


def test_a_refused_write_leaves_the_old_file_and_no_draft(
    session: FileSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    update_metadata(session.path, {"notebook": "a.ipynb"})

    def full(descriptor: int) -> None:
        del descriptor
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="No space left"):
        update_metadata(session.path, {"notebook": "b.ipynb"})
    assert read_metadata(session.path) == {"notebook": "a.ipynb"}
    names = {path.name for path in session.path.parent.iterdir()}
    assert names == {session.path.name, beside(session).name}


def test_metadata_is_never_taken_for_a_session(
    session: FileSession, tmp_path: Path
) -> None:
    update_metadata(session.path, {"notebook": "a.ipynb"})
    infos = FileSessionCatalog(tmp_path).list()
    assert [info.ref for info in infos] == [str(session.path)]
