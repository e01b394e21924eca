"""The incremental fold against a naive one, over random logs."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tau_kernel.messages import system_message, user_message
from tau_kernel.tree import (
    ConversationTree,
    EntryDict,
    InMemorySessionLog,
    LogView,
    entries_to_messages,
    resolve_cursor,
)

_ACTIONS = ("say", "say", "say", "system", "navigate", "elide", "record", "beside")


def _naive_context(entries: list[Any], leaf: str | None) -> list[str]:
    by_id = {entry["id"]: entry for entry in entries}
    path: list[Any] = []
    while leaf is not None:
        path.insert(0, by_id[leaf])
        leaf = by_id[leaf]["parentId"]
    anchors = [n for n, entry in enumerate(path) if entry["type"] == "elide"]
    if not anchors:
        return [entry["id"] for entry in path]
    above, anchor = path[: anchors[-1]], path[anchors[-1]]
    ids = [entry["id"] for entry in above]
    boundary = anchor["firstKeptId"]
    start = ids.index(boundary) if boundary in ids else len(ids)
    carried = [
        entry["id"]
        for entry in above[:start]
        if entry["type"] == "message" and entry["message"]["role"] == "system"
    ]
    after = [entry["id"] for entry in path[anchors[-1] + 1 :]]
    return [*carried, anchor["id"], *ids[start:], *after]


def _act(log: InMemorySessionLog, action: str, pick: int) -> None:
    some = log.view()[pick % len(log.view())]["id"]
    match action:
        case "say":
            log.append_message(user_message(str(pick)))
        case "system":
            log.append_message(system_message(str(pick)))
        case "navigate":
            log.append_navigate(some)
        case "elide":
            log.append_elide(
                some, covered_entries=1, covered_tokens=1, agent_spec_id=None
            )
        case "record":
            log.append_custom_entry("note", {})
        case _:
            log.append_at(some, "message", {"message": user_message("beside")})


@given(
    st.lists(st.tuples(st.sampled_from(_ACTIONS), st.integers(0, 200)), max_size=40),
    st.lists(st.integers(0, 200), max_size=20),
)
def test_the_incremental_fold_equals_the_naive_one(
    actions: list[tuple[str, int]], looks: list[int]
) -> None:
    log = InMemorySessionLog()
    log.append_message(user_message("root"))
    for action, pick in actions:
        _act(log, action, pick)
        leaves = [look % len(log.view()) for look in looks[:3]]
        for leaf in (log.cursor, *(log.view()[at]["id"] for at in leaves)):
            folded = log.view().context_entries(leaf)
            naive = _naive_context(log.entries(), leaf)
            assert [entry["id"] for entry in folded] == naive
            assert log.view().context_for(leaf) == entries_to_messages(folded)


@given(st.lists(st.tuples(st.sampled_from(_ACTIONS), st.integers(0, 200)), max_size=40))
def test_a_context_never_changes_once_its_leaf_is_there(
    actions: list[tuple[str, int]],
) -> None:
    log = InMemorySessionLog()
    first = log.append_message(user_message("root"))
    contexts = {first: log.view().context_for(first)}
    for action, pick in actions:
        _act(log, action, pick)
        newest = log.view()[-1]["id"]
        contexts[newest] = log.view().context_for(newest)
    for leaf, context in contexts.items():
        assert LogView(log.view()).context_for(leaf) == context


@given(st.lists(st.tuples(st.sampled_from(_ACTIONS), st.integers(0, 200)), max_size=30))
def test_every_entry_is_below_a_root_once(actions: list[tuple[str, int]]) -> None:
    log = InMemorySessionLog()
    log.append_message(user_message("root"))
    for action, pick in actions:
        _act(log, action, pick)
    tree = ConversationTree(log.entries(), log.cursor)
    ids = [entry["id"] for entry in log.view()]
    assert sorted(tree.descendants_of(None)) == sorted(ids)
    completion = tree.complete_message_id(limit=1000)
    assert sorted(match.entry_id for match in completion.matches) == sorted(ids)
    assert resolve_cursor(log.entries()) is not None


def _line(entry_id: str, parent_id: str | None) -> EntryDict:
    return {
        "type": "message",
        "id": entry_id,
        "parentId": parent_id,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "message": user_message(entry_id),
    }


def test_orphans_are_roots_and_rings_end() -> None:
    view = LogView([_line("a", "gone"), _line("b", "c"), _line("c", "b")])
    assert view.roots() == ["a"]
    assert [entry["id"] for entry in view.path("a")] == ["a"]
    assert [entry["id"] for entry in view.path("b")] == ["c", "b"]
    assert len(view.context_for("c")) == 2
