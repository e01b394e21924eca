"""Plans: what a branch, an elision or a copy would be, and why it may not be."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_logs import (
    Action,
    actions,
    answering,
    calling,
    grow,
    note,
    picked,
    picks,
    said,
    state_of,
)

from tau_kernel.errors import CallerError
from tau_kernel.messages import Message, message_text, system_message, user_message
from tau_kernel.tree import (
    COPYABLE_KINDS,
    BranchPlan,
    ConversationTree,
    EntryDict,
    InMemorySessionLog,
    PasteMint,
    admission_reason,
    branch_refusal_reason,
    copy_of,
    paste_refusal_reason,
    plan_branch,
    plan_elide,
    plan_paste,
    planned_messages,
    selection_order,
    tool_group,
)

marks: Final = st.lists(picks, min_size=1, max_size=6)


def _tree(log: InMemorySessionLog) -> ConversationTree:
    return ConversationTree(log.view(), log.cursor)


def _say(log: InMemorySessionLog, *texts: str) -> list[str]:
    return [log.append_message(user_message(text)) for text in texts]


def _texts(messages: list[Message]) -> list[str]:
    return [message_text(message) for message in messages]


def _message_entry(entry_id: str, parent_id: str | None) -> EntryDict:
    return {
        "type": "message",
        "id": entry_id,
        "parentId": parent_id,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "message": user_message(entry_id),
    }


def test_marks_are_put_into_row_order_and_counted_once() -> None:
    log = InMemorySessionLog()
    root, left = _say(log, "root", "left")
    below_left = log.append_message(user_message("below left"))
    log.append_navigate(root)
    (right,) = _say(log, "right")
    ids = [right, below_left, right, root, left]
    assert selection_order(_tree(log), ids) == (root, left, below_left, right)
    assert selection_order(_tree(log), iter(())) == ()


def test_every_unknown_mark_is_named_at_once() -> None:
    log = InMemorySessionLog()
    (root,) = _say(log, "root")
    with pytest.raises(ValueError, match="'x', 'y'"):
        selection_order(_tree(log), ["x", root, "y"])


def test_a_mark_that_no_root_leads_to_is_refused_not_dropped() -> None:
    ring = [
        _message_entry("a", None),
        _message_entry("b", "c"),
        _message_entry("c", "b"),
    ]
    with pytest.raises(ValueError, match=r"'b'.*ring"):
        selection_order(ConversationTree(ring, "a"), ["a", "b"])


@given(actions, marks)
def test_row_order_puts_ancestors_first(steps: list[Action], at: list[int]) -> None:
    log = InMemorySessionLog()
    grow(log, steps)
    ids = {picked(log, pick) for pick in at}
    order = selection_order(_tree(log), ids)
    assert (len(order), set(order)) == (len(ids), ids)
    for earlier, later in pairwise(order):
        above = {entry["id"] for entry in log.view().path(earlier)}
        assert later not in above


def test_an_ordinary_message_is_a_group_of_its_own() -> None:
    log = InMemorySessionLog()
    (root,) = _say(log, "root")
    record = log.append_custom_entry("note", {})
    assert tool_group(_tree(log), root) == {root}
    assert tool_group(_tree(log), record) == {record}
    with pytest.raises(KeyError):
        tool_group(_tree(log), "none")


def test_either_end_of_a_tool_call_brings_the_whole_group() -> None:
    log = InMemorySessionLog()
    _say(log, "root")
    asked = log.append_message(calling("c1", "c2"))
    first = log.append_message(answering("c1"))
    log.append_custom_entry("note", {})
    second = log.append_message(answering("c2"))
    log.append_message(said("done"))
    group = {asked, first, second}
    for entry_id in group:
        assert tool_group(_tree(log), entry_id) == group


def test_a_call_that_was_run_again_brings_the_first_result_or_the_marked_one() -> None:
    log = InMemorySessionLog()
    asked = log.append_message(calling("c1", "c2"))
    ran = [log.append_message(answering(call)) for call in ("c1", "c2")]
    log.append_navigate(asked)
    ran_again = [log.append_message(answering(call)) for call in ("c1", "c2")]
    tree = _tree(log)
    assert tool_group(tree, asked) == {asked, *ran}
    assert tool_group(tree, ran_again[0]) == {asked, *ran_again}
    assert tool_group(tree, ran_again[1]) == {asked, *ran_again}


def test_a_result_belongs_to_the_nearest_message_that_makes_its_call() -> None:
    log = InMemorySessionLog()
    outer = log.append_message(calling("c1"))
    inner = log.append_message(calling("c1"))
    result = log.append_message(answering("c1"))
    tree = _tree(log)
    assert tool_group(tree, result) == {inner, result}
    assert tool_group(tree, outer) == {outer}


def test_a_result_without_a_call_is_a_group_of_its_own() -> None:
    log = InMemorySessionLog()
    result = log.append_message(answering("c1"))
    assert tool_group(_tree(log), result) == {result}


@given(actions, picks)
def test_a_group_holds_its_mark_and_at_most_one_result_of_each_call(
    steps: list[Action], pick: int
) -> None:
    log = InMemorySessionLog()
    grow(log, steps)
    marked = picked(log, pick)
    group = tool_group(_tree(log), marked)
    assert marked in group
    answered: list[str] = []
    for entry_id in group:
        entry = log.view().entry(entry_id)
        if entry["type"] == "message" and entry["message"]["role"] == "toolResult":
            answered.append(entry["message"]["tool_call_id"])
    assert len(answered) == len(set(answered))


def test_messages_are_admitted_when_every_call_is_answered() -> None:
    messages: list[Message] = [
        user_message("a"),
        calling("c1", "c2"),
        answering("c2"),
        answering("c1"),
        said("b"),
    ]
    assert admission_reason([]) is None
    assert admission_reason(messages) is None
    assert "'c1' (read)" in (admission_reason(messages[:3]) or "")


def test_a_result_before_its_call_is_not_admitted() -> None:
    messages: list[Message] = [answering("c1"), calling("c1"), answering("c1")]
    reason = admission_reason(messages) or ""
    assert "'c1'" in reason
    assert "no message above" in reason


def test_a_chain_of_parents_is_kept_and_nothing_is_copied() -> None:
    log = InMemorySessionLog()
    first, second, third = _say(log, "a", "b", "c")
    plan = plan_branch(_tree(log), [third, first, second], drop_context=False)
    assert plan == BranchPlan(third, (first, second, third), (), None, 0)
    assert plan.mints == 0


def test_after_the_first_gap_everything_is_copied() -> None:
    log = InMemorySessionLog()
    first, second, _gap, third, fourth = _say(log, "a", "b", "gap", "c", "d")
    ids = [first, second, third, fourth]
    plan = plan_branch(_tree(log), ids, drop_context=False)
    assert plan == BranchPlan(second, (first, second), (third, fourth), None, 0)
    assert plan.mints == 2
    assert _texts(planned_messages(_tree(log), plan)) == ["a", "b", "c", "d"]


def test_dropping_the_context_resumes_at_the_first_mark() -> None:
    log = InMemorySessionLog()
    log.append_message(system_message("task"))
    _a, _b, kept, _c, copied = _say(log, "a", "b", "kept", "c", "copied")
    tree = _tree(log)
    plan = plan_branch(tree, [kept, copied], drop_context=True)
    assert plan == BranchPlan(kept, (kept,), (copied,), kept, 2)
    assert _texts(planned_messages(tree, plan)) == ["task", "kept", "copied"]
    whole = plan_branch(tree, [kept, copied], drop_context=False)
    expected = ["task", "a", "b", "kept", "copied"]
    assert _texts(planned_messages(tree, whole)) == expected


def test_nothing_is_elided_where_no_message_would_go() -> None:
    log = InMemorySessionLog()
    log.append_custom_entry("agent_spec", {})
    log.append_message(system_message("task"))
    (first,) = _say(log, "a")
    plan = plan_branch(_tree(log), [first], drop_context=True)
    assert (plan.elide_from, plan.hidden) == (None, 0)


def test_an_earlier_anchor_is_among_what_is_hidden() -> None:
    log = InMemorySessionLog()
    _first, second = _say(log, "a", "b")
    log.append_elide(second, covered_entries=1, covered_tokens=1, agent_spec_id=None)
    (third,) = _say(log, "c")
    plan = plan_branch(_tree(log), [third], drop_context=True)
    assert (plan.elide_from, plan.hidden) == (third, 2)
    assert _texts(planned_messages(_tree(log), plan)) == ["c"]


@pytest.mark.parametrize("drop_context", [False, True])
def test_a_branch_of_nothing_is_refused(drop_context: bool) -> None:
    log = InMemorySessionLog()
    _say(log, "a")
    with pytest.raises(ValueError, match="at least one entry"):
        plan_branch(_tree(log), [], drop_context=drop_context)
    with pytest.raises(ValueError, match="'none'"):
        branch_refusal_reason(_tree(log), ["none"], drop_context=drop_context)


def test_a_kind_that_belongs_to_its_place_is_no_part_of_a_branch() -> None:
    log = InMemorySessionLog()
    (first,) = _say(log, "a")
    moved = log.append_navigate(first)
    reason = branch_refusal_reason(_tree(log), [moved], drop_context=False) or ""
    assert f"'{moved}' is of the kind 'navigate'" in reason


def test_a_system_message_is_fit_to_start_a_branch_and_unfit_as_a_copy() -> None:
    log = InMemorySessionLog()
    system = log.append_message(system_message("task"))
    _a, second = _say(log, "a", "b")
    late = log.append_message(system_message("another"))
    tree = _tree(log)
    assert branch_refusal_reason(tree, [system, second], drop_context=False) is None
    reason = branch_refusal_reason(tree, [system, late], drop_context=False) or ""
    assert f"'{late}' is a system message" in reason


def test_half_a_tool_call_is_no_branch() -> None:
    log = InMemorySessionLog()
    (first,) = _say(log, "a")
    asked = log.append_message(calling("c1"))
    result = log.append_message(answering("c1"))
    tree = _tree(log)
    pending = branch_refusal_reason(tree, [first, asked], drop_context=False) or ""
    assert "without results: 'c1'" in pending
    orphan = branch_refusal_reason(tree, [first, result], drop_context=False) or ""
    assert "no message above" in orphan
    hidden = branch_refusal_reason(tree, [result], drop_context=True) or ""
    assert "no message above" in hidden
    assert branch_refusal_reason(tree, [result], drop_context=False) is None
    whole = [asked, result]
    assert branch_refusal_reason(tree, whole, drop_context=True) is None


def test_a_copy_carries_content_and_source_and_no_more() -> None:
    log = InMemorySessionLog()
    (first,) = _say(log, "a")
    custom = log.append_custom_message(note("psst"), "note")
    summary = log.append_branch_summary("went wrong", first)
    entry = log.view().entry
    assert copy_of(entry(first)) == (
        "message",
        {"copiedFrom": first, "message": log.view().context_for(first)[0]},
    )
    assert copy_of(entry(custom)) == (
        "customMessage",
        {"copiedFrom": custom, "message": note("psst"), "customType": "note"},
    )
    assert copy_of(entry(summary)) == (
        "branch_summary",
        {"copiedFrom": summary, "summary": "went wrong", "fromId": None},
    )


def test_an_anchor_cannot_be_copied() -> None:
    log = InMemorySessionLog()
    (first,) = _say(log, "a")
    anchor = log.append_elide(
        first, covered_entries=0, covered_tokens=0, agent_spec_id=None
    )
    with pytest.raises(ValueError, match="'elide'"):
        copy_of(log.view().entry(anchor))
    assert COPYABLE_KINDS == ("message", "customMessage", "branch_summary")


def test_a_paste_takes_the_forks_and_closes_the_gaps() -> None:
    log = InMemorySessionLog()
    target, source = _say(log, "target", "source")
    record = log.append_custom_entry("note", {})
    (below,) = _say(log, "below")
    log.append_navigate(source)
    (beside,) = _say(log, "beside")
    tree = _tree(log)
    plan = plan_paste(tree, source, target)
    edges = [(mint.source_id, mint.parent_source_id) for mint in plan.mints]
    assert edges == [(source, None), (below, source), (beside, source)]
    moves = [entry["id"] for entry in log.view() if entry["type"] == "navigate"]
    assert sorted(plan.skipped) == sorted([record, *moves])
    kind, payload = copy_of(log.view().entry(below))
    assert plan.mints[1] == PasteMint(below, source, kind, payload)
    assert paste_refusal_reason(tree, plan) is None


def test_nothing_is_pasted_into_itself() -> None:
    log = InMemorySessionLog()
    source, below = _say(log, "source", "below")
    for target in (source, below):
        with pytest.raises(ValueError, match="into itself"):
            plan_paste(_tree(log), source, target)


def test_a_paste_names_what_it_does_not_know_or_cannot_copy() -> None:
    log = InMemorySessionLog()
    (first,) = _say(log, "a")
    record = log.append_custom_entry("note", {})
    with pytest.raises(ValueError, match="'none'"):
        plan_paste(_tree(log), "none", first)
    with pytest.raises(ValueError, match="'none'"):
        plan_paste(_tree(log), first, "none")
    with pytest.raises(ValueError, match="'customEntry'"):
        plan_paste(_tree(log), record, first)


def test_a_pasted_result_needs_its_call_above() -> None:
    log = InMemorySessionLog()
    root = log.append_message(user_message("root"))
    asked = log.append_message(calling("c1"))
    result = log.append_message(answering("c1"))
    after = log.append_message(said("after"))
    log.append_navigate(root)
    (other,) = _say(log, "other")
    tree = _tree(log)

    def reason(source: str, target: str) -> str | None:
        return paste_refusal_reason(tree, plan_paste(tree, source, target))

    assert f"'{result}' is the result of tool call 'c1'" in (
        reason(result, other) or ""
    )
    assert reason(asked, other) is None
    assert reason(result, asked) is None
    assert reason(after, other) is None


def test_a_pasted_line_may_end_with_a_pending_call() -> None:
    log = InMemorySessionLog()
    root = log.append_message(user_message("root"))
    asked = log.append_message(calling("c1"))
    tree = _tree(log)
    assert paste_refusal_reason(tree, plan_paste(tree, asked, root)) is None


def test_a_call_on_one_copied_fork_answers_for_no_other() -> None:
    log = InMemorySessionLog()
    (root,) = _say(log, "root")
    asked = log.append_message(calling("c1"))
    (source,) = _say(log, "source")
    log.append_message(calling("c2"))
    log.append_navigate(source)
    log.append_message(answering("c1"))
    tree = _tree(log)
    plan = plan_paste(tree, source, root)
    assert "'c1'" in (paste_refusal_reason(tree, plan) or "")
    assert paste_refusal_reason(tree, plan_paste(tree, source, asked)) is None


def test_an_elision_keeps_the_stretch_between_its_two_ends() -> None:
    log = InMemorySessionLog()
    log.append_message(system_message("task"))
    _first, second, third, _fourth = _say(log, "a", "b", "c", "d")
    plan = plan_elide(_tree(log), third, second)
    assert plan == BranchPlan(third, (second, third), (), second, 1)
    assert _texts(planned_messages(_tree(log), plan)) == ["task", "b", "c"]


def test_an_elision_that_cannot_be_is_refused() -> None:
    log = InMemorySessionLog()
    log.append_message(system_message("task"))
    first, second, third = _say(log, "a", "b", "c")
    tree = _tree(log)
    for anchor, kept, words in [
        ("none", first, "'none'"),
        (third, "none", "'none'"),
        (second, third, "not on the path"),
        (third, first, "hide nothing"),
    ]:
        with pytest.raises(CallerError, match=words):
            plan_elide(tree, anchor, kept)


def test_an_elision_takes_no_call_from_its_result() -> None:
    log = InMemorySessionLog()
    _say(log, "a")
    asked = log.append_message(calling("c1"))
    result = log.append_message(answering("c1"))
    tree = _tree(log)
    with pytest.raises(CallerError, match="no message above"):
        plan_elide(tree, result, result)
    assert plan_elide(tree, result, asked).hidden == 1


@given(actions, marks, st.booleans())
def test_a_plan_keeps_a_chain_and_copies_the_rest(
    steps: list[Action], at: list[int], drop_context: bool
) -> None:
    log = InMemorySessionLog()
    grow(log, steps)
    before = state_of(log)
    ids = [picked(log, pick) for pick in at]
    tree = _tree(log)
    plan = plan_branch(tree, ids, drop_context=drop_context)
    assert plan.keeps + plan.copies == selection_order(tree, ids)
    assert plan.attach == plan.keeps[-1]
    assert (plan.elide_from is None) == (plan.hidden == 0)
    for parent, child in pairwise(plan.keeps):
        assert log.view().entry(child)["parentId"] == parent
    if plan.copies:
        assert log.view().entry(plan.copies[0])["parentId"] != plan.attach
    assert state_of(log) == before
