"""A session in a file beside one in memory, driven by the same random moves.

Three promises hold after every move: a context depends on its leaf's ancestors alone,
nothing on disk changes or disappears, and what is loaded is what was in memory. A
gesture gives what was planned, or is refused and leaves everything as it was. Appends
and gestures come from the main line and from branches that are open beside it.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from random_logs import answering, calling, note

from tau_kernel.errors import CallerError
from tau_kernel.messages import Message, system_message, user_message
from tau_kernel.sessions import EphemeralSession, FileSession
from tau_kernel.tree import (
    BranchPlan,
    ConversationTree,
    EntryDict,
    LogView,
    PastePlan,
    SessionLog,
    branch_refusal_reason,
    commit_branch,
    copy_of_json,
    elide_span,
    entries_to_messages,
    fold_path,
    navigate,
    open_branch,
    paste_refusal_reason,
    paste_subtree,
    plan_branch,
    plan_elide,
    plan_paste,
    planned_messages,
    resolve_cursor,
    session_log_is_addressable,
)

_T = TypeVar("_T")
Pair: TypeAlias = tuple[SessionLog, SessionLog]

_PLACES: Final = st.integers(0, 10**6)
_MARKS: Final = st.lists(_PLACES, min_size=1, max_size=5)
#: A copy may double the log; from here on there are no more.
_MANY: Final = 60
#: Keys that two logs differ in, though the same was asked of them.
_DRAWN: Final = ("id", "timestamp")
_IDS: Final = (
    *("parentId", "firstKeptId", "targetId", "fromId"),
    *("copiedFrom", "agentSpecId"),
)
_COVERED: Final = {"covered_entries": 1, "covered_tokens": 2}


class GrowingSessions(RuleBasedStateMachine):
    """Appends the same to a file and to a log in memory, naming entries by place."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self._file = FileSession.create(Path(self._folder.name), "/w", "m", "b")
        self._memory = EphemeralSession("/w")
        self._memory.begin("m", "b", None, None)
        self._branches: list[Pair] = []

    @initialize(text=st.text(max_size=5))
    def begin(self, text: str) -> None:
        self.speak(0, text)

    def teardown(self) -> None:
        self._file.close()
        self._folder.cleanup()

    @rule(which=_PLACES, text=st.text(max_size=20))
    def speak(self, which: int, text: str) -> None:
        # One message for both, since it carries the time of its making.
        message = user_message(text)
        self._both(lambda log: log.append_message(message), which)

    @rule(which=_PLACES, calls=st.sampled_from([("x",), ("y",), ("x", "y")]))
    def call_tools(self, which: int, calls: tuple[str, ...]) -> None:
        message = calling(*calls)
        self._both(lambda log: log.append_message(message), which)

    @rule(which=_PLACES, call=st.sampled_from("xy"))
    def give_a_result(self, which: int, call: str) -> None:
        self._both(lambda log: log.append_message(answering(call)), which)

    @rule(text=st.text(max_size=5))
    def instruct(self, text: str) -> None:
        message = system_message(text)
        self._both(lambda log: log.append_message(message))

    @rule(text=st.text(max_size=5))
    def put_in(self, text: str) -> None:
        self._both(lambda log: log.append_custom_message(note(text), "note"))

    @rule(key=st.text(max_size=3), value=st.integers(-9, 9) | st.text(max_size=3))
    def record(self, key: str, value: object) -> None:
        self._both(lambda log: log.append_custom_entry("note", {key: value}))

    @rule(name=st.text(max_size=5))
    def rename(self, name: str) -> None:
        for log in (self._file, self._memory):
            log.append_session_info(name)

    @rule(model=st.text(max_size=5))
    def change_the_model(self, model: str) -> None:
        for log in (self._file, self._memory):
            log.append_model_change(model, "b")

    @rule(which=_PLACES, place=_PLACES)
    def move(self, which: int, place: int) -> None:
        self._both(lambda log: log.append_navigate(id_at(log, place)), which)

    @rule()
    def move_before_the_root(self) -> None:
        self._both(lambda log: log.append_navigate(None))

    @rule(which=_PLACES, place=_PLACES)
    def hide(self, which: int, place: int) -> None:
        self._both(
            lambda log: log.append_elide(
                kept_at(log, place), **_COVERED, agent_spec_id=None
            ),
            which,
        )

    @rule(which=_PLACES, place=_PLACES, summary=st.text(max_size=5))
    def compact(self, which: int, place: int, summary: str) -> None:
        self._both(
            lambda log: log.append_compaction(
                summary,
                kept_at(log, place),
                9,
                summarizer_model_id="m",
                summary_usage={},
                **_COVERED,
                agent_spec_id=None,
            ),
            which,
        )

    @rule(which=_PLACES, place=_PLACES, summary=st.text(max_size=5))
    def leave_a_branch(self, which: int, place: int, summary: str) -> None:
        self._both(
            lambda log: log.append_branch_summary(summary, id_at(log, place)), which
        )

    @rule(place=_PLACES, text=st.text(max_size=5))
    def append_beside(self, place: int, text: str) -> None:
        payload = {"message": user_message(text)}
        self._both(lambda log: log.append_at(id_at(log, place), "message", payload))

    @rule(place=_PLACES)
    def open_a_branch(self, place: int) -> None:
        made = [
            open_branch(log, id_at(log, place), label="b")
            for log in (self._file, self._memory)
        ]
        self._branches.append((made[0], made[1]))

    def _pair(self, which: int) -> Pair:
        """Give the main line, or one of the branches."""
        pairs: list[Pair] = [(self._file, self._memory), *self._branches]
        return pairs[which % len(pairs)]

    def _both(self, act: Callable[[SessionLog], _T], which: int = 0) -> list[_T]:
        return [act(log) for log in self._pair(which)]


