"""A session in a file beside one in memory, driven by the same random moves.

Three promises hold after every move: a context depends on its leaf's ancestors alone,
nothing on disk changes or disappears, and what is loaded is what was in memory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

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

from tau_kernel.messages import Message, user_message
from tau_kernel.sessions import EphemeralSession, FileSession
from tau_kernel.tree import (
    BranchView,
    EntryDict,
    LogView,
    SessionLog,
    copy_of_json,
    entries_to_messages,
    fold_path,
    open_branch,
    resolve_cursor,
)

_PLACES: Final = st.integers(0, 10**6)
#: Keys that two logs differ in, though the same was asked of them.
_DRAWN: Final = ("id", "timestamp")
_IDS: Final = ("parentId", "firstKeptId", "targetId", "fromId")
_COVERED: Final = {"covered_entries": 1, "covered_tokens": 2}


class SessionBesideMemory(RuleBasedStateMachine):
    """Asks the same of a file and of a log in memory, naming entries by place."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self._file = FileSession.create(Path(self._folder.name), "/w", "m", "b")
        self._memory = EphemeralSession("/w")
        self._memory.begin("m", "b", None, None)
        self._branches: list[tuple[BranchView, BranchView]] = []
        self._bytes = b""
        self._contexts: dict[str, list[Message]] = {}

    @initialize(text=st.text(max_size=5))
    def begin(self, text: str) -> None:
        self.speak(text)

    def teardown(self) -> None:
        self._file.close()
        self._folder.cleanup()

    @rule(text=st.text(max_size=20))
    def speak(self, text: str) -> None:
        # One message for both, since it carries the time of its making.
        message = user_message(text)
        self._both(lambda log: log.append_message(message))

    @rule(key=st.text(max_size=3), value=st.integers(-9, 9) | st.text(max_size=3))
    def note(self, key: str, value: object) -> None:
        self._both(lambda log: log.append_custom_entry("note", {key: value}))

    @rule(name=st.text(max_size=5))
    def rename(self, name: str) -> None:
        for log in (self._file, self._memory):
            log.append_session_info(name)

    @rule(model=st.text(max_size=5))
    def change_the_model(self, model: str) -> None:
        for log in (self._file, self._memory):
            log.append_model_change(model, "b")

    @rule(place=_PLACES)
    def navigate(self, place: int) -> None:
        self._both(lambda log: log.append_navigate(id_at(log, place)))

    @rule()
    def navigate_before_the_root(self) -> None:
        self._both(lambda log: log.append_navigate(None))

    @rule(place=_PLACES)
    def elide(self, place: int) -> None:
        self._both(
            lambda log: log.append_elide(
                kept_at(log, place), **_COVERED, agent_spec_id=None
            )
        )

    @rule(place=_PLACES, summary=st.text(max_size=5))
    def compact(self, place: int, summary: str) -> None:
        self._both(
            lambda log: log.append_compaction(
                summary,
                kept_at(log, place),
                9,
                summarizer_model_id="m",
                summary_usage={},
                **_COVERED,
                agent_spec_id=None,
            )
        )

    @rule(place=_PLACES, summary=st.text(max_size=5))
    def leave_a_branch(self, place: int, summary: str) -> None:
        self._both(lambda log: log.append_branch_summary(summary, id_at(log, place)))

    @rule(place=_PLACES, text=st.text(max_size=5))
    def append_beside(self, place: int, text: str) -> None:
        payload = {"message": user_message(text)}
        self._both(lambda log: log.append_at(id_at(log, place), "message", payload))

    @rule(place=_PLACES)
    def refuse_what_is_not_there(self, place: int) -> None:
        for log in (self._file, self._memory):
            with pytest.raises(ValueError, match="no entry"):
                log.append_navigate("none")

    @rule(place=_PLACES)
    def branch(self, place: int) -> None:
        made = [
            open_branch(log, id_at(log, place), label="b")
            for log in (self._file, self._memory)
        ]
        self._branches.append((made[0], made[1]))

    @precondition(lambda self: self._branches)
    @rule(which=_PLACES, text=st.text(max_size=5))
    def speak_on_a_branch(self, which: int, text: str) -> None:
        message = user_message(text)
        for branch in self._branches[which % len(self._branches)]:
            branch.append_message(message)

    @precondition(lambda self: self._branches)
    @rule(which=_PLACES, place=_PLACES)
    def move_on_a_branch(self, which: int, place: int) -> None:
        for branch in self._branches[which % len(self._branches)]:
            branch.append_navigate(id_at(branch, place))

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
        assert place_of(self._file) == place_of(self._memory)
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

    def _both(self, act: Callable[[SessionLog], object]) -> None:
        act(self._file)
        act(self._memory)


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
