"""The values of older sessions: strict when built, and what is reported of them."""

from __future__ import annotations

import dataclasses

import pytest

from tau_kernel.errors import CallerError
from tau_kernel.legacy import (
    SessionManager,
    clone_result,
    describe_branch,
    describe_session,
    describe_state,
    fork_result,
)
from tau_kernel.legacy.session import (
    BranchSummary,
    CompactionEntry,
    CustomMessageEntry,
    LegacyEntry,
    MessageEntry,
    SessionEntry,
    SessionInfo,
    SessionState,
    SessionStatus,
    ToolResultEntry,
    entry_from_dict,
)
from tau_kernel.legacy.session_manager import SessionState as LoadedSession
from tau_kernel.messages import JsonObject, JsonValue

_ENTRIES: list[LegacyEntry] = [
    SessionEntry(id="s", timestamp=1, cwd="/w", model="m", session_name="n"),
    MessageEntry(
        id="a", parent_id="s", timestamp=2, message={"role": "user", "content": "hi"}
    ),
    ToolResultEntry(
        id="b",
        parent_id="a",
        timestamp=3,
        tool_call_id="c1",
        tool_name="read",
        content=[{"type": "text", "text": "x"}],
        is_error=True,
    ),
    CustomMessageEntry(
        id="c", timestamp=4, custom_type="note", message={"content": "psst"}
    ),
    CompactionEntry(
        id="d",
        timestamp=5,
        first_kept_id="a",
        summary="short",
        compacted_entries=["a"],
        tokens_saved=7,
    ),
]


@pytest.mark.parametrize("entry", _ENTRIES, ids=lambda entry: entry.type)
def test_an_entry_is_read_back_as_it_was_written(entry: LegacyEntry) -> None:
    assert entry_from_dict(entry.to_dict()) == entry


@pytest.mark.parametrize("entry", _ENTRIES, ids=lambda entry: entry.type)
def test_a_written_entry_shares_nothing_with_its_value(entry: LegacyEntry) -> None:
    before, written = entry.to_dict(), entry.to_dict()
    for value in written.values():
        if isinstance(value, dict | list):
            value.clear()
    assert entry.to_dict() == before


def test_fields_that_a_class_does_not_have_are_left_to_the_record() -> None:
    record: JsonObject = {"type": "session", "id": "s", "timestamp": 1, "theme": "x"}
    assert entry_from_dict(record) == SessionEntry(id="s", timestamp=1)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"timestamp": "2024"}, "'timestamp' is '2024', but must be a whole number"),
        ({"timestamp": True}, "'timestamp' is True"),
        ({"timestamp": -1}, "'timestamp' is -1"),
        ({"id": ""}, "'id' is '', but must be a text"),
        ({"parent_id": 3}, "'parent_id' is 3, but must be a text or null"),
        ({"message": {"role": "user"}}, "content that is a text or a list of blocks"),
        ({"message": {"content": "x"}}, "an object with a role"),
        ({"message": ["x"]}, "'message' is ['x'], but must be an object"),
        ({"message": {"role": "user", "content": [{}]}}, "a list of blocks"),
        ({"message": "x" * 99}, "'message' is 'xxx"),
        ({"type": "session"}, "'type' is 'session', but must be 'message'"),
    ],
)
def test_a_bad_value_is_refused_and_named_with_its_rule(
    changes: dict[str, JsonValue], told: str
) -> None:
    record = _ENTRIES[1].to_dict() | changes
    with pytest.raises(CallerError) as caught:
        MessageEntry.from_dict(record)
    assert told in str(caught.value)


def test_a_missing_value_is_refused_and_named() -> None:
    record: JsonObject = {"type": "compaction", "id": "d", "timestamp": 5}
    with pytest.raises(CallerError, match="'first_kept_id' is missing"):
        entry_from_dict(record)


def test_an_unknown_type_is_refused_and_the_known_ones_are_named() -> None:
    with pytest.raises(CallerError, match=r"'mesage', but must be one of .*'message'"):
        entry_from_dict({"type": "mesage", "id": "a", "timestamp": 1})


