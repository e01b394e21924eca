"""How long a turn's share of a long conversation takes: append, read, load.

The reference is the plain way: a list of entries, copied deeply for each reader, and a
context that walks from the leaf to the root through an index made anew.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import orjson
import pytest
from measured import Compare, Report, Row, at_most

from tau_kernel.messages import Message, user_message
from tau_kernel.sessions import FileSession
from tau_kernel.tree import EntryDict

pytestmark = pytest.mark.slow

_ENTRIES: Final = 100_000
_TEXT: Final = "x" * 400


class PlainLog:
    """What a reader of the documents would write first."""

    def __init__(self, entries: list[EntryDict]) -> None:
        self._entries = entries
        self.cursor = entries[-1]["id"]

    def entries(self) -> list[EntryDict]:
        return copy.deepcopy(self._entries)

    def append(self, message: Message) -> None:
        entry: EntryDict = {
            "type": "message",
            "id": f"p{len(self._entries)}",
            "parentId": self.cursor,
            "timestamp": "2026-01-01T00:00:00.000Z",
            "message": message,
        }
        self._entries.append(entry)
        self.cursor = entry["id"]

    def context(self) -> list[Message]:
        by_id = {entry["id"]: entry for entry in self.entries()}
        found: list[Message] = []
        at: str | None = self.cursor
        while at is not None:
            entry = by_id[at]
            if entry["type"] == "message":
                found.append(entry["message"])
            at = entry["parentId"]
        return found[::-1]


@pytest.fixture(scope="module")
def long_session(
    is_measuring: bool, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FileSession]:
    """Give a stored session that is long, if times are looked at."""
    base = tmp_path_factory.mktemp("sessions")
    session = FileSession.create(base, "/work", "echo", "echo")
    for _ in range(_ENTRIES if is_measuring else 100):
        session.append_message(user_message(_TEXT))
    yield session
    session.close()


def test_an_entry_and_the_next_context(
    compare: Compare, report: Report, long_session: FileSession
) -> None:
    plain = PlainLog(long_session.entries())

    def ours() -> float:
        begun = time.perf_counter()
        long_session.append_message(user_message(_TEXT))
        assert long_session.view().context_for(long_session.cursor)
        return time.perf_counter() - begun

    def reference() -> float:
        begun = time.perf_counter()
        plain.append(user_message(_TEXT))
        assert plain.context()
        return time.perf_counter() - begun

    samples = compare(ours, reference, rounds=20)
    entries = len(long_session.entries())
    report(
        Row(
            what=f"append and next context, {entries} entries",
            reference="copy and walk again",
            samples=samples,
            budget=at_most(0.002),
        )
    )


def test_an_append_without_fsync(
    compare: Compare, report: Report, long_session: FileSession, tmp_path: Path
) -> None:
    message = user_message(_TEXT)
    with (tmp_path / "plain.jsonl").open("ab", buffering=0) as file:

        def reference() -> float:
            begun = time.perf_counter()
            file.write(orjson.dumps(message) + b"\n")
            return time.perf_counter() - begun

        def ours() -> float:
            begun = time.perf_counter()
            long_session.append_message(message)
            return time.perf_counter() - begun

        samples = compare(ours, reference, rounds=1000)
    report(
        Row(
            what="append without fsync",
            reference="encode and write a line",
            samples=samples,
            budget=at_most(0.0002),
        )
    )


def test_loading(
    compare: Compare, report: Report, long_session: FileSession, tmp_path: Path
) -> None:
    long_session.sync()
    file = tmp_path / "copy.jsonl"
    file.write_bytes(long_session.path.read_bytes())

    def ours() -> float:
        begun = time.perf_counter()
        session = FileSession.load(str(file))
        took = time.perf_counter() - begun
        session.close()
        return took

    def reference() -> float:
        begun = time.perf_counter()
        with file.open("rb") as lines:
            assert [orjson.loads(line) for line in lines]
        return time.perf_counter() - begun

    samples = compare(ours, reference, rounds=5, warm_up=1)
    entries = len(long_session.entries())
    report(
        Row(
            what=f"load, {entries} entries",
            reference="decode every line",
            samples=samples,
            budget=at_most(1.5),
        )
    )
