"""Older sessions through their manager: on disk, in memory, and when files are bad."""

from __future__ import annotations

import fcntl
import json
import re
import resource
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias

import pytest

from tau_kernel.errors import (
    CallerError,
    SessionDamagedError,
    SessionLockedError,
    StorageError,
)
from tau_kernel.legacy import NoSessionFileError, SessionManager, session_manager
from tau_kernel.legacy.session_manager import SessionState
from tau_kernel.messages import JsonObject, message_text
from tau_kernel.sessions import FileSession
from tau_kernel.tree import UnknownEntryError
from tau_kernel.tree import summarize_branch as summarize_of_tree

Make: TypeAlias = Callable[..., SessionManager]

_OLD_FILE: Final = """\
{"type": "session", "id": "root", "parent_id": null, "timestamp": 1700000000000,
 "cwd": "/w", "model": "gpt-x", "system_prompt": "Be kind.", "session_name": "old"}
{"type": "message", "id": "u1", "parent_id": "root", "timestamp": 1700000000001,
 "message": {"role": "user", "content": "first"}}
{"type": "message", "id": "a1", "parent_id": "u1", "timestamp": 1700000000002,
 "message": {"role": "assistant", "content": [{"type": "text", "text": "answer"}]}}

{"type": "message", "id": "u2", "parent_id": "a1", "timestamp": 1700000000003,
 "message": {"role": "user", "content": "second"}}
{"type": "compaction", "id": "k1", "parent_id": "u2", "timestamp": 1700000000004,
 "first_kept_id": "u2", "summary": "they met", "compacted_entries": ["u1", "a1"],
 "tokens_saved": 9}
{"type": "message", "id": "u3", "parent_id": "k1", "timestamp": 1700000000005,
 "message": {"role": "user", "content": "third"}}
""".replace("\n ", " ")


@pytest.fixture(params=["file", "memory"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> SessionManager:
    """Give a manager with an empty session open, on disk or in memory."""
    if request.param == "memory":
        return SessionManager.in_memory("/w")
    made = SessionManager("/w", str(tmp_path))
    made.new_session()
    return made


@pytest.fixture
def old_file(tmp_path: Path) -> Path:
    path = tmp_path / "by-hand" / "old.jsonl"
    path.parent.mkdir()
    path.write_text(_OLD_FILE)
    return path


def _say(manager: SessionManager, text: str, role: str = "user", **more: object) -> str:
    message = {"role": role, "content": text}
    return manager.append_entry({"type": "message", "message": message, **more})


def _said(manager: SessionManager) -> list[str]:
    return [message_text(message) for message in manager.get_active_messages()]


def _path(manager: SessionManager) -> Path:
    assert manager.session_path is not None
    return Path(manager.session_path)


def _state(manager: SessionManager) -> SessionState:
    return manager.navigate(manager.active_entry_id)


def test_a_new_session_is_one_private_line_of_the_older_format(tmp_path: Path) -> None:
    made = SessionManager("/w/x", str(tmp_path))
    path = Path(made.new_session("gpt-x"))
    [line] = path.read_text().splitlines()
    record = json.loads(line)
    assert list(record)[:4] == ["type", "id", "parent_id", "timestamp"]
    assert (record["type"], record["parent_id"]) == ("session", None)
    assert (record["cwd"], record["model"]) == ("/w/x", "gpt-x")
    assert isinstance(record["timestamp"], int)
    assert path.parent == tmp_path / "--w-x--"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_was_appended_is_what_is_loaded(manager: SessionManager) -> None:
    for text in ("one", "two", "three"):
        _say(manager, text)
    before, said = _state(manager), _said(manager)
    assert manager.load(str(_path(manager))) == before
    assert _said(manager) == said == ["one", "two", "three"]


def test_an_appended_entry_gets_id_parent_and_time(manager: SessionManager) -> None:
    first, second = _say(manager, "one"), _say(manager, "two")
    root, one, two = _state(manager).entries
    assert (one["id"], one["parent_id"]) == (first, root["id"])
    assert (two["id"], two["parent_id"]) == (second, first)
    assert isinstance(two["timestamp"], int)


def test_an_entry_keeps_the_id_and_the_parent_that_it_names(
    manager: SessionManager,
) -> None:
    _say(manager, "one", id="mine")
    _say(manager, "two")
    _say(manager, "beside", parent_id="mine")
    assert _said(manager) == ["one", "beside"]


def test_the_callers_entry_is_neither_changed_nor_shared(
    manager: SessionManager,
) -> None:
    message: JsonObject = {"role": "user", "content": "one"}
    entry = {"type": "message", "message": message}
    manager.append_entry(entry)
    message["content"] = "changed"
    manager.get_active_messages()[0]["content"] = []
    assert list(entry) == ["type", "message"]
    assert _said(manager) == ["one"]


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"type": "mesage"}, "did you mean 'message'?"),
        ({}, "'type' is None"),
        ({"type": "message"}, "'message' is missing"),
        ({"type": "message", "message": {"role": "user"}}, "content that is a text"),
        ({"type": "session"}, "begin another session with new_session"),
        (
            {"type": "compaction", "first_kept_id": "taken", "summary": 3},
            "'summary' is 3, but must be a text",
        ),
    ],
)
def test_a_bad_entry_is_refused_and_nothing_is_written(
    manager: SessionManager, entry: JsonObject, told: str
) -> None:
    _say(manager, "one", id="taken")
    before = _state(manager)
    with pytest.raises(CallerError, match=re.escape(told)):
        manager.append_entry(entry)
    assert manager.load(str(_path(manager))) == before


