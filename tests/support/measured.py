"""Samples of two programs that did the same work in turns, and how they compare.

A `Row` names what was measured, holds the samples and the budget, and `table` prints
rows. All times are in seconds.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

__all__ = [
    "Budget",
    "Compare",
    "Report",
    "Row",
    "Samples",
    "at_most",
    "difference_at_most",
    "p95",
    "quick_at_worst",
    "ratio_at_most",
    "table",
]


def p95(values: Sequence[float]) -> float:
    """Give the smallest value that 95 of 100 do not exceed."""
    return sorted(values)[math.ceil(0.95 * len(values)) - 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """What was measured, ours and the reference in turns."""

    ours: tuple[float, ...]
    reference: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Our median over that of the reference."""
        return statistics.median(self.ours) / statistics.median(self.reference)

    @property
    def difference(self) -> float:
        """How much longer our median is."""
        return statistics.median(self.ours) - statistics.median(self.reference)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What samples must keep to, in words and as a check."""

    words: str
    holds: Callable[[Samples], bool]


def ratio_at_most(most: float) -> Budget:
    """Allow a median of `most` times the reference's."""
    return Budget(words=f"ratio ≤ {most}", holds=lambda found: found.ratio <= most)


def difference_at_most(most: float) -> Budget:
    """Allow a median that is `most` seconds longer than the reference's."""
    return Budget(
        words=f"difference ≤ {_ms(most)}",
        holds=lambda found: found.difference <= most,
    )


def at_most(most: float) -> Budget:
    """Allow a median of `most` seconds, whatever the reference takes."""
    return Budget(
        words=f"median ≤ {_ms(most)}",
        holds=lambda found: statistics.median(found.ours) <= most,
    )


def quick_at_worst(most: float, worst: float) -> Budget:
    """Allow `most` seconds in 95 of 100 cases and `worst` seconds in any."""
    return Budget(
        words=f"p95 ≤ {_ms(most)}, max ≤ {_ms(worst)}",
        holds=lambda found: p95(found.ours) <= most and max(found.ours) <= worst,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table.

    Args:
        what: What took the time.
        reference: What the reference did.
        samples: How long each took.
        budget: What ours must keep to.
    """

    what: str
    reference: str
    samples: Samples
    budget: Budget

    @property
    def cells(self) -> tuple[str, ...]:
        """What the table says of the row, column by column."""
        samples = self.samples
        return (
            self.what,
            _spread(samples.ours),
            self.reference,
            _spread(samples.reference),
            f"× {samples.ratio:.2f}",
            f"{1000 * samples.difference:+.2f} ms",
            self.budget.words,
            "met" if self.budget.holds(samples) else "NOT MET",
        )


class Compare(Protocol):
    """Measures ours and the reference in turns, reference first."""

    def __call__(
        self,
        ours: Callable[[], float],
        reference: Callable[[], float],
        *,
        rounds: int,
        warm_up: int = 3,
    ) -> Samples:
        """Give the seconds that both functions gave, without the warm-up's."""


#: Puts a row into the table that is printed at the end.
Report: TypeAlias = Callable[[Row], None]

_HEADINGS: Final = (
    "what",
    "ours: median / p95 / max (n)",
    "reference",
    "reference: median / p95 / max (n)",
    "ratio",
    "difference",
    "budget",
    "",
)


def table(rows: Sequence[Row]) -> list[str]:
    """Give the lines of a Markdown table of `rows`."""
    cells = [_HEADINGS, *(row.cells for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        for line in cells
    ]
    rule = "-|-".join("-" * width for width in widths)
    return [f"| {line} |" for line in (lines[0], rule, *lines[1:])]


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:g} ms"


def _spread(values: Sequence[float]) -> str:
    found = (statistics.median(values), p95(values), max(values))
    times = " / ".join(f"{1000 * value:.2f}" for value in found)
    return f"{times} ms ({len(values)})"
