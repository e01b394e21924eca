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


def _naive_children(entries: list[EntryDict], entry_id: str) -> list[str]:
    below = [one for one in entries if one["parentId"] == entry_id]
    return [one["id"] for one in sorted(below, key=lambda one: one["timestamp"])]


@given(
    st.lists(st.tuples(st.integers(-2, 12), st.integers(0, 3)), max_size=13),
    st.integers(0, 13),
)
def test_children_are_the_same_whenever_they_are_first_asked_for(
    hung: list[tuple[int, int]], asked_at: int
) -> None:
    entries: list[EntryDict] = []
    view = LogView()
    for at, (parent, hour) in enumerate(hung):
        if at == asked_at:
            view.children_of("0")
        entry = _line(str(at), None if parent == -1 else str(parent))
        entry["timestamp"] = f"2026-01-01T0{hour}:00:00.000Z"
        entries.append(entry)
        view.add(entry)
    for asked in [*map(str, range(13)), "-2"]:
        expected = [one for one in _naive_children(entries, asked) if one != asked]
        assert view.children_of(asked) == expected
        assert LogView(entries).children_of(asked) == expected


def test_children_are_handed_out_as_copies() -> None:
    view = LogView([_line("a", None), _line("b", "a"), _line("c", "a")])
    view.children_of("a").clear()
    view.children_of("b").append("x")
    assert (view.children_of("a"), view.children_of("b")) == (["b", "c"], [])


def test_of_a_repeated_id_the_last_one_counts() -> None:
    again = _line("a", None)
    again["timestamp"] = "2026-01-02T00:00:00.000Z"
    view = LogView([_line("a", None), again])
    assert (len(view), view.entry("a")) == (2, again)


def test_orphans_are_roots_and_rings_end() -> None:
    view = LogView([_line("a", "gone"), _line("b", "c"), _line("c", "b")])
    assert view.roots() == ["a"]
    assert [entry["id"] for entry in view.path("a")] == ["a"]
    assert [entry["id"] for entry in view.path("b")] == ["c", "b"]
    assert len(view.context_for("c")) == 2


def test_a_path_into_a_ring_meets_each_entry_once() -> None:
    ring = [_line("b", "c"), _line("c", "d"), _line("d", "b")]
    view = LogView([_line("a", "b"), *ring, _line("e", None)])
    assert [entry["id"] for entry in view.path("a")] == ["d", "c", "b", "a"]
    assert [entry["id"] for entry in LogView([_line("s", "s")]).path("s")] == ["s"]