class SessionBesideMemory(GrowingSessions):
    """Does to both what people do to a tree, and checks the promises."""

    def __init__(self) -> None:
        super().__init__()
        self._bytes = b""
        self._contexts: dict[str, list[Message]] = {}

    @rule(which=_PLACES, place=_PLACES | st.none())
    def navigate(self, which: int, place: int | None) -> None:
        for log in self._pair(which):
            target = None if place is None else id_at(log, place)
            expected = log.view().context_for(target)
            assert navigate(log, target) == expected
            assert log.cursor == target

    @rule(which=_PLACES, marks=_MARKS, drop_context=st.booleans())
    def commit_marked(
        self, which: int, marks: list[int], *, drop_context: bool
    ) -> None:
        self._gesture(
            which,
            lambda log: branch_of(log, marks, drop_context=drop_context),
            lambda log: commit_branch(
                log, ids_at(log, marks), drop_context=drop_context
            ),
        )

    @rule(which=_PLACES, place=_PLACES, length=st.integers(1, 4), drop=st.booleans())
    def commit_a_run(self, which: int, place: int, length: int, *, drop: bool) -> None:
        """Mark what is in line, which is rarely refused."""

        def marked(log: SessionLog) -> list[str]:
            path = log.view().path(id_at(log, place))
            return [entry["id"] for entry in path[-length:]]

        self._gesture(
            which,
            lambda log: branch_of_ids(log, marked(log), drop_context=drop),
            lambda log: commit_branch(log, marked(log), drop_context=drop),
        )

    @rule(which=_PLACES, anchor=_PLACES, first=_PLACES)
    def elide(self, which: int, anchor: int, first: int) -> None:
        def ends(log: SessionLog) -> tuple[str, str]:
            path = log.view().path(id_at(log, anchor))
            return path[-1]["id"], path[first % len(path)]["id"]

        self._gesture(
            which,
            lambda log: plan_elide(tree_of(log), *ends(log)),
            lambda log: elide_span(log, *ends(log)),
        )

    @precondition(lambda self: len(self._file.view()) < _MANY)
    @rule(which=_PLACES, first=_PLACES, below=_PLACES)
    def paste(self, which: int, first: int, below: int) -> None:
        for log in self._pair(which):
            source, goal = id_at(log, first), id_at(log, below)
            try:
                plan = plan_paste(tree_of(log), source, goal)
                reason = paste_refusal_reason(tree_of(log), plan)
            except CallerError as error:
                reason = str(error)
            if reason is not None:
                act = partial(paste_subtree, log, source, goal)
                self._refused(log, act, re.escape(reason))
            else:
                check_paste(log, plan)

    @rule(which=_PLACES, place=_PLACES)
    def ask_for_what_is_not_there(self, which: int, place: int) -> None:
        for log in self._pair(which):
            for gesture in impossible(log, id_at(log, place)):
                self._refused(log, gesture, "'none'|belongs to its place")

    @rule(which=_PLACES, place=_PLACES)
    def ask_for_nothing(self, which: int, place: int) -> None:
        for log in self._pair(which):
            some = id_at(log, place)
            itself = partial(paste_subtree, log, some, some)
            self._refused(log, itself, "into itself|belongs to its place")
            nothing = partial(commit_branch, log, [], drop_context=bool(place % 2))
            self._refused(log, nothing, "at least one")

    def _gesture(
        self,
        which: int,
        plan_of: Callable[[SessionLog], BranchPlan],
        act: Callable[[SessionLog], list[Message]],
    ) -> None:
        for log in self._pair(which):
            try:
                plan = plan_of(log)
            except CallerError as error:
                self._refused(log, partial(act, log), re.escape(str(error)))
                continue
            planned = copy_of_json(planned_messages(tree_of(log), plan))
            assert act(log) == planned
            assert log.view().context_for(log.cursor) == planned
            assert LogView(log.view().path(log.cursor)).context_for(log.cursor) == (
                planned
            )

    def _refused(
        self, log: SessionLog, act: Callable[[], object], pattern: str
    ) -> None:
        def state() -> object:
            cursors = log.cursor, self._file.cursor, self._memory.cursor
            return cursors, self._file.path.read_bytes(), len(log.view())

        before = state()
        with pytest.raises(CallerError, match=pattern):
            act()
        assert state() == before

    @rule()
    def reload(self) -> None:
        """Load the file again, which stands where its last entry left it."""
        if resolve_cursor(self._file.view()) != self._file.cursor:
            # What was written beside came last; say where the main line is.
            self._both(lambda log: log.append_navigate(log.cursor))
        self._file.sync()
        self._file.close()
        before = (self._file.entries(), self._file.cursor, self._file.context)
        self._file = FileSession.load(self._file.path)
        assert (self._file.read_only, self._file.notice) == (None, None)
        after = (self._file.entries(), self._file.cursor, self._file.context)
        assert after == before
        self._branches.clear()

    @invariant()
    def both_hold_the_same(self) -> None:
        assert plain(self._file) == plain(self._memory)
        for which in range(1 + len(self._branches)):
            stored, kept = self._both(place_of, which)
            assert stored == kept
        assert about(self._file) == about(self._memory)

    @invariant()
    def nothing_on_disk_changes_or_disappears(self) -> None:
        found = self._file.path.read_bytes()
        assert found.startswith(self._bytes)
        assert found.endswith(b"\n")
        self._bytes = found

    @invariant()
    def what_is_read_from_disk_is_what_is_in_memory(self) -> None:
        read = FileSession.read(self._file.path)
        assert read.entries() == self._file.entries()

    @invariant()
    def a_context_depends_on_its_ancestors_alone(self) -> None:
        view = self._file.view()
        for entry in view:
            leaf = entry["id"]
            context = view.context_for(leaf)
            assert context == self._contexts.setdefault(leaf, copy_of_json(context))
            alone = view.path(leaf)
            assert context == entries_to_messages(fold_path(alone))
            assert context == LogView(alone).context_for(leaf)


