from __future__ import annotations

from typing import cast

import pytest

from tau_kernel.messages import (
    AssistantMessage,
    ToolCallBlock,
    assistant_message,
    tool_result_message,
    user_message,
)
from tau_kernel.tree import (
    ConversationTree,
    InMemorySessionLog,
    MessageIdScope,
    TreeNode,
)

_CALL: ToolCallBlock = {
    "type": "toolCall",
    "id": "call-1",
    "name": "read",
    "arguments": {"path": "x"},
}


def _tree(log: InMemorySessionLog) -> ConversationTree:
    return ConversationTree(log.entries(), log.cursor)


def _calling() -> AssistantMessage:
    content: AssistantMessage = assistant_message(
        [{"type": "thinking", "thinking": "hm"}, _CALL],
        model="m",
        provider="p",
        api="a",
        stop_reason="toolUse",
    )
    return content


def _previews(nodes: list[TreeNode]) -> list[str]:
    return [text for n in nodes for text in (n.preview, *_previews(n.children))]


def test_a_pending_tool_call_is_no_place_to_fork_from() -> None:
    log = InMemorySessionLog()
    log.append_message(user_message("hi"))
    asked = log.append_message(_calling())
    answered = log.append_message(tool_result_message(_CALL, []))
    tree = _tree(log)
    assert "read (call-1)" in (tree.fork_admission_reason(asked) or "")
    assert tree.fork_admission_reason(answered) is None
    assert tree.fork_admission_reason(None) is None
    with pytest.raises(ValueError, match="'none'"):
        tree.fork_admission_reason("none")


def test_the_cursor_before_the_root_folds_to_the_first_entry() -> None:
    log = InMemorySessionLog()
    log.append_message(user_message("first"))
    log.append_message(user_message("second"))
    tree = ConversationTree(log.entries(), None)
    assert len(tree.context_for()) == 1
    assert ConversationTree([], None).context_for() == []


def test_a_message_is_flattened_with_its_blocks_in_brackets() -> None:
    log = InMemorySessionLog()
    entry = log.append_message(_calling())
    expected = '[thinking: hm][tool_call: read({"path":"x"})]'
    assert _tree(log).message_text(entry) == expected
    record = log.append_custom_entry("note", {})
    assert _tree(log).message_text(record) == ""


def test_rows_say_what_each_kind_of_entry_does() -> None:
    log = InMemorySessionLog()
    first = log.append_message(user_message("  one\ntwo"))
    spec = {"model": {"id": "m"}, "tools": list("abcdef"), "extensions": []}
    log.append_custom_entry("agent_spec", spec)
    log.append_custom_entry("agent_spec", {**spec, "tools": ["a"]})
    log.append_custom_entry("note", {})
    log.append_elide(first, covered_entries=0, covered_tokens=0, agent_spec_id=None)
    kept = log.append_message(user_message("kept"))
    log.append_compaction(
        "short",
        kept,
        1,
        summarizer_model_id="m",
        summary_usage={},
        covered_entries=1,
        covered_tokens=1,
        agent_spec_id=None,
    )
    log.append_navigate(first)
    assert _previews(_tree(log).tree()) == [
        "one",
        "agent_spec: m · 6 tools: a, b, c, d +2 more",
        "agent_spec: tools -b -c -d -e -f",
        "customEntry: note",
        f"hides 0 entries, resumes at {first}",
        "kept",
        f"folds 5 entries, resumes at {kept} — short",
        f"navigate → {first}",
    ]


def test_the_row_under_the_cursor_is_marked() -> None:
    log = InMemorySessionLog()
    first = log.append_message(user_message("a"))
    log.append_message(user_message("b"))
    log.append_navigate(first)
    (root,) = _tree(log).tree()
    assert (root.is_leaf, root.role, root.kind) == (True, "user", "message")


def test_a_subtree_is_told_level_by_level_and_no_further() -> None:
    log = InMemorySessionLog()
    root = log.append_message(user_message("root"))
    start = log.append_message(user_message("a"))
    log.append_message(user_message("b"))
    log.append_at(start, "message", {"message": user_message("c")})
    log.append_at(root, "message", {"message": user_message("elsewhere")})
    tree = _tree(log)
    assert tree.subtree_text(start) == "[user]: a\n[user]: b\n[user]: c"
    assert tree.subtree_text("none") == ""


def test_completion_knows_ids_by_start_and_previews_by_part() -> None:
    log = InMemorySessionLog()
    first = log.append_message(user_message("Hello World"))
    second = log.append_message(user_message("other"))
    third = log.append_message(user_message("more"))
    tree = _tree(log)

    def ids(scope: MessageIdScope, cursor: str | None, query: str = "") -> list[str]:
        found = tree.complete_message_id(scope, cursor, query)
        return [match.entry_id for match in found.matches]

    assert ids("in_session", None, "world") == [first]
    assert ids("in_session", None, second) == [second]
    assert ids("ancestors_of_cursor", second) == [first, second]
    assert ids("descendants_of_cursor", second) == [third]
    limited = tree.complete_message_id(limit=1)
    assert (len(limited.matches), limited.total) == (1, 3)
    with pytest.raises(KeyError):
        ids("ancestors_of_cursor", "none")
    with pytest.raises(ValueError, match="unknown"):
        ids(cast("MessageIdScope", "elsewhere"), None)


def test_navigating_to_an_unknown_entry_leaves_the_cursor() -> None:
    log = InMemorySessionLog()
    first = log.append_message(user_message("a"))
    tree = _tree(log)
    with pytest.raises(KeyError, match="use an id"):
        tree.navigate("none")
    assert tree.cursor == first
    tree.navigate(None)
    assert tree.path() == []
