"""What a domain, an argument, a capability and a flow are.

Each is a frozen declaration that refuses what it cannot mean. Whether several fit
together is checked by `registry`; the built-in ones stand in `capabilities`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, NoReturn, TypeAlias, get_args

from tau_kernel.errors import CallerError
from tau_kernel.messages import JsonObject
from tau_kernel.tree import MessageIdScope

__all__ = [
    "Argument",
    "Capability",
    "CapabilityKind",
    "Cardinality",
    "Domain",
    "Flow",
]

Cardinality: TypeAlias = Literal["one", "many"]
CapabilityKind: TypeAlias = Literal["read", "mutation"]

#: How a value may be asked for, by how the values are found.
_FIELD_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "free": ("text", "number"),
    "values": ("select", "confirm"),
    "enumerator": ("select", "text"),
}


# The documented callers construct these four by position.
@dataclass(frozen=True, slots=True)
class Domain:
    """A named kind of value: how values are found, and how one is asked for.

    Args:
        name: What arguments call it.
        description: What a value of it means, for the reader of a form.
        free: Whether every value of the kind is legal.
        values: The legal values where they are few and fixed.
        enumerator: The read that computes the legal values.
        field_kind: The kind of form field for a single value. ``select`` promises
            that all values fit on a screen; ``text`` is completed while it is typed.

    Raises:
        CallerError: Not exactly one of `free`, `values` and `enumerator` is given, or
            values found that way are not asked for by `field_kind`.
    """

    name: str
    description: str
    free: bool = False
    values: tuple[str, ...] | None = None
    enumerator: str | None = None
    field_kind: str = "text"

    def __post_init__(self) -> None:
        """Check that there is one way to find values, and a fitting way to ask."""
        found_by = [
            way
            for way, is_given in (
                ("free", self.free),
                ("values", self.values is not None),
                ("enumerator", self.enumerator is not None),
            )
            if is_given
        ]
        if len(found_by) != 1:
            given = ", ".join(found_by) or "none"
            _refuse(
                f"domain {self.name!r} takes exactly one of free / values / "
                f"enumerator, got {given}"
            )
        if self.values is not None and not self.values:
            _refuse(f"domain {self.name!r} has no values; name at least one")
        if self.field_kind not in _FIELD_KINDS[found_by[0]]:
            kinds = " or ".join(_FIELD_KINDS[found_by[0]])
            _refuse(
                f"domain {self.name!r} has field_kind {self.field_kind!r}; one whose "
                f"values are found by {found_by[0]} is asked for as {kinds}"
            )


@dataclass(frozen=True, slots=True)
class Argument:
    """One value, or list of values, that a capability takes or a flow asks for.

    Args:
        name: The key it is bound under.
        domain: The name of its domain.
        description: What a person is asked.
        cardinality: ``"one"`` for a value, ``"many"`` for a list.
        required: Whether nothing can run without it.
        scope: For ``message_id``: which entries count. None elsewhere, and where
            every entry of the session does.

    Raises:
        CallerError: The cardinality is unknown, or a scope is given for a domain
            that has none.
    """

    name: str
    domain: str
    description: str
    cardinality: Cardinality = "one"
    required: bool = True
    scope: MessageIdScope | None = None

    def __post_init__(self) -> None:
        """Check the cardinality, and that only ids of entries have a scope."""
        if self.cardinality not in get_args(Cardinality):
            _refuse(
                f"argument {self.name!r} has cardinality {self.cardinality!r}; "
                "use 'one' or 'many'"
            )
        if self.scope is not None and self.domain != "message_id":
            _refuse(
                f"argument {self.name!r} has scope {self.scope!r}, but domain "
                f"{self.domain!r}; only a message_id has a scope"
            )


@dataclass(frozen=True, slots=True)
class Capability:
    """One read or one mutation of a session, known to every head by its name.

    Args:
        name: What it is called.
        kind: ``"read"`` changes nothing; ``"mutation"`` does.
        description: What it does, one line.
        on_wire: Whether τ's wire protocol has a verb of this name.
        arguments: What it takes; None if that cannot be said in domains.
        returns: JSON Schema of the object it gives (``type``, ``properties``,
            ``required``, ``items``, ``enum``). Read it, never change it.

    Raises:
        CallerError: The kind is unknown, or two arguments share a name.
    """

    name: str
    kind: CapabilityKind
    description: str
    on_wire: bool = False
    arguments: tuple[Argument, ...] | None = ()
    returns: JsonObject | None = None

    def __post_init__(self) -> None:
        """Check the kind and the names of the arguments."""
        if self.kind not in get_args(CapabilityKind):
            _refuse(
                f"capability {self.name!r} has kind {self.kind!r}; "
                "use 'read' or 'mutation'"
            )
        _check_names(f"capability {self.name!r}", self.arguments or ())


@dataclass(frozen=True, slots=True)
class Flow:
    """Arguments, in the order they are asked for, and the one mutation they lead to.

    Args:
        name: The flow's name, which is its slash command as well.
        description: What it does, as lists and forms say it.
        mutation: The capability that it ends in.
        arguments: What it asks for.

    Raises:
        CallerError: There is no mutation, or two arguments share a name.
    """

    name: str
    description: str
    mutation: str
    arguments: tuple[Argument, ...] = ()

    def __post_init__(self) -> None:
        """Check that the flow leads somewhere, and the names of its arguments."""
        if not self.mutation:
            _refuse(f"flow {self.name!r} declares no mutation; name the one it ends in")
        _check_names(f"flow {self.name!r}", self.arguments)


def _check_names(owner: str, arguments: tuple[Argument, ...]) -> None:
    names = [argument.name for argument in arguments]
    for name in names:
        if names.count(name) > 1:
            _refuse(f"{owner} has two arguments named {name!r}; rename one")


def _refuse(msg: str) -> NoReturn:
    raise CallerError(msg)
