"""A forest as the lines of an outline, of which some are covered.

The lines stand in preorder, cut into blocks of some hundreds. What changes for a whole
block is noted at the block, not at its lines (a square-root decomposition), so that a
change, or a question, costs about the square root of the number of lines. Which
entries are lines, and what a line shows, is `tree_rows`' concern.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from .forest import Forest

__all__ = ["Outline", "OutlineLine"]

#: Lines in a block when it is made; it is cut in half when it has twice as many.
_BLOCK: Final = 512

#: The number of a block, and a place in it; one past the last line is a spot too.
_Spot: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlineLine:
    """One line that is not covered.

    Args:
        number: The entry.
        depth: How far it is indented; 0 at the root.
        child_count: How many lines hang from it.
        is_on_path: Whether it is the leaf that was asked about, or above it.
    """

    number: int
    depth: int
    child_count: int
    is_on_path: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """A line with all that a block knows of it."""

    number: int
    level: int
    depth: int
    covers: int


@dataclass(slots=True, eq=False)
class _Block:
    """Consecutive lines; a line's depth and covers are its own and the block's."""

    numbers: list[int] = field(default_factory=list)
    levels: list[int] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    covers: list[int] = field(default_factory=list)
    lowest: float = math.inf
    shown: int = 0
    all_deeper: int = 0
    all_covered: int = 0

    def count(self) -> None:
        """Take stock of the lines."""
        self.lowest = min(self.levels, default=math.inf)
        self.shown = self.covers.count(-self.all_covered)

    def shift(self, low: int, high: int, deeper: int, covered: int) -> None:
        """Indent and cover the lines from `low` up to `high` by so much more."""
        if (low, high) == (0, len(self.numbers)):
            self.all_deeper += deeper
            self.all_covered += covered
        else:
            self.depths[low:high] = [one + deeper for one in self.depths[low:high]]
            self.covers[low:high] = [one + covered for one in self.covers[low:high]]
        if covered:
            self.shown = self.covers.count(-self.all_covered)

    def insert(self, at: int, line: _Line) -> None:
        """Put a line in at a place."""
        self.numbers.insert(at, line.number)
        self.levels.insert(at, line.level)
        self.depths.insert(at, line.depth - self.all_deeper)
        self.covers.insert(at, line.covers - self.all_covered)
        self.lowest = min(self.lowest, line.level)
        self.shown += line.covers == 0

    def split(self) -> _Block:
        """Keep the first half, and give the second."""
        half = len(self.numbers) // 2
        rest = _Block(
            numbers=self.numbers[half:],
            levels=self.levels[half:],
            depths=self.depths[half:],
            covers=self.covers[half:],
            all_deeper=self.all_deeper,
            all_covered=self.all_covered,
        )
        for lines in (self.numbers, self.levels, self.depths, self.covers):
            del lines[half:]
        self.count()
        rest.count()
        return rest

    def shown_places(self) -> list[int]:
        """Give the places of the lines that nothing covers."""
        own = -self.all_covered
        return [at for at, covers in enumerate(self.covers) if covers == own]

    def first_up_to(self, level: int, start: int) -> int | None:
        """Give the first place from `start` whose level is not below `level`."""
        if self.lowest > level:
            return None
        for at in range(start, len(self.levels)):
            if self.levels[at] <= level:
                return at
        return None


class Outline:
    """The lines of a forest in preorder, indented where it branches.

    An only child is indented as far as its parent, so that a chain stays in line;
    brothers are indented one further. Roots are not indented. The lines below a
    collapsed one are covered, and not counted among those that are shown.
    """

    def __init__(self, forest: Forest, collapsed: set[int]) -> None:
        """Walk down from the roots once.

        Args:
            forest: Whose members are the lines. It is the outline's from here on.
            collapsed: The lines that cover what is below them; the outline's too. What
                is no line yet may be among them.
        """
        self._forest = forest
        self._collapsed = collapsed
        numbers, levels, depths, covers = self._walk()
        self._blocks = [
            _Block(
                numbers=numbers[at : at + _BLOCK],
                levels=levels[at : at + _BLOCK],
                depths=depths[at : at + _BLOCK],
                covers=covers[at : at + _BLOCK],
            )
            for at in range(0, len(numbers) or 1, _BLOCK)
        ]
        self._block_of: dict[int, _Block] = {}
        for block in self._blocks:
            block.count()
            self._block_of.update(dict.fromkeys(block.numbers, block))

    def _walk(self) -> tuple[list[int], list[int], list[int], list[int]]:
        """Give all lines in preorder, with their levels, depths and covers."""
        numbers: list[int] = []
        levels: list[int] = []
        depths: list[int] = []
        covers: list[int] = []
        waiting = [(iter(self._forest.roots), 0, 0, 0)]
        while waiting:
            brothers, level, depth, cover = waiting[-1]
            for number in brothers:
                run = self._run_from(number)
                numbers += run
                levels += range(level, level + len(run))
                depths += [depth] * len(run)
                covers += [cover] * len(run)
                below = self._forest.children_of(run[-1])
                if below:
                    level += len(run)
                    depth += len(below) > 1
                    cover += run[-1] in self._collapsed
                    waiting.append((iter(below), level, depth, cover))
                    break
            else:
                waiting.pop()
        return numbers, levels, depths, covers

    def _run_from(self, number: int) -> list[int]:
        """Give a line and those below it that are as deep and as covered.

        A conversation is mostly in line, and a line needs no waiting.
        """
        first, several = self._forest.first, self._forest.several
        run = [number]
        while (
            number in first and number not in several and number not in self._collapsed
        ):
            number = first[number]
            run.append(number)
        return run

    def __contains__(self, number: int) -> bool:
        """Whether an entry is a line, covered or not."""
        return number in self._block_of

    @property
    def shown(self) -> int:
        """How many lines nothing covers."""
        return sum(block.shown for block in self._blocks)

    def insert(self, number: int) -> None:
        """Put in a line that has none below it, and whose parent is a line."""
        parent = self._forest.parent_of(number)
        after = self._forest.hang(number)
        level = depth = covers = 0
        spot = (len(self._blocks), 0)
        if parent is not None:
            above, at = self._spot_of(parent)
            spot = self._end_of(above, at)
            brothers = len(self._forest.children_of(parent)) - 1
            if brothers == 1:
                self._shift((above, at + 1), spot, deeper=1)
            block = self._blocks[above]
            level = block.levels[at] + 1
            depth = block.depths[at] + block.all_deeper + (brothers > 0)
            covers = block.covers[at] + block.all_covered
            covers += parent in self._collapsed
        if after is not None:
            spot = self._spot_of(after)
        line = _Line(number=number, level=level, depth=depth, covers=covers)
        self._put(line, spot)

    def _put(self, line: _Line, spot: _Spot) -> None:
        at_block, at = spot
        if at == 0 and at_block > 0:
            at_block -= 1
            at = len(self._blocks[at_block].numbers)
        block = self._blocks[at_block]
        block.insert(at, line)
        self._block_of[line.number] = block
        if len(block.numbers) >= 2 * _BLOCK:
            rest = block.split()
            self._blocks.insert(at_block + 1, rest)
            self._block_of.update(dict.fromkeys(rest.numbers, rest))

    def collapse(self, number: int) -> None:
        """Cover all lines below one."""
        if number not in self._collapsed:
            self._collapsed.add(number)
            self._cover_below(number, 1)

    def expand(self, number: int) -> None:
        """Uncover the lines below one, save those that others cover."""
        if number in self._collapsed:
            self._collapsed.remove(number)
            self._cover_below(number, -1)

    def _cover_below(self, number: int, covered: int) -> None:
        if number in self:
            nth, at = self._spot_of(number)
            self._shift((nth, at + 1), self._end_of(nth, at), covered=covered)

    def index_of(self, number: int) -> int | None:
        """Give how many lines are shown above one; None where it is not shown."""
        if number not in self:
            return None
        nth, at = self._spot_of(number)
        block = self._blocks[nth]
        own = -block.all_covered
        if block.covers[at] != own:
            return None
        above = sum(one.shown for one in self._blocks[:nth])
        return above + block.covers[:at].count(own)

    def lines(self, start: int, count: int, leaf: int | None) -> list[OutlineLine]:
        """Give some of the lines that are shown.

        Args:
            start: The number of the first, from 0.
            count: How many; fewer are given at the end.
            leaf: The line whose path is marked.
        """
        spots = self._shown_spots(start, count)
        path = set() if leaf is None else self._on_path(spots, leaf)
        return [
            OutlineLine(
                number=(number := block.numbers[at]),
                depth=block.depths[at] + block.all_deeper,
                child_count=len(self._forest.children_of(number)),
                is_on_path=(nth, at) in path,
            )
            for nth, at in spots
            for block in [self._blocks[nth]]
        ]

    def _shown_spots(self, start: int, count: int) -> list[_Spot]:
        found: list[_Spot] = []
        for nth, block in enumerate(self._blocks):
            if len(found) >= count:
                break
            if start < block.shown:
                places = block.shown_places()[start : start + count - len(found)]
                found += [(nth, at) for at in places]
            start = max(0, start - block.shown)
        return found

    def _on_path(self, spots: Sequence[_Spot], leaf: int) -> set[_Spot]:
        """Find which spots are above a line: all between are deeper than they."""
        last, place = self._spot_of(leaf)
        end = (last, place + 1)
        lowest = math.inf
        found: set[_Spot] = set()
        for nth, at in reversed(spots):
            after = (nth, at + 1)
            if after <= end:
                lowest = min(lowest, self._lowest(after, end))
                if self._blocks[nth].levels[at] < lowest:
                    found.add((nth, at))
                end = after
        return found

    def _lowest(self, start: _Spot, end: _Spot) -> float:
        lowest = math.inf
        for block, low, high in self._parts(start, end):
            is_whole = (low, high) == (0, len(block.numbers))
            lowest = min(
                lowest, block.lowest if is_whole else min(block.levels[low:high])
            )
        return lowest

    def _shift(
        self, start: _Spot, end: _Spot, *, deeper: int = 0, covered: int = 0
    ) -> None:
        for block, low, high in self._parts(start, end):
            block.shift(low, high, deeper, covered)

    def _parts(self, start: _Spot, end: _Spot) -> Iterator[tuple[_Block, int, int]]:
        """Give the blocks between two spots, and which part of each is."""
        for nth in range(start[0], min(end[0] + 1, len(self._blocks))):
            block = self._blocks[nth]
            low = start[1] if nth == start[0] else 0
            high = end[1] if nth == end[0] else len(block.numbers)
            if low < high:
                yield block, low, high

    def _spot_of(self, number: int) -> _Spot:
        block = self._block_of[number]
        return self._blocks.index(block), block.numbers.index(number)

    def _end_of(self, nth: int, at: int) -> _Spot:
        """Give the spot after all that hangs from the line at one."""
        level = self._blocks[nth].levels[at]
        start = at + 1
        while nth < len(self._blocks):
            found = self._blocks[nth].first_up_to(level, start)
            if found is not None:
                return nth, found
            nth, start = nth + 1, 0
        return nth, 0
