from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_kernel.errors import CallerError
from tau_kernel.flows import (
    BUILTINS,
    CAPABILITIES,
    DOMAINS,
    FLOWS,
    Argument,
    Capability,
    Declarations,
    Domain,
    Flow,
    FlowStep,
    Performed,
    Ready,
    UnknownFlowError,
    UnknownSpecError,
    bind_command_args,
    bind_text,
    completed,
    flow_arguments,
    flow_form_spec,
    next_step,
    validate_form_spec,
    validate_form_values,
)
from tau_kernel.messages import JsonObject, JsonValue

GIFT_ARGUMENTS = (
    Argument("what", "gift", "What is given?"),
    Argument("to", "message_id", "To whom?", "many", scope="in_session"),
    Argument("note", "text", "With which words?", required=False),
    Argument("count", "integer", "How many?"),
)
#: A vocabulary in which a head has a flow with every kind of argument.
WIDER = BUILTINS.extended(
    Declarations(
        owner="head",
        origin="head",
        domains=(
            Domain("gift", "A gift.", values=("Rose", "tulip"), field_kind="select"),
        ),
        capabilities=(
            Capability(
                "give", "mutation", "Gives.", False, GIFT_ARGUMENTS, {"type": "object"}
            ),
        ),
        commands=(Flow("give", "Gives a gift.", "give", GIFT_ARGUMENTS),),
    )
)

one_line = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1)


@pytest.mark.parametrize("name", list(FLOWS))
def test_a_flow_asks_for_what_it_declares(name: str) -> None:
    assert flow_arguments(name) == FLOWS[name].arguments


@pytest.mark.parametrize("name", list(FLOWS))
def test_a_flow_asks_until_nothing_is_missing(name: str) -> None:
    bound: dict[str, JsonValue] = {}
    asked = []
    while isinstance(found := next_step(name, bound), FlowStep):
        assert found.bound == bound
        asked.append(found.argument)
        bound[found.argument.name] = "x"
    assert asked == [one for one in FLOWS[name].arguments if one.required]
    assert found == Ready(name, FLOWS[name].mutation, bound)


def test_a_question_brings_the_domain_and_the_cursor() -> None:
    argument = FLOWS["model"].arguments[0]
    asked = FlowStep("model", argument, DOMAINS["model_name"], "e1", {})
    assert next_step("model", cursor="e1") == asked


def test_what_is_optional_is_not_asked_for_but_taken() -> None:
    assert next_step("compact") == Ready("compact", "compact", {})
    bound = {"custom_instructions": "short"}
    assert next_step("compact", bound) == Ready("compact", "compact", bound)


def test_arguments_that_nobody_declared_ride_along() -> None:
    assert next_step("fork", {"x": 1}) == Ready("fork", "fork", {"x": 1})


def test_what_was_bound_later_does_not_change_an_earlier_answer() -> None:
    bound: dict[str, JsonValue] = {"x": 1}
    ready = next_step("fork", bound)
    bound["y"] = 2
    assert ready == Ready("fork", "fork", {"x": 1})


@pytest.mark.parametrize("name", ["modle", "tree", "set_model", ""])
def test_an_unknown_flow_is_refused_and_the_known_ones_are_named(name: str) -> None:
    for ask in (
        lambda: next_step(name),
        lambda: flow_arguments(name),
        lambda: flow_form_spec(name),
        lambda: bind_command_args(name, "x"),
    ):
        with pytest.raises(UnknownFlowError) as caught:
            ask()
        told = str(caught.value)
        assert told.startswith(f"no flow named {name!r} — declared flows are ['comp")
        assert isinstance(caught.value, KeyError)


def test_the_nearest_flow_is_suggested() -> None:
    with pytest.raises(UnknownFlowError, match=r"did you mean 'model'\?$"):
        next_step("modle")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("resume", "text"),
        ("name", "text"),
        ("autocompact", "confirm"),
        ("model", "select"),
        ("enable_extension", "select"),
    ],
)
def test_a_form_asks_for_what_is_missing(name: str, kind: str) -> None:
    (argument,) = FLOWS[name].arguments
    spec = flow_form_spec(name, options={argument.name: ["a", "b"]})
    title, (field,) = validate_form_spec(spec)
    assert title == FLOWS[name].description
    assert (field["name"], field["kind"]) == (argument.name, kind)
    assert field["label"] == argument.description
    assert field.get("options") == (["a", "b"] if kind == "select" else None)


