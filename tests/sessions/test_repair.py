from __future__ import annotations

import json
import os
import random
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tau_kernel.errors import (
    CallerError,
    SessionDamagedError,
    SessionLockedError,
    StorageError,
)
from tau_kernel.messages import message_text, user_message
from tau_kernel.sessions import (
    FileSession,
    FileSessionCatalog,
    RepairReport,
    repair_session,
)
from tau_kernel.tree import SessionLog

TEXTS = ("one", "two", "three", "four", "five")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A session: header, model, then five messages in lines 3 to 7."""
    with closing(FileSession.create(tmp_path, "/w/x", "m", "b")) as session:
        for text in TEXTS:
            session.append_message(user_message(text))
    return session.path


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def damage(path: Path, number: int, change: Callable[[bytes], bytes]) -> bytes:
    """Change one line, and give the file's bytes."""
    lines = lines_of(path)
    lines[number - 1] = change(lines[number - 1])
    path.write_bytes(b"".join(lines))
    return path.read_bytes()


def broken(line: bytes) -> bytes:
    """Leave nothing of a line."""
    return b"broken\n"


def torn(line: bytes) -> bytes:
    """Leave of a line its head: type, id, parent and time."""
    return line[: line.index(b'"message":')] + b"\n"


def texts_of(path: Path) -> list[str]:
    """Load a session that must be writable, and give its context."""
    with closing(FileSession.load(path)) as session:
        assert (session.read_only, session.notice) == (None, None)
        return [message_text(message) for message in session.context]


def id_of(line: bytes) -> str:
    return str(json.loads(line)["id"])


def test_the_copy_keeps_the_readable_lines_to_the_byte(path: Path) -> None:
    damaged = damage(path, 5, broken)
    report = repair_session(path)
    assert path.read_bytes() == damaged
    before, after = lines_of(path), lines_of(report.path)
    assert after[1:4] + after[5:] == before[1:4] + before[6:]
    assert report.kept == len(after) - 1
    assert [(dropped.number) for dropped in report.dropped] == [5]
    assert stat.S_IMODE(report.path.stat().st_mode) == 0o600


def test_the_copy_is_a_session_of_its_own_and_names_its_source(path: Path) -> None:
    damage(path, 5, broken)
    catalog = FileSessionCatalog(path.parents[1])
    source = FileSession.read(path)
    report = catalog.repair(source.id[:8])
    assert report.path.name == f"{path.stem}.repaired.jsonl"
    infos = {info.ref: info for info in catalog.list()}
    assert infos.keys() == {str(path), str(report.path)}
    copy = infos[str(report.path)]
    assert (copy.error, copy.id, copy.parent) == (None, report.id, source.id)
    assert (copy.cwd, copy.message_count) == ("/w/x", 4)
    assert texts_of(report.path) == ["one", "two", "four", "five"]


def test_a_second_repair_never_overwrites_the_first(path: Path) -> None:
    damage(path, 5, broken)
    first = repair_session(path)
    data = first.path.read_bytes()
    second = repair_session(path)
    assert second.path.name == f"{path.stem}.repaired-2.jsonl"
    assert (first.path.read_bytes(), second.id) != (data, first.id)
    assert sorted(path.parent.iterdir()) == sorted([path, first.path, second.path])


def test_a_repaired_copy_is_whole(path: Path) -> None:
    damage(path, 4, broken)
    report = repair_session(path)
    with pytest.raises(CallerError, match="is whole"):
        repair_session(report.path)


def test_an_orphan_hangs_from_the_parent_that_the_torn_line_tells(path: Path) -> None:
    with closing(FileSession.load(path)) as session:
        start = session.view()[1]["id"]
        lost = session.append_at(start, "message", {"message": user_message("beside")})
        orphan = session.append_at(lost, "message", {"message": user_message("end")})
    damage(path, 8, torn)
    report = repair_session(path)
    (rehung,) = report.rehung
    assert (rehung.number, rehung.entry_id, rehung.lost_id) == (9, orphan, lost)
    assert (rehung.parent_id, rehung.reason) == (start, "the lost line 8 hung from it")
    assert texts_of(report.path) == ["one", "end"]


def test_ancestry_is_followed_through_several_torn_lines(path: Path) -> None:
    ids = [id_of(line) for line in lines_of(path)]
    for number in (4, 5, 6):
        damage(path, number, torn)
    report = repair_session(path)
    (rehung,) = report.rehung
    assert (rehung.entry_id, rehung.parent_id) == (ids[6], ids[2])
    assert texts_of(report.path) == ["one", "five"]


