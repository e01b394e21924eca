from __future__ import annotations

from dataclasses import replace

import pytest

from tau_kernel.errors import CallerError
from tau_kernel.flows import (
    BUILTINS,
    CAPABILITIES,
    DOMAINS,
    Argument,
    Capability,
    Declarations,
    Domain,
    DomainQuery,
    DomainValue,
    DomainValues,
    Flow,
    TextCommand,
    ViewCommand,
    Vocabulary,
    enumerate_domain,
    next_step,
    select_values,
    slash_vocabulary,
)

ANSWER = Argument("answer", "answer_id", "Which answer?")


def answers(asked: DomainQuery) -> DomainValues:
    known = (DomainValue(f"s{i}", f"answer {i}") for i in range(3))
    return select_values(asked, known)


HEAD = Declarations(
    owner="notebook",
    origin="head",
    domains=(Domain("answer_id", "An answer.", enumerator="list_answers"),),
    capabilities=(
        Capability(
            "list_answers", "read", "Lists answers.", returns={"type": "object"}
        ),
        Capability(
            "redraw",
            "mutation",
            "Draws an answer again.",
            arguments=(ANSWER,),
            returns={"type": "object"},
        ),
    ),
    commands=(
        ViewCommand(name="help", description="Lists the commands."),
        Flow("replay", "Draws an answer again.", "redraw", (ANSWER,)),
        Flow("cancel", "Stops the running turn.", "abort"),
    ),
    readers={"list_answers": answers},
)
EXTENSION = Declarations(
    owner="notes.py",
    origin="extension",
    commands=(
        TextCommand(name="note", description="Keeps a note.", placeholder="WORDS"),
        TextCommand(name="notes", description="Lists the notes."),
    ),
)
WIDER = BUILTINS.extended(EXTENSION).extended(HEAD)
OURS = list(slash_vocabulary())


def command(name: str, *, owner: str = "mine") -> Declarations:
    declared = ViewCommand(name=name, description="")
    return Declarations(owner=owner, origin="extension", commands=(declared,))


def test_the_built_in_commands_keep_their_order_and_their_lines() -> None:
    listed = {name: one.description for name, one in BUILTINS.commands.items()}
    assert list(listed.items()) == list(slash_vocabulary().items())
    assert {one.origin for one in BUILTINS.commands.values()} == {"builtin"}


def test_the_heads_commands_follow_and_then_the_extensions() -> None:
    ordered = [*OURS, "help", "replay", "cancel", "note", "notes"]
    assert list(WIDER.commands) == ordered
    owners = [one.owner for one in WIDER.commands.values()]
    assert owners == ["builtin"] * 11 + ["notebook"] * 3 + ["notes.py"] * 2


def test_a_vocabulary_is_a_value() -> None:
    assert BUILTINS.extended(HEAD) == BUILTINS.extended(HEAD)
    assert BUILTINS.extended(HEAD) != BUILTINS
    assert list(BUILTINS.commands) == OURS
    with pytest.raises(TypeError):
        BUILTINS.commands["x"] = BUILTINS.commands["fork"]  # type: ignore[index] # what is tested


def test_an_owner_can_be_left_out_again() -> None:
    assert WIDER.without("notes.py") == BUILTINS.extended(HEAD)
    assert WIDER.without("nobody") == WIDER


def test_an_owner_on_whom_others_build_cannot_be_left_out() -> None:
    more = Flow("again", "Draws it again.", "redraw", (ANSWER,))
    built_on = Declarations(owner="a.py", origin="extension", commands=(more,))
    with pytest.raises(CallerError, match="'again'"):
        WIDER.extended(built_on).without("notebook")


