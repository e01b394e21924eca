"""The commands that a person can type, whoever declares them.

The core declares its own (`BUILTINS`); a head and extensions hand over `Declarations`
of the same form, and a `Vocabulary` holds all of them as one value: the built-in
commands first, then the head's, then the extensions'.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, TypeVar, get_args

from tau_kernel.errors import CallerError
from tau_kernel.messages import JsonObject

from .capabilities import (
    CAPABILITIES,
    DOMAINS,
    FLOWS,
    VIEW_COMMANDS,
    slash_vocabulary,
)
from .domains import READERS, DomainReader
from .registry import check_registry
from .spec import Argument, Capability, Domain, Flow

__all__ = [
    "BUILTINS",
    "EXTENSION_VIEW_VERBS",
    "CommandOrigin",
    "CommandSpec",
    "Declarations",
    "DeclaredCommand",
    "TextCommand",
    "ViewCommand",
    "Vocabulary",
]

CommandOrigin: TypeAlias = Literal["builtin", "head", "extension"]
_NAME: Final = re.compile(r"[^\s/]+")
_Declared = TypeVar("_Declared")

#: What may follow ``/extensions``, and the flow that it means.
EXTENSION_VIEW_VERBS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "enable": "enable_extension",
        "disable": "disable_extension",
        "reload": "reload_extension",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewCommand:
    """A command that opens something which only a head can show."""

    name: str
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TextCommand:
    """A command of an extension, which reads what follows the name by itself.

    Args:
        name: Its name, without the slash.
        description: What it does, one line; may be empty.
        placeholder: What stands for its arguments in its usage; empty if it takes
            none.
    """

    name: str
    description: str
    placeholder: str = ""


DeclaredCommand: TypeAlias = Flow | ViewCommand | TextCommand


@dataclass(frozen=True, slots=True, kw_only=True)
class Declarations:
    """What one owner adds.

    Args:
        owner: Who declares it, as errors name them.
        origin: What kind of owner it is.
        domains: Kinds of values.
        capabilities: Reads and mutations that the owner carries out.
        commands: What a person can type, in the order of lists. A flow may end in a
            mutation of another owner.
        readers: For each enumerator among the capabilities, what computes its values.
    """

    owner: str
    origin: CommandOrigin
    domains: tuple[Domain, ...] = ()
    capabilities: tuple[Capability, ...] = ()
    commands: tuple[DeclaredCommand, ...] = ()
    readers: Mapping[str, DomainReader] = field(
        default_factory=lambda: MappingProxyType({})
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSpec:
    """A command with its owner."""

    declared: DeclaredCommand
    owner: str
    origin: CommandOrigin

    @property
    def name(self) -> str:
        """Its name, without the slash."""
        return self.declared.name

    @property
    def description(self) -> str:
        """What it does, one line."""
        return self.declared.description

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """What it asks for; empty where that is not said in domains."""
        return self.declared.arguments if isinstance(self.declared, Flow) else ()

    @property
    def takes_text(self) -> bool:
        """Whether something may follow the name."""
        match self.declared:
            case Flow(arguments=arguments):
                return bool(arguments)
            case ViewCommand(name=name):
                return name == "extensions" and self.origin == "builtin"
            case TextCommand():
                return True

    def row(self) -> JsonObject:
        """Give the command as ``get_commands`` lists it."""
        return {
            "name": self.name,
            "description": self.description,
            "origin": self.origin,
            "flow": isinstance(self.declared, Flow),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """Everything that is declared, as one value that is checked as a whole.

    Args:
        declarations: Whose they are is only for errors and `without`; an owner may
            have several.

    Attributes:
        domains: By name.
        capabilities: By name.
        commands: By name; the built-in ones first, then the head's, then those of
            extensions, else in the order of declaration.
        readers: By the name of the enumerator.

    Raises:
        CallerError: A name is taken, or cannot be typed; an enumerator has no reader;
            or the declarations do not fit together, see `check_registry`.
    """

    declarations: tuple[Declarations, ...] = ()
    domains: Mapping[str, Domain] = field(init=False, repr=False, compare=False)
    capabilities: Mapping[str, Capability] = field(
        init=False, repr=False, compare=False
    )
    commands: Mapping[str, CommandSpec] = field(init=False, repr=False, compare=False)
    readers: Mapping[str, DomainReader] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Merge the declarations and check them."""
        by_rank = sorted(
            self.declarations, key=lambda one: get_args(CommandOrigin).index(one.origin)
        )
        merged: dict[str, Mapping[str, object]] = {
            "domains": _unique(
                "domain", ((o, d.name, d) for o in by_rank for d in o.domains)
            ),
            "capabilities": _unique(
                "capability", ((o, c.name, c) for o in by_rank for c in o.capabilities)
            ),
            "commands": _unique("command", _commands(by_rank)),
            "readers": _unique(
                "reader", ((o, n, r) for o in by_rank for n, r in o.readers.items())
            ),
        }
        for name, table in merged.items():
            object.__setattr__(self, name, MappingProxyType(table))
        self._check()

    def extended(self, more: Declarations) -> Vocabulary:
        """Give this vocabulary with the declarations of one more owner.

        Raises:
            CallerError: They do not fit in; see the class.
        """
        return Vocabulary(declarations=(*self.declarations, more))

    def without(self, owner: str) -> Vocabulary:
        """Give this vocabulary without what an owner declared.

        Raises:
            CallerError: Others lead to what the owner declared.
        """
        kept = tuple(one for one in self.declarations if one.owner != owner)
        return Vocabulary(declarations=kept)

    def usage(self, name: str) -> str:
        """Give a command as one would write it: ``/model NAME``.

        What may be left out is in brackets, alternatives are parted by bars.

        Raises:
            KeyError: There is no such command.
        """
        spec = self.commands[name]
        match spec.declared:
            case Flow(arguments=arguments):
                words = [self._usage_of(argument) for argument in arguments]
            case TextCommand(placeholder=placeholder):
                words = [f"[{placeholder}]"] if placeholder else []
            case ViewCommand():
                verbs = "|".join(EXTENSION_VIEW_VERBS)
                words = [f"[{verbs} PATH]"] if spec.takes_text else []
        return " ".join([f"/{name}", *words])

    def _usage_of(self, argument: Argument) -> str:
        values = self.domains[argument.domain].values
        word = "|".join(values) if values else argument.name.upper()
        word += "…" if argument.cardinality == "many" else ""
        return word if argument.required else f"[{word}]"

    def _check(self) -> None:
        declared = [spec.declared for spec in self.commands.values()]
        flows = {one.name: one for one in declared if isinstance(one, Flow)}
        views = {one.name for one in declared if isinstance(one, ViewCommand)}
        check_registry(self.domains, self.capabilities, flows, views)
        for domain in self.domains.values():
            if domain.enumerator is not None and domain.enumerator not in self.readers:
                msg = (
                    f"domain {domain.name!r} has the enumerator "
                    f"{domain.enumerator!r}, which nothing reads; declare its reader"
                )
                raise CallerError(msg)


