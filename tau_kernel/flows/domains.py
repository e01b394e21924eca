"""The values of a domain, read from a session and its runtime."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol, TypeAlias, TypeVar, runtime_checkable

from tau_kernel.errors import CallerError
from tau_kernel.tree import ConversationTree, MessageIdScope, SessionLog

__all__ = [
    "READERS",
    "CatalogPort",
    "DomainQuery",
    "DomainReader",
    "DomainValue",
    "DomainValues",
    "ModelNames",
    "RuntimePort",
    "SessionPort",
    "SessionRow",
    "select_values",
]

_NAMES_LOOKED_AT: Final = 10_000
_Present = TypeVar("_Present")


@runtime_checkable
class ModelNames(Protocol):
    """A model resolver that can say which names it knows."""

    def model_names(self) -> Iterable[str]:
        """Give the names, in the order to show them."""
        ...


class SessionPort(Protocol):
    """What is read of a session."""

    @property
    def session_log(self) -> SessionLog:
        """The log of the conversation."""
        ...

    @property
    def model_resolver(self) -> object:
        """What turns names into models, None if there is nothing.

        Its names can be listed if it is a `ModelNames`.
        """
        ...

    def list_managed_extensions(self) -> Sequence[tuple[str, bool]]:
        """Give the path of each extension, and whether it is enabled."""
        ...


class SessionRow(Protocol):
    """What is read of a stored session."""

    @property
    def id(self) -> str:
        """Its identity."""
        ...

    @property
    def name(self) -> str | None:
        """Its name, if it has one."""
        ...

    @property
    def first_message(self) -> str:
        """The text of its first user message; may be empty."""
        ...


class CatalogPort(Protocol):
    """What is read of a session catalog."""

    def list(self, cwd: str | None = None) -> Sequence[SessionRow]:
        """Give the sessions of a directory, newest first."""
        ...


class RuntimePort(Protocol):
    """What is read of a session's runtime."""

    @property
    def catalog(self) -> CatalogPort:
        """Where sessions are stored."""
        ...

    @property
    def cwd(self) -> str:
        """The working directory."""
        ...


@dataclass(frozen=True, slots=True)
class DomainValue:
    """A legal value, and the text that people know it by."""

    value: str
    label: str


@dataclass(frozen=True, slots=True)
class DomainValues:
    """Values of a domain up to a limit, and how many there were without it."""

    domain: str
    values: tuple[DomainValue, ...]
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainQuery:
    """A question for the values of a domain.

    Args:
        domain: The domain's name.
        session: The session to read from, if the asker has one.
        runtime: Its runtime, if the asker has one.
        scope: For ``message_id``: which entries count; None is all.
        cursor: For ``message_id``: the entry that the scope is relative to; None is
            the session's cursor.
        query: What the values have to match; empty matches all.
        limit: How many values to give at most.
    """

    domain: str
    session: SessionPort | None = None
    runtime: RuntimePort | None = None
    scope: MessageIdScope | None = None
    cursor: str | None = None
    query: str = ""
    limit: int

    def need_session(self) -> SessionPort:
        """Give the session, or refuse with a CallerError if there is none."""
        return self._need("session", self.session)

    def need_runtime(self) -> RuntimePort:
        """Give the runtime, or refuse with a CallerError if there is none."""
        return self._need("runtime", self.runtime)

    def _need(self, what: str, given: _Present | None) -> _Present:
        if given is None:
            msg = f"domain {self.domain!r} needs a {what}; pass {what}= as well"
            raise CallerError(msg)
        return given


#: Answers a question for values. One that reads files blocks while it does.
DomainReader: TypeAlias = Callable[[DomainQuery], DomainValues]


def select_values(asked: DomainQuery, values: Iterable[DomainValue]) -> DomainValues:
    """Give those values that start with the query, or whose label contains it.

    The case of values counts, that of labels does not.
    """
    words = asked.query.casefold()
    fitting = [
        one
        for one in values
        if one.value.startswith(asked.query) or words in one.label.casefold()
    ]
    shown = tuple(fitting[: asked.limit])
    return DomainValues(asked.domain, shown, len(fitting))


def _models(asked: DomainQuery) -> DomainValues:
    resolver = asked.need_session().model_resolver
    if resolver is None:
        msg = (
            f"domain {asked.domain!r} needs a model resolver, and the session has "
            "none; bind one with set_model_resolver"
        )
        raise CallerError(msg)
    if not isinstance(resolver, ModelNames):
        msg = (
            f"the model resolver {resolver!r} does not declare model_names(); "
            "without it the models cannot be listed"
        )
        raise CallerError(msg)
    names = resolver.model_names()
    return select_values(asked, (DomainValue(name, name) for name in names))


def _sessions(asked: DomainQuery) -> DomainValues:
    runtime = asked.need_runtime()
    rows = runtime.catalog.list(runtime.cwd)
    return select_values(asked, (DomainValue(row.id, _title(row)) for row in rows))


def _title(row: SessionRow) -> str:
    return row.name or " ".join(row.first_message.split()) or row.id


def _extensions(asked: DomainQuery) -> DomainValues:
    managed = asked.need_session().list_managed_extensions()
    return select_values(
        asked,
        (
            DomainValue(path, f"{path} ({'enabled' if enabled else 'disabled'})")
            for path, enabled in managed
        ),
    )


def _entries(asked: DomainQuery) -> DomainValues:
    log = asked.need_session().session_log
    found = ConversationTree(log.view(), log.cursor).complete_message_id(
        asked.scope or "in_session", asked.cursor, asked.query, asked.limit
    )
    values = tuple(DomainValue(one.entry_id, one.preview) for one in found.matches)
    return DomainValues(asked.domain, values, found.total)


def _paths(asked: DomainQuery) -> DomainValues:
    """Give what a path may go on to, directories with a slash at their end."""
    runtime = asked.need_runtime()
    folder, slash, prefix = asked.query.rpartition("/")
    folder += slash
    where = Path(runtime.cwd) / os.path.expanduser(folder)  # noqa: PTH111 - Path.expanduser raises where there is no such user
    found = sorted(_names(where, prefix), key=lambda name: (name.casefold(), name))
    values = (DomainValue(folder + name, folder + name) for name in found)
    return DomainValues(asked.domain, tuple(islice(values, asked.limit)), len(found))


def _names(where: Path, prefix: str) -> Iterator[str]:
    wanted = prefix.casefold()
    try:
        with os.scandir(where) as entries:
            for entry in islice(entries, _NAMES_LOOKED_AT):
                name = entry.name
                is_hidden = name.startswith(".") and not prefix.startswith(".")
                # A name that is no text cannot be typed either.
                if is_hidden or not name.isprintable():
                    continue
                if name.casefold().startswith(wanted):
                    yield f"{name}/" if _is_directory(entry) else name
    except (OSError, ValueError):
        # What cannot be listed has nothing that a path could go on to.
        return


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        # A link that leads back to itself.
        return False


#: The readers of the built-in enumerators, by the name of the capability.
READERS: Final[Mapping[str, DomainReader]] = MappingProxyType(
    {
        "get_models": _models,
        "list_sessions": _sessions,
        "list_managed_extensions": _extensions,
        "complete_message_id": _entries,
        "complete_path": _paths,
    }
)
