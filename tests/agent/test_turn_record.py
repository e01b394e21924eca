from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from tau_kernel.agent import AgentSession, Start, TurnSettings
from tau_kernel.errors import CallerError, StorageError
from tau_kernel.extensions import ToolContext
from tau_kernel.messages import JsonObject, Message, message_text, user_message
from tau_kernel.models import Model
from tau_kernel.submissions import AgentEvent, Submission
from tau_kernel.tree import EntryDict, InMemorySessionLog, SessionLog

if TYPE_CHECKING:
    from .conftest import Kit

WHOLE_TURN = ["agent_spec", "submission", "user", "assistant"]


class FullDisk(InMemorySessionLog):
    """Takes so many entries, then none until there is room again."""

    def __init__(self, room: int) -> None:
        super().__init__("full")
        self.room = room

    def append_at(
        self, parent_id: str | None, entry_type: str, payload: Mapping[str, object]
    ) -> str:
        if self.room == 0:
            msg = "no space left on device"
            raise StorageError(msg)
        self.room -= 1
        return super().append_at(parent_id, entry_type, payload)


class SyncedLog(InMemorySessionLog):
    """Notes how many entries there were each time it was told to sync."""

    def __init__(self) -> None:
        super().__init__("synced")
        self.synced: list[int] = []

    def sync(self) -> None:
        self.synced.append(len(self.view()))


@dataclass(slots=True)
class Watcher:
    """Notes at each event of some types which entries the log has."""

    kit: Kit
    types: frozenset[str]
    seen: list[tuple[str, int]] = field(default_factory=list)

    def __call__(self, event: AgentEvent) -> None:
        if event.type in self.types:
            self.seen.append((event.type, len(self.kit.bench.log.entries())))


def ask(
    kit: Kit,
    session: AgentSession,
    text: str = "hi",
    settings: TurnSettings | None = None,
    **more: Any,  # noqa: ANN401
) -> None:
    submission = kit.bench.submission(text, **more)
    asyncio.run(session.submit(submission, settings=settings))


async def give(params: JsonObject, ctx: ToolContext) -> object:
    return params.get("give", "ok")


def custom_data(log: SessionLog, custom_type: str) -> list[Mapping[str, object]]:
    return [
        entry["data"]
        for entry in log.entries()
        if entry["type"] == "customEntry" and entry["customType"] == custom_type
    ]


def test_nothing_is_written_before_the_first_turn(kit: Kit) -> None:
    kit.bench.session(kit.stream([]))
    assert kit.bench.log.entries() == []


def test_who_asks_is_written_before_what_is_asked(kit: Kit) -> None:
    session = kit.bench.session(kit.stream([kit.say("a")]))
    ask(
        kit,
        session,
        settings=TurnSettings(provenance={"cell_id": "c-1", "source": "forged"}),
        source="bus",
        submitter="cron",
        correlation={"subject": "x"},
    )
    assert kit.bench.kinds() == WHOLE_TURN
    [facts] = custom_data(kit.bench.log, "submission")
    digest = str(facts["settings_digest"])
    assert len(bytes.fromhex(digest)) == hashlib.sha256().digest_size
    assert facts == {
        "cell_id": "c-1",
        "submission_id": "hi",
        "source": "bus",
        "submitter": "cron",
        "strategy": "reject",
        "correlation": {"subject": "x"},
        "model": {"id": "m", "provider": "p"},
        "settings_digest": digest,
    }


def test_the_entries_of_a_turn_hang_from_one_another(kit: Kit) -> None:
    session = kit.bench.session(kit.stream([kit.say("a")]))
    ask(kit, session)
    entries: list[EntryDict] = kit.bench.log.entries()
    parents = [entry["parentId"] for entry in entries]
    assert parents == [None, *(entry["id"] for entry in entries[:-1])]
    assert kit.bench.log.cursor == entries[-1]["id"]


def test_the_agent_is_described_once_while_it_stays_the_same(kit: Kit) -> None:
    stream = kit.stream([kit.say("a"), kit.say("b")])
    session = kit.bench.session(
        stream, kit.tool("t", give), system_prompt="be kind", api_key="secret"
    )
    ask(kit, session, "1")
    ask(kit, session, "2")
    [described] = custom_data(kit.bench.log, "agent_spec")
    assert described == {
        "model": {"id": "m", "provider": "p", "context_window": 128_000},
        "system_prompt_digest": hashlib.sha256(b"be kind").hexdigest(),
        "tools": ["t"],
        "extensions": [],
        "cwd": "/",
    }
    assert "secret" not in str(kit.bench.log.entries())


