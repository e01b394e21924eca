"""A session and a runtime with what flows read of them."""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from dataclasses import dataclass, field

from tau_kernel.tree import InMemorySessionLog, SessionLog

__all__ = ["Catalog", "Names", "Row", "Runtime", "Session"]


@dataclass(frozen=True)
class Names:
    """A model resolver that knows some names."""

    names: tuple[str, ...]

    def model_names(self) -> Iterable[str]:
        return iter(self.names)


@dataclass
class Session:
    model_resolver: object = None
    extensions: tuple[tuple[str, bool], ...] = ()
    session_log: SessionLog = field(default_factory=InMemorySessionLog)

    def list_managed_extensions(self) -> list[tuple[str, bool]]:
        return list(self.extensions)


@dataclass(frozen=True)
class Row:
    id: str
    name: str | None = None
    first_message: str = ""


@dataclass
class Catalog:
    rows: dict[str | None, builtins.list[Row]] = field(default_factory=dict)

    def list(self, cwd: str | None = None) -> builtins.list[Row]:
        return self.rows.get(cwd, [])


@dataclass
class Runtime:
    cwd: str = "/"
    catalog: Catalog = field(default_factory=Catalog)
