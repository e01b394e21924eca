"""The model behind a tree widget: a conversation as flat rows, a window at a time.

What is asked for is worked out, and no more: a window costs what its rows cost,
however long the conversation is. How rows are drawn, and what a gesture on one does,
is the widget's concern.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tau_kernel.errors import CallerError

from .conversation_tree import role_of
from .entry import EntryDict
from .forest import ROOT, EntryNumbers, Forest
from .log_view import LogView
from .outline import Outline, OutlineLine
from .preview import entry_preview

__all__ = ["RowFilter", "TreeRow", "TreeRows"]

#: About how many lines a new outline reads in the time that one line is put in.
_LINES_PER_INSERT: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFilter:
    """Which entries count as matches: those for which both hold.

    Args:
        text: A part of the preview, in any case; "" is a part of all.
        kinds: The entry's type is one of these; empty takes all.
    """

    text: str = ""
    kinds: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeRow:
    """One entry as a row.

    Args:
        id: The entry's id.
        parent_id: The entry it hangs from, as the log has it.
        depth: How far to indent it, in levels. An only child is indented as far as
            its parent, brothers one further; a root is not.
        kind: The entry's type.
        role: The role of its message, if it has one.
        preview: Its first line.
        timestamp: When it was appended, ISO 8601 in UTC.
        child_count: How many rows hang from it, those that are hidden because it is
            collapsed among them, those that a filter leaves out not.
        is_collapsed: Whether the rows below it are hidden; a leaf may be collapsed too.
        is_context: Whether it is no match, and shown for one below it.
        is_on_path: Whether it is the cursor's entry, or above it.
        is_cursor: Whether the cursor stands here.
    """

    id: str
    parent_id: str | None
    depth: int
    kind: str
    role: str | None
    preview: str
    timestamp: str
    child_count: int
    is_collapsed: bool
    is_context: bool
    is_on_path: bool
    is_cursor: bool


class TreeRows:
    """The rows of a conversation in preorder: each above those that hang from it.

    Roots are in load order, brothers in order of time. An entry whose parent is
    missing is a root; one whose ancestors form a ring has no row.

    Rows follow their log: what was appended has its row at the next question.
    """

    def __init__(self, entries: Iterable[EntryDict], cursor: str | None) -> None:
        """Read nothing yet; the first question walks the whole tree.

        Args:
            entries: In load order. A `LogView` is used as it is, without copying; the
                rows then grow with its log.
            cursor: Where the conversation stands; it is not checked.
        """
        self._view = entries if isinstance(entries, LogView) else LogView(entries)
        self._cursor = cursor
        self._matches = _Matches(self._view)
        self._collapsed: set[str] = set()
        # What is collapsed without a filter, while there is one.
        self._set_aside: set[str] = set()
        self._numbers = EntryNumbers(())
        self._outline = Outline(Forest(self._numbers, ()), set())
        self._read = 0

    @property
    def cursor(self) -> str | None:
        """Where the conversation stands."""
        return self._cursor

    @property
    def row_filter(self) -> RowFilter | None:
        """What chooses the rows; None shows all."""
        return self._matches.row_filter

    @property
    def total(self) -> int:
        """How many rows there are: neither filtered out nor below a collapsed one."""
        return self._caught_up().shown

    def navigate(self, entry_id: str | None) -> None:
        """Move the mark of the cursor; None is the place before the root.

        Raises:
            UnknownEntryError: No entry has the id; the mark stayed.
        """
        if entry_id is not None:
            self._view.entry(entry_id)
        self._cursor = entry_id

    def rows(self, start: int, count: int) -> list[TreeRow]:
        """Give a window of rows.

        Args:
            start: The number of the first, from 0.
            count: How many; fewer are given at the end.

        Raises:
            CallerError: One of them is negative.
        """
        if start < 0 or count < 0:
            msg = (
                f"there are no {count!r} rows from row {start!r} on; "
                "rows are counted from 0"
            )
            raise CallerError(msg)
        outline = self._caught_up()
        lines = outline.lines(start, count, self._leaf_line())
        return [self._row(line) for line in lines]

    def index_of(self, entry_id: str) -> int | None:
        """Give the number of an entry's row, or None where it has none.

        Raises:
            UnknownEntryError: No entry has the id.
        """
        outline = self._caught_up()
        return outline.index_of(self._number_of(entry_id))

    def collapse(self, entry_id: str) -> None:
        """Hide all rows below an entry's, those that will be appended included.

        Under a filter this holds until the filter changes.

        Raises:
            UnknownEntryError: No entry has the id; nothing changed.
        """
        outline = self._caught_up()
        outline.collapse(self._number_of(entry_id))
        self._collapsed.add(entry_id)

    def expand(self, entry_id: str) -> None:
        """Show the rows below an entry's, save those that others below it hide.

        Raises:
            UnknownEntryError: No entry has the id; nothing changed.
        """
        outline = self._caught_up()
        outline.expand(self._number_of(entry_id))
        self._collapsed.discard(entry_id)

    def reveal(self, entry_id: str) -> int | None:
        """Expand what hides an entry's row, and give the row's number.

        None where the filter leaves the entry out, or where it hangs from a ring.

        Raises:
            UnknownEntryError: No entry has the id; nothing changed.
        """
        path = self._view.path(entry_id)
        if self._number_of(entry_id) in self._caught_up():
            for entry in path[:-1]:
                self.expand(entry["id"])
        return self.index_of(entry_id)

    def apply_filter(self, row_filter: RowFilter | None) -> None:
        """Show matches and, as their context, the entries above them; None shows all.

        A filter begins with everything expanded, so that it hides no match. What was
        collapsed before is collapsed again when there is no filter any more.
        """
        if self._matches.row_filter is None:
            self._set_aside = self._collapsed
        self._collapsed = self._set_aside if row_filter is None else set()
        self._matches.row_filter = row_filter
        self._number_all()

    def _row(self, line: OutlineLine) -> TreeRow:
        entry = self._numbers.entries[line.number]
        return TreeRow(
            id=entry["id"],
            parent_id=entry["parentId"],
            depth=line.depth,
            kind=entry["type"],
            role=role_of(entry),
            preview=entry_preview(self._view, entry),
            timestamp=entry["timestamp"],
            child_count=line.child_count,
            is_collapsed=entry["id"] in self._collapsed,
            is_context=not self._matches.has(entry),
            is_on_path=line.is_on_path,
            is_cursor=entry["id"] == self._cursor,
        )

    def _number_of(self, entry_id: str) -> int:
        self._view.entry(entry_id)
        number = self._numbers.number_of(entry_id)
        assert number is not None, "all entries of the view are numbered"
        return number

    def _leaf_line(self) -> int | None:
        """Give the line of the cursor, or the nearest above it."""
        number = self._cursor and self._numbers.number_of(self._cursor)
        return self._way_up(number)[0] if isinstance(number, int) else None

    def _caught_up(self) -> Outline:
        """Give the outline, after what was appended has its lines."""
        new = len(self._view) - self._read
        if new * _LINES_PER_INSERT > len(self._view):
            self._number_all()
        elif new:
            self._take_in(self._view[self._read :])
        return self._outline

    def _number_all(self) -> None:
        self._numbers = EntryNumbers(self._view[:])
        self._read = len(self._view)
        self._lay_out()

    def _lay_out(self) -> None:
        numbers = self._numbers
        collapsed = {self._number_of(entry_id) for entry_id in self._collapsed}
        members = self._matches.and_ancestors(numbers)
        self._outline = Outline(Forest(numbers, members), collapsed)

    def _take_in(self, entries: Sequence[EntryDict]) -> None:
        for entry in entries:
            number = self._numbers.add(entry)
            if number is None:
                self._number_all()
                return
            if self._matches.has(entry):
                for missing in self._way_up(number)[1]:
                    self._outline.insert(missing)
        self._read = len(self._view)

    def _way_up(self, number: int) -> tuple[int | None, list[int]]:
        """Give the nearest line at or above an entry, and what hangs between.

        Returns:
            The line, None where there is none, and from the top down the entries that
            are to become lines. Where they hang from a ring, there are none.
        """
        missing: dict[int, None] = {}
        while number not in self._outline:
            if number in missing:
                return None, []
            missing[number] = None
            number = self._numbers.parents[number]
            if number == ROOT:
                return None, list(reversed(missing))
        return number, list(reversed(missing))


class _Matches:
    """The entries that a filter is about; without one, all of them."""

    def __init__(self, view: LogView) -> None:
        self._view = view
        self._folded_previews: dict[str, str] = {}
        self.row_filter: RowFilter | None = None

    def has(self, entry: EntryDict) -> bool:
        """Whether an entry is one of them."""
        if self.row_filter is None:
            return True
        if self.row_filter.kinds and entry["type"] not in self.row_filter.kinds:
            return False
        text = self.row_filter.text.casefold()
        return not text or text in self._folded_preview(entry)

    def and_ancestors(self, numbers: EntryNumbers) -> Iterable[int]:
        """Give, in load order, all of them and what they hang from."""
        if self.row_filter is None:
            return range(len(numbers.entries))
        found: set[int] = set()
        for number, entry in enumerate(numbers.entries):
            if self.has(entry):
                above = number
                while above != ROOT and above not in found:
                    found.add(above)
                    above = numbers.parents[above]
        return sorted(found)

    def _folded_preview(self, entry: EntryDict) -> str:
        folded = self._folded_previews.get(entry["id"])
        if folded is None:
            folded = entry_preview(self._view, entry).casefold()
            self._folded_previews[entry["id"]] = folded
        return folded
