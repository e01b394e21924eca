"""A file as other programs of the v1 format write it, with every kind of entry."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from tau_kernel.messages import message_text, user_message
from tau_kernel.sessions import FileSession, FileSessionCatalog
from tau_kernel.tree import EntryDict

HEADER = {
    "type": "session",
    "version": 1,
    "id": "0f3c",
    "timestamp": "2026-05-01T10:00:00.000Z",
    "cwd": "/w/x",
    "parent": "0f3b",
}


def said(role: str, text: str) -> dict[str, object]:
    return {"role": role, "content": [{"type": "text", "text": text}], "timestamp": 1}


CALL = {
    "type": "toolCall",
    "id": "call_1",
    "name": "bash",
    "arguments": {"command": "ls"},
}
ANSWER = {
    "role": "assistant",
    "content": [
        {"type": "thinking", "thinking": "hm", "thinkingSignature": "s"},
        {"type": "text", "text": "look"},
        CALL,
    ],
    "provider": "p",
    "model": "m",
    "usage": {"input": 1, "output": 2, "totalTokens": 3},
    "stopReason": "toolUse",
    "timestamp": 2,
}
RESULT = {
    "role": "toolResult",
    "toolCallId": "call_1",
    "toolName": "bash",
    "content": [{"type": "text", "text": "a b"}],
    "isError": False,
    "details": None,
    "timestamp": 3,
}
NOTE = {
    "role": "custom",
    "customType": "note",
    "content": "psst",
    "display": True,
    "visibleToModel": True,
    "timestamp": 4,
}
SPEC = {
    "model": {"id": "m", "provider": "p", "context_window": 1000},
    "system_prompt_digest": "00",
    "tools": ["bash"],
    "extensions": [],
    "cwd": "/w/x",
}
FOLDED = {"coveredEntries": 1, "coveredTokens": 9, "agentSpecId": "e03"}

#: Kind, parent's number and payload; the entry's id is ``e`` and its place.
ENTRIES: tuple[tuple[str, int | None, Mapping[str, object]], ...] = (
    ("model_change", None, {"model": "m", "backend": "b"}),
    ("session_info", 0, {"name": "a name"}),
    ("message", 1, {"message": said("system", "be kind")}),
    ("customEntry", 2, {"customType": "agent_spec", "data": SPEC}),
    ("thinking_change", 3, {"level": "high"}),
    ("message", 4, {"message": said("user", "old")}),
    ("message", 5, {"message": said("user", "kept")}),
    ("message", 6, {"message": ANSWER}),
    ("message", 7, {"message": RESULT}),
    (
        "compaction",
        8,
        {
            "summary": "it was old",
            "firstKeptId": "e06",
            "tokensBefore": 90,
            "summarizerModelId": "m",
            "summaryUsage": {"input": 5, "output": 6},
            **FOLDED,
        },
    ),
    ("customMessage", 9, {"customType": "note", "message": NOTE}),
    ("message", 10, {"message": said("user", "left")}),
    ("navigate", 11, {"targetId": "e10"}),
    ("branch_summary", 10, {"summary": "no use", "fromId": "e10"}),
    ("branch_summary", 13, {"summary": "copied", "fromId": None, "copiedFrom": "e13"}),
    ("message", 14, {"message": said("user", "again"), "copiedFrom": "e05"}),
    ("elide", 15, {"firstKeptId": "e15", **FOLDED}),
    # A kind of a newer program, with fields that nobody here knows.
    ("weather", 16, {"sky": {"blue": [True, None, 1.5]}}),
    ("navigate", 17, {"targetId": "e14"}),
)


def record(at: int) -> dict[str, object]:
    kind, parent, payload = ENTRIES[at]
    return {
        "type": kind,
        "id": f"e{at:02}",
        "parentId": None if parent is None else f"e{parent:02}",
        "timestamp": f"2026-05-01T10:00:{at:02}.000Z",
        **payload,
    }


RECORDS = [record(at) for at in range(len(ENTRIES))]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file, written as the standard library writes JSON."""
    path = tmp_path / "--w-x--" / "2026-05-01T10-00-00-000Z_0f3c.jsonl"
    path.parent.mkdir()
    lines = [HEADER, *RECORDS]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def texts_at(session: FileSession, leaf: str) -> list[str]:
    return [message_text(message) for message in session.view().context_for(leaf)]