def test_the_children_of_a_torn_root_are_roots(path: Path) -> None:
    damage(path, 2, lambda line: line[: line.index(b'"model":')] + b"\n")
    (rehung,) = repair_session(path).rehung
    assert (rehung.number, rehung.parent_id) == (3, None)
    assert rehung.reason == "the lost line 2 was a root"


def test_an_orphan_of_unknown_descent_hangs_from_the_nearest_earlier_entry(
    path: Path,
) -> None:
    nearest = id_of(lines_of(path)[3])
    damage(path, 5, broken)
    (rehung,) = repair_session(path).rehung
    assert rehung.parent_id == nearest
    assert rehung.reason == "line 4 is the nearest earlier entry"


def test_siblings_stay_siblings_below_the_gap_that_took_their_parent(
    path: Path,
) -> None:
    with closing(FileSession.load(path)) as session:
        before = session.cursor
        lost = session.append_message(user_message("lost"))
        left = session.append_message(user_message("left"))
        session.append_navigate(lost)
        right = session.append_message(user_message("right"))
    damage(path, 8, broken)
    report = repair_session(path)
    assert {one.entry_id: one.parent_id for one in report.rehung} == {
        left: before,
        right: before,
    }
    # The navigate led to the lost entry.
    (mended,) = report.mended
    assert (mended.number, f"it became {before!r}" in mended.change) == (10, True)


def test_the_nearest_earlier_entry_is_where_the_cursor_stood(path: Path) -> None:
    with closing(FileSession.load(path)) as session:
        start = session.view()[1]["id"]
        session.append_navigate(start)
        session.append_message(user_message("lost"))
        session.append_message(user_message("orphan"))
    damage(path, 9, broken)
    (rehung,) = repair_session(path).rehung
    assert rehung.parent_id == start
    assert rehung.reason == "line 3 is the nearest earlier entry"


def test_with_no_earlier_entry_an_orphan_is_a_root(path: Path) -> None:
    damage(path, 2, broken)
    (rehung,) = repair_session(path).rehung
    assert rehung.parent_id is None
    assert rehung.reason == "no entry before it survived"


def test_a_ring_of_parents_is_opened_where_it_comes_first(path: Path) -> None:
    ids = [id_of(line) for line in lines_of(path)]
    damage(path, 4, lambda line: line.replace(ids[2].encode(), ids[4].encode()))
    report = repair_session(path)
    (rehung,) = report.rehung
    assert (rehung.entry_id, rehung.parent_id) == (ids[3], ids[2])
    assert texts_of(report.path) == list(TEXTS)


def test_a_parent_that_stands_later_is_kept(path: Path) -> None:
    lines = lines_of(path)
    lines[2:4] = [lines[3], lines[2], b"\n"]
    path.write_bytes(b"".join(lines))
    report = repair_session(path)
    assert report.rehung == ()
    assert texts_of(report.path) == list(TEXTS)


def test_an_anchor_resumes_below_its_lost_boundary(path: Path) -> None:
    with closing(FileSession.load(path)) as session:
        lost = session.view()[3]["id"]
        session.append_elide(
            lost, covered_entries=2, covered_tokens=1, agent_spec_id=None
        )
    damage(path, 5, broken)
    report = repair_session(path)
    assert texts_of(report.path) == ["four", "five"]
    assert [mended.number for mended in report.mended] == [8]


def test_an_anchor_whose_kept_entries_are_all_lost_keeps_none(path: Path) -> None:
    with closing(FileSession.load(path)) as session:
        lost = session.view()[-1]["id"]
        session.append_elide(
            lost, covered_entries=4, covered_tokens=1, agent_spec_id=None
        )
        session.append_message(user_message("after"))
    damage(path, 7, torn)
    report = repair_session(path)
    assert texts_of(report.path) == ["after"]
    with pytest.raises(CallerError, match="is whole"):
        repair_session(report.path)


def test_a_branch_summary_goes_where_its_lost_branch_point_was(path: Path) -> None:
    with closing(FileSession.load(path)) as session:
        third = session.view()[3]["id"]
        summary = session.append_branch_summary("left", third)
    damage(path, 5, broken)
    report = repair_session(path)
    entry = FileSession.read(report.path).view().entry(summary)
    assert entry["type"] == "branch_summary"
    assert entry["fromId"] == entry["parentId"] == id_of(lines_of(path)[3])


def test_entries_that_lost_the_newline_between_them_are_parted(path: Path) -> None:
    damage(path, 4, lambda line: line[:-1])
    report = repair_session(path)
    assert (report.kept, report.dropped, report.rehung) == (6, (), ())
    assert [mended.number for mended in report.mended] == [4]
    assert texts_of(report.path) == list(TEXTS)