def test_a_model_of_one_turn_is_told_by_its_submission(kit: Kit) -> None:
    stream = kit.stream([kit.say("a"), kit.say("b")])
    session = kit.bench.session(stream)
    other = Model(id="n", name="n", api="echo", provider="q")
    ask(kit, session, "1", settings=TurnSettings(model=other))
    ask(kit, session, "2")
    told = [facts["model"] for facts in custom_data(kit.bench.log, "submission")]
    assert told == [{"id": "n", "provider": "q"}, {"id": "m", "provider": "p"}]
    [described] = custom_data(kit.bench.log, "agent_spec")
    assert "'m'" in str(described["model"])


def test_the_digest_tells_settings_apart_and_ignores_the_question(kit: Kit) -> None:
    session = kit.bench.session(kit.stream([kit.say("a") for _ in range(4)]))
    ask(kit, session, "1")
    ask(kit, session, "2")
    ask(kit, session, "3", settings=TurnSettings(temperature=0.5))
    ask(kit, session, "4", settings=TurnSettings(seed=1))
    records = custom_data(kit.bench.log, "submission")
    first, second, third, fourth = (r["settings_digest"] for r in records)
    assert first == second
    assert len({first, third, fourth}) == 3


def test_each_message_is_written_when_it_is_complete(kit: Kit) -> None:
    types = frozenset({"tool_execution_start", "tool_execution_end", "turn_end"})
    watcher = Watcher(kit, types)
    stream = kit.stream([kit.say("", kit.call("t")), kit.say("done")])
    session = kit.bench.session(stream, kit.tool("t", give))
    session.subscribe(watcher)
    ask(kit, session)
    assert watcher.seen == [
        ("tool_execution_start", 4),
        ("tool_execution_end", 5),
        ("turn_end", 5),
        ("turn_end", 6),
    ]


def test_an_end_names_the_entry_that_holds_the_message(kit: Kit) -> None:
    stream = kit.stream([kit.say("", kit.call("t")), kit.say("done")])
    session = kit.bench.session(stream, kit.tool("t", give))
    ask(kit, session)
    named = [
        (event.entry_id, event.message)
        for event in kit.bench.events
        if event.type in {"message_end", "tool_execution_end"}
    ]
    assert len(named) == 4
    for entry_id, message in named:
        assert entry_id is not None
        entry = kit.bench.log.view().entry(entry_id)
        assert entry["type"] == "message"
        assert message is not None
        assert message_text(entry["message"]) == message_text(message)


@pytest.mark.parametrize("more", [{"store_history": False}, {"silent": True}])
def test_a_turn_that_is_not_kept_writes_nothing(
    kit: Kit, more: dict[str, bool]
) -> None:
    stream = kit.stream([kit.say("a"), kit.say("", kit.call("t")), kit.say("c")])
    session = kit.bench.session(stream, kit.tool("t", give))
    ask(kit, session, "1")
    before, cursor = kit.bench.log.entries(), kit.bench.log.cursor
    asyncio.run(session.submit(kit.bench.submission("2", **more)))
    assert (kit.bench.log.entries(), kit.bench.log.cursor) == (before, cursor)
    roles = [message["role"] for message in stream.requests[2]["messages"]]
    assert roles == ["user", "assistant", "user", "assistant", "toolResult"]
    last = kit.bench.events[-2].message
    assert last is not None
    assert message_text(last) == "c"


def test_a_place_is_taken_before_anything_is_written(kit: Kit) -> None:
    stream = kit.stream([kit.say("a"), kit.say("b")])
    session = kit.bench.session(stream)
    ask(kit, session, "1")
    ask(
        kit,
        session,
        "instead",
        settings=TurnSettings(place=lambda _: Start(entry_id=None)),
    )
    assert [message_text(m) for m in stream.requests[1]["messages"]] == ["instead"]
    assert kit.bench.kinds()[4:] == ["navigate", "submission", "user", "assistant"]


def void(ignored: object) -> None:
    """Drop a value where none may be given."""


def test_a_place_that_cannot_be_taken_stops_the_turn_before_it_begins(
    kit: Kit,
) -> None:
    session = kit.bench.session(kit.stream([kit.say("a")]))
    nowhere = TurnSettings(place=lambda _: Start(entry_id="nowhere"))
    with pytest.raises(CallerError, match="'nowhere'"):
        ask(kit, session, settings=nowhere)
    assert (kit.bench.events, kit.bench.log.entries()) == ([], [])
    ask(kit, session)
    assert kit.bench.kinds() == WHOLE_TURN