@pytest.mark.parametrize("taken", ["tree", "fork", "replay", "note"])
def test_a_taken_command_is_refused_and_names_both_owners(taken: str) -> None:
    first = WIDER.commands[taken].owner
    fault = f"command '{taken}' of 'mine' is already declared by '{first}'"
    with pytest.raises(CallerError, match=fault):
        WIDER.extended(command(taken))


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        (
            Declarations(owner="m", origin="head", domains=(DOMAINS["path"],)),
            "domain 'path' of 'm' is already declared by 'builtin'",
        ),
        (
            Declarations(
                owner="m", origin="head", capabilities=(CAPABILITIES["abort"],)
            ),
            "capability 'abort' of 'm' is already declared by 'builtin'",
        ),
        (
            Declarations(owner="m", origin="head", readers={"get_models": answers}),
            "reader 'get_models' of 'm' is already declared by 'builtin'",
        ),
    ],
)
def test_a_taken_name_is_refused_and_names_both_owners(
    more: Declarations, fault: str
) -> None:
    with pytest.raises(CallerError, match=fault):
        BUILTINS.extended(more)


@pytest.mark.parametrize("name", ["", "two words", "a/b", "a\nb", "\u00a0"])
def test_a_command_that_cannot_be_typed_is_refused(name: str) -> None:
    with pytest.raises(CallerError, match="of 'mine' cannot be typed"):
        BUILTINS.extended(command(name))


@pytest.mark.parametrize("name", ["ext:notes.add", "über", "x-1"])
def test_a_command_that_can_be_typed_is_taken(name: str) -> None:
    assert name in BUILTINS.extended(command(name)).commands


def test_what_is_declared_is_checked_with_all_the_rest() -> None:
    lost = Flow("replay", "Draws.", "redraw")
    with pytest.raises(CallerError, match="never asks for"):
        BUILTINS.extended(replace(HEAD, commands=(lost,)))
    with pytest.raises(CallerError, match="no declared mutation"):
        BUILTINS.extended(replace(HEAD, capabilities=HEAD.capabilities[:1]))


def test_an_enumerator_that_nothing_reads_is_refused() -> None:
    with pytest.raises(
        CallerError, match=r"'answer_id'.*'list_answers'.*nothing reads"
    ):
        BUILTINS.extended(replace(HEAD, readers={}))


def test_a_vocabulary_may_be_empty() -> None:
    assert list(Vocabulary().commands) == []


def test_a_heads_flow_walks_like_a_built_in_one() -> None:
    asked = next_step("replay", vocabulary=WIDER)
    assert next_step("cancel", vocabulary=WIDER).flow == "cancel"
    assert getattr(asked, "argument", None) == ANSWER


def test_a_heads_domain_is_read_by_its_reader() -> None:
    found = enumerate_domain("answer_id", query="2", vocabulary=WIDER)
    assert found == DomainValues("answer_id", (DomainValue("s2", "answer 2"),), 1)


@pytest.mark.parametrize(
    ("name", "usage"),
    [
        ("model", "/model NAME"),
        ("compact", "/compact [CUSTOM_INSTRUCTIONS]"),
        ("autocompact", "/autocompact true|false"),
        ("fork", "/fork"),
        ("tree", "/tree"),
        ("extensions", "/extensions [enable|disable|reload PATH]"),
        ("help", "/help"),
        ("replay", "/replay ANSWER"),
        ("note", "/note [WORDS]"),
        ("notes", "/notes"),
    ],
)
def test_the_usage_of_a_command_says_what_follows_it(name: str, usage: str) -> None:
    assert WIDER.usage(name) == usage


def test_the_usage_of_a_list_says_so() -> None:
    ids = Argument("ids", "message_id", "Which?", "many")
    mutation = Capability("prune", "mutation", "P.", arguments=(ids,), returns={})
    flow = Flow("prune", "P.", "prune", (ids,))
    more = Declarations(
        owner="m", origin="head", capabilities=(mutation,), commands=(flow,)
    )
    assert BUILTINS.extended(more).usage("prune") == "/prune IDS…"


@pytest.mark.parametrize(
    ("name", "origin", "is_flow"),
    [
        ("model", "builtin", True),
        ("tree", "builtin", False),
        ("replay", "head", True),
        ("note", "extension", False),
    ],
)
def test_a_row_lists_a_command_as_get_commands_does(
    name: str, origin: str, is_flow: bool
) -> None:
    spec = WIDER.commands[name]
    assert spec.row() == {
        "name": name,
        "description": spec.description,
        "origin": origin,
        "flow": is_flow,
    }
