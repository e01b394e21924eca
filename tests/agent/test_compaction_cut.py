"""Where a context is cut: nothing lost, nothing doubled, no result without its call."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from conversations import (
    Turn,
    answer,
    call,
    counted,
    custom,
    orphans,
    result_of,
    say,
    talk,
    turns,
    words,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from random_logs import Action, actions, grow, note

from tau_kernel.agent import (
    CompactionPreparation,
    CompactionSettings,
    find_cut_point,
    find_valid_cut_points,
    prepare_compaction,
)
from tau_kernel.messages import Message, message_text, system_message, user_message
from tau_kernel.tree import (
    ConversationTree,
    EntryDict,
    InMemorySessionLog,
    compaction_note,
    entries_to_messages,
    is_system_entry,
)

keeps = st.sampled_from([0, 1, 10, 100, 1000, 20_000])


def _keeping(tokens: int) -> CompactionSettings:
    return CompactionSettings(keep_recent_tokens=tokens)


def _entries(log: InMemorySessionLog) -> list[EntryDict]:
    return log.view().context_entries(log.cursor)


def _context(log: InMemorySessionLog) -> list[Message]:
    return log.view().context_for(log.cursor)


def _prepared(log: InMemorySessionLog, keep: int) -> CompactionPreparation:
    preparation = prepare_compaction(_entries(log), _keeping(keep))
    assert preparation is not None
    return preparation


def _record(
    log: InMemorySessionLog, preparation: CompactionPreparation, summary: str = "S"
) -> None:
    log.append_compaction(
        summary,
        preparation.first_kept_entry_id,
        preparation.tokens_before,
        summarizer_model_id="m",
        summary_usage={},
        covered_entries=len(preparation.compacted_entry_ids),
        covered_tokens=preparation.covered_tokens,
        agent_spec_id=None,
    )


def _log_of(*messages: Message) -> InMemorySessionLog:
    log = InMemorySessionLog()
    for message in messages:
        if message["role"] == "custom":
            log.append_custom_message(message, "note")
        else:
            log.append_message(message)
    return log


def _texts(messages: Sequence[Message]) -> list[str]:
    return [message_text(message).split(" ")[0] for message in messages]


def _compacted(log: InMemorySessionLog, keep: int, summary: str) -> None:
    """Compact, and hold what happened to what was promised."""
    entries, before = _entries(log), _context(log)
    preparation = prepare_compaction(entries, _keeping(keep))
    if preparation is None:
        return
    _record(log, preparation, summary)
    after = _context(log)
    at = [entry["id"] for entry in entries].index(preparation.first_kept_entry_id)
    systems = entries_to_messages(e for e in entries[:at] if is_system_entry(e))
    kept = entries_to_messages(entries[at:])
    assert after == [*systems, compaction_note(summary), *kept]
    gone = [*preparation.messages_to_summarize, *preparation.turn_prefix_messages]
    previous = [m for m in before if message_text(m).startswith("[[Compaction")]
    assert sorted(map(repr, [*systems, *gone, *previous, *kept])) == sorted(
        map(repr, before)
    )
    assert orphans(after) <= orphans(before)


@settings(deadline=None)
@given(st.lists(st.tuples(turns, keeps), min_size=1, max_size=4), st.booleans())
def test_a_context_is_its_summary_and_what_was_kept(
    rounds: list[tuple[list[Turn], int]], has_system: bool
) -> None:
    log = InMemorySessionLog()
    if has_system:
        log.append_message(system_message("task"))
    for number, (said, keep) in enumerate(rounds):
        talk(log, said, f"r{number}-")
        _compacted(log, keep, f"summary {number}")
        tree = ConversationTree(log.view(), log.cursor)
        assert orphans(_context(log)) == set()
        assert tree.fork_admission_reason(log.cursor) is None
        notes = [m for m in _context(log) if message_text(m).startswith("[[")]
        assert len(notes) <= 1


@settings(deadline=None)
@given(actions, keeps)
def test_a_log_of_any_shape_loses_nothing(steps: list[Action], keep: int) -> None:
    log = InMemorySessionLog()
    grow(log, steps)
    entries = _entries(log)
    preparation = prepare_compaction(entries, _keeping(keep))
    if preparation is None:
        return
    before = _context(log)
    _record(log, preparation, "new")
    after = _context(log)
    at = [entry["id"] for entry in entries].index(preparation.first_kept_entry_id)
    systems = entries_to_messages(e for e in entries[:at] if is_system_entry(e))
    assert after == [
        *systems,
        compaction_note("new"),
        *entries_to_messages(entries[at:]),
    ]
    assert orphans(after) <= orphans(before)
    assert not any(
        "[[Compaction summary: compacted]]" in message_text(m) for m in after
    )


@settings(deadline=None)
@given(turns, keeps)
def test_what_stays_is_at_least_what_was_asked_for_where_turns_are_small(
    said: list[Turn], keep: int
) -> None:
    log = InMemorySessionLog()
    talk(log, said)
    entries = _entries(log)
    cut = find_cut_point(entries, 0, len(entries), keep)
    if cut is None:
        assert find_valid_cut_points(entries, 0, len(entries)) == []
        return
    kept = entries_to_messages(entries[cut.first_kept :])
    assert kept
    largest = max(map(counted, ([m] for m in _context(log))))
    # It is cut at the first place after the wanted one, past results of one batch.
    assert counted(kept) >= min(keep, counted(_context(log))) - 3 * largest - 100


def test_nothing_to_compact_in_an_empty_conversation() -> None:
    assert prepare_compaction([], CompactionSettings()) is None


def test_one_turn_is_left_alone() -> None:
    log = _log_of(system_message("task"), custom("n"), user_message("q"), say("a"))
    assert prepare_compaction(_entries(log), CompactionSettings()) is None


def test_two_short_turns_leave_the_last_one() -> None:
    log = _log_of(user_message("q1"), say("a1"), user_message("q2"), say("a2"))
    preparation = _prepared(log, 20_000)
    assert _texts(preparation.messages_to_summarize) == ["q1", "a1"]
    assert not preparation.is_split_turn
    _record(log, preparation)
    assert _texts(_context(log)) == ["[[Compaction", "q2", "a2"]


def test_an_extensions_message_before_the_prompt_stays_with_its_turn() -> None:
    log = _log_of(
        user_message("q1"), say("a1"), custom("n"), user_message("q2"), say("a2")
    )
    _record(log, _prepared(log, 20_000))
    assert _texts(_context(log)) == ["[[Compaction", "n", "q2", "a2"]


def test_nothing_is_compacted_again_before_something_was_said() -> None:
    log = _log_of(user_message("q1"), say("a1"), user_message("q2"), say("a2"))
    _record(log, _prepared(log, 20_000))
    assert prepare_compaction(_entries(log), CompactionSettings()) is None
    log.append_custom_entry("agent_spec", {})
    assert prepare_compaction(_entries(log), CompactionSettings()) is None


def test_the_record_of_who_asked_stays_with_the_prompt() -> None:
    log = InMemorySessionLog()
    talk(log, [Turn(), Turn()])
    kept = log.view().entry(_prepared(log, 20_000).first_kept_entry_id)
    assert kept["type"] == "customEntry"
    assert kept["data"] == {"name": "t1"}


def test_a_long_turn_is_divided_and_its_start_told_apart() -> None:
    log = _log_of(
        user_message("q1"),
        say("a1"),
        user_message("q2"),
        answer(call("c1")),
        result_of("c1", words("r1", 50)),
        answer(call("c2")),
        result_of("c2", words("r2", 50)),
        say("a2"),
    )
    preparation = _prepared(log, 60)
    assert preparation.is_split_turn
    assert _texts(preparation.messages_to_summarize) == ["q1", "a1"]
    assert preparation.turn_prefix_messages == tuple(_context(log)[2:5])
    _record(log, preparation)
    assert [m["role"] for m in _context(log)] == [
        "user",
        "assistant",
        "toolResult",
        "assistant",
    ]


@pytest.mark.parametrize(
    "newest", [[say(words("a2", 500))], [answer(call("c")), result_of("c", "x" * 9000)]]
)
def test_a_newest_message_larger_than_what_is_kept_still_compacts(
    newest: list[Message],
) -> None:
    log = _log_of(user_message("q1"), say("a1"), user_message("q2"), *newest)
    preparation = _prepared(log, 100)
    assert _texts(preparation.messages_to_summarize) == ["q1", "a1"]
    assert _texts(preparation.turn_prefix_messages) == ["q2"]
    _record(log, preparation)
    assert _context(log)[1:] == newest


def test_a_result_apart_from_its_call_moves_the_cut() -> None:
    log = _log_of(
        user_message("q1"),
        answer(call("c1"), call("c2")),
        result_of("c1"),
        user_message("meanwhile"),
        result_of("c2"),
        say("a1"),
        user_message("q2"),
    )
    entries = _entries(log)
    assert find_valid_cut_points(entries, 0, len(entries)) == [0, 1, 5, 6]


def test_the_earlier_summary_is_brought_up_to_date_and_not_summarised() -> None:
    log = _log_of(user_message("q1"), say("a1"), user_message("q2"), say("a2"))
    files = "<read-files>\nold.py\n</read-files>"
    _record(log, _prepared(log, 20_000), f"first\n\n{files}")
    log.append_message(user_message("q3"))
    log.append_message(answer(call("c", "edit", "new.py")))
    log.append_message(result_of("c", name="edit"))
    log.append_message(say("a3"))
    log.append_message(user_message("q4"))
    preparation = _prepared(log, 20_000)
    assert preparation.previous_summary == "first"
    assert preparation.details.read_files == ("old.py",)
    # The third turn is within what is kept, but the earlier compaction is not.
    assert _texts(preparation.messages_to_summarize) == ["q2", "a2"]
    _record(log, preparation, "second")
    assert _texts(_context(log))[:2] == ["[[Compaction", "q3"]


def test_an_elision_that_kept_a_summary_hands_it_on() -> None:
    log = _log_of(user_message("q1"), say("a1"), user_message("q2"), say("a2"))
    _record(log, _prepared(log, 20_000), "first")
    compaction = log.cursor
    assert compaction is not None
    log.append_message(user_message("q3"))
    log.append_elide(
        compaction, covered_entries=2, covered_tokens=2, agent_spec_id=None
    )
    assert _texts(_context(log)) == ["[[Compaction", "q3"]
    log.append_message(say("a3"))
    log.append_message(user_message("q4"))
    preparation = _prepared(log, 0)
    assert preparation.previous_summary == "first"
    told = preparation.messages_to_summarize + preparation.turn_prefix_messages
    assert _texts(told) == ["q3", "a3"]
    _record(log, preparation, "second")
    assert [message_text(m) for m in _context(log)] == [
        "[[Compaction summary: second]]",
        "q4",
    ]


def test_a_summary_of_another_branch_is_summarised_like_a_message() -> None:
    log = _log_of(user_message("q1"))
    log.append_branch_summary("It failed.", log.cursor)
    log.append_message(user_message("q2"))
    preparation = _prepared(log, 20_000)
    told = [message_text(m) for m in preparation.messages_to_summarize]
    assert told == ["q1", "[[Branch summary: It failed.]]"]


def test_what_no_model_sees_is_no_reason_to_compact() -> None:
    hidden = {**note("secret"), "visibleToModel": False}
    log = InMemorySessionLog()
    log.append_custom_message(hidden, "note")  # type: ignore[arg-type] # same keys
    log.append_message(say("a0"))
    log.append_message(user_message("q"))
    preparation = _prepared(log, 20_000)
    assert preparation.covered_tokens == counted([say("a0")])