def test_an_entry_that_was_glued_to_a_torn_line_is_kept(path: Path) -> None:
    damage(path, 4, lambda line: line[:-20])
    report = repair_session(path)
    assert [dropped.number for dropped in report.dropped] == [4]
    assert texts_of(report.path) == ["one", "three", "four", "five"]


def test_what_a_message_quotes_is_no_entry_of_its_own(path: Path) -> None:
    quoted = lines_of(path)[3].decode()
    with closing(FileSession.load(path)) as session:
        session.append_message(user_message(quoted))
        session.append_custom_entry("copy", {"entry": json.loads(quoted)})
    for number in (8, 9):
        damage(path, number, lambda line: line[:-4] + b"\n")
    report = repair_session(path)
    assert [dropped.number for dropped in report.dropped] == [8, 9]
    assert report.kept == 6


def test_bytes_that_are_no_utf8_are_replaced_and_told(path: Path) -> None:
    damage(path, 4, lambda line: line.replace(b"two", b"t\xffo"))
    report = repair_session(path)
    assert [(one.number, one.change) for one in report.mended] == [
        (4, "bytes that were no UTF-8 became U+FFFD")
    ]
    assert texts_of(report.path)[1] == "t\N{REPLACEMENT CHARACTER}o"


def test_a_line_that_is_there_twice_is_kept_once(path: Path) -> None:
    damage(path, 4, lambda line: line * 2)
    (dropped,) = repair_session(path).dropped
    assert (dropped.number, dropped.reason) == (5, "line 4 says the same")


def test_another_entry_under_a_taken_id_gets_an_id_of_its_own(path: Path) -> None:
    damage(path, 4, lambda line: line + line.replace(b"two", b"2"))
    report = repair_session(path)
    (mended,) = report.mended
    assert mended.number == 5
    assert "was that of line 4" in mended.change
    assert report.kept == 7
    assert texts_of(report.path) == list(TEXTS)


def test_a_torn_tail_is_left_out(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])
    report = repair_session(path)
    assert [dropped.number for dropped in report.dropped] == [7]
    assert texts_of(report.path) == ["one", "two", "three", "four"]


def test_an_unreadable_header_is_made_anew_from_what_is_left(path: Path) -> None:
    source = FileSession.read(path)
    damage(path, 1, lambda line: line[1:])
    report = repair_session(path)
    copy = FileSession.read(report.path)
    assert (copy.cwd, copy.header["parent"]) == ("/w/x", source.id)
    (mended,) = report.mended
    assert mended.number == 1
    assert "'/w/x' is what was left of it" in mended.change


def test_a_lost_header_takes_its_directory_from_the_agents_record(path: Path) -> None:
    with closing(FileSession.load(path)) as session:
        session.append_custom_entry("agent_spec", {"cwd": "/w-x"})
    damage(path, 1, broken)
    assert FileSession.read(repair_session(path).path).cwd == "/w-x"


def test_a_lost_header_takes_its_directory_from_the_folder(path: Path) -> None:
    source = FileSession.read(path)
    damage(path, 1, lambda line: b"")
    report = repair_session(path)
    copy = FileSession.read(report.path)
    assert (copy.cwd, copy.header["parent"]) == ("/w/x", source.id)
    assert "guessed" in report.mended[0].change
    assert texts_of(report.path) == list(TEXTS)


def test_a_file_that_lies_elsewhere_belongs_to_its_folder(
    path: Path, tmp_path: Path
) -> None:
    damage(path, 1, broken)
    moved = path.rename(tmp_path / "moved.jsonl")
    assert FileSession.read(repair_session(moved).path).cwd == str(tmp_path)


def test_an_entry_glued_to_the_header_is_parted_from_it(path: Path) -> None:
    before = lines_of(path)
    damage(path, 1, lambda line: line[:-1])
    report = repair_session(path)
    assert lines_of(report.path)[1:] == before[1:]
    assert FileSession.read(report.path).cwd == "/w/x"
    assert [mended.number for mended in report.mended] == [1]


def test_a_header_with_bytes_that_are_no_utf8_is_kept_with_the_rest(
    path: Path,
) -> None:
    damage(path, 1, lambda line: line.replace(b'"/w/x"', b'"/w/\xff"'))
    report = repair_session(path)
    assert FileSession.read(report.path).cwd == "/w/\N{REPLACEMENT CHARACTER}"
    assert [(one.number, one.change) for one in report.mended] == [
        (1, "bytes that were no UTF-8 became U+FFFD")
    ]