def test_a_taken_id_and_an_unknown_parent_are_refused(manager: SessionManager) -> None:
    _say(manager, "one", id="taken")
    with pytest.raises(CallerError, match="the id 'taken' is taken"):
        _say(manager, "two", id="taken")
    with pytest.raises(CallerError, match="the parent 'nowhere' is no entry"):
        _say(manager, "two", parent_id="nowhere")
    assert _said(manager) == ["one"]


def test_navigating_moves_and_shows_the_session_there(manager: SessionManager) -> None:
    one, two = _say(manager, "one"), _say(manager, "two")
    state = manager.navigate(one)
    assert (state.active_entry_id, len(state.entries)) == (one, 3)
    assert _said(manager) == ["one"]
    _say(manager, "instead")
    assert _said(manager) == ["one", "instead"]
    manager.navigate(two)
    assert _said(manager) == ["one", "two"]


def test_the_root_has_no_messages_and_new_ones_hang_from_it(
    manager: SessionManager,
) -> None:
    _say(manager, "one")
    assert manager.navigate(None).active_entry_id is None
    assert _said(manager) == []
    _say(manager, "anew")
    assert _said(manager) == ["anew"]
    entries = _state(manager).entries
    assert entries[2]["parent_id"] == entries[0]["id"]


def test_an_unknown_place_is_refused_and_the_session_stays(
    manager: SessionManager,
) -> None:
    one = _say(manager, "one")
    with pytest.raises(UnknownEntryError, match="'nowhere'") as caught:
        manager.navigate("nowhere")
    assert isinstance(caught.value, KeyError)
    assert manager.active_entry_id == one


def test_a_compaction_shows_its_summary_and_what_is_kept(
    manager: SessionManager,
) -> None:
    one, two, three = (_say(manager, text) for text in ("one", "two", "three"))
    before = _state(manager).entries
    added = manager.apply_compaction(three, "short", [one, two], 12)
    assert _said(manager) == ["[[Compaction summary: short]]", "three"]
    _say(manager, "four")
    assert _said(manager)[1:] == ["three", "four"]
    entries = _state(manager).entries
    assert entries[: len(before)] == before
    assert entries[len(before)] | {"timestamp": 0} == {
        "type": "compaction",
        "id": added,
        "parent_id": three,
        "timestamp": 0,
        "first_kept_id": three,
        "summary": "short",
        "compacted_entries": [one, two],
        "tokens_saved": 12,
    }
    manager.navigate(two)
    assert _said(manager) == ["one", "two"]


def test_a_boundary_that_is_unknown_or_off_the_path_is_refused(
    manager: SessionManager,
) -> None:
    one, two = _say(manager, "one"), _say(manager, "two")
    manager.navigate(one)
    _say(manager, "instead")
    with pytest.raises(KeyError, match="'nowhere'"):
        manager.apply_compaction("nowhere", "short")
    with pytest.raises(CallerError, match="is not on the path to the active entry"):
        manager.apply_compaction(two, "short")
    assert _said(manager) == ["one", "instead"]


