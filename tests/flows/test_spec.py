from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tau_kernel.errors import CallerError
from tau_kernel.flows import Argument, Capability, Domain, Flow

ONE = Argument("a", "text", "A?")

WAYS: list[dict[str, Any]] = [
    {},
    {"free": True, "values": ("x",)},
    {"free": True, "enumerator": "get_models"},
    {"values": ("x",), "enumerator": "get_models", "field_kind": "select"},
    {"free": True, "values": ("x",), "enumerator": "get_models"},
]
FOUND: dict[str, dict[str, Any]] = {
    "free": {"free": True},
    "values": {"values": ("x",)},
    "enumerator": {"enumerator": "get_models"},
}
FITTING = {
    "free": {"text", "number"},
    "values": {"select", "confirm"},
    "enumerator": {"select", "text"},
}
KINDS = ["text", "number", "select", "confirm", "multiselect", "date"]


@pytest.mark.parametrize("ways", WAYS)
def test_a_domain_finds_its_values_in_one_way(ways: dict[str, Any]) -> None:
    with pytest.raises(
        CallerError, match="exactly one of free / values / enumerator"
    ) as caught:
        Domain("d", "D.", **ways)
    assert "'d'" in str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("found", list(FOUND))
def test_a_domain_is_asked_for_as_its_values_are_found(found: str, kind: str) -> None:
    if kind in FITTING[found]:
        assert Domain("d", "D.", **FOUND[found], field_kind=kind).field_kind == kind
        return
    with pytest.raises(CallerError, match=f"has field_kind {kind!r}; .*{found}"):
        Domain("d", "D.", **FOUND[found], field_kind=kind)


def test_a_domain_of_no_values_is_refused() -> None:
    with pytest.raises(CallerError, match="'d' has no values"):
        Domain("d", "D.", values=(), field_kind="select")


def test_an_argument_has_one_value_or_many() -> None:
    wrong: Any = "few"
    with pytest.raises(CallerError, match="'a' has cardinality 'few'"):
        Argument("a", "text", "A?", wrong)


def test_only_the_id_of_an_entry_has_a_scope() -> None:
    scoped = Argument("a", "message_id", "A?", scope="in_session")
    assert scoped.scope == "in_session"
    with pytest.raises(CallerError, match=r"'a' has scope 'in_session'.*'text'"):
        Argument("a", "text", "A?", scope="in_session")


def test_a_capability_reads_or_changes() -> None:
    wrong: Any = "both"
    with pytest.raises(CallerError, match="'c' has kind 'both'"):
        Capability("c", wrong, "C.")


def test_a_flow_leads_to_a_mutation() -> None:
    with pytest.raises(CallerError, match="flow 'f' declares no mutation"):
        Flow("f", "F.", "")


def test_two_arguments_of_one_name_are_refused() -> None:
    twice = (ONE, dataclasses.replace(ONE, domain="number"))
    with pytest.raises(CallerError, match="capability 'c' has two arguments named 'a'"):
        Capability("c", "read", "C.", arguments=twice)
    with pytest.raises(CallerError, match="flow 'f' has two arguments named 'a'"):
        Flow("f", "F.", "c", twice)


def test_a_declaration_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        ONE.name = "b"  # type: ignore[misc] # what is tested
