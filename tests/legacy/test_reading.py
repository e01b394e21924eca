"""Files of each format, whole, torn and damaged, read for a copy."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, cast

import pytest

from tau_kernel.errors import SessionDamagedError, StorageError
from tau_kernel.legacy import (
    IMPORT_RECORD,
    NoSessionFileError,
    SessionFormat,
    SessionManager,
    read_session,
)
from tau_kernel.messages import JsonObject, Message, message_text, user_message
from tau_kernel.sessions import FileSession
from tau_kernel.tree import InMemorySessionLog

ISO: Final = "2025-11-30T10:00:00.000Z"


def write(path: Path, *records: JsonObject) -> Path:
    path.write_bytes(b"".join(json.dumps(one).encode() + b"\n" for one in records))
    return path


def v1_file(tmp_path: Path) -> Path:
    session = FileSession.create(tmp_path / "v1", "/w", "m", "b", name="talk")
    for text in ("one", "two", "three"):
        session.append_message(user_message(text))
    session.close()
    return session.path


def older_file(tmp_path: Path) -> Path:
    manager = SessionManager("/w", str(tmp_path / "older"))
    path = manager.new_session("m")
    for text in ("one", "two", "three"):
        said: JsonObject = {"role": "user", "content": text}
        manager.append_entry({"type": "message", "message": said})
    return Path(path)


def pi_file(tmp_path: Path) -> Path:
    header: JsonObject = {"type": "session", "version": 3, "id": "s", "timestamp": ISO}
    records: list[JsonObject] = [header | {"cwd": "/w"}]
    for text in ("one", "two", "three"):
        head: JsonObject = {"type": "message", "id": text, "timestamp": ISO}
        parent = None if text == "one" else records[-1]["id"]
        message: JsonObject = {"role": "user", "content": text}
        records.append(head | {"parentId": parent, "message": message})
    return write(tmp_path / "pi.jsonl", *records)


Make = Callable[[Path], Path]
MAKERS: Final[Sequence[Make]] = (v1_file, older_file, pi_file)
each_format = pytest.mark.parametrize("make", MAKERS)


def texts(messages: Sequence[Message]) -> list[str]:
    return [message_text(message) for message in messages]


def read_texts(path: Path) -> list[str]:
    found = read_session(path, cwd="/else", backend="echo")
    return texts(found.log.view().context_for(found.log.cursor))


@each_format
def test_a_whole_file_is_read_and_its_bytes_are_on_record(
    tmp_path: Path, make: Make
) -> None:
    path = make(tmp_path)
    whole = path.read_bytes()
    found = read_session(path, cwd="/else", backend="echo")
    assert texts(found.log.view().context_for(found.log.cursor)) == [
        "one",
        "two",
        "three",
    ]
    assert found.notices == ()
    last = found.log.view().entry(cast("str", found.log.cursor))
    assert last["type"] == "customEntry"
    assert last["customType"] == IMPORT_RECORD
    assert last["data"] == {
        "file": path.name,
        "format": found.format.value,
        "sha256": hashlib.sha256(whole).hexdigest(),
        "header": json.loads(whole.splitlines()[0]),
    }
    assert path.read_bytes() == whole


@each_format
def test_a_torn_last_line_is_left_out_and_told(tmp_path: Path, make: Make) -> None:
    path = make(tmp_path)
    torn = path.read_bytes()[:-9]
    path.write_bytes(torn)
    found = read_session(path, cwd="/else", backend="echo")
    assert read_texts(path) == ["one", "two"]
    assert len(found.notices) == 1
    assert "The last line is incomplete" in found.notices[0]
    assert path.read_bytes() == torn
    data = cast("JsonObject", found.log.view()[-1])["data"]
    assert cast("JsonObject", data)["sha256"] == hashlib.sha256(torn).hexdigest()


@each_format
def test_a_last_line_that_lacks_only_its_newline_counts(
    tmp_path: Path, make: Make
) -> None:
    path = make(tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    assert read_texts(path) == ["one", "two", "three"]


@each_format
def test_blank_lines_and_line_ends_of_windows_are_passed_over(
    tmp_path: Path, make: Make
) -> None:
    path = make(tmp_path)
    path.write_bytes(b"\n" + path.read_bytes().replace(b"\n", b"\r\n \n"))
    assert read_texts(path) == ["one", "two", "three"]


@each_format
@pytest.mark.parametrize("put", [b"{ no JSON\n", b"[1]\n", b"\xff\n"])
def test_a_damaged_middle_line_is_an_error_that_names_it(
    tmp_path: Path, make: Make, put: bytes
) -> None:
    path = make(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = put
    path.write_bytes(b"".join(lines))
    with pytest.raises(SessionDamagedError) as raised:
        read_session(path, cwd="/else", backend="echo")
    message = str(raised.value)
    assert message.startswith(f"{path}:3 ")
    assert len(message.splitlines()) == 2
    assert any(word in message for word in ("Mend", "mended"))
    assert path.read_bytes() == b"".join(lines)


@each_format
def test_a_damaged_last_line_that_was_written_to_its_end_is_an_error(
    tmp_path: Path, make: Make
) -> None:
    path = make(tmp_path)
    path.write_bytes(path.read_bytes() + b"{ no JSON\n")
    with pytest.raises(SessionDamagedError):
        read_session(path, cwd="/else", backend="echo")


@each_format
def test_a_header_alone_is_an_empty_session(tmp_path: Path, make: Make) -> None:
    path = make(tmp_path)
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    assert read_texts(path) == []


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"", 1),
        (b"\n\n", 1),
        (b"# A heading\n", 1),
        (b'\n{"type": "message"}\n', 2),
        (b'{"type": "session", "id', 1),
    ],
)
def test_a_file_that_begins_no_session_is_refused(
    tmp_path: Path, content: bytes, line: int
) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    with pytest.raises(
        SessionDamagedError, match="session file of τ or of pi"
    ) as error:
        read_session(path, cwd="/", backend="echo")
    assert str(error.value).startswith(f"{path}:{line} ")


def test_a_cursor_that_was_moved_stays_where_it_was(tmp_path: Path) -> None:
    session = FileSession.create(tmp_path, "/w", "m", "b")
    one = session.append_message(user_message("one"))
    session.append_message(user_message("two"))
    session.append_navigate(one)
    session.close()
    found = read_session(session.path, cwd="/", backend="b")
    assert found.log.view()[-1]["parentId"] == one
    assert read_texts(session.path) == ["one"]


def test_the_entries_of_a_v1_file_are_the_very_same(tmp_path: Path) -> None:
    path = v1_file(tmp_path)
    found = read_session(path, cwd="/", backend="b")
    stored = [json.loads(line) for line in path.read_bytes().splitlines()[1:]]
    assert found.format is SessionFormat.V1
    assert found.log.entries()[:-1] == stored


def test_a_v1_file_of_another_version_is_refused(tmp_path: Path) -> None:
    header: JsonObject = {"type": "session", "version": 2, "id": "s", "parent": None}
    path = write(tmp_path / "s.jsonl", header)
    with pytest.raises(SessionDamagedError, match="its version is 2"):
        read_session(path, cwd="/", backend="b")


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"id": "a"}, "the id 'a' is taken"),
        ({"id": "b", "message": {"role": "user"}}, "neither text nor blocks"),
    ],
)
def test_a_v1_line_that_is_no_entry_is_damage(
    tmp_path: Path, entry: JsonObject, words: str
) -> None:
    message: JsonObject = {"role": "user", "content": "hi"}
    whole: JsonObject = {"type": "message", "id": "a", "parentId": None}
    whole |= {"timestamp": ISO, "message": message}
    header: JsonObject = {"type": "session", "version": 1, "id": "s", "parent": None}
    path = write(tmp_path / "s.jsonl", header, whole, whole | entry)
    with pytest.raises(SessionDamagedError, match=rf":3 .*{words}"):
        read_session(path, cwd="/", backend="b")


def test_a_file_that_another_program_writes_is_read_without_its_lock(
    tmp_path: Path,
) -> None:
    session = FileSession.create(tmp_path, "/w", "m", "b")
    session.append_message(user_message("one"))
    assert read_texts(session.path) == ["one"]
    session.append_message(user_message("two"))
    assert read_texts(session.path) == ["one", "two"]
    session.close()


def test_an_imported_session_can_be_imported_again(tmp_path: Path) -> None:
    found = read_session(pi_file(tmp_path), cwd="/", backend="b")
    copy = FileSession.fork(tmp_path / "home", "/w", found.log)
    copy.append_message(user_message("four"))
    copy.close()
    again = read_session(copy.path, cwd="/", backend="b")
    assert read_texts(copy.path) == ["one", "two", "three", "four"]
    names = [
        one["data"]["file"]
        for one in again.log.view()
        if one["type"] == "customEntry" and one["customType"] == IMPORT_RECORD
    ]
    assert names == ["pi.jsonl", copy.path.name]


def test_a_log_without_a_durable_place_is_what_a_read_gives(tmp_path: Path) -> None:
    found = read_session(pi_file(tmp_path), cwd="/", backend="b")
    copy = InMemorySessionLog()
    assert not hasattr(found.log, "path")
    assert found.log.id == "s"
    assert copy.id != found.log.id


def test_a_missing_file_and_one_that_cannot_be_read_are_told_apart(
    tmp_path: Path,
) -> None:
    with pytest.raises(NoSessionFileError, match=r"no session file .*nowhere"):
        read_session(tmp_path / "nowhere", cwd="/", backend="b")
    with pytest.raises(StorageError, match="cannot be read"):
        read_session(tmp_path, cwd="/", backend="b")