def test_a_fork_before_an_entry_has_the_path_to_it(manager: SessionManager) -> None:
    one, two = _say(manager, "one"), _say(manager, "two")
    before, path = _state(manager), _path(manager)
    made = manager.fork(two)
    assert _state(manager) == before
    state = manager.load(made)
    assert _said(manager) == ["one"]
    assert [entry["id"] for entry in state.entries[1:]] == [one]
    assert state.entries[0]["parent_id"] == before.entries[0]["id"]
    assert state.session_path != str(path)


def test_a_fork_at_an_entry_has_it_and_all_below(manager: SessionManager) -> None:
    _say(manager, "one")
    two = _say(manager, "two")
    three = _say(manager, "three")
    manager.navigate(two)
    beside = _say(manager, "beside")
    manager.load(manager.fork(two, "at"))
    assert _said(manager) == ["two", "beside"]
    manager.navigate(three)
    assert _said(manager) == ["two", "three"]
    assert beside in [entry["id"] for entry in _state(manager).entries]


def test_a_fork_keeps_what_a_compaction_above_it_kept(manager: SessionManager) -> None:
    one, two = _say(manager, "one"), _say(manager, "two")
    manager.apply_compaction(one, "short")
    _say(manager, "three")
    manager.load(manager.fork(two, "at"))
    assert _said(manager) == ["[[Compaction summary: short]]", "two", "three"]


def test_a_clone_shows_what_the_original_shows(manager: SessionManager) -> None:
    _say(manager, "one")
    manager.apply_compaction(_say(manager, "two"), "short")
    last = _say(manager, "three")
    said = _said(manager)
    _say(manager, "later")
    manager.load(manager.clone(last))
    assert _said(manager) == said
    _say(manager, "on its own")
    assert _said(manager) == [*said, "on its own"]


def test_a_session_compacted_at_its_first_record_is_cloned_whole(
    manager: SessionManager,
) -> None:
    root = str(_state(manager).entries[0]["id"])
    _say(manager, "one")
    last = manager.apply_compaction(root, "short")
    said = _said(manager)
    manager.load(manager.clone(last))
    assert _said(manager) == said == ["[[Compaction summary: short]]", "one"]


def test_a_fork_that_cannot_be_is_refused(manager: SessionManager) -> None:
    root = str(_state(manager).entries[0]["id"])
    one = _say(manager, "one")
    count = len(manager.list_all())
    with pytest.raises(CallerError, match="nothing comes before"):
        manager.fork(root)
    with pytest.raises(KeyError, match="'nowhere'"):
        manager.fork("nowhere", "at")
    with pytest.raises(KeyError, match="'nowhere'"):
        manager.clone("nowhere")
    with pytest.raises(CallerError, match="'after', but must be 'before' or 'at'"):
        manager.fork(one, "after")  # type: ignore[arg-type] # the point of the test
    assert len(manager.list_all()) == count


def test_saving_appends_what_is_new_and_goes_to_the_states_place(
    manager: SessionManager,
) -> None:
    one = _say(manager, "one")
    state = _state(manager)
    for text in ("two", "three"):
        message: JsonObject = {"role": "user", "content": text}
        state.entries.append({"type": "message", "id": text, "message": message})
    state.active_entry_id = "two"
    manager.save(state)
    manager.save(state)
    assert _said(manager) == ["one", "two"]
    stored = manager.load(state.session_path)
    assert [entry["id"] for entry in stored.entries[1:]] == [one, "two", "three"]
    assert _said(manager) == ["one", "two", "three"]


def test_saving_another_session_leaves_the_open_one(manager: SessionManager) -> None:
    _say(manager, "one")
    other = _state(manager)
    manager.new_session()
    message: JsonObject = {"role": "user", "content": "two"}
    other.entries.append({"type": "message", "message": message})
    manager.save(other)
    assert _said(manager) == []
    manager.load(other.session_path)
    assert _said(manager) == ["one", "two"]


def _edit_entry(state: SessionState) -> None:
    state.entries[1]["message"] = {"role": "user", "content": "edited"}


def _rename(state: SessionState) -> None:
    state.session_name = "other"


