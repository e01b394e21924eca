"""The cells that ran in this kernel, for consoles that step through them."""

from __future__ import annotations

import fnmatch

__all__ = ["CellHistory"]


class CellHistory:
    """Sources of the counted cells, in the order in which they ran."""

    def __init__(self) -> None:
        """Begin empty."""
        self._cells: list[tuple[int, str]] = []

    def add(self, count: int, code: str) -> None:
        """Remember a cell under its execution count."""
        self._cells.append((count, code))

    def select(
        self,
        kind: str,
        *,
        start: int = 0,
        stop: int | None = None,
        n: int | None = None,
        pattern: str | None = None,
        unique: bool = False,
    ) -> list[tuple[int, str]]:
        """Give (count, source) pairs, oldest first.

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
            return [cell for cell in self._cells if start <= cell[0] < last]
        found = self._cells
        if kind == "search":
            found = [c for c in found if fnmatch.fnmatchcase(c[1], pattern or "*")]
        if unique:
            newest = {code: count for count, code in found}
            found = [cell for cell in found if newest[cell[1]] == cell[0]]
        return found if n is None else found[max(len(found) - n, 0) :]
