from __future__ import annotations

from typing import Any

import pytest

from tau_kernel.errors import CallerError
from tau_kernel.flows import (
    FORM_FIELD_KINDS,
    FormField,
    form_headless_value,
    validate_form_spec,
    validate_form_values,
)
from tau_kernel.messages import JsonObject, JsonValue

NAME: FormField = {"name": "name", "kind": "text", "label": "Name"}
COUNT: FormField = {"name": "count", "kind": "number", "label": "Count"}
SURE: FormField = {"name": "sure", "kind": "confirm", "label": "Sure"}
SIZE: FormField = {
    "name": "size",
    "kind": "select",
    "label": "Size",
    "options": ["S", "L"],
}
EXTRAS: FormField = {
    "name": "extras",
    "kind": "multiselect",
    "label": "Extras",
    "options": ["a", "b"],
}
FIELDS = [NAME, COUNT, SURE, SIZE, EXTRAS]
ANSWERS: JsonObject = {
    "name": "x",
    "count": 1.5,
    "sure": False,
    "size": "L",
    "extras": ["b", "a"],
}


def spec_of(*fields: object, **more: object) -> dict[str, object]:
    return {"fields": list(fields), **more}


def test_title_and_labels_are_filled_in() -> None:
    given = spec_of({"name": "name", "kind": "text"})
    assert validate_form_spec(given) == ("Form", [{**NAME, "label": "name"}])


def test_what_is_written_stays_as_it_is() -> None:
    fields = [*FIELDS[:4], {**EXTRAS, "default": ["unheard of"]}]
    assert validate_form_spec(spec_of(*fields, title="T")) == ("T", fields)


def test_the_fields_have_these_kinds() -> None:
    assert {field["kind"] for field in FIELDS} == FORM_FIELD_KINDS


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ("text", "the spec is a str"),
        ({}, "fields None is no list of at least one field"),
        (spec_of(), r"fields \[\] is no list of at least one field"),
        ({"fields": {"name": "x"}}, "is no list of at least one field"),
        (spec_of(NAME, title=3), "title 3 is no string"),
        (spec_of("name"), "field 'name' is no dict"),
        (spec_of({"kind": "text"}), "field name None"),
        (spec_of({"name": "", "kind": "text"}), "field name ''"),
        (spec_of({"name": 1, "kind": "text"}), "field name 1"),
        (spec_of(NAME, NAME), "two fields are named 'name'"),
        (spec_of({"name": "x"}), "field 'x' has kind None"),
        (spec_of({"name": "x", "kind": "date"}), "field 'x' has kind 'date'"),
        (spec_of({"name": "x", "kind": ["text"]}), r"field 'x' has kind \['text'\]"),
        (spec_of({**NAME, "label": 1}), "field 'name' has label 1"),
        (spec_of({"name": "x", "kind": "select"}), "field 'x' has options None"),
        (spec_of({**EXTRAS, "options": []}), r"field 'extras' has options \[\]"),
        (spec_of({**SIZE, "options": "SL"}), "field 'size' has options 'SL'"),
        (spec_of({**SIZE, "options": ["S", 1]}), "give strings only"),
    ],
)
def test_what_is_no_form_is_refused_with_the_field_at_fault(
    spec: object, fault: str
) -> None:
    with pytest.raises(CallerError, match=rf"^ui\.form: .*{fault}"):
        validate_form_spec(spec)


@pytest.mark.parametrize(
    ("field", "value"),
    [(NAME, ""), (COUNT, 0), (SURE, False), (SIZE, "S"), (EXTRAS, [])],
)
def test_an_unasked_field_answers_with_the_least_of_its_kind(
    field: FormField, value: JsonValue
) -> None:
    assert form_headless_value(field) == value


@pytest.mark.parametrize("default", [None, "M", 7])
def test_an_unasked_field_answers_with_its_default_unchecked(
    default: JsonValue,
) -> None:
    assert form_headless_value({**SIZE, "default": default}) == default


def test_answers_that_fit_pass() -> None:
    validate_form_values(FIELDS, ANSWERS)


def test_an_answer_to_no_question_is_refused() -> None:
    with pytest.raises(CallerError, match="undeclared key 'colour'"):
        validate_form_values(FIELDS, {**ANSWERS, "colour": "red"})


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field["name"])
def test_a_missing_answer_is_named(field: FormField) -> None:
    rest = {name: value for name, value in ANSWERS.items() if name != field["name"]}
    with pytest.raises(CallerError, match=f"answer to '{field['name']}' is missing"):
        validate_form_values(FIELDS, rest)


@pytest.mark.parametrize(
    ("name", "answer", "fault"),
    [
        ("name", 1, "field 'name' is 'text' but got int"),
        ("count", "1", "field 'count' is 'number' but got str"),
        ("count", True, "field 'count' is 'number' but got bool"),
        ("sure", 1, "field 'sure' is 'confirm' but got int"),
        ("size", ["S"], "field 'size' is 'select' but got list"),
        ("size", "M", r"'M' of 'size' is not one of \['S', 'L'\]"),
        ("extras", "a", "field 'extras' is 'multiselect' but got str"),
        ("extras", ["a", "c"], r"'c' of 'extras' is not one of \['a', 'b'\]"),
        ("extras", [["a"]], r"\['a'\] of 'extras' is not one of"),
    ],
)
def test_an_answer_of_the_wrong_kind_is_refused(
    name: str,
    answer: Any,  # noqa: ANN401 - what a head might give
    fault: str,
) -> None:
    with pytest.raises(CallerError, match=rf"^ui\.form: {fault}"):
        validate_form_values(FIELDS, {**ANSWERS, name: answer})