def test_the_file_has_every_kind_of_entry() -> None:
    known = {get_args(get_type_hints(kind)["type"])[0] for kind in get_args(EntryDict)}
    assert known | {"weather"} == {kind for kind, _, _ in ENTRIES}


def test_every_kind_of_entry_loads_as_it_was_written(path: Path) -> None:
    session = FileSession.read(path)
    assert session.header == HEADER
    assert session.entries() == RECORDS
    assert (session.model, session.backend) == ("m", "b")
    assert (session.session_name, session.cursor) == ("a name", "e14")


@pytest.mark.parametrize(
    ("leaf", "texts"),
    [
        ("e00", []),
        ("e06", ["be kind", "old", "kept"]),
        (
            "e09",
            [
                "be kind",
                "[[Compaction summary: it was old]]",
                "kept",
                "look",
                "a b",
            ],
        ),
        ("e16", ["be kind", "again"]),
        ("e18", ["be kind", "again"]),
    ],
)
def test_a_context_folds_what_its_ancestors_say(
    path: Path, leaf: str, texts: list[str]
) -> None:
    assert texts_at(FileSession.read(path), leaf) == texts


def test_a_left_branch_is_told_by_its_summary_alone(path: Path) -> None:
    assert texts_at(FileSession.read(path), "e14")[-3:] == [
        "psst",
        "[[Branch summary: no use]]",
        "[[Branch summary: copied]]",
    ]


def test_what_is_appended_follows_the_bytes_of_the_other_program(path: Path) -> None:
    before = path.read_bytes()
    with closing(FileSession.load(path)) as session:
        assert (session.read_only, session.notice) == (None, None)
        new = session.append_message(user_message("on"))
    after = path.read_bytes()
    assert after.startswith(before)
    (line,) = after[len(before) :].splitlines()
    written = json.loads(line)
    assert (written["id"], written["parentId"]) == (new, "e14")
    assert FileSession.read(path).entries()[:-1] == RECORDS


def test_a_copy_carries_every_kind_of_entry(path: Path) -> None:
    source = FileSession.read(path)
    with closing(FileSession.fork(path.parents[1], "/v", source)) as fork:
        assert fork.header["parent"] == HEADER["id"]
    written = [json.loads(line) for line in fork.path.read_bytes().splitlines()[1:]]
    assert written == RECORDS
    assert FileSession.read(fork.path).entries() == RECORDS


def test_it_is_listed_by_what_stands_on_the_cursors_path(path: Path) -> None:
    (info,) = FileSessionCatalog(path.parents[1]).list()
    assert (info.id, info.cwd, info.parent) == ("0f3c", "/w/x", "0f3b")
    assert (info.name, info.error) == ("a name", None)
    assert (info.message_count, info.first_message) == (3, "old")


@pytest.mark.parametrize(
    ("at", "key"),
    [
        (0, "parentId"),
        (0, "timestamp"),
        (0, "backend"),
        (9, "firstKeptId"),
        (9, "summary"),
        (10, "customType"),
        (11, "message"),
        (12, "targetId"),
        (13, "fromId"),
    ],
)
def test_an_entry_without_a_field_of_its_kind_is_damage(
    path: Path, at: int, key: str
) -> None:
    lines: list[Mapping[str, object]] = [HEADER, *RECORDS]
    lines[at + 1] = {name: value for name, value in RECORDS[at].items() if name != key}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    session = FileSession.read(path)
    assert f"{path}:{at + 2} is damaged ({key!r} is " in (session.read_only or "")
    assert len(session.view()) == len(RECORDS) - 1
