"""How a flow goes from its name to a mutation with its arguments.

Nothing here reads a session or changes one. A head asks `next_step` until it is told
that the flow is ready, and then carries the mutation out.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Final

from tau_kernel.errors import CallerError
from tau_kernel.messages import JsonObject, JsonValue
from tau_kernel.tree import MessageIdScope

from .binding import bind_value
from .domains import (
    DomainQuery,
    DomainValue,
    DomainValues,
    RuntimePort,
    SessionPort,
)
from .outcome import Dispatched, FlowStep, Performed, Ready, View
from .spec import Argument, Capability, Domain, Flow
from .vocabulary import BUILTINS, Vocabulary

__all__ = [
    "Dispatched",
    "DomainValue",
    "DomainValues",
    "FlowStep",
    "Performed",
    "Ready",
    "UnknownFlowError",
    "UnknownSpecError",
    "View",
    "bind_command_args",
    "bind_text",
    "completed",
    "enumerate_domain",
    "flow_arguments",
    "flow_form_spec",
    "next_step",
]

_ENUMERATION_LIMIT: Final = 50


class UnknownSpecError(CallerError, KeyError):
    """No domain, capability or flow has that name."""

    # KeyError would show the message in quotes.
    __str__ = Exception.__str__


class UnknownFlowError(UnknownSpecError):
    """No flow has that name."""


def flow_arguments(
    flow: str, *, vocabulary: Vocabulary = BUILTINS
) -> tuple[Argument, ...]:
    """Give every argument of a flow, in the order they are asked for.

    Raises:
        UnknownFlowError: No flow has that name.
    """
    return _flow(flow, vocabulary).arguments


def next_step(
    flow: str,
    bound: Mapping[str, JsonValue] | None = None,
    cursor: str | None = None,
    *,
    vocabulary: Vocabulary = BUILTINS,
) -> FlowStep | Ready:
    """Give the next argument to ask for, or the mutation if none is missing.

    Args:
        flow: The flow's name.
        bound: The arguments that are known, by name; they are not checked.
        cursor: What the scope of a ``message_id`` is relative to; it is handed on.
        vocabulary: Where the flow is declared.

    Returns:
        A `FlowStep` for the first required argument that is not bound, else `Ready`.

    Raises:
        UnknownFlowError: No flow has that name.
    """
    known = dict(bound or {})
    found = _flow(flow, vocabulary)
    for argument in _missing(found, known):
        domain = vocabulary.domains[argument.domain]
        return FlowStep(flow, argument, domain, cursor, known)
    return Ready(flow, found.mutation, known)


def flow_form_spec(
    flow: str,
    bound: Mapping[str, JsonValue] | None = None,
    *,
    options: Mapping[str, Sequence[str]] | None = None,
    vocabulary: Vocabulary = BUILTINS,
) -> JsonObject:
    """Give the form that asks for everything a flow still needs.

    Args:
        flow: The flow's name.
        bound: The arguments that are known, by name.
        options: The values to choose from, by the argument's name; `enumerate_domain`
            gives them. They may be left out where a domain has fixed values.
        vocabulary: Where the flow is declared.

    Returns:
        A spec that `validate_form_spec` takes, or an empty dict if nothing is needed.

    Raises:
        UnknownFlowError: No flow has that name.
        CallerError: An argument is chosen from a list, and there is no list.
    """
    found = _flow(flow, vocabulary)
    fields: list[JsonValue] = [
        _field(argument, vocabulary, options or {})
        for argument in _missing(found, bound or {})
    ]
    return {"title": found.description, "fields": fields} if fields else {}


def bind_text(
    argument: Argument, text: str, *, vocabulary: Vocabulary = BUILTINS
) -> JsonValue:
    """Turn what a person typed into the value that the argument's mutation takes.

    Fixed values are found in any case, ``true`` and ``false`` become booleans, numbers
    are read; all other text is passed on as it is. Whether it names anything is for
    `enumerate_domain` to say. Of a list, white space parts the values.

    Raises:
        CallerError: The text is no value of that kind.
        UnknownSpecError: The argument's domain is not declared.
    """
    return bind_value(argument, _domain(argument.domain, vocabulary), text)


def bind_command_args(
    flow: str, raw: str, *, vocabulary: Vocabulary = BUILTINS
) -> JsonObject:
    """Bind what was typed after a command to the argument of its flow.

    Returns:
        The argument by its name; empty if nothing was typed, or the flow takes none.

    Raises:
        UnknownFlowError: No flow has that name.
        CallerError: The text is no value of the argument, or the flow takes several,
            between which one line cannot be split.
    """
    arguments = flow_arguments(flow, vocabulary=vocabulary)
    if not arguments or not raw.strip():
        return {}
    if len(arguments) > 1:
        names = ", ".join(argument.name for argument in arguments)
        msg = (
            f"flow {flow!r} takes {names}, and one line cannot be split between "
            f"them; got {raw!r}, bind each by its name"
        )
        raise CallerError(msg)
    return {arguments[0].name: bind_text(arguments[0], raw, vocabulary=vocabulary)}


def enumerate_domain(
    domain: str,
    *,
    session: SessionPort | None = None,
    runtime: RuntimePort | None = None,
    scope: MessageIdScope | None = None,
    cursor: str | None = None,
    query: str = "",
    limit: int = _ENUMERATION_LIMIT,
    vocabulary: Vocabulary = BUILTINS,
) -> DomainValues:
    """Give the values that are legal in a domain at the moment.

    Files are read for paths and sessions, which blocks.

    Args:
        domain: The domain's name.
        session: What models, extensions and entries are read from.
        runtime: What stored sessions and the working directory are read from.
        scope: For ``message_id``: which entries count; None is all.
        cursor: For ``message_id``: the entry that the scope is relative to; None is
            the session's cursor.
        query: The start of a value, or a part of a label. Fixed values ignore it.
        limit: How many values to give at most, 0 or more.
        vocabulary: Where the domain is declared.

    Returns:
        The values, with how many there are without the limit. A domain in which every
        value is legal has none.

    Raises:
        UnknownSpecError: No domain has that name.
        CallerError: The domain needs a session or a runtime that was not given, or
            one that can say more.
    """
    found = _domain(domain, vocabulary)
    if limit < 0:
        msg = f"limit {limit} is negative; give 0 or more"
        raise CallerError(msg)
    if found.enumerator is None:
        fixed = tuple(DomainValue(one, one) for one in found.values or ())
        return DomainValues(domain, fixed[:limit], len(fixed))
    asked = DomainQuery(
        domain=domain,
        session=session,
        runtime=runtime,
        scope=scope,
        cursor=cursor,
        query=query,
        limit=limit,
    )
    return vocabulary.readers[found.enumerator](asked)


def completed(
    mutation: str,
    data: JsonObject,
    *,
    cursor: str | None,
    flow: str | None = None,
    vocabulary: Vocabulary = BUILTINS,
) -> Performed:
    """Give what a mutation gave back, with the cursor where its schema declares one.

    Args:
        mutation: The capability that ran.
        data: What it gave, without a cursor; it is copied.
        cursor: The log's cursor after the call.
        flow: The flow that led to it, if one did.
        vocabulary: Where the capability is declared.

    Raises:
        UnknownSpecError: No capability has that name, or no flow.
        CallerError: The capability is a read, which moves no cursor; `data` brings a
            cursor of its own; or the flow ends in another mutation.
    """
    capability = _capability(mutation, vocabulary)
    if capability.kind != "mutation":
        msg = f"capability {mutation!r} is a read, and only a mutation is performed"
        raise CallerError(msg)
    if "cursor" in data:
        msg = (
            f"the data of {mutation!r} brings the cursor {data['cursor']!r}; "
            "leave it out, it is added from the log"
        )
        raise CallerError(msg)
    if flow is not None and (ends_in := _flow(flow, vocabulary).mutation) != mutation:
        msg = f"flow {flow!r} ends in {ends_in!r}, not in {mutation!r}"
        raise CallerError(msg)
    declared = (capability.returns or {}).get("properties")
    has_cursor = isinstance(declared, dict) and "cursor" in declared
    told = {**data, "cursor": cursor} if has_cursor else dict(data)
    return Performed(flow, mutation, told, cursor)


def _missing(flow: Flow, bound: Mapping[str, JsonValue]) -> list[Argument]:
    return [one for one in flow.arguments if one.required and one.name not in bound]


def _field(
    argument: Argument, vocabulary: Vocabulary, options: Mapping[str, Sequence[str]]
) -> JsonObject:
    domain = vocabulary.domains[argument.domain]
    kind = "multiselect" if argument.cardinality == "many" else domain.field_kind
    field: JsonObject = {
        "name": argument.name,
        "kind": kind,
        "label": argument.description,
    }
    if kind in {"select", "multiselect"}:
        choices = list(options.get(argument.name) or domain.values or ())
        if not choices:
            msg = (
                f"argument {argument.name!r} is chosen from a list, and options has "
                "none for it; take them from enumerate_domain"
            )
            raise CallerError(msg)
        field["options"] = [*choices]
    return field


def _flow(name: str, vocabulary: Vocabulary) -> Flow:
    spec = vocabulary.commands.get(name)
    if spec is not None and isinstance(spec.declared, Flow):
        return spec.declared
    flows = [
        one.name
        for one in vocabulary.commands.values()
        if isinstance(one.declared, Flow)
    ]
    msg = f"no flow named {name!r} — declared flows are {flows}{_nearest(name, flows)}"
    raise UnknownFlowError(msg)


def _domain(name: str, vocabulary: Vocabulary) -> Domain:
    if name in vocabulary.domains:
        return vocabulary.domains[name]
    known = list(vocabulary.domains)
    msg = f"no domain named {name!r} — declared are {known}{_nearest(name, known)}"
    raise UnknownSpecError(msg)


def _capability(name: str, vocabulary: Vocabulary) -> Capability:
    if name in vocabulary.capabilities:
        return vocabulary.capabilities[name]
    known = list(vocabulary.capabilities)
    msg = f"no capability named {name!r}{_nearest(name, known)}"
    raise UnknownSpecError(msg)


def _nearest(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
