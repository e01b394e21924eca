"""Older records in the v1 format: the same talk, and not one value less."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_kernel.errors import CallerError
from tau_kernel.legacy import LegacyRecord, SessionManager, convert_session
from tau_kernel.messages import (
    JsonObject,
    JsonValue,
    Message,
    convert_to_llm,
    last_assistant_text,
)
from tau_kernel.sessions import FileSession
from tau_kernel.tree import EntryDict, LogView, entry_fault, resolve_cursor


def _message(entry_id: str, parent_id: str | None, role: str, text: str) -> JsonObject:
    return {
        "type": "message",
        "id": entry_id,
        "parent_id": parent_id,
        "timestamp": 1_700_000_000_001,
        "message": {"role": role, "content": text},
    }


#: With every kind, an unknown one, a branch, and fields that nobody knows.
_SESSION: list[LegacyRecord] = [
    {
        "type": "session",
        "id": "root",
        "parent_id": None,
        "timestamp": 1_700_000_000_000,
        "cwd": "/w",
        "model": "gpt-x",
        "model_name": "X",
        "system_prompt": "Be kind.",
        "session_name": "old times",
        "theme": "dark",
    },
    _message("u1", "root", "user", "first"),
    _message("a1", "u1", "assistant", "answer"),
    _message("u2", "a1", "user", "left"),
    {
        "type": "message",
        "id": "a2",
        "parent_id": "a1",
        "timestamp": 1_700_000_000_500,
        "message": {
            "role": "assistant",
            "content": [
                {"type": "toolCall", "id": "c1", "name": "ls", "arguments": {"n": 1}}
            ],
        },
        "latency": 3.5,
    },
    {
        "type": "toolResult",
        "id": "t1",
        "parent_id": "a2",
        "timestamp": 1_700_000_000_600,
        "tool_call_id": "c1",
        "tool_name": "ls",
        "content": [{"type": "text", "text": "a b"}],
        "is_error": False,
        "duration": 12,
    },
    {
        "type": "customMessage",
        "id": "x1",
        "parent_id": "t1",
        "timestamp": 1_700_000_000_700,
        "custom_type": "note",
        "message": {"content": "psst", "visible_to_model": False},
    },
    {
        "type": "compaction",
        "id": "k1",
        "parent_id": "x1",
        "timestamp": 1_700_000_000_800,
        "first_kept_id": "a2",
        "summary": "they talked",
        "compacted_entries": ["u1", "a1"],
        "tokens_saved": 99,
    },
    {
        "type": "bookmark",
        "id": "b1",
        "parent_id": "k1",
        "timestamp": 1_700_000_000_900,
        "label": "here",
    },
    _message("u3", "b1", "user", "on"),
]


def _converted(
    records: list[LegacyRecord], cursor: str | None = None
) -> tuple[EntryDict, ...]:
    made = convert_session(records, cwd="/else", backend="openai", cursor=cursor)
    return made.entries


def _by_id(entries: tuple[EntryDict, ...]) -> dict[str, JsonObject]:
    return {entry["id"]: cast("JsonObject", entry) for entry in entries}


def _texts(messages: list[Message]) -> list[str]:
    return [json.dumps(message["content"]) for message in messages]


def test_the_header_tells_id_time_directory_and_origin() -> None:
    copied = [_SESSION[0] | {"parent_id": "origin"}, *_SESSION[1:]]
    assert convert_session(copied, cwd="/else", backend="b").header == {
        "type": "session",
        "version": 1,
        "id": "root",
        "timestamp": "2023-11-14T22:13:20.000Z",
        "cwd": "/w",
        "parent": "origin",
    }


def test_a_session_without_a_directory_gets_the_one_given() -> None:
    made = convert_session(
        [{"type": "session", "id": "s", "timestamp": 0}], cwd="/else", backend="b"
    )
    assert made.header["cwd"] == "/else"
    assert [entry["id"] for entry in made.entries] == ["s"]


def test_model_name_and_prompt_stand_before_the_first_record() -> None:
    opening = _converted(_SESSION)[:4]
    kinds = [entry["type"] for entry in opening]
    assert kinds == ["model_change", "session_info", "message", "customEntry"]
    model, name, prompt, _ = (cast("JsonObject", entry) for entry in opening)
    assert (model["model"], model["backend"]) == ("gpt-x", "openai")
    assert name["name"] == "old times"
    assert cast("JsonObject", prompt["message"])["content"] == "Be kind."
    parents = [entry["parentId"] for entry in opening]
    assert parents == [None, *(entry["id"] for entry in opening[:3])]


def test_a_prompt_that_is_also_a_message_is_said_once() -> None:
    said = [*_SESSION[:1], _message("s1", "root", "system", "Be kind.")]
    view = LogView(_converted(said))
    assert _texts(view.context_for("s1")) == ['"Be kind."']


def test_ids_parents_and_order_stay() -> None:
    kept = _converted(_SESSION)[4:]
    assert [(entry["id"], entry["parentId"]) for entry in kept] == [
        (record["id"], record["parent_id"]) for record in _SESSION[1:]
    ]


def test_every_entry_is_one_that_the_v1_format_allows() -> None:
    for entry in _converted(_SESSION):
        assert entry_fault(cast("JsonObject", entry)) is None


def test_times_become_iso_in_utc_with_milliseconds() -> None:
    entry = _by_id(_converted(_SESSION))["a2"]
    assert entry["timestamp"] == "2023-11-14T22:13:20.500Z"


def test_a_context_resumes_where_the_older_one_did_behind_its_prompt() -> None:
    view = LogView(_converted(_SESSION))
    roles = [message["role"] for message in view.context_for("u3")]
    expected = ["system", "user", "assistant", "toolResult", "custom", "user"]
    assert roles == expected
    assert "they talked" in _texts(view.context_for("u3"))[1]
    left = [message["role"] for message in view.context_for("u2")]
    assert left == ["system", "user", "assistant", "user"]


def test_messages_get_what_a_model_and_a_head_rely_on() -> None:
    view = LogView(_converted(_SESSION))
    left = view.context_for("u2")
    assert last_assistant_text(left) == "answer"
    assert left[2] == {
        "role": "assistant",
        "content": [{"type": "text", "text": "answer"}],
        "api": "",
        "provider": "",
        "model": "gpt-x",
        "response_id": None,
        "usage": None,
        "stop_reason": "stop",
        "error_message": None,
        "timestamp": 1_700_000_000_001,
    }
    call, result = view.context_for("x1")[3:5]
    assert call["role"] == "assistant"
    assert call["stop_reason"] == "toolUse"
    assert result["role"] == "toolResult"
    assert (result["tool_call_id"], result["details"]) == ("c1", None)


def test_a_message_that_was_hidden_from_the_model_stays_hidden() -> None:
    messages = LogView(_converted(_SESSION)).context_for("x1")
    assert messages[-1]["role"] == "custom"
    assert len(convert_to_llm(messages)) == len(messages) - 1


def test_a_custom_message_of_another_role_keeps_it() -> None:
    record = _SESSION[6] | {"message": {"role": "user", "content": "as if typed"}}
    messages = LogView(_converted([*_SESSION[:6], record])).context_for("x1")
    assert messages[-1]["role"] == "user"


def _leaves(value: JsonValue) -> list[str]:
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in _leaves(item)]
    if isinstance(value, list):
        return [leaf for item in value for leaf in _leaves(item)]
    return [json.dumps(value)]


def test_no_value_of_a_record_is_lost() -> None:
    found = _by_id(_converted(_SESSION))
    for record in _SESSION:
        entry = found[str(record["id"])]
        told = {key: value for key, value in record.items() if key != "timestamp"}
        if record["type"] == "session":
            del told["parent_id"]
        missing = set(_leaves(told)) - set(_leaves(entry))
        assert missing - {json.dumps(record["type"])} == set(), record["id"]


def test_what_v1_has_no_field_for_stays_under_legacy() -> None:
    found = _by_id(_converted(_SESSION))
    assert found["t1"]["legacy"] == {"duration": 12}
    assert found["k1"]["legacy"] == {"compacted_entries": ["u1", "a1"]}
    assert found["b1"]["data"] == {"label": "here"}
    assert found["b1"]["customType"] == "legacy:bookmark"
    assert "legacy" not in found["u1"]


_KEYS = st.sampled_from(
    ["role", "summary", "customType", "message", "legacy", "data", "firstKeptId"]
)


@pytest.mark.slow
@given(st.dictionaries(_KEYS, st.integers(), max_size=4))
def test_a_field_that_v1_uses_otherwise_is_not_lost(extra: dict[str, int]) -> None:
    for at in (5, 7, 8):
        own = {key: n for key, n in extra.items() if key not in _SESSION[at]}
        records = [*_SESSION[:at], _SESSION[at] | cast("JsonObject", own)]
        entry = _by_id(_converted(records))[str(_SESSION[at]["id"])]
        rest = cast("JsonObject", entry.get("legacy", entry.get("data", {})))
        assert {key: rest[key] for key in own} == own


def test_converting_again_gives_the_same() -> None:
    assert _converted(_SESSION) == _converted(_SESSION)


def test_nothing_is_shared_with_the_records() -> None:
    before = json.dumps(_SESSION)
    for entry in _converted(_SESSION):
        for value in cast("JsonObject", entry).values():
            if isinstance(value, dict):
                value.clear()
    assert json.dumps(_SESSION) == before


def test_a_session_reopens_at_the_cursor_given() -> None:
    assert resolve_cursor(_converted(_SESSION)) == "u3"
    assert resolve_cursor(_converted(_SESSION, "u2")) == "u2"
    assert len(_converted(_SESSION, "u3")) == len(_converted(_SESSION))


def test_a_converted_session_is_a_session_file_and_a_log(tmp_path: Path) -> None:
    made = convert_session(_SESSION, cwd="/w", backend="openai")
    path = tmp_path / "converted.jsonl"
    path.write_bytes(b"".join(made.lines()))
    with closing(FileSession.load(path)) as session:
        assert (session.id, session.read_only) == ("root", None)
        assert tuple(session.entries()) == made.entries
        assert (session.model, session.backend) == ("gpt-x", "openai")
        assert session.session_name == "old times"
    with closing(FileSession.fork(tmp_path, "/w", made.to_log())) as copy:
        assert tuple(copy.entries()) == made.entries


def test_what_the_manager_shows_is_what_the_converted_session_shows() -> None:
    manager = SessionManager.in_memory("/w")
    for text in ("one", "two", "three"):
        message = {"role": "user", "content": text}
        last = manager.append_entry({"type": "message", "message": message})
    manager.apply_compaction(last, "short")
    state = manager.navigate(manager.active_entry_id)
    entries = convert_session(state.entries, cwd="/w", backend="b").entries
    shown = LogView(entries).context_for(resolve_cursor(entries))
    assert _texts(shown) == _texts(manager.get_active_messages())


@pytest.mark.parametrize(
    ("records", "told"),
    [
        ([], "is of none"),
        (_SESSION[1:], "must be of type 'session', but is of type 'message'"),
        ([_SESSION[0], {"type": "message"}], "record 1 .*'id' is missing"),
        ([_SESSION[0], _SESSION[1], _SESSION[1]], "two records have the same id"),
    ],
)
def test_what_is_no_session_is_refused(records: list[LegacyRecord], told: str) -> None:
    with pytest.raises(CallerError, match=told):
        _converted(records)


def test_a_cursor_that_names_no_entry_is_refused() -> None:
    with pytest.raises(CallerError, match="'nowhere' names no entry"):
        _converted(_SESSION, "nowhere")