@pytest.mark.parametrize(
    ("name", "bound"), [("compact", {}), ("fork", {}), ("model", {"name": "x"})]
)
def test_a_flow_that_needs_nothing_has_no_form(name: str, bound: JsonObject) -> None:
    assert flow_form_spec(name, bound) == {}


@pytest.mark.parametrize("options", [None, {}, {"name": []}, {"other": ["a"]}])
def test_a_choice_without_a_list_is_refused(
    options: dict[str, list[str]] | None,
) -> None:
    with pytest.raises(CallerError, match="'name' is chosen from a list"):
        flow_form_spec("model", options=options)


def test_a_form_offers_fixed_values_by_itself_and_many_as_many() -> None:
    spec = flow_form_spec("give", options={"to": ["e1", "e2"]}, vocabulary=WIDER)
    _, fields = validate_form_spec(spec)
    assert [(one["kind"], one.get("options")) for one in fields] == [
        ("select", ["Rose", "tulip"]),
        ("multiselect", ["e1", "e2"]),
        ("number", None),
    ]
    answers: JsonObject = {"what": "tulip", "to": ["e1"], "count": 2}
    validate_form_values(fields, answers)
    assert next_step("give", answers, vocabulary=WIDER) == Ready(
        "give", "give", answers
    )


BOOLEAN = Argument("enabled", "boolean", "Yes?")
INTEGER = Argument("limit", "integer", "How many?")
NUMBER = Argument("rate", "number", "How much?")
SCOPE = Argument("scope", "message_id_scope", "Which?")


@pytest.mark.parametrize(
    ("argument", "text", "value"),
    [
        (BOOLEAN, " TRUE ", True),
        (BOOLEAN, "False", False),
        (SCOPE, "In_Session", "in_session"),
        (INTEGER, " 12 ", 12),
        (INTEGER, "-3", -3),
        (NUMBER, "3", 3),
        (NUMBER, " 1e-3", 0.001),
        (NUMBER, "-.5", -0.5),
        (Argument("a", "text", "A?"), " as it is ", " as it is "),
        (Argument("a", "model_name", "A?"), "GPT", "GPT"),
        (Argument("a", "message_id", "A?", "many"), " e1  e2\n", ["e1", "e2"]),
        (Argument("a", "integer", "A?", "many"), "1 2", [1, 2]),
    ],
)
def test_text_becomes_what_the_mutation_takes(
    argument: Argument, text: str, value: JsonValue
) -> None:
    bound = bind_text(argument, text)
    assert (type(bound), bound) == (type(value), value)


@pytest.mark.parametrize(
    ("argument", "text", "fault"),
    [
        (BOOLEAN, "yes", "'enabled' takes one of true, false — got 'yes'"),
        (BOOLEAN, "", "'enabled' takes one of true, false — got ''"),
        (SCOPE, "all", "'scope' takes one of in_session, .* — got 'all'"),
        (INTEGER, "1.5", "'limit' takes a whole number — got '1.5'"),
        (INTEGER, "1_0", "'limit' takes a whole number"),
        (INTEGER, "٣", "'limit' takes a whole number"),
        (INTEGER, "9" * 5000, "'limit' takes a whole number"),
        (NUMBER, "much", "'rate' takes a number — got 'much'"),
        (NUMBER, "nan", "'rate' takes a number — got 'nan'"),
        (NUMBER, "-inf", "'rate' takes a number"),
        (NUMBER, "1_0.5", "'rate' takes a number"),
        (NUMBER, "9" * 5000, "'rate' takes a number"),
        (replace(INTEGER, cardinality="many"), "1 x", "'limit' takes a whole number"),
    ],
)
def test_text_that_is_no_such_value_is_refused(
    argument: Argument, text: str, fault: str
) -> None:
    with pytest.raises(CallerError, match=f"^{fault}"):
        bind_text(argument, text)


