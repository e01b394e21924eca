"""Windows of rows against a plain listing of the whole tree."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)

from tau_kernel.errors import CallerError
from tau_kernel.messages import user_message
from tau_kernel.tree import (
    EntryDict,
    LogView,
    RowFilter,
    TreeRow,
    TreeRows,
    UnknownEntryError,
    entry_preview,
)

_PLACES: Final = st.integers(0, 10**6)
_WORDS: Final = st.sampled_from(["", "a", "b", "ab", "straße"])
_FILTERS: Final = st.builds(
    RowFilter,
    text=st.sampled_from(["", "A", "b", "ab", "STRASSE", "none"]),
    kinds=st.sampled_from(
        [frozenset[str](), frozenset({"message"}), frozenset({"customEntry"})]
    ),
)


def line(
    entry_id: str, parent_id: str | None, text: str = "", at: int = 0
) -> EntryDict:
    return {
        "type": "message",
        "id": entry_id,
        "parentId": parent_id,
        "timestamp": f"2026-01-01T00:00:{at:02}.000Z",
        "message": user_message(text),
    }


def record(entry_id: str, parent_id: str | None, at: int = 0) -> EntryDict:
    return {
        "type": "customEntry",
        "id": entry_id,
        "parentId": parent_id,
        "timestamp": f"2026-01-01T00:00:{at:02}.000Z",
        "customType": "a",
        "data": {},
    }


@dataclass(frozen=True)
class Listing:
    """All rows of a view, worked out anew and in the plainest way."""

    view: LogView
    cursor: str | None
    collapsed: frozenset[str]
    row_filter: RowFilter | None

    def rows(self) -> list[TreeRow]:
        return list(self._below(None, depth=0))

    def _below(self, parent: str | None, *, depth: int) -> Iterator[TreeRow]:
        brothers = self._children(parent)
        if parent is not None and len(brothers) > 1:
            depth += 1
        for entry_id in brothers:
            yield self._row(entry_id, depth)
            if entry_id not in self.collapsed:
                yield from self._below(entry_id, depth=depth)

    def _children(self, parent: str | None) -> list[str]:
        ids = self.view.roots() if parent is None else self.view.children_of(parent)
        return [one for one in ids if self._is_shown(one)]

    def _is_shown(self, entry_id: str) -> bool:
        return self._is_match(entry_id) or any(
            map(self._is_shown, self.view.children_of(entry_id))
        )

    def _is_match(self, entry_id: str) -> bool:
        if self.row_filter is None:
            return True
        entry = self.view.entry(entry_id)
        preview = entry_preview(self.view, entry)
        return self.row_filter.text.casefold() in preview.casefold() and (
            not self.row_filter.kinds or entry["type"] in self.row_filter.kinds
        )

    def _row(self, entry_id: str, depth: int) -> TreeRow:
        entry = self.view.entry(entry_id)
        known = self.cursor is not None and self.view.contains(self.cursor)
        path = self.view.path(self.cursor) if known else []
        return TreeRow(
            id=entry_id,
            parent_id=entry["parentId"],
            depth=depth,
            kind=entry["type"],
            role="user" if entry["type"] == "message" else None,
            preview=entry_preview(self.view, entry),
            timestamp=entry["timestamp"],
            child_count=len(self._children(entry_id)),
            is_collapsed=entry_id in self.collapsed,
            is_context=not self._is_match(entry_id),
            is_on_path=entry in path,
            is_cursor=entry_id == self.cursor,
        )


class RowsBesideAListing(RuleBasedStateMachine):
    """Does the same to rows and to a plain listing.

    Entries come in any order of time; some hang from what is not there, some of those
    find their parent later, some are their own parents, and rings form.
    """

    def __init__(self) -> None:
        super().__init__()
        self._view = LogView()
        self._rows = TreeRows(self._view, None)
        self._collapsed: set[str] = set()
        self._under_filter: set[str] = set()
        self._filter: RowFilter | None = None
        self._patch = pytest.MonkeyPatch()

    @initialize(length=st.sampled_from([1, 2, 3, 512]), pace=st.sampled_from([0, 10]))
    def cut_into_short_blocks(self, length: int, pace: int) -> None:
        """Let few entries fill many blocks, and be put in one by one.

        Neither shall be seen in the rows.
        """
        self._patch.setattr("tau_kernel.tree.outline._BLOCK", length)
        self._patch.setattr("tau_kernel.tree.tree_rows._LINES_PER_INSERT", pace)

    def teardown(self) -> None:
        self._patch.undo()

    @rule(back=st.integers(1, 3), text=_WORDS, at=st.integers(0, 3))
    def append_near_the_end(self, back: int, text: str, at: int) -> None:
        place = max(0, len(self._view) - back)
        self._add(line(self._new_id(), self._id_at(place), text, at))

    @rule(place=_PLACES, text=_WORDS, at=st.integers(0, 3))
    def append(self, place: int, text: str, at: int) -> None:
        self._add(line(self._new_id(), self._id_at(place), text, at))

    @rule(place=_PLACES)
    def append_a_record(self, place: int) -> None:
        self._add(record(self._new_id(), self._id_at(place)))

    @rule(texts=st.lists(_WORDS, max_size=30), forks=st.booleans())
    def append_many(self, texts: list[str], forks: bool) -> None:
        for text in texts:
            place = 0 if forks else len(self._view) - 1
            self._add(line(self._new_id(), self._id_at(max(0, place)), text))

    @rule(text=_WORDS)
    def append_a_root(self, text: str) -> None:
        self._add(line(self._new_id(), None, text))

    @rule(text=_WORDS)
    def append_its_own_parent(self, text: str) -> None:
        entry_id = self._new_id()
        self._add(line(entry_id, entry_id, text))

    @rule(ahead=st.integers(1, 4), text=_WORDS)
    def append_before_its_parent(self, ahead: int, text: str) -> None:
        """Sometimes the parent comes to hang from it too, and a ring is made."""
        self._add(line(self._new_id(), f"e{len(self._view) + ahead}", text))

    @rule(place=_PLACES)
    def collapse(self, place: int) -> None:
        if entry_id := self._id_at(place):
            self._rows.collapse(entry_id)
            self._hidden().add(entry_id)

    @rule(place=_PLACES)
    def expand(self, place: int) -> None:
        if entry_id := self._id_at(place):
            self._rows.expand(entry_id)
            self._hidden().discard(entry_id)

    @rule(place=_PLACES)
    def reveal(self, place: int) -> None:
        entry_id = self._id_at(place)
        if entry_id is None:
            return
        index = self._rows.reveal(entry_id)
        if index is not None:
            above = self._view.path(entry_id)[:-1]
            self._hidden().difference_update(entry["id"] for entry in above)
        ids = [row.id for row in self._listing().rows()]
        assert index == (ids.index(entry_id) if entry_id in ids else None)

    @rule(row_filter=_FILTERS)
    def filter(self, row_filter: RowFilter) -> None:
        self._rows.apply_filter(row_filter)
        self._filter = row_filter
        self._under_filter = set()

    @rule()
    def show_all(self) -> None:
        self._rows.apply_filter(None)
        self._filter = None

    @rule(place=_PLACES)
    def navigate(self, place: int) -> None:
        self._rows.navigate(self._id_at(place))

    @rule()
    def navigate_before_the_root(self) -> None:
        self._rows.navigate(None)

    @invariant()
    def the_rows_are_those_of_the_listing(self) -> None:
        rows = self._listing().rows()
        assert self._rows.rows(0, len(rows) + 1) == rows
        assert self._rows.total == len(rows)
        for start in range(0, len(rows), 3):
            for count in (0, 1, 5):
                assert self._rows.rows(start, count) == rows[start : start + count]
        numbers = {row.id: number for number, row in enumerate(rows)}
        for entry in self._view:
            found = self._rows.index_of(entry["id"])
            assert found == numbers.get(entry["id"])

    def _listing(self) -> Listing:
        return Listing(
            view=self._view,
            cursor=self._rows.cursor,
            collapsed=frozenset(self._hidden()),
            row_filter=self._filter,
        )

    def _hidden(self) -> set[str]:
        return self._collapsed if self._filter is None else self._under_filter

    def _add(self, entry: EntryDict) -> None:
        self._view.add(entry)

    def _new_id(self) -> str:
        return f"e{len(self._view)}"

    def _id_at(self, place: int) -> str | None:
        return self._view[place % len(self._view)]["id"] if len(self._view) else None


TestRowsBesideAListing = RowsBesideAListing.TestCase
TestRowsBesideAListing.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None
)


def outline_of(rows: TreeRows) -> list[str]:
    return ["  " * row.depth + row.id for row in rows.rows(0, rows.total)]


def forked() -> LogView:
    """Give a chain whose second entry has a second child."""
    return LogView(
        [
            line("a", None),
            line("b", "a"),
            line("c", "b"),
            line("d", "c"),
            line("e", "b"),
        ]
    )


def test_a_conversation_in_line_is_not_indented_and_a_fork_is() -> None:
    view = LogView([line("a", None), line("b", "a"), line("c", "b")])
    rows = TreeRows(view, "c")
    assert outline_of(rows) == ["a", "b", "c"]
    view.add(line("d", "c"))
    view.add(line("e", "b"))
    assert outline_of(rows) == ["a", "b", "  c", "  d", "  e"]


def test_the_path_to_the_cursor_is_marked_and_its_end_more() -> None:
    rows = TreeRows(forked(), "e")
    found = rows.rows(0, 9)
    assert [row.id for row in found if row.is_on_path] == ["a", "b", "e"]
    assert [row.id for row in found if row.is_cursor] == ["e"]
    assert [row.id for row in rows.rows(1, 3) if row.is_on_path] == ["b"]


def test_a_cursor_without_a_row_marks_the_rows_above_it() -> None:
    rows = TreeRows(forked(), "d")
    rows.collapse("b")
    assert [row.is_on_path for row in rows.rows(0, 9)] == [True, True]
    rows.apply_filter(RowFilter(kinds=frozenset({"customEntry"})))
    assert rows.rows(0, 9) == []


def test_what_is_appended_below_a_collapsed_entry_is_hidden_and_counted() -> None:
    view = forked()
    rows = TreeRows(view, "e")
    rows.collapse("e")
    assert (rows.total, rows.index_of("e")) == (5, 4)
    view.add(line("f", "e"))
    view.add(line("g", "e"))
    *_, row = rows.rows(0, 9)
    assert (row.id, row.is_collapsed, row.child_count) == ("e", True, 2)
    assert rows.index_of("f") is None
    assert rows.reveal("f") == 5
    assert outline_of(rows)[-1] == "    g"


def test_a_filter_shows_what_hangs_above_a_match_as_context() -> None:
    view = forked()
    view.add(line("f", "d", "Straße nach Süden\nand more"))
    rows = TreeRows(view, "f")
    rows.apply_filter(RowFilter(text="STRASSE"))
    found = [(row.id, row.depth, row.is_context) for row in rows.rows(0, 9)]
    above = [(one, 0, True) for one in "abcd"]
    assert found == [*above, ("f", 0, False)]
    rows.apply_filter(RowFilter(text="more"))
    assert rows.total == 0


def test_a_filter_begins_expanded_and_gives_back_what_was_collapsed() -> None:
    rows = TreeRows(forked(), "e")
    rows.collapse("b")
    rows.apply_filter(RowFilter(kinds=frozenset({"message"})))
    assert (rows.total, rows.row_filter is None) == (5, False)
    rows.collapse("a")
    assert rows.total == 1
    rows.apply_filter(RowFilter())
    assert rows.total == 5
    rows.apply_filter(None)
    assert (rows.total, rows.row_filter) == (2, None)


def test_of_a_repeated_id_the_last_entry_has_the_row() -> None:
    view = forked()
    rows = TreeRows(view, None)
    assert rows.total == 5
    view.add(line("e", None, "again"))
    assert [row.preview for row in rows.rows(0, 9) if row.id == "e"] == ["again"]
    assert outline_of(rows) == outline_of(TreeRows(list(view), None))


def test_a_row_is_asked_for_by_numbers_from_zero_and_ids_that_are_there() -> None:
    rows = TreeRows(forked(), "e")
    with pytest.raises(CallerError, match="counted from 0"):
        rows.rows(-1, 5)
    with pytest.raises(CallerError, match="-5 rows"):
        rows.rows(0, -5)
    for ask in (rows.index_of, rows.collapse, rows.expand, rows.reveal, rows.navigate):
        with pytest.raises(UnknownEntryError, match="'none'"):
            ask("none")
    assert (rows.total, rows.cursor) == (5, "e")
    assert rows.rows(5, 5) == []
    assert TreeRows([], None).rows(0, 5) == []


class Watched(dict[str, object]):
    """An entry that tells which of its fields are read."""

    def __init__(self, entry: EntryDict, reads: list[str]) -> None:
        super().__init__(entry)
        self._reads = reads

    def __getitem__(self, key: str) -> object:
        self._reads.append(key)
        return super().__getitem__(key)


def test_a_window_reads_the_messages_of_its_own_rows_alone() -> None:
    reads: list[str] = []
    view = LogView()
    for number in range(2000):
        entry = line(f"e{number}", f"e{number - 1}", "text")
        view.add(cast("EntryDict", Watched(entry, reads)))
    rows = TreeRows(view, "e1999")
    assert rows.total == 2000
    assert "message" not in reads
    reads.clear()
    assert len(rows.rows(1000, 200)) == 200
    # One read for the role, one for the preview.
    assert reads.count("message") <= 2 * 200
    assert len(reads) < 4000


def test_rows_that_grew_are_those_of_a_tree_that_is_read_at_once() -> None:
    chance = random.Random(4)
    view = LogView([line("e0", None)])
    grown = TreeRows(view, "e0")
    for number in range(1, 4000):
        forks = chance.random() < 0.2
        parent = chance.randrange(number) if forks else number - 1
        view.add(line(f"e{number}", f"e{parent}", at=chance.randrange(60)))
        if chance.random() < 0.05:
            grown.collapse(f"e{number}")
        assert grown.total <= number + 1
    fresh = TreeRows(list(view), "e0")
    for row in grown.rows(0, 4000):
        if row.is_collapsed:
            fresh.collapse(row.id)
    grown.navigate("e3999")
    fresh.navigate("e3999")
    assert grown.rows(0, 4000) == fresh.rows(0, 4000)
    assert grown.total < 4000


def test_a_conversation_of_any_length_is_walked_without_recursion() -> None:
    length = 50_000
    entries = [line(f"e{at}", f"e{at - 1}") for at in range(length)]
    rows = TreeRows(entries, f"e{length - 1}")
    found = rows.rows(length - 2, 5)
    assert [(row.depth, row.is_on_path) for row in found] == [(0, True)] * 2
    rows.collapse("e0")
    assert (rows.total, rows.reveal(f"e{length - 1}")) == (1, length - 1)