def _go_nowhere(state: SessionState) -> None:
    state.active_entry_id = "nowhere"


def _add_nonsense(state: SessionState) -> None:
    state.entries.append({"type": "message", "id": "x"})


def _lose_path(state: SessionState) -> None:
    state.session_path = ""


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (_edit_entry, r"stored with other values of \['message'\]"),
        (_rename, "session_name is 'other', but None is stored"),
        (_go_nowhere, "the active entry 'nowhere' is none of"),
        (_add_nonsense, "'message' is missing"),
        (_lose_path, "the session path is empty"),
    ],
)
def test_a_state_that_cannot_be_saved_changes_nothing(
    manager: SessionManager, change: Callable[[SessionState], None], told: str
) -> None:
    _say(manager, "one")
    before, state = _state(manager), _state(manager)
    change(state)
    with pytest.raises(CallerError, match=told):
        manager.save(state)
    assert manager.load(before.session_path) == before


def test_nothing_works_before_a_session_is_open(tmp_path: Path) -> None:
    closed = SessionManager("/w", str(tmp_path))
    for act in (
        closed.get_active_messages,
        lambda: closed.append_entry({}),
        lambda: closed.navigate(None),
        lambda: closed.clone("x"),
    ):
        with pytest.raises(CallerError, match="no session is open; load one"):
            act()
    assert (closed.session_path, closed.active_entry_id) == (None, None)
    assert closed.cwd == "/w"
    assert closed.list_all() == []


def test_a_session_that_is_not_there_is_refused(manager: SessionManager) -> None:
    _say(manager, "one")
    with pytest.raises(NoSessionFileError, match="nowhere") as caught:
        manager.load("/nowhere/at-all.jsonl")
    assert isinstance(caught.value, FileNotFoundError)
    assert _said(manager) == ["one"]


def test_a_file_written_by_hand_loads(old_file: Path, tmp_path: Path) -> None:
    reader = SessionManager("/w", str(tmp_path))
    state = reader.load(str(old_file))
    assert (state.model, state.cwd, state.session_name) == ("gpt-x", "/w", "old")
    assert (state.system_prompt, state.active_entry_id) == ("Be kind.", "u3")
    assert (len(state.entries), state.notice) == (6, None)
    assert _said(reader) == ["[[Compaction summary: they met]]", "second", "third"]
    assert old_file.read_text() == _OLD_FILE


