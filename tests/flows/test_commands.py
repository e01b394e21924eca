from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
from flow_ports import Names, Runtime, Session
from hypothesis import given
from hypothesis import strategies as st

from tau_kernel.errors import CallerError, UnsupportedCommandError
from tau_kernel.flows import (
    BUILTINS,
    DOMAINS,
    FLOWS,
    FRONTEND_COMMANDS,
    VIEW_COMMANDS,
    Argument,
    Capability,
    CommandInvocation,
    Declarations,
    Flow,
    FlowStep,
    Performed,
    Ready,
    TextCommand,
    UnknownFlowError,
    View,
    ViewCommand,
    complete_command,
    complete_command_argument,
    dispatch_builtin,
    enumerate_slot,
    extension_performed,
    parse_command,
    perform,
    resolve_command,
    unsupported_command_message,
)
from tau_kernel.messages import JsonObject, JsonValue

IDS = Argument("ids", "message_id", "Which?", "many", scope="in_session")
PAIR = (Argument("key", "text", "Key?"), Argument("value", "text", "Value?"))
WIDER = BUILTINS.extended(
    Declarations(
        owner="notebook",
        origin="head",
        capabilities=(
            Capability("prune", "mutation", "P.", arguments=(IDS,), returns={}),
            Capability("tag", "mutation", "T.", arguments=PAIR, returns={}),
        ),
        commands=(
            ViewCommand(name="help", description="Lists the commands."),
            Flow("prune", "Leaves entries out.", "prune", (IDS,)),
            Flow("tag", "Sets a tag.", "tag", PAIR),
        ),
    )
).extended(
    Declarations(
        owner="notes.py",
        origin="extension",
        commands=(TextCommand(name="note", description="Keeps a note."),),
    )
)

words = st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters="/"))


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("/tree", ("tree", "")),
        ("  /name  a b \n", ("name", "a b")),
        ("/name a\nb", ("name", "a\nb")),
        ("/tree\nand prose", ("tree\nand", "prose")),
        ("/tree\tx", ("tree\tx", "")),
        ("/", ("", "")),
        ("/ tree", ("", "tree")),
        ("//x", ("/x", "")),
        ("tree", None),
        ("see /tree", None),
        ("", None),
    ],
)
def test_a_command_is_a_slash_a_name_and_what_follows_a_space(
    text: str, parsed: tuple[str, str] | None
) -> None:
    assert parse_command(text) == parsed


@given(st.sampled_from(sorted(FRONTEND_COMMANDS)), words, words)
def test_a_written_command_is_read_back(name: str, first: str, second: str) -> None:
    args = f"{first} {second}".strip()
    assert parse_command(f"/{name} {args}") == (name, args)
    assert resolve_command(f"/{name} {args}") == CommandInvocation(
        name, args, "builtin"
    )


@given(st.text())
def test_any_text_is_a_known_command_or_prose(text: str) -> None:
    found = resolve_command(text)
    assert found is None or found.name in FRONTEND_COMMANDS
    if found is not None:
        assert text.strip().startswith(f"/{found.name}")


@pytest.mark.parametrize(
    "text", ["/usr/bin", "/Tree", "/tree\nwhat is this?", "/", "tree", "/unheard of"]
)
def test_a_slash_before_no_known_word_is_prose(text: str) -> None:
    assert resolve_command(text) is None


def test_an_extensions_command_is_resolved_unless_a_built_in_one_hides_it() -> None:
    extensions = {"note": "Keeps a note.", "tree": "Something else."}
    assert resolve_command("/note x", extensions) == CommandInvocation(
        "note", "x", "extension"
    )
    assert resolve_command("/tree", extensions) == CommandInvocation(
        "tree", "", "builtin"
    )


@pytest.mark.parametrize(
    ("name", "origin"), [("fork", "builtin"), ("help", "head"), ("note", "extension")]
)
def test_a_command_tells_who_declared_it(name: str, origin: str) -> None:
    found = resolve_command(f"/{name}", vocabulary=WIDER)
    assert found is not None
    assert found.origin == origin