def test_a_value_built_in_python_obeys_the_same_rules() -> None:
    with pytest.raises(CallerError, match="MessageEntry cannot be made: 'timestamp'"):
        MessageEntry(id="a", timestamp=-1, message={"role": "user", "content": ""})


@pytest.mark.parametrize("status", ["idle", "running", "aborting", "error"])
def test_each_status_of_the_closed_set_is_taken(status: SessionStatus) -> None:
    state = SessionState(session_id="s", created_at=1, updated_at=2, status=status)
    assert state.status == status


def test_a_status_outside_the_closed_set_is_refused() -> None:
    bad: SessionStatus = "asleep"  # type: ignore[assignment] # the point of the test
    for make in (
        lambda: SessionState(session_id="s", created_at=1, updated_at=1, status=bad),
        lambda: SessionInfo(session_path="p", created_at=1, updated_at=1, status=bad),
        lambda: BranchSummary(
            branch_id="s", session_path="p", created_at=1, updated_at=1, status=bad
        ),
    ):
        with pytest.raises(CallerError, match="'asleep', but must be one of"):
            make()


def test_an_info_without_an_id_is_given_one_of_its_own() -> None:
    one, two = (
        SessionInfo(session_path="p", created_at=1, updated_at=1) for _ in range(2)
    )
    assert one.id != two.id


def test_an_info_takes_what_its_configuration_says() -> None:
    assert SessionInfo.model_config == {"extra": "forbid", "frozen": True}
    info = SessionInfo(session_path="p", created_at=1, updated_at=1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        info.name = "x"  # type: ignore[misc] # the point of the test


def _talk() -> tuple[SessionManager, LoadedSession]:
    manager = SessionManager.in_memory("/w")
    for number, role in enumerate(("user", "assistant", "user")):
        message = {"role": role, "content": str(number)}
        fields = {"type": "message", "message": message, "timestamp": 2**42 + number}
        manager.append_entry({**fields, "id": f"m{number}"})
    manager.append_entry(
        {"type": "toolResult", "tool_call_id": "c", "tool_name": "ls", "content": []}
    )
    assert manager.session_path is not None
    return manager, manager.load(manager.session_path)


def test_a_session_is_described_by_its_entries() -> None:
    _, loaded = _talk()
    info, state = describe_session(loaded), describe_state(loaded)
    assert (info.message_count, info.turn_count, info.tool_count) == (3, 2, 1)
    assert (info.cwd, info.status, info.updated_at) == ("/w", "idle", 2**42 + 2)
    assert (state.session_id, state.is_compacted) == (info.id, False)


def test_a_compacted_session_says_so() -> None:
    manager, loaded = _talk()
    manager.apply_compaction("m2", "short")
    compacted = manager.load(loaded.session_path)
    assert describe_state(compacted).is_compacted
    assert describe_branch(compacted).is_compacted


def test_a_fork_is_reported_with_both_sessions() -> None:
    manager, loaded = _talk()
    made = manager.load(manager.fork("m2"))
    result = fork_result(loaded, made)
    assert [branch.message_count for branch in result.branches] == [3, 2]
    assert result.branches[1].parent_id == result.original_session_id
    assert result.new_session_path == made.session_path
    assert result.new_session_id == made.entries[0]["id"]


def test_a_clone_is_reported_with_what_it_has_from_the_original() -> None:
    manager, loaded = _talk()
    made = manager.load(manager.clone("m1"))
    result = clone_result(loaded, made)
    assert result.entry_count == 2
    assert result.cloned_session_path == made.session_path


def test_a_session_that_is_no_copy_of_the_other_is_not_reported_as_one() -> None:
    _, one = _talk()
    _, two = _talk()
    with pytest.raises(CallerError, match="names None as the one it was copied from"):
        fork_result(one, two)


def test_a_state_without_entries_cannot_be_described() -> None:
    with pytest.raises(CallerError, match="has no entries"):
        describe_session(LoadedSession())
