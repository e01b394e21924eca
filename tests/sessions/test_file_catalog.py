from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest

from tau_kernel.messages import message_text, user_message
from tau_kernel.sessions import (
    ConversationSession,
    FileSession,
    FileSessionCatalog,
)
from tau_kernel.tree import session_log_is_addressable


@pytest.fixture
def catalog(tmp_path: Path) -> FileSessionCatalog:
    return FileSessionCatalog(tmp_path / "sessions")


def _made(catalog: FileSessionCatalog, cwd: str, text: str, at: int) -> FileSession:
    session = catalog.create(cwd, "echo", "local")
    session.append_message(user_message(text))
    session.close()
    os.utime(session.path, (at, at))
    return session


def test_an_empty_catalog_has_nothing_to_continue(catalog: FileSessionCatalog) -> None:
    assert catalog.list() == []
    assert catalog.most_recent("/w") is None


def test_sessions_are_listed_newest_first_and_by_directory(
    catalog: FileSessionCatalog,
) -> None:
    old = _made(catalog, "/w", "old", 1_000)
    new = _made(catalog, "/w", "new", 3_000)
    other = _made(catalog, "/v", "other", 2_000)
    listed = [info.id for info in catalog.list()]
    assert listed == [new.id, other.id, old.id]
    assert [info.first_message for info in catalog.list("/w")] == ["new", "old"]
    recent = catalog.most_recent("/w")
    assert isinstance(recent, FileSession)
    with closing(recent):
        assert recent.id == new.id


def test_only_messages_on_the_cursors_path_count(catalog: FileSessionCatalog) -> None:
    with closing(catalog.create("/w", "m", "b", name="first")) as session:
        start = session.append_message(user_message("start"))
        session.append_message(user_message("left behind"))
        session.append_navigate(start)
        session.append_message(user_message("end"))
        session.append_session_info("named")
    (info,) = catalog.list()
    assert (info.message_count, info.first_message) == (2, "start")
    assert (info.last_message, info.display_title()) == ("end", "named")
    assert info.error is None


def test_a_long_file_is_listed_from_its_ends(catalog: FileSessionCatalog) -> None:
    with closing(catalog.create("/w", "m", "b")) as session:
        session.append_message(user_message("first"))
        for _ in range(40):
            session.append_message(user_message("x" * 10_000))
        session.append_message(user_message("last"))
    (info,) = catalog.list()
    assert (info.first_message, info.last_message) == ("first", "last")
    assert 0 < info.message_count < 42


def test_an_ephemeral_session_is_never_listed(catalog: FileSessionCatalog) -> None:
    session = catalog.create_ephemeral("/w", "m", "b", system_prompt="s", name="n")
    assert isinstance(session, ConversationSession)
    assert not session_log_is_addressable(session)
    assert (session.model, session.display_title()) == ("m", "n")
    assert catalog.list() == []


def test_a_reference_is_an_id_its_start_or_a_path(catalog: FileSessionCatalog) -> None:
    session = _made(catalog, "/w", "a", 1_000)
    for ref in (session.id, session.id[:6], str(session.path)):
        found = catalog.resolve_ref(ref)
        assert isinstance(found, FileSession)
        with closing(found):
            assert found.id == session.id


def test_a_reference_to_nothing_or_to_several_is_refused(
    catalog: FileSessionCatalog,
) -> None:
    made = [_made(catalog, "/w", str(n), 1_000) for n in range(17)]
    starts = [session.id[0] for session in made]
    twice = next(start for start in starts if starts.count(start) > 1)
    with pytest.raises(LookupError, match="matches multiple sessions"):
        catalog.resolve_ref(twice)
    for ref in ("", "none", "none.jsonl"):
        with pytest.raises(LookupError, match="no session matches"):
            catalog.resolve_ref(ref)
    with pytest.raises(LookupError, match="no session matches"):
        catalog.load("none.jsonl")


def test_a_fork_copies_everything_and_names_its_source(
    catalog: FileSessionCatalog,
) -> None:
    with closing(catalog.create("/w", "m", "b")) as source:
        source.append_message(user_message("a"))
        with closing(catalog.fork(source, "/v")) as fork:
            assert fork.entries() == source.entries()
            assert fork.header["parent"] == source.id
            fork.append_message(user_message("b"))
        assert len(source.view()) == 2
    with closing(catalog.load(str(fork.path))) as loaded:
        assert [message_text(message) for message in loaded.context] == ["a", "b"]
    (info,) = catalog.list("/v")
    assert info.parent == source.id


def test_a_session_in_memory_can_be_forked_to_disk(catalog: FileSessionCatalog) -> None:
    source = catalog.create_ephemeral("/w", "m", "b")
    source.append_message(user_message("kept"))
    catalog.fork(source, "/w").close()
    assert [info.first_message for info in catalog.list()] == ["kept"]


def test_a_damaged_session_is_listed_with_its_error(
    catalog: FileSessionCatalog,
) -> None:
    session = _made(catalog, "/w", "a", 1_000)
    lines = session.path.read_bytes().split(b"\n")
    lines[1] = b"broken"
    session.path.write_bytes(b"\n".join(lines))
    (info,) = catalog.list()
    assert f"{session.path}:2 is damaged" in (info.error or "")
    assert info.id == session.id
    assert catalog.most_recent() is None


def test_a_long_directory_name_still_fits(catalog: FileSessionCatalog) -> None:
    session = _made(catalog, "/" + "/".join(["deep" * 20] * 6), "a", 1_000)
    assert len(session.path.parent.name) < 255
    (info,) = catalog.list(session.cwd)
    assert info.id == session.id


def test_the_title_is_the_start_of_the_first_prompt(
    catalog: FileSessionCatalog,
) -> None:
    session = catalog.create_ephemeral("/w", "model", "b")
    assert session.display_title() == "model"
    session.append_message(user_message("word " * 40))
    assert session.display_title() == ("word " * 10) + "..."