def test_a_header_without_its_directory_is_no_entry(path: Path) -> None:
    damage(path, 1, lambda line: line.replace(b'"cwd"', b'"cwx"'))
    report = repair_session(path)
    assert report.kept == 6
    assert FileSession.read(report.path).cwd == "/w/x"


def test_a_whole_session_needs_no_repair(path: Path) -> None:
    with pytest.raises(CallerError, match="is whole"):
        repair_session(path)
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("data", [b"", b"\n\n", b"no session\n", b'{"type":"x"}\n'])
def test_a_file_without_one_readable_entry_is_refused(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    with pytest.raises(SessionDamagedError, match="Restore the file"):
        repair_session(path)
    assert (path.read_bytes(), list(path.parent.iterdir())) == (data, [path])


def test_a_file_of_another_version_is_left_to_its_program(path: Path) -> None:
    damage(path, 1, lambda line: line.replace(b'"version":1', b'"version":2'))
    with pytest.raises(SessionDamagedError, match="the program that wrote it"):
        repair_session(path)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="no session matches"):
        repair_session(tmp_path / "none.jsonl")


def test_a_folder_cannot_be_repaired(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot be read"):
        repair_session(tmp_path)


def test_a_session_that_is_being_written_is_not_repaired(path: Path) -> None:
    with (
        closing(FileSession.load(path)),
        pytest.raises(SessionLockedError, match="open for writing elsewhere"),
    ):
        repair_session(path)


def test_a_damaged_session_names_the_command_that_mends_it(path: Path) -> None:
    damage(path, 5, broken)
    session = FileSession.load(path)
    with pytest.raises(SessionDamagedError, match="tau-kernel repair") as refused:
        session.append_message(user_message("more"))
    assert f"{path}:5 is damaged" in str(refused.value)
    assert str(refused.value) == session.read_only


def test_a_damaged_session_stands_where_it_can_when_its_cursor_is_lost(
    path: Path,
) -> None:
    with closing(FileSession.load(path)) as session:
        session.append_navigate(session.view()[3]["id"])
    damage(path, 5, broken)
    loaded = FileSession.load(path)
    assert [message_text(message) for message in loaded.context] == ["four", "five"]


@pytest.mark.slow
def test_any_damage_is_mended_or_refused_and_keeps_every_readable_line(
    path: Path,
) -> None:
    chance = random.Random(4)
    grow(path)
    original = path.read_bytes()
    originals = set(original.split(b"\n")[1:-1])
    for _ in range(300):
        data = bytearray(original)
        for _ in range(chance.randint(1, 4)):
            damage_somewhere(data, chance)
        path.write_bytes(data)
        try:
            report = repair_session(path)
        except CallerError:
            continue
        assert path.read_bytes() == data
        check_copy(report, FileSession.read(report.path))
        whole = originals & set(bytes(data).split(b"\n"))
        kept = {entry["id"] for entry in FileSession.read(report.path).view()}
        assert {id_of(line) for line in whole} <= kept
        report.path.unlink()


def grow(path: Path) -> None:
    """Add branches, anchors and moves."""
    with closing(FileSession.load(path)) as session:
        ids = [entry["id"] for entry in session.view()]
        session.append_navigate(ids[2])
        session.append_message(user_message("a branch"))
        session.append_branch_summary("gone", ids[4])
        session.append_message(user_message("again"))
        kept = session.append_message(user_message("kept"))
        session.append_elide(
            kept, covered_entries=1, covered_tokens=1, agent_spec_id=None
        )
        session.append_message(user_message("last"))
        session.append_navigate(kept)


def damage_somewhere(data: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(data))
    match chance.randrange(4):
        case 0:
            data[at] = chance.randrange(256)
        case 1:
            del data[at : at + chance.randrange(1, 300)]
        case 2:
            data[at:at] = chance.randbytes(chance.randrange(1, 30))
        case _:
            end = min(len(data), at + chance.randrange(1, 300))
            data[at:end] = bytes(end - at)


def check_copy(report: RepairReport, copy: SessionLog) -> None:
    """Every entry of a mended copy is reached from a root, and none is an orphan."""
    view = copy.view()
    assert len(view) == report.kept
    for entry in view:
        root = view.path(entry["id"])[0]
        assert root["parentId"] is None
    view.context_for(copy.cursor)


def test_a_copy_that_cannot_be_written_leaves_nothing(path: Path) -> None:
    damage(path, 5, broken)
    # No file name may be longer.
    long = path.rename(path.with_name("x" * 245 + ".jsonl"))
    with pytest.raises(StorageError, match="refused by the disk"):
        repair_session(long)
    assert os.listdir(path.parent) == [long.name]  # noqa: PTH208 - as it says
