"""What a form may ask, and whether its answers fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NoReturn, NotRequired, TypedDict, cast

from tau_kernel.errors import CallerError
from tau_kernel.messages import JsonObject, JsonValue

__all__ = [
    "FORM_FIELD_KINDS",
    "FormField",
    "form_headless_value",
    "validate_form_spec",
    "validate_form_values",
]

FORM_FIELD_KINDS: Final = frozenset(
    {"text", "select", "multiselect", "confirm", "number"}
)
_CHOICE_KINDS: Final = frozenset({"select", "multiselect"})
_EMPTY_VALUES: Final[Mapping[str, JsonValue]] = {
    "text": "",
    "number": 0,
    "confirm": False,
}


class FormField(TypedDict):
    """One question of a form; ``options`` is there for the two kinds of choice."""

    name: str
    kind: str
    label: str
    default: NotRequired[JsonValue]
    options: NotRequired[list[str]]


def validate_form_spec(spec: object) -> tuple[str, list[FormField]]:
    """Give title and fields of a form, labels filled in.

    Raises:
        CallerError: The spec is no form; the message names the field at fault.
    """
    if not isinstance(spec, dict):
        _refuse(f"the spec is a {type(spec).__name__}; give a dict with 'fields'")
    title = spec.get("title", "Form")
    if not isinstance(title, str):
        _refuse(f"title {title!r} is no string")
    raw_fields = spec.get("fields")
    if not isinstance(raw_fields, list) or not raw_fields:
        _refuse(f"fields {raw_fields!r} is no list of at least one field")
    fields: list[FormField] = []
    for raw in raw_fields:
        field = _field(raw)
        if any(other["name"] == field["name"] for other in fields):
            _refuse(f"two fields are named {field['name']!r}; rename one")
        fields.append(field)
    return title, fields


def form_headless_value(field: FormField) -> JsonValue:
    """Give the answer that a field has when nobody is asked."""
    if "default" in field:
        return field["default"]
    if field["kind"] == "select":
        return field["options"][0]
    if field["kind"] == "multiselect":
        return []
    return _EMPTY_VALUES[field["kind"]]


def validate_form_values(fields: Sequence[FormField], values: JsonObject) -> None:
    """Check the answers to a form against its fields.

    Raises:
        CallerError: An answer is missing, undeclared, or not what its field takes.
    """
    names = [field["name"] for field in fields]
    for key in values:
        if key not in names:
            _refuse(f"undeclared key {key!r}; the form has {names}")
    for field in fields:
        if field["name"] not in values:
            _refuse(f"the answer to {field['name']!r} is missing")
        _check_value(field, values[field["name"]])


def _field(raw: object) -> FormField:
    if not isinstance(raw, dict):
        _refuse(f"field {raw!r} is no dict")
    name, kind = raw.get("name"), raw.get("kind")
    if not isinstance(name, str) or not name:
        _refuse(f"field name {name!r} is no non-empty string")
    if not isinstance(kind, str) or kind not in FORM_FIELD_KINDS:
        kinds = sorted(FORM_FIELD_KINDS)
        _refuse(f"field {name!r} has kind {kind!r}; take one of {kinds}")
    label = raw.get("label", name)
    if not isinstance(label, str):
        _refuse(f"field {name!r} has label {label!r}, which is no string")
    field: FormField = {"name": name, "kind": kind, "label": label}
    if "default" in raw:
        field["default"] = cast("JsonValue", raw["default"])
    options = raw.get("options")
    if options is not None or kind in _CHOICE_KINDS:
        if not isinstance(options, list) or not options:
            _refuse(f"field {name!r} has options {options!r}; give strings")
        if not all(isinstance(option, str) for option in options):
            _refuse(f"field {name!r} has options {options!r}; give strings only")
        field["options"] = options
    return field


def _check_value(field: FormField, value: JsonValue) -> None:
    name, kind = field["name"], field["kind"]
    fits = {
        "text": isinstance(value, str),
        "select": isinstance(value, str),
        "multiselect": isinstance(value, list),
        "confirm": isinstance(value, bool),
        "number": isinstance(value, int | float) and not isinstance(value, bool),
    }[kind]
    if not fits:
        _refuse(f"field {name!r} is {kind!r} but got {type(value).__name__}")
    if kind in _CHOICE_KINDS:
        for chosen in value if isinstance(value, list) else [value]:
            if chosen not in field["options"]:
                _refuse(f"{chosen!r} of {name!r} is not one of {field['options']}")


def _refuse(what: str) -> NoReturn:
    msg = f"ui.form: {what}"
    raise CallerError(msg)