def impossible(log: SessionLog, some: str) -> list[Callable[[], object]]:
    """Give gestures that need an entry that is not there."""
    message = {"message": note("x")}
    return [
        partial(log.append_navigate, "none"),
        partial(log.append_at, "none", "message", message),
        partial(log.append_branch_summary, "s", "none"),
        partial(log.append_elide, "none", **_COVERED, agent_spec_id=None),
        partial(open_branch, log, "none", label="b"),
        partial(navigate, log, "none"),
        partial(elide_span, log, some, "none"),
        partial(elide_span, log, "none", some),
        partial(commit_branch, log, [some, "none"], drop_context=False),
        partial(paste_subtree, log, some, "none"),
        partial(paste_subtree, log, "none", some),
    ]


def check_paste(log: SessionLog, plan: PastePlan) -> None:
    """Paste what was planned; the copy says the same, and the log stays where it is."""
    source = plan.mints[0].source_id
    cursor, context = log.cursor, list(log.view().context_for(log.cursor))
    planned = shape(log, source, plan.skipped)
    minted = paste_subtree(log, source, plan.target)
    if not session_log_is_addressable(log):
        # As one that is stored does itself.
        log.append_navigate(log.cursor)
    assert copied(log, minted) == [mint.source_id for mint in plan.mints]
    assert shape(log, minted[0]) == planned
    assert log.view().entry(minted[0])["parentId"] == plan.target
    assert log.cursor == cursor
    assert log.view().context_for(cursor) == context