def test_an_argument_of_no_declared_domain_is_refused() -> None:
    with pytest.raises(UnknownSpecError, match="no domain named 'gift'"):
        bind_text(GIFT_ARGUMENTS[0], "rose")
    assert bind_text(GIFT_ARGUMENTS[0], "rose", vocabulary=WIDER) == "Rose"


@given(st.integers(-(10**300), 10**300))
def test_whole_numbers_are_read_as_they_are_written(number: int) -> None:
    assert bind_text(INTEGER, str(number)) == number
    assert bind_text(NUMBER, str(number)) == number


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_are_read_as_json_writes_them(number: float) -> None:
    assert bind_text(NUMBER, json.dumps(number)) == number


@given(st.text())
def test_whatever_is_typed_for_a_number_is_json_or_refused(text: str) -> None:
    try:
        value = bind_text(NUMBER, text)
    except CallerError:
        return
    assert json.loads(json.dumps(value, allow_nan=False)) == value


@given(st.text())
def test_text_is_bound_unchanged(text: str) -> None:
    assert bind_text(FLOWS["name"].arguments[0], text) == text


@given(st.lists(one_line, min_size=1))
def test_a_list_is_bound_as_its_words(words: list[str]) -> None:
    assert bind_text(GIFT_ARGUMENTS[1], " ".join(words)) == words


@pytest.mark.parametrize(
    ("flow", "raw", "bound"),
    [
        ("name", "a b", {"name": "a b"}),
        ("autocompact", "False", {"enabled": False}),
        ("compact", "be short", {"custom_instructions": "be short"}),
        ("compact", "", {}),
        ("model", " ", {}),
        ("fork", "whatever", {}),
    ],
)
def test_what_follows_a_command_is_bound_to_its_argument(
    flow: str, raw: str, bound: JsonObject
) -> None:
    assert bind_command_args(flow, raw) == bound


def test_one_line_is_not_split_between_arguments() -> None:
    with pytest.raises(CallerError, match="'give' takes what, to, note, count,"):
        bind_command_args("give", "rose e1", vocabulary=WIDER)
    assert bind_command_args("give", "", vocabulary=WIDER) == {}


CURSOR_BEARING = [
    name
    for name, one in CAPABILITIES.items()
    if one.kind == "mutation" and "cursor" in json.dumps(one.returns)
]


@pytest.mark.parametrize(
    "name", [name for name, one in CAPABILITIES.items() if one.kind == "mutation"]
)
def test_a_mutation_tells_the_cursor_where_its_schema_has_one(name: str) -> None:
    done = completed(name, {"x": 1}, cursor="e")
    told = {"x": 1, "cursor": "e"} if name in CURSOR_BEARING else {"x": 1}
    assert done == Performed(None, name, told, "e")  # type: ignore[arg-type] # a JSON object


def test_most_mutations_tell_a_cursor() -> None:
    mutations = [one for one in CAPABILITIES.values() if one.kind == "mutation"]
    assert len(mutations) - len(CURSOR_BEARING) == 3


def test_what_a_mutation_gave_stays_its_own() -> None:
    data: JsonObject = {"name": "x"}
    completed("set_session_name", data, cursor="e", flow="name")
    assert data == {"name": "x"}


def test_a_read_is_not_performed() -> None:
    with pytest.raises(CallerError, match="'get_state' is a read"):
        completed("get_state", {}, cursor=None)


def test_a_mutation_brings_no_cursor_of_its_own() -> None:
    with pytest.raises(CallerError, match="'fork' brings the cursor 'e'"):
        completed("fork", {"cursor": "e"}, cursor="e")


def test_an_unknown_mutation_is_refused() -> None:
    with pytest.raises(UnknownSpecError, match="'set_modl'; did you mean 'set_model'"):
        completed("set_modl", {}, cursor=None)


def test_a_flow_does_not_lead_to_another_mutation() -> None:
    with pytest.raises(CallerError, match="'name' ends in 'set_session_name', not"):
        completed("set_model", {}, cursor=None, flow="name")
