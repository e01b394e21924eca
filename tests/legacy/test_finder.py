"""Session files of other programs, found and described."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

import pytest

from tau_kernel.legacy import SessionFormat, find_sessions, session_folders
from tau_kernel.messages import JsonObject, JsonValue

ISO: Final = "2025-11-30T10:00:00.000Z"
HEADER: Final[JsonObject] = {"type": "session", "version": 3, "id": "s"}


def says(content: JsonValue, role: str = "user") -> JsonObject:
    message: JsonObject = {"role": role, "content": content}
    return {"type": "message", "id": "a", "parentId": None, "message": message}


def write(path: Path, *records: JsonObject, age: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(json.dumps(one).encode() + b"\n" for one in records))
    os.utime(path, (1_700_000_000 - age, 1_700_000_000 - age))
    return path


def test_the_folders_of_both_programs_are_named_after_the_directory() -> None:
    assert session_folders(Path("/home/ada"), "/work/main") == (
        Path("/home/ada/.tau/sessions/--work-main--"),
        Path("/home/ada/.pi/agent/sessions/--work-main--"),
    )


def test_the_newest_come_first_from_all_folders_and_below(tmp_path: Path) -> None:
    older: JsonObject = {"type": "session", "id": "s", "timestamp": 5}
    v1 = {**HEADER, "version": 1, "parent": None}
    paths = [
        write(tmp_path / "a/x/new.jsonl", HEADER, says("hi")),
        write(
            tmp_path / "b/mid.jsonl", v1, says([{"type": "text", "text": "yo"}]), age=5
        ),
        write(tmp_path / "a/old.jsonl", older | {"session_name": "long ago"}, age=9),
    ]
    write(tmp_path / "a/notes.txt", HEADER)
    found = find_sessions([tmp_path / "a", tmp_path / "b", tmp_path / "c"], most=9)
    assert [one.path for one in found.sessions] == paths
    assert [(one.format, one.title) for one in found.sessions] == [
        (SessionFormat.PI, "hi"),
        (SessionFormat.V1, "yo"),
        (SessionFormat.OLDER, "long ago"),
    ]
    assert found.sessions[0].modified.timestamp() == 1_700_000_000
    assert (found.passed_over, found.left) == (0, 0)


def test_files_that_are_no_sessions_are_counted_and_older_ones_left(
    tmp_path: Path,
) -> None:
    for age in range(4):
        write(tmp_path / f"{age}.jsonl", HEADER, age=10 * age)
    write(tmp_path / "data.jsonl", {"row": 1}, age=5)
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "gone.jsonl").symlink_to(tmp_path / "nothing")
    found = find_sessions([tmp_path], most=2)
    assert [one.path.name for one in found.sessions] == ["0.jsonl", "1.jsonl"]
    assert (found.passed_over, found.left) == (2, 2)


@pytest.mark.parametrize(
    ("records", "title"),
    [
        ([], ""),
        ([says("x", role="assistant")], ""),
        ([says("first\nprompt"), says("second")], "first prompt"),
        ([says("w" * 60)], "w" * 50 + "…"),
        ([says([{"type": "image"}, {"type": "text", "text": "see"}])], "see"),
        ([says("a"), {"type": "session_info", "name": "n"}], "n"),
        ([says(7), {"type": "session_info", "name": None}], ""),
    ],
)
def test_a_session_is_known_by_its_name_or_its_first_prompt(
    tmp_path: Path, records: list[JsonObject], title: str
) -> None:
    write(tmp_path / "s.jsonl", HEADER, *records)
    (found,) = find_sessions([tmp_path], most=1).sessions
    assert found.title == title


def test_only_the_start_of_a_long_file_is_read(tmp_path: Path) -> None:
    late: JsonObject = {"type": "session_info", "name": "late"}
    write(tmp_path / "s.jsonl", HEADER, says("a" * 40), says("b" * 70_000), late)
    (found,) = find_sessions([tmp_path], most=1).sessions
    assert found.title == "a" * 40