def tree_of(log: SessionLog) -> ConversationTree:
    return ConversationTree(log.view(), log.cursor)


def ids_at(log: SessionLog, marks: list[int]) -> list[str]:
    return [id_at(log, mark) for mark in marks]


def branch_of(log: SessionLog, marks: list[int], *, drop_context: bool) -> BranchPlan:
    return branch_of_ids(log, ids_at(log, marks), drop_context=drop_context)


def branch_of_ids(log: SessionLog, ids: list[str], *, drop_context: bool) -> BranchPlan:
    """Plan a branch; one that no model accepts is refused with the reason."""
    tree = tree_of(log)
    reason = branch_refusal_reason(tree, ids, drop_context=drop_context)
    if reason is not None:
        raise CallerError(reason)
    return plan_branch(tree, ids, drop_context=drop_context)


def copied(log: SessionLog, ids: list[str]) -> list[object]:
    """Give what entries say that they are copies of."""
    records: list[dict[str, object]] = [{**log.view().entry(one)} for one in ids]
    return [record.get("copiedFrom") for record in records]


def shape(log: SessionLog, entry_id: str, without: Sequence[str] = ()) -> list[object]:
    """Give what an entry and all below it say, as a tree, but for some of them."""
    view = log.view()
    below: list[object] = []
    for child in view.children_of(entry_id):
        below += shape(log, child, without)
    if entry_id in without:
        return below
    entry = view.entry(entry_id)
    said: object = entry["type"]
    if entry["type"] == "message" or entry["type"] == "customMessage":
        said = entry["message"]
    elif entry["type"] == "branch_summary":
        said = entry["summary"]
    return [[said, below]]


def about(session: FileSession | EphemeralSession) -> tuple[str, str | None, str]:
    return session.model, session.session_name, session.display_title()


def id_at(log: SessionLog, place: int) -> str:
    view = log.view()
    return view[place % len(view)]["id"]


def kept_at(log: SessionLog, place: int) -> str:
    """An entry of the cursor's path, or any where the cursor is before the root."""
    path = log.view().path(log.cursor) or log.view()
    return path[place % len(path)]["id"]


def place_of(log: SessionLog) -> int | None:
    """Where the cursor is, as a place in load order."""
    ids = [entry["id"] for entry in log.view()]
    return None if log.cursor is None else ids.index(log.cursor)


def plain(log: SessionLog) -> list[dict[str, object]]:
    """Give all entries, each id replaced by the place of what it names."""
    places = {entry["id"]: at for at, entry in enumerate(log.view())}
    return [_plain(entry, places) for entry in log.view()]


def _plain(entry: EntryDict, places: dict[str, int]) -> dict[str, object]:
    record: dict[str, object] = {**entry}
    for key in _DRAWN:
        del record[key]
    for key in _IDS:
        named = record.get(key)
        if isinstance(named, str):
            record[key] = places[named]
    return record


TestSessionBesideMemory = pytest.mark.slow(SessionBesideMemory.TestCase)
TestSessionBesideMemory.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None
)