def test_a_kept_part_that_hangs_below_its_compaction_is_read(tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl"
    moved = _OLD_FILE.replace('"parent_id": "a1"', '"parent_id": "k1"')
    moved = moved.replace('"k1", "parent_id": "u2"', '"k1", "parent_id": "a1"').replace(
        '"u3", "parent_id": "k1"', '"u3", "parent_id": "u2"'
    )
    path.write_text(moved)
    reader = SessionManager("/w", str(tmp_path))
    reader.load(str(path))
    assert _said(reader) == ["[[Compaction summary: they met]]", "second", "third"]


def test_kinds_and_fields_of_other_programs_are_kept(
    old_file: Path, tmp_path: Path
) -> None:
    line = '{"type": "bookmark", "id": "b", "parent_id": "u3", "timestamp": 1, "x": 2}'
    old_file.write_text(_OLD_FILE + line + "\n")
    reader = SessionManager("/w", str(tmp_path))
    state = reader.load(str(old_file))
    assert state.entries[-1] == json.loads(line)
    _say(reader, "fourth")
    assert old_file.read_text().startswith(_OLD_FILE + line)
    assert _said(reader)[-1] == "fourth"


def test_lists_show_the_newest_first_and_their_own_directory(tmp_path: Path) -> None:
    here, there = (SessionManager(cwd, str(tmp_path)) for cwd in ("/w", "/v"))
    assert here.list_sessions() == []
    for owner in (here, there):
        owner.new_session("m")
        _say(owner, "one")
    [info] = here.list_sessions()
    assert (info.session_path, info.cwd) == (str(_path(here)), "/w")
    assert (info.model, info.message_count, info.status) == ("m", 1, "idle")
    assert info.entries is None
    paths = {info.session_path for info in here.list_all()}
    assert paths == {str(_path(here)), str(_path(there))}
    times = [info.created_at for info in here.list_all()]
    assert times == sorted(times, reverse=True)


def test_a_session_is_listed_by_its_record_wherever_it_lies(
    old_file: Path, tmp_path: Path
) -> None:
    [info] = SessionManager("/w", str(tmp_path)).list_sessions()
    assert (info.session_path, info.session_name) == (str(old_file), "old")
    assert SessionManager("/v", str(tmp_path)).list_sessions() == []


def test_a_list_in_memory_has_the_entries(tmp_path: Path) -> None:
    made = SessionManager.in_memory("/w")
    _say(made, "one")
    [info] = made.list_sessions()
    assert info.entries == _state(made).entries
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_read_is_listed_with_the_reason(
    old_file: Path, tmp_path: Path
) -> None:
    old_file.with_name("bad.jsonl").write_text("nonsense\n")
    good, bad = SessionManager("/w", str(tmp_path)).list_all()
    assert (good.status, bad.status) == ("idle", "error")
    assert "bad.jsonl:1 is no line" in (bad.error or "")


def test_sessions_of_the_v1_format_are_left_to_their_catalog(tmp_path: Path) -> None:
    session = FileSession.create(tmp_path, "/w", "m", "b")
    session.close()
    reader = SessionManager("/w", str(tmp_path))
    assert reader.list_all() == []
    with pytest.raises(SessionDamagedError, match="open this file with the session"):
        reader.load(str(session.path))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{broken", "it is no JSON object"),
        ("[]", "it is no JSON object"),
        ('{"type": "message"}', "'id' is missing"),
        (
            (
                '{"type": "compaction", "id": "u1", "timestamp": 1, "summary": "", '
                '"first_kept_id": "u1"}'
            ),
            "'id' is 'u1', but must differ from that of line 2",
        ),
        (
            '{"type": "message", "id": "z", "timestamp": "today", "message": {}}',
            "'timestamp' is 'today', but must be a whole number of milliseconds",
        ),
    ],
)
def test_a_damaged_line_is_an_error_that_names_it_and_the_file_stays(
    old_file: Path, tmp_path: Path, line: str, told: str
) -> None:
    lines = _OLD_FILE.splitlines()
    damaged = "\n".join([*lines[:3], line, *lines[4:], ""])
    old_file.write_text(damaged)
    reader = SessionManager("/w", str(tmp_path))
    with pytest.raises(SessionDamagedError) as caught:
        reader.load(str(old_file))
    assert f"{old_file}:4 is no line" in str(caught.value)
    assert told in str(caught.value)
    assert "Mend that line" in str(caught.value)
    assert old_file.read_text() == damaged


