"""One execute_request, taken down once and carried to everything it causes."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final

from tau_kernel.messages import JsonObject, JsonValue, clean_json

__all__ = ["CURRENT_REQUEST", "CellRequest"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CellRequest:
    """A cell that a client asked to run.

    Args:
        code: The cell's source.
        parent: The request's message; every output names it.
        identity: The client's routing frames; questions go there.
        execution_count: The number that the cell shows.
        silent: Whether nothing but status is published, and nothing kept.
        store_history: Whether the cell counts and is kept.
        allow_stdin: Whether the client answers questions while the cell runs.
        cell_id: The notebook's id of the cell; consoles send none.
    """

    code: str
    parent: Mapping[str, object]
    identity: Sequence[bytes]
    execution_count: int
    silent: bool
    store_history: bool
    allow_stdin: bool
    cell_id: str | None
    _answered: threading.Event = field(default_factory=threading.Event)

    def mark_answered(self) -> None:
        """Note that the reply is on its way: nobody may be asked any more."""
        self._answered.set()

    @property
    def may_ask(self) -> bool:
        """Whether a question of this cell may reach its client at this moment."""
        return self.allow_stdin and not self.silent and not self._answered.is_set()

    @property
    def correlation(self) -> JsonObject:
        """What is kept of the request's origin, as plain JSON."""
        header = self.parent.get("header", {})
        known: JsonObject = {"parent_header": _plain(header)}
        if self.cell_id is not None:
            known["cell_id"] = self.cell_id
        return known


#: The cell whose work runs in this context, on whichever thread that is.
CURRENT_REQUEST: Final[ContextVar[CellRequest | None]] = ContextVar(
    "tau_current_request", default=None
)


def _plain(header: object) -> JsonValue:
    if not isinstance(header, Mapping):
        return {}
    kept = ("msg_id", "session", "username", "date", "msg_type")
    return {
        key: clean_json(value if isinstance(value, str) else str(value))
        for key in kept
        if (value := header.get(key)) is not None
    }