@pytest.mark.parametrize("room", [0, 1, 2, 3])
def test_a_full_disk_is_told_once_and_the_next_turn_works(kit: Kit, room: int) -> None:
    ended: list[Submission] = []

    def end(*, submission: Submission, side_usage: object) -> None:
        ended.append(submission)

    log = FullDisk(room)
    kit.bench.log = log
    session = kit.bench.session(kit.stream([kit.say("a"), kit.say("b")]))
    session.subscribe_channel("submission_end", end)
    with pytest.raises(StorageError, match="no space left"):
        ask(kit, session, "1")
    failures = [event for event in kit.bench.events if event.is_error]
    assert [event.type for event in failures] == ["agent_end"]
    assert failures[0].error == "StorageError: no space left on device"
    assert len(ended) == 1
    assert len(log.entries()) == room
    log.room = 100
    ask(kit, session, "2")
    assert kit.bench.kinds()[-3:] == ["submission", "user", "assistant"]


def test_a_result_that_a_full_disk_lost_is_answered_before_the_next_prompt(
    kit: Kit,
) -> None:
    kit.bench.log = log = FullDisk(4)
    stream = kit.stream([kit.say("", kit.call("t", "a")), kit.say("on")])
    session = kit.bench.session(stream, kit.tool("t", give))
    with pytest.raises(StorageError):
        ask(kit, session, "1")
    log.room = 100
    ask(kit, session, "2")
    asked = stream.requests[1]["messages"]
    roles = [message["role"] for message in asked]
    assert roles == ["user", "assistant", "toolResult", "user"]
    assert "no result of this call was stored" in message_text(asked[2])
    kept = kit.bench.kinds()
    assert kept[3:6] == ["assistant", "toolResult", "submission"]


def test_calls_of_a_given_context_are_answered_in_it_and_not_in_the_log(
    kit: Kit,
) -> None:
    stream = kit.stream([kit.say("a")])
    session = kit.bench.session(stream)
    given: list[Message] = [user_message("x"), kit.answer("", kit.call("t", "foreign"))]
    asyncio.run(session.submit(kit.bench.submission(), context=given))
    roles = [message["role"] for message in stream.requests[0]["messages"]]
    assert roles == ["user", "assistant", "toolResult", "user"]
    assert kit.bench.kinds() == WHOLE_TURN


def test_a_lost_result_is_answered_for_a_turn_that_is_not_kept(kit: Kit) -> None:
    kit.bench.log.append_message(user_message("x"))
    kit.bench.log.append_message(kit.answer("", kit.call("t", "lost")))
    stream = kit.stream([kit.say("a")])
    session = kit.bench.session(stream)
    ask(kit, session, store_history=False)
    roles = [message["role"] for message in stream.requests[0]["messages"]]
    assert roles == ["user", "assistant", "toolResult", "user"]
    assert kit.bench.kinds() == ["user", "assistant"]


def test_a_result_that_cannot_be_written_is_replaced_by_its_error(kit: Kit) -> None:
    async def weird(params: JsonObject, ctx: ToolContext) -> object:
        return {"value": float("nan")}

    stream = kit.stream([kit.say("", kit.call("t")), kit.say("on")])
    session = kit.bench.session(stream, kit.tool("t", weird))
    with pytest.raises(CallerError, match=r"result of tool 't'\['value'\] is nan"):
        ask(kit, session, "1")
    failed = session.messages[-1]
    assert failed["role"] == "toolResult"
    assert failed["is_error"]
    ask(kit, session, "2")
    assert [message["role"] for message in stream.requests[1]["messages"]] == [
        "user",
        "assistant",
        "toolResult",
        "user",
    ]


def test_text_that_cannot_be_sent_is_mended_on_its_way_into_the_log(kit: Kit) -> None:
    session = kit.bench.session(kit.stream([kit.say("a")]))
    ask(kit, session, "half a pair: \ud83d")
    assert message_text(session.messages[0]) == "half a pair: \ufffd"


def test_a_durable_log_is_synced_once_a_turn_even_if_it_fails(kit: Kit) -> None:
    async def crash(params: JsonObject, ctx: ToolContext) -> object:
        raise LookupError

    kit.bench.log = log = SyncedLog()
    stream = kit.stream([kit.say("a"), kit.say("", kit.call("t")), kit.say("c")])
    session = kit.bench.session(stream, kit.tool("t", crash))
    ask(kit, session, "1")
    with pytest.raises(LookupError):
        ask(kit, session, "2")
    ask(kit, session, "3", store_history=False)
    assert log.synced == [4, 8]
