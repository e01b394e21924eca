"""Whether declarations fit together.

A head acts on them without asking again, so what does not fit is refused where it is
declared: at import for the built-in ones, when they are added for all others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NoReturn, get_args

from tau_kernel.errors import CallerError
from tau_kernel.tree import MessageIdScope

from .spec import Argument, Capability, Domain, Flow

__all__ = ["check_flow_matches_mutation", "check_registry"]


def check_registry(
    domains: Mapping[str, Domain],
    capabilities: Mapping[str, Capability],
    flows: Mapping[str, Flow],
    views: Collection[str],
) -> None:
    """Check declarations as a whole.

    Args:
        domains: By name.
        capabilities: By name.
        flows: By name.
        views: The names of the views.

    Raises:
        CallerError: An enumerator is no declared read, a capability does not say what
            it returns, an argument has no domain, a flow and a view share a name, a
            flow does not fit its mutation, or the scopes are not the tree's.
    """
    for domain in domains.values():
        _check_enumerator(domain, capabilities)
    for capability in capabilities.values():
        owner = f"capability {capability.name!r}"
        if capability.returns is None:
            _refuse(f"{owner} does not declare what it returns; give it a schema")
        _check_domains(owner, capability.arguments or (), domains)
    for flow in flows.values():
        _check_domains(f"flow {flow.name!r}", flow.arguments, domains)
        if flow.name in views:
            _refuse(f"{flow.name!r} is a flow and a view; rename one")
        check_flow_matches_mutation(flow, _mutation_of(flow, capabilities))
    scopes = domains.get("message_id_scope")
    if scopes is not None and scopes.values != get_args(MessageIdScope):
        _refuse(
            f"domain 'message_id_scope' has the values {scopes.values}, "
            f"but the tree's scopes are {get_args(MessageIdScope)}"
        )


def check_flow_matches_mutation(flow: Flow, capability: Capability) -> None:
    """Check that what a flow asks for is what its mutation takes.

    A flow may leave out what is optional, and ask in an order of its own.

    Raises:
        CallerError: It is not; the message names the argument at fault.
    """
    ends = f"flow {flow.name!r} ends in {capability.name!r}"
    if capability.arguments is None:
        _refuse(f"{ends}, whose arguments are not expressible as domains")
    taken = {argument.name: argument for argument in capability.arguments}
    for asked in flow.arguments:
        if asked.name not in taken:
            _refuse(f"{ends}, which does not take {asked.name!r}; drop or rename it")
        if _shape(asked) != _shape(taken[asked.name]):
            _refuse(
                f"{ends} and asks for {asked.name!r} as {_shape(asked)}, "
                f"but the mutation takes it as {_shape(taken[asked.name])}"
            )
    certain = {argument.name for argument in flow.arguments if argument.required}
    for argument in capability.arguments:
        if argument.required and argument.name not in certain:
            _refuse(
                f"{ends}, which requires {argument.name!r}; the flow never asks for "
                "it, so declare it there as required"
            )


def _check_enumerator(domain: Domain, capabilities: Mapping[str, Capability]) -> None:
    if domain.enumerator is None:
        return
    reader = capabilities.get(domain.enumerator)
    if reader is None or reader.kind != "read":
        _refuse(
            f"domain {domain.name!r} has the enumerator {domain.enumerator!r}, "
            "which is no declared read; declare it as one"
        )


def _check_domains(
    owner: str, arguments: tuple[Argument, ...], domains: Mapping[str, Domain]
) -> None:
    for argument in arguments:
        if argument.domain not in domains:
            _refuse(
                f"{owner} takes {argument.name!r} of domain {argument.domain!r}, "
                f"which is not declared; known are {sorted(domains)}"
            )


def _mutation_of(flow: Flow, capabilities: Mapping[str, Capability]) -> Capability:
    capability = capabilities.get(flow.mutation)
    if capability is None or capability.kind != "mutation":
        _refuse(
            f"flow {flow.name!r} ends in {flow.mutation!r}, which is no declared "
            "mutation; declare it as one"
        )
    return capability


def _shape(argument: Argument) -> str:
    return f"{argument.cardinality} {argument.domain}"


def _refuse(msg: str) -> NoReturn:
    raise CallerError(msg)