@pytest.mark.parametrize(
    "text", ["", "\n\n", '{"type": "sess', '{"type": "session", "id": 1}\n']
)
def test_a_file_without_a_session_record_is_damaged(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(text)
    with pytest.raises(SessionDamagedError, match=r"x\.jsonl:1 is no line"):
        SessionManager("/w", str(tmp_path)).load(str(path))


def test_a_file_that_begins_with_a_message_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(_OLD_FILE.split("\n", 1)[1])
    with pytest.raises(SessionDamagedError, match="must be 'session' on the first"):
        SessionManager("/w", str(tmp_path)).load(str(path))


def test_a_line_torn_at_any_byte_is_told_and_set_aside_by_an_append(
    old_file: Path, tmp_path: Path
) -> None:
    whole = _OLD_FILE.encode()
    more = b'{"type": "message", "id": "z", "timestamp": 1, "message": {"role": "u'
    reader = SessionManager("/w", str(tmp_path))
    aside = old_file.with_name("old.jsonl.torn")
    for end in (*range(1, len(more), 5), len(more) - 1):
        old_file.write_bytes(whole + more[:end])
        state = reader.load(str(old_file))
        assert (len(state.entries), state.active_entry_id) == (6, "u3")
        assert f"{end} bytes" in (state.notice or "")
        assert old_file.read_bytes() == whole + more[:end]
        _say(reader, "fourth")
        assert reader.load(str(old_file)).notice is None
        assert _said(reader)[-2:] == ["third", "fourth"]
    assert aside.read_bytes().endswith(b"\n" + more[:-1] + b"\n")
    assert len(reader.list_all()) == 1


def test_an_entry_that_lacks_only_its_newline_is_kept(
    old_file: Path, tmp_path: Path
) -> None:
    old_file.write_text(_OLD_FILE.rstrip("\n"))
    reader = SessionManager("/w", str(tmp_path))
    assert reader.load(str(old_file)).notice is None
    _say(reader, "fourth")
    reader.load(str(old_file))
    assert _said(reader)[-2:] == ["third", "fourth"]


def test_of_two_writers_the_later_is_refused_and_loses_nothing(
    old_file: Path, tmp_path: Path
) -> None:
    one, two = (SessionManager("/w", str(tmp_path)) for _ in range(2))
    for writer in (one, two):
        writer.load(str(old_file))
    _say(one, "mine")
    with pytest.raises(StorageError, match="another program"):
        _say(two, "yours")
    assert (two.active_entry_id, _said(two)[-1]) == ("u3", "third")
    two.load(str(old_file))
    _say(two, "yours")
    assert _said(two)[-2:] == ["mine", "yours"]


def test_a_file_that_is_being_written_is_not_written(
    old_file: Path, tmp_path: Path
) -> None:
    writer = SessionManager("/w", str(tmp_path))
    writer.load(str(old_file))
    with old_file.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(SessionLockedError, match="being written by somebody else"):
            _say(writer, "fourth")
    assert old_file.read_text() == _OLD_FILE


def test_a_file_that_was_deleted_takes_no_more_entries(
    old_file: Path, tmp_path: Path
) -> None:
    writer = SessionManager("/w", str(tmp_path))
    writer.load(str(old_file))
    old_file.unlink()
    with pytest.raises(StorageError, match="refused by the disk"):
        _say(writer, "fourth")
    assert _said(writer)[-1] == "third"


@contextmanager
def _room_for(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond `size` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("fits", [0, 50])
def test_a_disk_that_is_full_takes_nothing_of_an_entry(
    old_file: Path, tmp_path: Path, fits: int
) -> None:
    writer = SessionManager("/w", str(tmp_path))
    writer.load(str(old_file))
    with _room_for(len(_OLD_FILE) + fits), pytest.raises(StorageError, match="refused"):
        _say(writer, "does not fit")
    assert old_file.read_text() == _OLD_FILE
    assert (writer.active_entry_id, _said(writer)[-1]) == ("u3", "third")
    _say(writer, "fits")
    assert _said(writer)[-1] == "fits"


@pytest.mark.parametrize("fits", [0, 50])
def test_a_disk_that_is_full_is_left_no_file_of_a_new_session(
    tmp_path: Path, fits: int
) -> None:
    writer = SessionManager("/w", str(tmp_path))
    with _room_for(fits), pytest.raises(StorageError, match="refused by the disk"):
        writer.new_session()
    assert list(tmp_path.rglob("*.jsonl")) == []


def test_a_path_that_is_no_file_is_an_error_of_the_disk(tmp_path: Path) -> None:
    reader = SessionManager("/w", str(tmp_path))
    with pytest.raises(StorageError, match="Is a directory"):
        reader.load(str(tmp_path))


def test_a_folder_that_cannot_be_made_is_an_error_of_the_disk(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    blocked = SessionManager("/w", str(tmp_path / "file" / "sessions"))
    with pytest.raises(StorageError, match="refused by the disk"):
        blocked.new_session()
    assert blocked.session_path is None


def test_a_directory_with_a_long_name_has_its_sessions(tmp_path: Path) -> None:
    made = SessionManager("/" + "w" * 300, str(tmp_path))
    made.new_session()
    assert [info.session_path for info in made.list_sessions()] == [str(_path(made))]


def test_a_session_that_names_no_directory_belongs_to_its_folder(
    tmp_path: Path,
) -> None:
    owner = SessionManager("/w", str(tmp_path))
    path = Path(owner.new_session())
    path.write_text('{"type": "session", "id": "s", "timestamp": 1}\n')
    assert [info.cwd for info in owner.list_sessions()] == [None]
    assert SessionManager("/v", str(tmp_path)).list_sessions() == []
    owner.load(str(path))
    copy = owner.clone(_say(owner, "one"))
    assert Path(copy).parent == path.parent


def test_branches_are_summarized_by_the_function_of_the_tree() -> None:
    assert session_manager.summarize_branch is summarize_of_tree
