from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

import jsonschema_rs
import pytest

from tau_kernel.flows import (
    CAPABILITIES,
    COMMAND_OUTPUT,
    DOMAINS,
    FLOWS,
    FRONTEND_COMMANDS,
    VIEW_COMMANDS,
    slash_vocabulary,
)
from tau_kernel.messages import JsonObject, JsonValue
from tau_kernel.tree import MessageIdScope

READS = [
    "get_state",
    "get_messages",
    "get_last_assistant_text",
    "get_session_stats",
    "get_session_name",
    "get_tools",
    "get_commands",
    "get_models",
    "list_sessions",
    "complete_path",
    "complete_message_id",
    "list_managed_extensions",
    "get_extension_state",
    "get_extension_config",
]
MUTATIONS = [
    "submit",
    "abort",
    "compact",
    "set_auto_compaction",
    "new_session",
    "switch_session",
    "set_model",
    "set_session_name",
    "fork",
    "enable_extension",
    "disable_extension",
    "reload_extension",
    "set_extension_config",
    "navigate",
    "summarize_and_navigate",
    "elide_span",
    "commit_branch",
    "paste_subtree",
]

#: What each takes: the domain, with a plus for many and a question mark if optional.
TAKES = {
    "complete_path": {"text": "text", "cursor": "integer"},
    "complete_message_id": {
        "scope": "message_id_scope?",
        "cursor": "message_id?",
        "query": "text?",
        "limit": "integer?",
    },
    "get_extension_config": {"path": "extension_name"},
    "compact": {"custom_instructions": "text?"},
    "set_auto_compaction": {"enabled": "boolean"},
    "new_session": {"persist": "boolean?"},
    "switch_session": {"session_id": "session_id"},
    "set_model": {"name": "model_name"},
    "set_session_name": {"name": "text"},
    "enable_extension": {"path": "extension_name"},
    "disable_extension": {"path": "extension_name"},
    "reload_extension": {"path": "extension_name"},
    "navigate": {"target_id": "message_id"},
    "summarize_and_navigate": {
        "target_id": "message_id",
        "custom_instructions": "text?",
    },
    "elide_span": {"anchor_id": "message_id", "first_kept_id": "message_id"},
    "commit_branch": {"ids": "message_id+", "drop_context": "boolean"},
    "paste_subtree": {"source_id": "message_id", "target_id": "message_id"},
}
#: What each must give.
REQUIRED = {
    "get_state": "session_id status is_streaming model usage message_count cursor "
    "addressable",
    "get_messages": "messages",
    "get_last_assistant_text": "text",
    "get_session_stats": "context context_window context_headroom "
    "compaction_settings last_compaction usage",
    "get_session_name": "name",
    "get_tools": "tools",
    "get_commands": "commands",
    "get_models": "models",
    "list_sessions": "sessions scope",
    "complete_path": "completion",
    "complete_message_id": "matches total",
    "list_managed_extensions": "extensions",
    "get_extension_state": "extensions errors",
    "get_extension_config": "path schema values",
    "submit": "accepted submission_id rejection_reason",
    "abort": "status compaction_id",
    "compact": "accepted compaction_id",
    "set_auto_compaction": "enabled cursor",
    "new_session": "cancelled",
    "switch_session": "cancelled",
    "set_model": "model cursor",
    "set_session_name": "name cursor",
    "fork": "cancelled",
    "enable_extension": "action path ok message cursor",
    "disable_extension": "action path ok message cursor",
    "reload_extension": "action path ok message cursor",
    "set_extension_config": "action path ok message cursor",
    "navigate": "messages cursor",
    "summarize_and_navigate": "messages cursor",
    "elide_span": "messages cursor",
    "commit_branch": "messages cursor",
    "paste_subtree": "minted_ids cursor",
}
SESSION: JsonObject = {
    "store": None,
    "session_id": "s",
    "lane": "primary",
    "cursor": None,
    "addressable": True,
}
#: For each capability something that it may give, and something that it may not.
EXAMPLES: list[tuple[str, JsonObject, JsonObject]] = [
    ("abort", {"status": "aborted", "compaction_id": None}, {"status": "aborted"}),
    ("compact", {"accepted": True, "compaction_id": "c"}, {"accepted": False}),
    ("set_model", {"model": "m", "cursor": None}, {"model": "m"}),
    (
        "fork",
        {"cancelled": False, "session": SESSION, "cursor": None},
        {"cancelled": False, "session": {**SESSION, "lane": "other"}},
    ),
    ("switch_session", {"cancelled": True}, {"session": SESSION}),
    (
        "get_messages",
        {"messages": [{"role": "user", "content": "hi"}]},
        {"messages": [{"content": "hi"}]},
    ),
    ("complete_path", {"completion": None}, {"completion": {"start": 0}}),
    (
        "submit",
        {"accepted": True, "submission_id": "s", "rejection_reason": None},
        {"accepted": True, "submission_id": "s", "rejection_reason": "busy"},
    ),
    (
        "reload_extension",
        {"action": "reload", "path": "p", "ok": True, "message": "", "cursor": "e"},
        {"action": "load", "path": "p", "ok": True, "message": "", "cursor": "e"},
    ),
    ("paste_subtree", {"minted_ids": ["e"], "cursor": "e"}, {"minted_ids": []}),
]


