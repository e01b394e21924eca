"""One contract, held by the log in memory, the log on disk and a branch of either."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from tau_kernel.errors import CallerError
from tau_kernel.messages import CustomMessage, Message, message_text, user_message
from tau_kernel.sessions import FileSession
from tau_kernel.tree import (
    InMemorySessionLog,
    SessionLog,
    agent_spec_in_force,
    open_branch,
)


def _branch(log: SessionLog) -> SessionLog:
    log.append_message(user_message("root"))
    return open_branch(log, log.cursor, label="branch")


@pytest.fixture(params=["memory", "file", "branch", "branch of a file"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SessionLog]:
    file = FileSession.create(tmp_path, "/w", "echo", "echo")
    logs: dict[str, Callable[[], SessionLog]] = {
        "memory": InMemorySessionLog,
        "file": lambda: file,
        "branch": lambda: _branch(InMemorySessionLog()),
        "branch of a file": lambda: _branch(file),
    }
    yield logs[request.param]()
    file.close()


def _texts(log: SessionLog) -> list[str]:
    return [message_text(message) for message in log.view().context_for(log.cursor)]


def test_each_kind_of_log_is_a_session_log(log: SessionLog) -> None:
    assert isinstance(log, SessionLog)


def test_an_append_hangs_from_the_cursor_and_moves_it(log: SessionLog) -> None:
    before = log.cursor
    first = log.append_message(user_message("a"))
    assert log.view().entry(first)["parentId"] == before
    assert log.cursor == first


def test_append_at_leaves_the_cursor_alone(log: SessionLog) -> None:
    first = log.append_message(user_message("a"))
    second = log.append_message(user_message("b"))
    beside = log.append_at(first, "message", {"message": user_message("c")})
    assert log.cursor == second
    assert log.view().entry(beside)["parentId"] == first


def test_navigate_moves_to_its_target_and_is_recorded(log: SessionLog) -> None:
    first = log.append_message(user_message("a"))
    second = log.append_message(user_message("b"))
    entry = log.view().entry(log.append_navigate(first))
    assert log.cursor == first
    assert entry["parentId"] == second
    assert entry["type"] == "navigate"
    assert entry["targetId"] == first


def test_the_place_before_the_root_has_no_context(log: SessionLog) -> None:
    log.append_message(user_message("a"))
    log.append_navigate(None)
    assert log.cursor is None
    assert _texts(log) == []


def test_a_branch_summary_leaves_the_old_branch_out(log: SessionLog) -> None:
    start = log.append_message(user_message("start"))
    log.append_message(user_message("abandoned"))
    entry = log.view().entry(log.append_branch_summary("went wrong", start))
    assert entry["parentId"] == start
    assert _texts(log)[-2:] == ["start", "[[Branch summary: went wrong]]"]


def test_a_compaction_stands_for_what_is_above_its_boundary(log: SessionLog) -> None:
    log.append_message(user_message("old"))
    kept = log.append_message(user_message("kept"))
    log.append_compaction(
        "was old",
        kept,
        100,
        summarizer_model_id="m",
        summary_usage={},
        covered_entries=1,
        covered_tokens=9,
        agent_spec_id=None,
    )
    log.append_message(user_message("after"))
    assert _texts(log) == ["[[Compaction summary: was old]]", "kept", "after"]


def test_an_elide_hides_without_a_word(log: SessionLog) -> None:
    log.append_message(user_message("old"))
    kept = log.append_message(user_message("kept"))
    log.append_elide(kept, covered_entries=1, covered_tokens=9, agent_spec_id=None)
    assert _texts(log) == ["kept"]


def test_a_custom_message_is_context_and_a_custom_entry_is_not(log: SessionLog) -> None:
    message: CustomMessage = {
        "role": "custom",
        "customType": "note",
        "content": "psst",
        "display": True,
        "visibleToModel": True,
    }
    log.append_custom_message(message, "note")
    log.append_custom_entry("record", {"n": 1})
    assert _texts(log)[-1] == "psst"


def test_the_nearest_agent_spec_above_is_in_force(log: SessionLog) -> None:
    log.append_custom_entry("agent_spec", {"n": 1})
    spec = log.append_custom_entry("agent_spec", {"n": 2})
    leaf = log.append_message(user_message("a"))
    log.append_custom_entry("agent_spec", {"n": 3})
    assert agent_spec_in_force(log.view(), leaf) == spec
    assert agent_spec_in_force(log.entries(), None) is None


@pytest.mark.parametrize(
    "refused",
    [
        lambda log: log.append_navigate("none"),
        lambda log: log.append_branch_summary("s", "none"),
        lambda log: log.append_at("none", "message", {"message": user_message("a")}),
        lambda log: log.append_elide(
            "none", covered_entries=1, covered_tokens=1, agent_spec_id=None
        ),
        lambda log: log.append_message(cast("Message", {"role": 1})),
        lambda log: log.append_message(cast("Message", {"role": "user", "x": {1}})),
        lambda log: log.append_at(None, "customEntry", {"id": "mine"}),
    ],
)
def test_a_refused_append_changes_nothing(
    log: SessionLog, refused: Callable[[SessionLog], object]
) -> None:
    log.append_message(user_message("a"))
    cursor, entries = log.cursor, log.entries()
    with pytest.raises(CallerError):
        refused(log)
    assert (log.cursor, log.entries()) == (cursor, entries)


def test_entries_are_copies_and_what_was_given_is_not_kept(log: SessionLog) -> None:
    given = user_message("a")
    log.append_message(given)
    given["content"] = "changed"
    copies = log.entries()
    copies[-1]["id"] = "changed"
    cast("dict[str, object]", copies[-1])["message"] = None
    assert _texts(log)[-1] == "a"


def test_text_that_cannot_be_sent_is_mended(log: SessionLog) -> None:
    log.append_message(user_message("half \ud83d"))
    assert _texts(log)[-1] == "half \N{REPLACEMENT CHARACTER}"


def test_branches_do_not_see_each_other(log: SessionLog) -> None:
    start = log.append_message(user_message("start"))
    left, right = (open_branch(log, start, label=name) for name in "lr")
    left.append_message(user_message("left"))
    right.append_message(user_message("right"))
    assert (_texts(left)[-2:], _texts(right)[-2:]) == (
        ["start", "left"],
        ["start", "right"],
    )
    assert _texts(log)[-1] == "start"
    assert left.lane != right.lane


def test_a_branch_from_nowhere_is_refused(log: SessionLog) -> None:
    with pytest.raises(ValueError, match="'none'"):
        open_branch(log, "none", label="branch")