@pytest.mark.parametrize("name", list(VIEW_COMMANDS))
def test_a_view_is_the_heads_to_draw(name: str) -> None:
    view = dispatch_builtin(name, "", cursor=None)
    assert isinstance(view, View)
    assert (view.name, view.state) == (name, None)
    assert "projects no state" in (view.unavailable_because or "")


@pytest.mark.parametrize("name", ["tree", "fork", "help"])
def test_words_after_a_command_that_takes_none_are_refused(name: str) -> None:
    with pytest.raises(
        UnsupportedCommandError, match=f"/{name} takes no arguments, got 'extra'"
    ):
        dispatch_builtin(name, "extra", cursor=None, vocabulary=WIDER)


@pytest.mark.parametrize("name", list(FLOWS))
def test_a_flow_is_asked_or_ready(name: str) -> None:
    flow = FLOWS[name]
    found = dispatch_builtin(name, "", cursor="e")
    if any(one.required for one in flow.arguments):
        (argument,) = flow.arguments
        domain = DOMAINS[argument.domain]
        assert found == FlowStep(name, argument, domain, "e", {})
    else:
        assert found == Ready(name, flow.mutation, {})


def test_what_follows_a_flow_is_bound() -> None:
    assert dispatch_builtin("autocompact", "FALSE", cursor=None) == Ready(
        "autocompact", "set_auto_compaction", {"enabled": False}
    )
    with pytest.raises(CallerError, match="takes one of true, false — got 'yes'"):
        dispatch_builtin("autocompact", "yes", cursor=None)


@pytest.mark.parametrize("verb", ["enable", "disable", "reload"])
def test_the_view_of_extensions_takes_verbs(verb: str) -> None:
    flow = f"{verb}_extension"
    found = dispatch_builtin("extensions", f" {verb}  my notes.py ", cursor=None)
    assert found == Ready(flow, flow, {"path": "my notes.py"})
    asked = dispatch_builtin("extensions", verb, cursor=None)
    assert isinstance(asked, FlowStep)
    assert asked.flow == flow


def test_another_verb_is_refused_and_the_known_ones_are_named() -> None:
    with pytest.raises(
        UnsupportedCommandError, match=r"names no action.*enable, disable, reload"
    ):
        dispatch_builtin("extensions", "list all", cursor=None)


def test_an_extensions_command_is_left_to_its_extension() -> None:
    with pytest.raises(UnsupportedCommandError, match=r"its extension 'notes\.py'"):
        dispatch_builtin("note", "x", cursor=None, vocabulary=WIDER)


def test_an_unknown_command_is_refused() -> None:
    with pytest.raises(UnknownFlowError, match="no flow named 'note'"):
        dispatch_builtin("note", "x", cursor=None)


def test_what_an_extension_gave_is_told_without_a_cursor() -> None:
    done = extension_performed("note", "kept", cursor="e")
    assert done == Performed("note", "run_extension_command", {"output": "kept"}, "e")


@pytest.mark.parametrize(
    ("text", "token", "matches"),
    [
        ("/", "/", list(FRONTEND_COMMANDS)),
        ("/f", "/f", ["fork"]),
        ("  /e", "/e", ["extensions", "enable_extension"]),
        ("/fork", "/fork", ["fork"]),
        ("/zzz", "/zzz", []),
        ("/name ", "/name", ["name"]),
        ("/name a b", "/name", ["name"]),
    ],
)
def test_the_start_of_a_command_is_completed(
    text: str, token: str, matches: list[str]
) -> None:
    found = complete_command(text)
    assert found is not None
    assert found.token == token
    assert [one.name for one in found.matches] == matches


@pytest.mark.parametrize("text", ["", "x", "see /", "/zzz ", "/zzz x", "/ x"])
def test_what_is_no_start_of_a_command_is_not_completed(text: str) -> None:
    assert complete_command(text) is None


