"""The cells that ran in this kernel, for consoles that step through them."""

from __future__ import annotations

import fnmatch
from typing import Final, TypeAlias

from tau_kernel.tree import SessionLog

__all__ = ["CellHistory", "HistoryCell"]

_RECORDS: Final = frozenset({"submission", "cell"})


#: The protocol's number of the kernel's own run, and of those that it recalled.
_OWN: Final = 0
_EARLIER: Final = -1

HistoryCell: TypeAlias = tuple[int, int, str]
"""Run, execution count and source, as in a history_reply."""


class CellHistory:
    """Sources of the counted cells, in the order in which they ran."""

    def __init__(self) -> None:
        """Begin empty."""
        self._cells: list[HistoryCell] = []

    def add(self, count: int, code: str) -> None:
        """Remember a cell under its execution count."""
        self._cells.append((_OWN, count, code))

    def recall(self, log: SessionLog) -> None:
        """Take in the cells on record of a conversation that is resumed."""
        recalled: list[HistoryCell] = []
        path = [] if log.cursor is None else log.view().path(log.cursor)
        for entry in path:
            if entry["type"] != "customEntry" or entry["customType"] not in _RECORDS:
                continue
            count, code = (
                entry["data"].get("execution_count"),
                entry["data"].get("code"),
            )
            if isinstance(count, int) and isinstance(code, str):
                recalled.append((_EARLIER, count, code))
        self._cells = [*recalled, *(cell for cell in self._cells if cell[0] == _OWN)]

    def select(
        self,
        kind: str,
        *,
        start: int = 0,
        stop: int | None = None,
        n: int | None = None,
        pattern: str | None = None,
        unique: bool = False,
    ) -> list[HistoryCell]:
        """Give cells, oldest first; a range is one of this run.

        Args:
            kind: ``"tail"``, ``"range"`` or ``"search"``, as in Jupyter's messages.
            start: First count of a range.
            stop: The count after a range; None for all.
            n: How many of the newest, for tail and search; None for all.
            pattern: A glob that the whole source matches, for search.
            unique: Whether a source occurs once only, where it ran last.
        """
        if kind == "range":
            last = float("inf") if stop is None else stop
            own = (cell for cell in self._cells if cell[0] == _OWN)
            return [cell for cell in own if start <= cell[1] < last]
        found = self._cells
        if kind == "search":
            found = [c for c in found if fnmatch.fnmatchcase(c[2], pattern or "*")]
        if unique:
            newest = {code: (run, count) for run, count, code in found}
            found = [cell for cell in found if newest[cell[2]] == cell[:2]]
        return found if n is None else found[max(len(found) - n, 0) :]
