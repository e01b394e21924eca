"""Every promise of the registry, broken once."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import pytest

from tau_kernel.errors import CallerError
from tau_kernel.flows import (
    CAPABILITIES,
    DOMAINS,
    FLOWS,
    VIEW_COMMANDS,
    Argument,
    Capability,
    Domain,
    Flow,
    check_flow_matches_mutation,
    check_registry,
)

NUMBER = Argument("a", "number", "A?")
GRANT = Capability(
    "grant",
    "mutation",
    "Grants.",
    arguments=(
        Argument("who", "text", "Who?"),
        Argument("what", "message_id", "What?", "many"),
        Argument("why", "text", "Why?", required=False),
    ),
    returns={"type": "object"},
)
WHO, WHAT, WHY = GRANT.arguments or ()


def flow(*arguments: Argument, mutation: str = "grant") -> Flow:
    return Flow("f", "F.", mutation, arguments)


def check(
    *,
    domains: Mapping[str, Domain] = DOMAINS,
    capabilities: Mapping[str, Capability] = CAPABILITIES,
    flows: Mapping[str, Flow] = FLOWS,
    views: Collection[str] = tuple(VIEW_COMMANDS),
) -> None:
    check_registry(domains, capabilities, flows, views)


def test_the_built_in_tables_fit_together() -> None:
    check()


@pytest.mark.parametrize("enumerator", ["list_everything", "compact"])
def test_an_enumerator_that_is_no_read_is_refused(enumerator: str) -> None:
    domain = replace(DOMAINS["path"], enumerator=enumerator)
    with pytest.raises(CallerError, match=f"'path'.*{enumerator!r}.*no declared read"):
        check(domains={**DOMAINS, "path": domain})


def test_a_capability_that_does_not_say_what_it_returns_is_refused() -> None:
    silent = replace(CAPABILITIES["abort"], returns=None)
    with pytest.raises(CallerError, match="'abort' does not declare what it returns"):
        check(capabilities={**CAPABILITIES, "abort": silent})


def test_an_argument_of_a_capability_without_a_domain_is_refused() -> None:
    lost = replace(CAPABILITIES["abort"], arguments=(replace(NUMBER, domain="hue"),))
    with pytest.raises(CallerError, match=r"capability 'abort' takes 'a' of.*'hue'"):
        check(capabilities={**CAPABILITIES, "abort": lost})


def test_an_argument_of_a_flow_without_a_domain_is_refused() -> None:
    lost = Flow("f", "F.", "abort", (replace(NUMBER, domain="hue"),))
    with pytest.raises(CallerError, match="flow 'f' takes 'a' of domain 'hue'"):
        check(flows={"f": lost})


@pytest.mark.parametrize("mutation", ["grant", "get_state"])
def test_a_flow_that_ends_in_no_mutation_is_refused(mutation: str) -> None:
    with pytest.raises(CallerError, match=f"'f' ends in {mutation!r}.*no declared mut"):
        check(flows={"f": flow(mutation=mutation)})


def test_a_flow_with_the_name_of_a_view_is_refused() -> None:
    with pytest.raises(CallerError, match="'tree' is a flow and a view"):
        check(flows={"tree": Flow("tree", "T.", "abort")})


def test_a_flow_is_checked_against_its_mutation() -> None:
    with pytest.raises(CallerError, match="which does not take 'a'"):
        check(flows={"f": Flow("f", "F.", "abort", (NUMBER,))})


def test_scopes_that_are_not_the_trees_are_refused() -> None:
    fewer = replace(DOMAINS["message_id_scope"], values=("in_session",))
    with pytest.raises(CallerError, match="'message_id_scope' has the values"):
        check(domains={**DOMAINS, "message_id_scope": fewer})


@pytest.mark.parametrize("asked", [(WHO, WHAT), (WHAT, WHO), (WHY, WHAT, WHO)], ids=len)
def test_a_flow_may_leave_out_what_is_optional_and_ask_in_its_own_order(
    asked: tuple[Argument, ...],
) -> None:
    check_flow_matches_mutation(flow(*asked), GRANT)


@pytest.mark.parametrize(
    ("asked", "fault"),
    [
        ((WHO, WHAT, NUMBER), "does not take 'a'"),
        (
            (replace(WHO, domain="number"), WHAT),
            "asks for 'who' as one number, but the mutation takes it as one text",
        ),
        (
            (WHO, replace(WHAT, cardinality="one")),
            "'what' as one message_id, but the mutation takes it as many message_id",
        ),
        ((WHO,), "requires 'what'; the flow never asks for it"),
        (
            (WHO, replace(WHAT, required=False)),
            "requires 'what'; the flow never asks for it",
        ),
    ],
)
def test_a_flow_that_does_not_fit_its_mutation_is_refused(
    asked: tuple[Argument, ...], fault: str
) -> None:
    with pytest.raises(CallerError, match=f"^flow 'f' ends in 'grant'.*{fault}"):
        check_flow_matches_mutation(flow(*asked), GRANT)


def test_a_mutation_with_arguments_beyond_domains_has_no_flow() -> None:
    submit = CAPABILITIES["submit"]
    with pytest.raises(CallerError, match=r"'submit'.*not expressible as domains"):
        check_flow_matches_mutation(flow(mutation="submit"), submit)