def test_commands_of_extensions_are_completed_after_all_others() -> None:
    extensions = {"news": "Tells news.", "name": "hidden"}
    found = complete_command("/n", extensions, vocabulary=WIDER)
    assert found is not None
    told = [(one.name, one.description, one.origin) for one in found.matches]
    assert told == [
        ("name", FRONTEND_COMMANDS["name"], "builtin"),
        ("note", "Keeps a note.", "extension"),
        ("news", "Tells news.", "extension"),
    ]


@pytest.mark.parametrize(
    ("text", "argument", "start"),
    [
        ("/model ", "name", 7),
        ("/model  gp", "name", 8),
        ("  /model gp t", "name", 9),
        ("/compact be", "custom_instructions", 9),
        ("/extensions ", "action", 12),
        ("/extensions en", "action", 12),
        ("/extensions enable ", "path", 19),
        ("/extensions reload  no", "path", 20),
        ("/prune e1 e", "ids", 10),
        ("/prune e1 ", "ids", 10),
    ],
)
def test_the_argument_that_is_being_typed_is_found(
    text: str, argument: str, start: int
) -> None:
    slot = complete_command_argument(text, vocabulary=WIDER)
    assert slot is not None
    assert (slot.argument.name, slot.start, slot.end) == (argument, start, len(text))
    assert slot.query == text[start:]
    assert slot.command == text.split(maxsplit=1)[0][1:]


@pytest.mark.parametrize(
    "text",
    [
        "/model",
        "/fork ",
        "/tree x",
        "/zzz ",
        "model x",
        "/extensions list x",
        "/tag a b",
        "/note x",
        "/model\nx y",
        "",
    ],
)
def test_where_no_argument_is_typed_there_is_none(text: str) -> None:
    assert complete_command_argument(text, vocabulary=WIDER) is None


@given(st.sampled_from(sorted(FRONTEND_COMMANDS)), st.text())
def test_a_slot_lies_in_its_text(name: str, rest: str) -> None:
    text = f"/{name} {rest}"
    slot = complete_command_argument(text)
    if slot is not None:
        assert len(name) + 2 <= slot.start <= slot.end == len(text)
        assert text[slot.start : slot.end] == slot.query


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/model c", ["claude"]),
        ("/autocompact T", ["true"]),
        ("/extensions ", ["enable", "disable", "reload"]),
        ("/extensions D", ["disable"]),
        ("/extensions reload no", ["notes.py"]),
        ("/compact x", []),
    ],
)
def test_a_slot_offers_the_values_that_fit(text: str, expected: list[str]) -> None:
    slot = complete_command_argument(text)
    assert slot is not None
    session = Session(Names(("gpt-5", "claude")), (("notes.py", False), ("a.py", True)))
    found = enumerate_slot(slot, session=session, runtime=Runtime())
    assert [one.value for one in found.values] == expected
    assert found.total == len(expected)


def test_a_command_that_a_head_cannot_do_is_named_with_the_head() -> None:
    told = unsupported_command_message("tree", "batch runs")
    assert told.startswith("/tree is not supported in batch runs")


def run(
    ready: Ready, *, cursor: str | None = "e"
) -> tuple[Performed, list[Mapping[str, JsonValue]]]:
    """Carry a flow out in a head that can choose models and nothing else."""
    called: list[Mapping[str, JsonValue]] = []

    async def set_model(arguments: Mapping[str, JsonValue]) -> JsonObject:
        called.append(arguments)
        return {"model": arguments["name"]}

    done = asyncio.run(
        perform(
            ready,
            {"set_model": set_model},
            cursor=lambda: f"{cursor}{len(called)}",
            frontend="the console",
        )
    )
    return done, called


def test_a_ready_flow_is_performed_and_tells_the_cursor_afterwards() -> None:
    done, called = run(Ready("model", "set_model", {"name": "m"}))
    data: JsonObject = {"model": "m", "cursor": "e1"}
    assert done == Performed("model", "set_model", data, "e1")
    assert called == [{"name": "m"}]


def test_a_flow_that_a_head_cannot_perform_is_refused() -> None:
    with pytest.raises(UnsupportedCommandError, match="/fork is not supported in the"):
        run(Ready("fork", "fork", {}))
