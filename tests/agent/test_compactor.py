"""The part that compacts a session: its log, its events, its accounts, its policy."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from conversations import FakeWriter, Turn, orphans, say, talk, words

from tau_kernel.agent import (
    CompactionError,
    CompactionPolicy,
    CompactionPolicyError,
    CompactionPolicyViolation,
    CompactionSettings,
    Compactor,
    CompactorPorts,
    LoopSpec,
    SummaryPrompts,
)
from tau_kernel.agent.summarizer import CompleteFunction
from tau_kernel.errors import CallerError
from tau_kernel.extensions import ExtensionUI, ToolContext
from tau_kernel.messages import (
    AbortSignal,
    AssistantMessage,
    Message,
    UsageDict,
    message_text,
    system_message,
    user_message,
)
from tau_kernel.models import (
    Model,
    ModelContext,
    StreamOptions,
    complete_simple,
    resolve_model,
)
from tau_kernel.submissions import AgentEvent
from tau_kernel.tree import (
    CompactionEntryDict,
    ConversationTree,
    InMemorySessionLog,
    SessionLog,
    compaction_note,
)

MODEL = Model(
    id="m-1", name="m", api="echo", provider="p", context_window=2000, max_tokens=200
)
SMALL = CompactionSettings(reserve_tokens=1000, keep_recent_tokens=200)
CONTEXT = ToolContext(
    ui=ExtensionUI(), signal=AbortSignal(), submission_id=None, cwd=Path("/")
)


@dataclass(slots=True)
class Room:
    """A session without turns, and what its compactor reported."""

    log: SessionLog = field(default_factory=InMemorySessionLog)
    spec: LoopSpec = field(
        default_factory=lambda: LoopSpec(model=MODEL, tool_context=CONTEXT)
    )
    events: list[AgentEvent] = field(default_factory=list)
    banked: list[tuple[int, str]] = field(default_factory=list)
    synced: int = 0
    started: asyncio.Event = field(default_factory=asyncio.Event)

    def compactor(
        self,
        complete: CompleteFunction,
        *,
        settings: CompactionSettings | None = SMALL,
        **more: Any,  # noqa: ANN401
    ) -> Compactor:
        async def emit(event: AgentEvent) -> None:
            self.events.append(event)
            self.started.set()

        def bank(usage: UsageDict, model: Model) -> None:
            self.banked.append((usage["total_tokens"], model.id))

        def sync() -> None:
            self.synced += 1

        ports = CompactorPorts(
            emit=emit,
            bank=bank,
            api_key_of=lambda model: f"key of {model.provider}",
            sync=sync,
            complete=complete,
        )
        return Compactor(self, ports, settings=settings, **more)

    def context(self) -> list[Message]:
        return self.log.view().context_for(self.log.cursor)

    def told(self) -> list[tuple[str, str | None]]:
        return [(event.type, event.end_reason) for event in self.events]

    def newest(self) -> CompactionEntryDict:
        entry = self.log.view()[-1]
        assert entry["type"] == "compaction"
        return entry


@pytest.fixture
def room() -> Room:
    return Room()


def _talk(room: Room, count: int, tokens: int = 100) -> None:
    talk(room.log, [Turn(prompt=tokens, answer=tokens)] * count)


def test_a_compaction_is_recorded_with_its_provenance(room: Room) -> None:
    spec_id = room.log.append_custom_entry("agent_spec", {})
    room.log.append_message(system_message("task"))
    _talk(room, 3)
    before = room.context()
    result = asyncio.run(room.compactor(FakeWriter(["S"])).compact())
    assert result is not None
    entry = room.newest()
    assert entry["summary"] == result.summary == "S"
    assert entry["firstKeptId"] == result.first_kept_entry_id
    assert entry["summarizerModelId"] == "m-1"
    assert entry["summaryUsage"] == result.usage
    assert entry["coveredEntries"] == len(result.compacted_entry_ids)
    assert entry["agentSpecId"] == spec_id
    assert entry["tokensBefore"] == result.tokens_before == 601
    # Two turns of two hundred tokens went; the note on them has seven.
    assert entry["coveredTokens"] == 400
    assert result.tokens_saved == 400 - 7
    assert room.context() == [before[0], compaction_note("S"), *before[-2:]]
    assert room.log.cursor == entry["id"]
    assert room.synced == 1


def test_events_without_a_stamp_stand_around_the_work(room: Room) -> None:
    _talk(room, 3)
    asyncio.run(room.compactor(FakeWriter()).compact())
    assert room.told() == [("agent_start", None), ("agent_end", "done")]
    assert all(event.submission_id is None for event in room.events)
    assert room.banked == [(3, "m-1")]


@pytest.mark.parametrize("count", [0, 1])
def test_where_nothing_is_to_be_done_nothing_happens(room: Room, count: int) -> None:
    _talk(room, count)
    writer = FakeWriter()
    compactor = room.compactor(writer, settings=CompactionSettings())
    assert asyncio.run(compactor.compact()) is None
    assert (writer.requests, room.events, room.synced) == ([], [], 0)


def test_a_second_compaction_right_after_does_nothing(room: Room) -> None:
    _talk(room, 3)
    compactor = room.compactor(FakeWriter())
    assert asyncio.run(compactor.compact()) is not None
    assert asyncio.run(compactor.compact()) is None


def test_wishes_key_and_prompts_reach_the_summariser(room: Room) -> None:
    _talk(room, 3)
    writer = FakeWriter()
    prompts = SummaryPrompts(
        system="sys", initial="form", update="u", turn_prefix="t", branch="b"
    )
    compactor = room.compactor(writer, prompts=prompts)
    asyncio.run(compactor.compact("Name the colours."))
    assert writer.requests[0].endswith("form\n\nAdditional focus: Name the colours.")
    assert writer.systems == ["sys"]
    assert writer.options[0].api_key == "key of p"


def test_a_failure_is_raised_and_leaves_the_log_alone(room: Room) -> None:
    _talk(room, 3)
    entries = room.log.entries()
    with pytest.raises(CompactionError) as failure:
        asyncio.run(room.compactor(FakeWriter([" "])).compact())
    assert failure.value.code == "summarization_failed"
    assert room.log.entries() == entries
    assert room.told()[-1] == ("agent_end", "error")
    assert room.events[-1].is_error
    assert "CompactionError: model 'm' wrote no summary" in (
        room.events[-1].error or ""
    )


def _stalling(room: Room, folder: Path) -> Compactor:
    script = folder / "script.jsonl"
    script.write_text(json.dumps({"text": "half", "stall": True}))
    model = replace(resolve_model(f"scripted:{script}"), context_window=2000)
    room.spec = replace(room.spec, model=model)
    return room.compactor(complete_simple)


def test_an_abort_ends_it_and_is_no_error(room: Room, tmp_path: Path) -> None:
    _talk(room, 3)
    entries = room.log.entries()
    signal = AbortSignal()
    compactor = _stalling(room, tmp_path)

    async def abort_midway() -> None:
        work = asyncio.create_task(compactor.compact(signal=signal))
        await asyncio.wait_for(room.started.wait(), 10)
        signal.abort()
        await asyncio.wait_for(work, 10)

    with pytest.raises(CompactionError) as failure:
        asyncio.run(abort_midway())
    assert failure.value.code == "aborted"
    assert room.told()[-1] == ("agent_end", "aborted")
    assert not room.events[-1].is_error
    assert room.log.entries() == entries


def test_a_cancelled_compaction_reports_its_end(room: Room, tmp_path: Path) -> None:
    _talk(room, 3)
    compactor = _stalling(room, tmp_path)

    async def cancel_midway() -> None:
        work = asyncio.create_task(compactor.compact())
        await asyncio.wait_for(room.started.wait(), 10)
        work.cancel()
        await work

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancel_midway())
    assert room.told() == [("agent_start", None), ("agent_end", "aborted")]


def test_a_conversation_that_moved_meanwhile_is_not_cut(room: Room) -> None:
    _talk(room, 3)

    async def complete(
        model: Model, context: ModelContext, options: StreamOptions
    ) -> AssistantMessage:
        room.log.append_message(user_message("meanwhile"))
        return say("S")

    with pytest.raises(CompactionError) as failure:
        asyncio.run(room.compactor(complete).compact())
    assert failure.value.code == "invalid_session"
    assert message_text(room.context()[-1]) == "meanwhile"


def test_a_small_context_is_left_alone_at_the_end_of_a_turn(room: Room) -> None:
    _talk(room, 5)
    compactor = room.compactor(FakeWriter())
    assert compactor.context_usage().tokens == 1000
    assert asyncio.run(compactor.maybe_compact()) is None
    _talk(room, 1, 1)
    assert asyncio.run(compactor.maybe_compact()) is not None


@pytest.mark.parametrize(
    "settings",
    [replace(SMALL, enabled=False), replace(SMALL, reserve_tokens=2000)],
)
def test_it_stays_out_where_it_is_off_or_the_window_is_no_larger_than_the_reserve(
    room: Room, settings: CompactionSettings
) -> None:
    _talk(room, 30)
    compactor = room.compactor(FakeWriter(), settings=settings)
    assert asyncio.run(compactor.maybe_compact()) is None
    assert room.events == []


def test_a_failure_at_the_end_of_a_turn_is_reported_and_tried_again(
    room: Room,
) -> None:
    _talk(room, 10)
    compactor = room.compactor(FakeWriter([" ", "S"]))
    assert asyncio.run(compactor.maybe_compact()) is None
    assert room.told()[-1] == ("agent_end", "error")
    assert asyncio.run(compactor.maybe_compact()) is not None
    assert room.told()[-1] == ("agent_end", "done")


def test_a_count_from_before_a_compaction_starts_no_other(room: Room) -> None:
    _talk(room, 3)
    room.log.append_message(user_message("q"))
    room.log.append_message(say("a", total=1900))
    compactor = room.compactor(FakeWriter())
    assert asyncio.run(compactor.maybe_compact()) is not None
    room.log.append_message(user_message("q"))
    room.log.append_message(say("a"))
    assert compactor.context_usage().tokens < 1000
    assert asyncio.run(compactor.maybe_compact()) is None


def test_the_system_prompt_counts_unless_the_conversation_has_its_own(
    room: Room,
) -> None:
    compactor = room.compactor(FakeWriter())
    room.spec = replace(room.spec, system_prompt="12345678")
    assert compactor.context_usage().tokens == 2
    room.log.append_message(system_message("1234"))
    assert compactor.context_usage().tokens == 1


def test_it_can_be_switched_off_and_on(room: Room) -> None:
    compactor = room.compactor(FakeWriter())
    assert compactor.set_auto(enabled=False) is False
    assert compactor.settings == replace(SMALL, enabled=False)
    # Another session has a switch of its own.
    assert Room().compactor(FakeWriter()).settings == SMALL
    assert compactor.set_auto(enabled=True) is True


def test_settings_that_nobody_gave_follow_the_models_window(room: Room) -> None:
    compactor = room.compactor(FakeWriter(), settings=None)
    assert compactor.settings.reserve_tokens == 500
    room.spec = replace(room.spec, model=replace(MODEL, context_window=128_000))
    assert compactor.settings == CompactionSettings()


def test_the_newest_compaction_can_be_read_back(room: Room) -> None:
    compactor = room.compactor(FakeWriter(["S1", "S2"]))
    assert compactor.last_compaction() is None
    _talk(room, 3)
    asyncio.run(compactor.compact())
    _talk(room, 3)
    asyncio.run(compactor.compact())
    entry = room.newest()
    room.log.append_navigate(room.log.view()[0]["id"])
    record = compactor.last_compaction()
    assert record is not None
    assert (record.id, record.timestamp) == (entry["id"], entry["timestamp"])
    assert (record.summary, record.first_kept_id) == ("S2", entry["firstKeptId"])
    assert record.tokens_before == entry["tokensBefore"]


def test_the_accounts_tell_estimate_window_and_settings(room: Room) -> None:
    _talk(room, 11)
    compactor = room.compactor(FakeWriter())
    stats = compactor.stats(None)
    assert (stats.context.tokens, stats.context_window) == (2200, 2000)
    assert stats.context_headroom == -200
    assert stats.compaction_settings == SMALL
    assert (stats.last_compaction, stats.usage) == (None, None)


def test_a_heads_own_list_is_compacted_without_the_log(room: Room) -> None:
    messages: list[Message] = [user_message("q1"), say("a1"), user_message("q2")]
    compactor = room.compactor(FakeWriter(["S"]))
    shorter = asyncio.run(compactor.compact_messages(messages))
    assert shorter == [compaction_note("S"), messages[-1]]
    assert asyncio.run(compactor.compact_messages(messages[:2])) is None
    assert len(room.log.view()) == 0
    assert room.banked == [(3, "m-1")]


def test_settings_and_policy_exclude_each_other(room: Room) -> None:
    policy = CompactionPolicy.disabled(max_turns=1, settings=SMALL)
    with pytest.raises(CallerError, match="give one of them"):
        room.compactor(FakeWriter(), policy=policy)


def test_a_policy_is_held_against_the_model_at_once_and_again(room: Room) -> None:
    policy = CompactionPolicy.disabled(max_turns=1)
    with pytest.raises(CompactionPolicyError, match="reserve"):
        room.compactor(FakeWriter(), settings=None, policy=policy)
    compactor = room.compactor(
        FakeWriter(),
        settings=None,
        policy=CompactionPolicy.disabled(max_turns=1, settings=SMALL),
    )
    room.spec = replace(room.spec, model=replace(MODEL, context_window=900))
    with pytest.raises(CompactionPolicyError, match="900"):
        compactor.rebind()


def test_a_policy_decides_whether_contexts_are_compacted(room: Room) -> None:
    policy = CompactionPolicy.disabled(max_turns=1, settings=SMALL)
    compactor = room.compactor(FakeWriter(), settings=None, policy=policy)
    assert compactor.set_auto(enabled=False) is False
    with pytest.raises(CompactionPolicyError, match="'disabled' decides"):
        compactor.set_auto(enabled=True)


def test_an_unforeseen_failure_reports_its_end_too(room: Room) -> None:
    _talk(room, 3)

    async def complete(
        model: Model, context: ModelContext, options: StreamOptions
    ) -> AssistantMessage:
        raise KeyError(model.id)

    with pytest.raises(KeyError):
        asyncio.run(room.compactor(complete).compact())
    assert room.told()[-1] == ("agent_end", "error")
    assert room.events[-1].error == "KeyError: 'm-1'"


def test_the_policy_in_force_is_bound(room: Room) -> None:
    assert room.compactor(FakeWriter()).policy is None
    policy = CompactionPolicy.disabled(max_turns=1, settings=SMALL)
    compactor = room.compactor(FakeWriter(), settings=None, policy=policy)
    room.spec = replace(room.spec, model=replace(MODEL, context_window=3000))
    compactor.rebind()
    assert compactor.policy == replace(policy, context_window=3000)


def test_a_policy_admits_its_turns_and_observes_them(room: Room) -> None:
    policy = CompactionPolicy.turn_cap(
        max_turns=2, max_tokens_per_turn=250, settings=SMALL
    )
    compactor = room.compactor(FakeWriter(), settings=None, policy=policy)
    compactor.admit_turn()
    _talk(room, 1)
    asyncio.run(compactor.maybe_compact())
    compactor.admit_turn()
    _talk(room, 1, 200)
    with pytest.raises(CompactionPolicyViolation, match="by 400 tokens"):
        asyncio.run(compactor.maybe_compact())
    with pytest.raises(CompactionPolicyViolation, match="has 2 turns"):
        compactor.admit_turn()


def test_without_a_policy_every_turn_is_admitted(room: Room) -> None:
    _talk(room, 3)
    room.compactor(FakeWriter()).admit_turn()


def test_the_policys_summariser_writes_with_its_own_key(room: Room) -> None:
    _talk(room, 10)
    local = replace(MODEL, id="local", provider="mine")
    writer = FakeWriter()
    policy = CompactionPolicy.local_summarizer(
        model=local, api_key="its own", settings=SMALL
    )
    compactor = room.compactor(writer, settings=None, policy=policy)
    assert asyncio.run(compactor.maybe_compact()) is not None
    assert {model.id for model in writer.models} == {"local"}
    assert writer.options[0].api_key == "its own"
    assert room.newest()["summarizerModelId"] == "local"
    assert set(room.banked) == {(3, "local")}


@pytest.mark.slow
@pytest.mark.parametrize("has_counts", [False, True])
def test_two_hundred_turns_stay_within_a_small_window(
    room: Room, tmp_path: Path, has_counts: bool
) -> None:
    script = tmp_path / "script.jsonl"
    lines = [json.dumps({"text": f"summary {n}"}) for n in range(300)]
    script.write_text("\n".join(lines))
    model = resolve_model(f"scripted:{script}")
    room.spec = replace(
        room.spec, model=replace(model, context_window=4000, max_tokens=300)
    )
    settings = CompactionSettings(reserve_tokens=2000, keep_recent_tokens=20_000)
    compactor = room.compactor(complete_simple, settings=settings)
    room.log.append_message(system_message("task"))

    async def converse() -> int:
        compactions = 0
        for number in range(200):
            turn = Turn(
                prompt=5 + number % 50,
                calls=(1 + number % 3,) * (number % 4),
                results=number % 7 * 30,
                answer=20,
                note="after" if number % 5 == 0 else "",
            )
            talk(room.log, [turn], f"turn{number}-")
            if has_counts:
                total = compactor.context_usage().tokens + 1
                room.log.append_message(say(words("counted", 10), total=total))
            before = len(room.log.view())
            compactions += await compactor.maybe_compact() is not None
            _check_turn(room, f"turn{number}-", before)
        return compactions

    compactions = asyncio.run(converse())
    assert 10 < compactions < 150
    assert compactor.context_usage().tokens < 2000


def _check_turn(room: Room, name: str, before: int) -> None:
    context = room.context()
    assert orphans(context) == set()
    assert message_text(context[0]) == "task"
    notes = [m for m in context if message_text(m).startswith("[[Compaction")]
    assert len(notes) <= 1
    tree = ConversationTree(room.log.view(), room.log.cursor)
    assert tree.fork_admission_reason(room.log.cursor) is None
    if len(room.log.view()) > before:
        assert context[1] == notes[0]
        # The newest answer is always among what stays.
        assert name in message_text(context[-1]) or "counted" in message_text(
            context[-1]
        )
