"""Pi-style sessions of each version, read as what a model would be sent."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tau_kernel.errors import SessionDamagedError
from tau_kernel.legacy import ImportedSession, SessionFormat, read_session
from tau_kernel.messages import JsonObject, JsonValue, Message, convert_to_llm
from tau_kernel.sessions import FileSession
from tau_kernel.tree import EntryDict, LogView, entry_fault

TIME: Final = "2025-11-30T10:00:00.000Z"
MS: Final = 1_764_496_800_000


def header(version: int | None = 3, **more: JsonValue) -> JsonObject:
    made: JsonObject = {"type": "session", "id": "0197-uuid", "timestamp": TIME}
    if version is not None:
        made["version"] = version
    return {**made, "cwd": "/w", **more}


def record(
    kind: str, entry_id: str, parent: str | None, **more: JsonValue
) -> JsonObject:
    head: JsonObject = {"type": kind, "id": entry_id, "parentId": parent}
    return {**head, "timestamp": TIME, **more}


def said(entry_id: str, parent: str | None, **message: JsonValue) -> JsonObject:
    return record("message", entry_id, parent, message=message)


def user(entry_id: str, parent: str | None, text: str) -> JsonObject:
    return said(entry_id, parent, role="user", content=text, timestamp=MS)


def text(words: str) -> JsonObject:
    return {"type": "text", "text": words}


def write(path: Path, records: Sequence[JsonObject]) -> Path:
    path.write_bytes(b"".join(json.dumps(one).encode() + b"\n" for one in records))
    return path


def read(path: Path, *records: JsonObject) -> ImportedSession:
    return read_session(write(path, records), cwd="/else", backend="echo")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "s.jsonl"


def entry(found: ImportedSession, entry_id: str) -> JsonObject:
    return cast("JsonObject", found.log.view().entry(entry_id))


def context(found: ImportedSession) -> list[Message]:
    return found.log.view().context_for(found.log.cursor)


USAGE: Final[JsonObject] = {
    "input": 10,
    "output": 20,
    "cacheRead": 3,
    "cacheWrite": 4,
    "totalTokens": 37,
    "cost": {"input": 0.1, "output": 0.2, "cacheRead": 0, "total": 0.3},
    "tier": "fast",
}
#: Version 3, with every kind and role, a branch, and things that nobody knows.
SESSION: Final[list[JsonObject]] = [
    header(parentSession="/other/file.jsonl"),
    record("model_change", "m1", None, provider="anthropic", modelId="claude"),
    record("thinking_level_change", "l1", "m1", thinkingLevel="high"),
    user("u1", "l1", "first"),
    said(
        "a1",
        "u1",
        role="assistant",
        content=[
            {"type": "thinking", "thinking": "hm", "thinkingSignature": "sig"},
            text("let me look"),
            {"type": "toolCall", "id": "c1", "name": "ls", "arguments": {"n": 1}},
        ],
        api="anthropic-messages",
        provider="anthropic",
        model="claude",
        usage=USAGE,
        stopReason="toolUse",
        timestamp=MS + 5,
        latency=7,
    ),
    said(
        "t1",
        "a1",
        role="toolResult",
        toolCallId="c1",
        toolName="ls",
        content=[text("a"), {"type": "image", "data": "AA==", "mimeType": "image/png"}],
        details={"n": 2},
        isError=True,
        timestamp=MS + 6,
    ),
    said(
        "b1",
        "t1",
        role="bashExecution",
        command="make",
        output="no rule\n",
        exitCode=2,
        cancelled=False,
        truncated=True,
        fullOutputPath="/tmp/out",  # noqa: S108 - a value that is only shown
        timestamp=MS + 7,
    ),
    said(
        "b2",
        "b1",
        role="bashExecution",
        command="pwd",
        output="",
        exitCode=0,
        excludeFromContext=True,
        timestamp=MS + 8,
    ),
    user("left", "b2", "a branch that was left"),
    record(
        "branch_summary", "s1", "b2", fromId="b2", summary="tried", details={"x": 1}
    ),
    record(
        "custom_message", "x1", "s1", customType="note", content="psst", display=False
    ),
    said("h1", "x1", role="hookMessage", customType="hook", content=[text("hooked")]),
    said("d1", "h1", role="custom", customType="c", content="own", details=[1]),
    record("custom", "e1", "d1", customType="cell", data={"code": "x"}),
    record("label", "n1", "e1", targetId="u1", label="here"),
    record("session_info", "i1", "n1", name="old times"),
    said("bs", "i1", role="branchSummary", summary="went", fromId="u1", timestamp=MS),
    said("cs", "bs", role="compactionSummary", summary="was", tokensBefore=5),
    record("hologram", "z1", "cs", depth=3),
    said("z2", "z1", role="oracle", content="?"),
    said(
        "a2",
        "z2",
        role="assistant",
        content=[],
        stopReason="error",
        errorMessage="overloaded",
        timestamp=MS + 9,
    ),
]
NOTE: Final = "[[Branch summary: went]]"
RAN: Final = (
    "The user ran a shell command:\n```sh\nmake\n```\nIt printed:\n```\nno rule\n```\n"
    "It failed with exit code 2.\nWhat it printed is cut; the whole is in /tmp/out."
)
CONTEXT: Final[list[JsonObject]] = [
    {"role": "user", "content": "first", "timestamp": MS},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm", "thinking_signature": "sig"},
            text("let me look"),
            {"type": "toolCall", "id": "c1", "name": "ls", "arguments": {"n": 1}},
        ],
        "api": "anthropic-messages",
        "provider": "anthropic",
        "model": "claude",
        "response_id": None,
        "usage": {
            "input_tokens": 10,
            "output_tokens": 20,
            "cache_read_tokens": 3,
            "cache_write_tokens": 4,
            "total_tokens": 37,
            "cost": {"input": 0.1, "output": 0.2, "cache_read": 0.0, "total": 0.3},
            "extra": {"tier": "fast"},
        },
        "stop_reason": "toolUse",
        "error_message": None,
        "timestamp": MS + 5,
    },
    {
        "role": "toolResult",
        "tool_call_id": "c1",
        "tool_name": "ls",
        "content": [
            text("a"),
            {"type": "image", "data": "AA==", "mime_type": "image/png"},
        ],
        "details": {"n": 2},
        "is_error": True,
        "timestamp": MS + 6,
    },
    {"role": "user", "content": [text(RAN)], "timestamp": MS + 7},
    {
        "role": "custom",
        "customType": "bashExecution",
        "content": [
            text("The user ran a shell command:\n```sh\npwd\n```\nIt printed nothing.")
        ],
        "display": True,
        "visibleToModel": False,
        "timestamp": MS + 8,
    },
    {"role": "user", "content": [text("[[Branch summary: tried]]")]},
    {
        "role": "custom",
        "customType": "note",
        "content": "psst",
        "display": False,
        "visibleToModel": True,
        "timestamp": MS,
    },
    {
        "role": "custom",
        "customType": "hook",
        "content": [text("hooked")],
        "display": True,
        "visibleToModel": True,
        "timestamp": MS,
    },
    {
        "role": "custom",
        "customType": "c",
        "content": "own",
        "display": True,
        "visibleToModel": True,
        "details": [1],
        "timestamp": MS,
    },
    {"role": "user", "content": [text(NOTE)], "timestamp": MS},
    {
        "role": "user",
        "content": [text("[[Compaction summary: was]]")],
        "timestamp": MS,
    },
    {
        "role": "assistant",
        "content": [],
        "api": "",
        "provider": "",
        "model": "",
        "response_id": None,
        "usage": None,
        "stop_reason": "error",
        "error_message": "overloaded",
        "timestamp": MS + 9,
    },
]


def test_every_kind_and_role_is_read_as_a_model_would_be_sent_it(file: Path) -> None:
    assert context(read(file, *SESSION)) == CONTEXT


def test_what_the_user_kept_from_the_model_is_not_sent(file: Path) -> None:
    sent = convert_to_llm(context(read(file, *SESSION)))
    assert "pwd" not in str(sent)
    assert "psst" in str(sent)


def test_ids_parents_times_and_order_are_kept(file: Path) -> None:
    found = read(file, *SESSION)
    heads = [(e["id"], e["parentId"], e["timestamp"]) for e in found.log.view()][:-1]
    assert heads == [(r["id"], r["parentId"], TIME) for r in SESSION[1:]]
    assert found.log.view().children_of("b2") == ["left", "s1"]


def test_settings_names_labels_and_unknown_records_become_entries(file: Path) -> None:
    found = read(file, *SESSION)
    kinds = {
        "m1": {"type": "model_change", "model": "claude", "backend": "anthropic"},
        "l1": {"type": "thinking_change", "level": "high"},
        "i1": {"type": "session_info", "name": "old times"},
        "n1": {
            "type": "customEntry",
            "customType": "label",
            "data": {"targetId": "u1", "label": "here"},
        },
        "e1": {
            "type": "customEntry",
            "customType": "pi:cell",
            "data": {"code": "x"},
        },
        "z1": {"type": "customEntry", "customType": "imported", "data": SESSION[-3]},
        "z2": {"type": "customEntry", "customType": "imported", "data": SESSION[-2]},
    }
    heads = {"id", "parentId", "timestamp"}
    assert {
        name: {k: v for k, v in entry(found, name).items() if k not in heads}
        for name in kinds
    } == kinds
    (notice,) = found.notices
    assert notice.startswith("2 ('hologram', 'message of oracle') of unknown kind")


def test_values_without_a_place_in_v1_stay_beside_the_entry(file: Path) -> None:
    found = read(file, *SESSION)
    assert entry(found, "a1")["legacy"] == {"message": {"latency": 7}}
    assert entry(found, "s1")["legacy"] == {"details": {"x": 1}}
    assert entry(found, "b1")["legacy"] == {
        "message": {
            "exitCode": 2,
            "cancelled": False,
            "truncated": True,
            "fullOutputPath": "/tmp/out",  # noqa: S108 - as above
        }
    }


def test_the_last_entry_says_where_the_session_came_from(file: Path) -> None:
    found = read(file, *SESSION)
    last = found.log.view()[-1]
    assert found.format is SessionFormat.PI
    assert (last["id"], last["parentId"]) == (found.log.cursor, "a2")
    data = cast("JsonObject", last)["data"]
    assert isinstance(data, dict)
    assert (data["file"], data["format"]) == ("s.jsonl", "pi")
    assert data["header"] == SESSION[0]


def test_a_stored_copy_has_the_same_context(file: Path, tmp_path: Path) -> None:
    found = read(file, *SESSION)
    copy = FileSession.fork(tmp_path / "home", "/w", found.log)
    copy.close()
    again = FileSession.read(copy.path)
    assert again.context == CONTEXT
    assert again.header["parent"] == "0197-uuid"
    assert again.session_name == "old times"


def test_version_1_is_a_list_whose_compaction_counts_lines(file: Path) -> None:
    def line(kind: str, **more: JsonValue) -> JsonObject:
        return {"type": kind, "timestamp": TIME, **more}

    def talk(words: str) -> JsonObject:
        message: JsonObject = {"role": "user", "content": words, "timestamp": MS}
        return line("message", message=message)

    compaction = line(
        "compaction", summary="old", firstKeptEntryIndex=2, tokensBefore=9
    )
    old = header(None, provider="openai", modelId="gpt", thinkingLevel="low")
    found = read(file, old, talk("one"), talk("two"), compaction, talk("three"))
    assert [m["content"] for m in context(found)] == [
        [text("[[Compaction summary: old]]")],
        "two",
        "three",
    ]
    view = found.log.view()
    kinds = [one["type"] for one in view]
    assert kinds[:3] == ["model_change", "thinking_change", "message"]
    assert [one["parentId"] for one in view[1:]] == [one["id"] for one in view[:-1]]
    again = read(file, old, talk("one"), talk("two"), compaction, talk("three"))
    assert list(again.log.view())[:-1] == list(view)[:-1]
    assert found.notices == ()


@pytest.mark.parametrize(
    ("index", "kept"), [(0, ["one", "two"]), (1, ["one", "two"]), (2, ["two"]), (3, [])]
)
def test_an_index_of_a_line_is_the_header_an_entry_or_nothing_yet(
    file: Path, index: int, kept: list[str]
) -> None:
    def talk(words: str) -> JsonObject:
        return {"type": "message", "message": {"role": "user", "content": words}}

    compaction: JsonObject = {"type": "compaction", "summary": "s"}
    compaction["firstKeptEntryIndex"] = index
    found = read(file, header(1), talk("one"), talk("two"), compaction)
    assert [m["content"] for m in context(found)[1:]] == kept


def test_version_2_keeps_from_an_entry_that_it_names(file: Path) -> None:
    compaction = record(
        "compaction", "k", "c", summary="s", firstKeptEntryId="b", tokensBefore=7
    )
    lost = record("compaction", "q", "d", summary="t", firstKeptEntryId="nowhere")
    talk = [user("a", None, "1"), user("b", "a", "2"), user("c", "b", "3")]
    found = read(file, header(2), *talk, compaction, user("d", "k", "4"))
    assert [m["content"] for m in context(found)[1:]] == ["2", "3", "4"]
    assert entry(found, "k")["tokensBefore"] == 7
    found = read(file, header(2), *talk, compaction, user("d", "k", "4"), lost)
    assert [m["content"] for m in context(found)] == [
        [text("[[Compaction summary: t]]")]
    ]
    assert entry(found, "q")["legacy"] == {"firstKeptEntryId": "nowhere"}


def test_a_summary_from_the_root_keeps_that_word_beside_it(file: Path) -> None:
    summary = record("branch_summary", "s", None, fromId="root", summary="left")
    found = read(file, header(), summary)
    assert entry(found, "s")["fromId"] is None
    assert entry(found, "s")["legacy"] == {"fromId": "root"}


def test_a_taken_id_is_drawn_anew_and_later_children_follow_it(file: Path) -> None:
    lines = [user("a", None, "1"), user("a", "a", "2"), user("b", "a", "3")]
    found = read(file, header(), *lines, user("", "b", "4"))
    assert [m["content"] for m in context(found)] == ["1", "2", "3", "4"]
    assert found.notices == ("2 ids were empty or taken; new ones were drawn.",)


def test_an_entry_without_its_parent_begins_a_tree_and_is_told(file: Path) -> None:
    found = read(file, header(), user("a", None, "1"), user("b", "gone", "2"))
    assert found.log.view().roots() == ["a", "b"]
    assert "1 entries hang from entries" in found.notices[0]


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("2025-11-30T12:00:00+02:00", TIME),
        ("2025-11-30T10:00:00", TIME),
        (MS, TIME),
        ("yesterday", TIME),
        ("0001-01-01T00:00:00+05:00", TIME),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000Z"),
        ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"),
        ("9999-12-31T23:59:59-05:00", TIME),
        (0, "1970-01-01T00:00:00.000Z"),
        (True, TIME),
        (10**18, TIME),
        (None, TIME),
    ],
)
def test_times_are_utc_or_else_that_of_the_entry_before(
    file: Path, written: JsonValue, kept: str
) -> None:
    found = read(file, header(), user("a", None, "1") | {"timestamp": written})
    assert found.log.view()[0]["timestamp"] == kept


@pytest.mark.parametrize(
    "odd",
    [
        {"type": "message"},
        {"type": "message", "message": "hi"},
        {"type": "message", "message": {"role": "user"}},
        {"type": "message", "message": {"role": "toolResult", "content": []}},
        {"type": "message", "message": {"role": "bashExecution", "command": 1}},
        {"type": "model_change", "modelId": 4},
        {"type": "thinking_level_change"},
        {"type": "compaction", "summary": None},
        {"type": "branch_summary"},
        {"type": "custom", "data": 1},
        {"type": "custom_message", "content": "x"},
        {"type": "session_info", "name": 3},
        {"type": 7},
        {},
    ],
)
def test_a_record_of_unknown_shape_is_kept_whole(file: Path, odd: JsonObject) -> None:
    whole: JsonObject = {"id": "o", "parentId": "a", "timestamp": TIME, **odd}
    found = read(file, header(), user("a", None, "1"), whole, user("b", "o", "2"))
    assert entry(found, "o")["data"] == whole
    assert "legacy" not in entry(found, "o")
    assert [m["content"] for m in context(found)] == ["1", "2"]
    assert len(found.notices) == 1


def test_blocks_that_no_model_can_be_sent_are_set_aside_and_told(file: Path) -> None:
    document: JsonObject = {"type": "document", "url": "x"}
    call: JsonObject = {"type": "toolCall", "id": "c", "name": "n", "arguments": "{}"}
    found = read(
        file,
        header(),
        said("a", None, role="user", content=[text("see"), document, 5]),
        said("b", "a", role="assistant", content=[call, text("so")], stopReason="odd"),
    )
    assert [m["content"] for m in context(found)] == [[text("see")], [text("so")]]
    assert entry(found, "a")["legacy"] == {"message": {"content": [document, 5]}}
    assert entry(found, "b")["legacy"] == {
        "message": {"content": [call], "stopReason": "odd"}
    }
    assert "3 ('document', 'int', 'toolCall') of messages' blocks" in found.notices[0]


def test_a_command_with_a_fence_in_it_is_fenced_by_a_longer_one(file: Path) -> None:
    ran = said(
        "a", None, role="bashExecution", command="c", output="```x", cancelled=True
    )
    words = str(context(read(file, header(), ran))[0]["content"])
    assert "````\\n```x\\n````\\nIt was cancelled" in words


def test_values_of_a_usage_that_are_no_counts_are_kept_as_extra(file: Path) -> None:
    usage: JsonObject = {"input": 1.5, "output": 2, "cost": {"total": "3"}}
    answer = said("a", None, role="assistant", content="hi", usage=usage)
    (message,) = context(read(file, header(), answer))
    assert message["role"] == "assistant"
    assert message["content"] == [text("hi")]
    assert message["usage"] is not None
    assert message["usage"]["output_tokens"] == 2
    assert message["usage"]["cost"] == {}
    assert message["usage"]["extra"] == {"input": 1.5, "cost": {"total": "3"}}


def test_a_newer_version_is_read_with_a_warning(file: Path) -> None:
    found = read(file, header(9), user("a", None, "1"))
    assert "version 9" in found.notices[0]


def test_a_parent_that_is_no_id_is_damage(file: Path) -> None:
    lines = [header(), user("a", None, "1"), user("b", None, "2") | {"parentId": 4}]
    with pytest.raises(SessionDamagedError, match=r"s\.jsonl:3 .*'parentId' is 4"):
        read(file, *lines)


@st.composite
def trees(draw: st.DrawFn) -> list[JsonObject]:
    """Draw records whose parents are any ids, taken or lost ones included."""
    names = st.sampled_from(["a", "b", "c", "d", "e", "", "gone"])
    kinds = st.sampled_from(["message", "compaction", "label", "odd"])

    def lines() -> Iterator[JsonObject]:
        for at in range(draw(st.integers(0, 12))):
            line: JsonObject = {"type": draw(kinds), "summary": "s", "n": at}
            line["message"] = {"role": "user", "content": str(at)}
            for key in ("id", "parentId", "firstKeptEntryId"):
                if draw(st.booleans()):
                    line[key] = draw(names)
            if draw(st.booleans()):
                line["firstKeptEntryIndex"] = draw(st.integers(-1, 15))
            yield line

    return list(lines())


@settings(deadline=None)
@given(trees())
def test_any_tree_becomes_one_whose_entries_are_whole(
    tmp_path_factory: pytest.TempPathFactory, records: list[JsonObject]
) -> None:
    file = tmp_path_factory.getbasetemp() / "any.jsonl"
    found = read(file, header(), *records)
    view = found.log.view()
    ids = [one["id"] for one in view]
    assert len(set(ids)) == len(ids) == len(records) + 1
    assert [entry_fault(cast("JsonObject", one)) for one in view] == [None] * len(ids)
    named = [r.get("id") for r in records]
    for at, one in enumerate(records):
        name = one.get("id")
        if name and named.index(name) == at:
            assert ids[at] == name
    assert found.log.cursor == ids[-1]
    for boundary in _boundaries(view):
        assert boundary in ids
    view.context_for(found.log.cursor)


def _boundaries(view: LogView) -> list[str]:
    anchors: list[EntryDict] = [one for one in view if one["type"] == "compaction"]
    found = [cast("JsonObject", one)["firstKeptId"] for one in anchors]
    return [str(boundary) for boundary in found if boundary is not None]


@settings(deadline=None)
@given(st.lists(st.integers(0, 30), max_size=20))
def test_a_whole_tree_keeps_its_shape_and_its_context(
    tmp_path_factory: pytest.TempPathFactory, choices: list[int]
) -> None:
    """Each entry hangs from an earlier one, or is a root."""
    parents = [
        None if c % (at + 1) == at else c % (at + 1) for at, c in enumerate(choices)
    ]
    records = [
        user(f"e{at}", None if parent is None else f"e{parent}", str(at))
        for at, parent in enumerate(parents)
    ]
    file = tmp_path_factory.getbasetemp() / "whole.jsonl"
    found = read(file, header(), *records)
    expected: list[JsonValue] = []
    at: int | None = len(parents) - 1 if parents else None
    while at is not None:
        expected.append(str(at))
        at = parents[at]
    assert [m["content"] for m in context(found)] == expected[::-1]
    assert found.notices == ()


def test_the_file_stays_as_it_is_while_another_program_has_it_open(
    file: Path,
) -> None:
    write(file, SESSION)
    before, stat = file.read_bytes(), file.stat()
    with file.open("ab") as writer:
        read_session(file, cwd="/", backend="echo")
        os.lockf(writer.fileno(), os.F_TLOCK, 0)
    assert (file.read_bytes(), file.stat().st_mtime_ns) == (before, stat.st_mtime_ns)
    assert [one.name for one in file.parent.iterdir()] == ["s.jsonl"]