def test_the_domains_are_these() -> None:
    found_by = {
        name: "free"
        if domain.free
        else domain.enumerator or "|".join(domain.values or ())
        for name, domain in DOMAINS.items()
    }
    assert found_by == {
        "text": "free",
        "number": "free",
        "integer": "free",
        "boolean": "true|false",
        "model_name": "get_models",
        "session_id": "list_sessions",
        "path": "complete_path",
        "message_id": "complete_message_id",
        "extension_name": "list_managed_extensions",
        "message_id_scope": "|".join(get_args(MessageIdScope)),
    }


def test_domains_are_asked_for_as_these_fields() -> None:
    assert {name: domain.field_kind for name, domain in DOMAINS.items()} == {
        "text": "text",
        "number": "number",
        "integer": "number",
        "boolean": "confirm",
        "model_name": "select",
        "session_id": "text",
        "path": "text",
        "message_id": "text",
        "extension_name": "select",
        "message_id_scope": "select",
    }


@pytest.mark.parametrize(("kind", "names"), [("read", READS), ("mutation", MUTATIONS)])
def test_the_capabilities_are_these(kind: str, names: list[str]) -> None:
    assert [one.name for one in CAPABILITIES.values() if one.kind == kind] == names


def test_every_table_knows_its_specs_by_their_names() -> None:
    for table in (DOMAINS, CAPABILITIES, FLOWS):
        assert [one.name for one in table.values()] == list(table)


def test_two_mutations_take_more_than_domains_can_say() -> None:
    unsayable = [one.name for one in CAPABILITIES.values() if one.arguments is None]
    assert unsayable == ["submit", "set_extension_config"]


def test_capabilities_take_these_arguments() -> None:
    marks = {"one": "", "many": "+"}
    takes = {
        one.name: {
            argument.name: argument.domain
            + marks[argument.cardinality]
            + ("" if argument.required else "?")
            for argument in one.arguments
        }
        for one in CAPABILITIES.values()
        if one.arguments
    }
    assert takes == TAKES


def test_capabilities_give_at_least_this() -> None:
    required = {name: one.returns for name, one in CAPABILITIES.items()}
    given = {name: (schema or {}).get("required") for name, schema in required.items()}
    assert given == {name: names.split() for name, names in REQUIRED.items()}


def keywords(schema: JsonValue) -> Iterator[str]:
    assert isinstance(schema, dict)
    yield from schema
    properties = schema.get("properties", {})
    assert isinstance(properties, dict)
    for inner in properties.values():
        yield from keywords(inner)
    if "items" in schema:
        yield from keywords(schema["items"])


@pytest.mark.parametrize(
    "schema",
    [*(one.returns for one in CAPABILITIES.values()), COMMAND_OUTPUT],
    ids=[*CAPABILITIES, "extension"],
)
def test_what_a_capability_gives_is_said_in_five_words_of_json_schema(
    schema: JsonObject,
) -> None:
    jsonschema_rs.meta.validate(schema)
    allowed = {"type", "properties", "required", "items", "enum"}
    assert set(keywords(schema)) <= allowed


@pytest.mark.parametrize(("name", "right", "wrong"), EXAMPLES)
def test_a_schema_tells_right_from_wrong(
    name: str, right: JsonObject, wrong: JsonObject
) -> None:
    validator = jsonschema_rs.validator_for(CAPABILITIES[name].returns or {})
    assert validator.is_valid(right)
    assert not validator.is_valid(wrong)


def test_no_read_gives_a_cursor_but_where_the_state_is_asked_for() -> None:
    with_cursor = {
        one.name
        for one in CAPABILITIES.values()
        if one.kind == "read" and "cursor" in REQUIRED[one.name].split()
    }
    assert with_cursor == {"get_state"}


def test_the_flows_lead_to_these_mutations() -> None:
    assert {one.name: one.mutation for one in FLOWS.values()} == {
        "compact": "compact",
        "fork": "fork",
        "model": "set_model",
        "resume": "switch_session",
        "name": "set_session_name",
        "autocompact": "set_auto_compaction",
        "enable_extension": "enable_extension",
        "disable_extension": "disable_extension",
        "reload_extension": "reload_extension",
    }


def test_the_slash_commands_come_in_this_order() -> None:
    assert list(slash_vocabulary()) == [
        "compact",
        "tree",
        "extensions",
        "fork",
        "model",
        "resume",
        "name",
        "autocompact",
        "enable_extension",
        "disable_extension",
        "reload_extension",
    ]


def test_the_slash_commands_are_the_flows_and_the_views() -> None:
    flows = {one.name: one.description for one in FLOWS.values()}
    assert slash_vocabulary() == {**flows, **VIEW_COMMANDS}
    assert dict(FRONTEND_COMMANDS) == slash_vocabulary()


def test_who_asks_for_the_slash_commands_gets_a_dict_of_their_own() -> None:
    slash_vocabulary().clear()
    assert len(slash_vocabulary()) == len(FLOWS) + len(VIEW_COMMANDS)


def test_the_tables_cannot_be_changed() -> None:
    for table in (DOMAINS, CAPABILITIES, FLOWS, VIEW_COMMANDS, FRONTEND_COMMANDS):
        with pytest.raises(TypeError):
            table["more"] = None  # type: ignore[index] # what is tested