def _commands(
    declarations: list[Declarations],
) -> Iterator[tuple[Declarations, str, CommandSpec]]:
    for one in declarations:
        for declared in one.commands:
            if not _NAME.fullmatch(declared.name):
                msg = (
                    f"command {declared.name!r} of {one.owner!r} cannot be typed; "
                    "choose a name without white space and slashes"
                )
                raise CallerError(msg)
            spec = CommandSpec(declared=declared, owner=one.owner, origin=one.origin)
            yield one, declared.name, spec


def _unique(
    what: str, named: Iterator[tuple[Declarations, str, _Declared]]
) -> dict[str, _Declared]:
    table: dict[str, _Declared] = {}
    owners: dict[str, str] = {}
    for declarations, name, spec in named:
        if name in table:
            msg = (
                f"{what} {name!r} of {declarations.owner!r} is already declared by "
                f"{owners[name]!r}; rename one, or remove the first"
            )
            raise CallerError(msg)
        table[name] = spec
        owners[name] = declarations.owner
    return table


def _builtin_command(name: str) -> DeclaredCommand:
    if name in VIEW_COMMANDS:
        return ViewCommand(name=name, description=VIEW_COMMANDS[name])
    return FLOWS[name]


#: What the core declares.
BUILTINS: Final = Vocabulary(
    declarations=(
        Declarations(
            owner="builtin",
            origin="builtin",
            domains=tuple(DOMAINS.values()),
            capabilities=tuple(CAPABILITIES.values()),
            commands=tuple(_builtin_command(name) for name in slash_vocabulary()),
            readers=READERS,
        ),
    )
)
