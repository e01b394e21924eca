"""What a summariser is asked, and what becomes of its answers."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest
from conversations import FakeWriter, answer, call, result_of, say, words

from tau_kernel.agent import (
    CompactionError,
    CompactionPreparation,
    CompactionResult,
    CompactionSettings,
    RetryPolicy,
    Summarizer,
    compact,
    compact_messages,
    load_prompts,
    prepare_compaction,
)
from tau_kernel.messages import (
    AbortSignal,
    AssistantMessage,
    JsonObject,
    Message,
    UsageDict,
    message_text,
    system_message,
    user_message,
)
from tau_kernel.models import (
    ApiKey,
    Model,
    ModelContext,
    StreamOptions,
    resolve_model,
)
from tau_kernel.tree import InMemorySessionLog, compaction_note

MODEL = Model(id="m", name="m", api="echo", provider="p", api_key=ApiKey("k"))
PROMPTS = load_prompts()


def _prepared(keep: int, *messages: Message) -> CompactionPreparation:
    log = InMemorySessionLog()
    for message in messages:
        log.append_message(message)
    preparation = prepare_compaction(
        log.view().context_entries(log.cursor),
        CompactionSettings(keep_recent_tokens=keep),
    )
    assert preparation is not None
    return preparation


TWO_TURNS = (user_message("q1"), say("a1"), user_message("q2"), say("a2"))
LONG_TURN = (
    user_message("q1"),
    say("a1"),
    user_message("q2"),
    answer(call("c1", "edit", "b.py")),
    result_of("c1", words("r1", 50), name="edit"),
    say("a2"),
)


def _summarizer(writer: FakeWriter, **more: object) -> Summarizer:
    plain = Summarizer(model=MODEL, prompts=PROMPTS, complete=writer)
    return replace(plain, **more)  # type: ignore[arg-type] # fields, by name


def _run(
    preparation: CompactionPreparation,
    summarizer: Summarizer,
    custom_instructions: str | None = None,
) -> CompactionResult:
    return asyncio.run(
        compact(preparation, summarizer, custom_instructions=custom_instructions)
    )


def _failure(preparation: CompactionPreparation, summarizer: Summarizer) -> str:
    with pytest.raises(CompactionError) as failure:
        _run(preparation, summarizer)
    return failure.value.code


def test_a_first_summary_is_asked_for_in_the_checkpoints_form() -> None:
    writer = FakeWriter(["  ## Goal\nAll.  "])
    result = _run(_prepared(20_000, *TWO_TURNS), _summarizer(writer))
    assert result.summary == "## Goal\nAll."
    (request,) = writer.requests
    assert request == (
        "<conversation>\n[user]: q1\n\n[assistant]: a1\n</conversation>\n\n"
        f"{PROMPTS.initial}"
    )
    assert writer.systems == [PROMPTS.system]
    assert result.usage["total_tokens"] == 3


def test_an_earlier_summary_is_handed_over_and_updated() -> None:
    log = InMemorySessionLog()
    writer = FakeWriter()
    preparation = _prepared(20_000, *TWO_TURNS)
    _run(
        replace(preparation, previous_summary="So far."),
        _summarizer(writer),
        "Name the colours.",
    )
    (request,) = writer.requests
    assert "<previous-summary>\nSo far.\n</previous-summary>" in request
    assert request.endswith(f"{PROMPTS.update}\n\nAdditional focus: Name the colours.")
    assert log.cursor is None


def test_a_divided_turn_takes_two_requests_at_the_same_time() -> None:
    arrived: list[str] = []
    both = asyncio.Event()

    async def complete(
        model: Model, context: ModelContext, options: StreamOptions
    ) -> AssistantMessage:
        request = message_text(context["messages"][1])
        arrived.append(request)
        if len(arrived) == 2:
            both.set()
        await asyncio.wait_for(both.wait(), 10)
        is_prefix = request.endswith(PROMPTS.turn_prefix)
        return say("the start" if is_prefix else "the rest", total=5)

    result = _run(
        _prepared(10, *LONG_TURN),
        Summarizer(model=MODEL, prompts=PROMPTS, complete=complete),
    )
    assert len(arrived) == 2
    assert result.summary == (
        "the rest\n\n---\n\n**Turn Context (split turn):**\n\nthe start\n\n"
        "<modified-files>\nb.py\n</modified-files>"
    )
    assert result.details.modified_files == ("b.py",)
    assert result.usage["total_tokens"] == 10


def test_a_divided_first_turn_keeps_the_earlier_summary_as_it_was() -> None:
    writer = FakeWriter(["the start"])
    preparation = _prepared(10, *LONG_TURN[2:])
    assert preparation.messages_to_summarize == ()
    result = _run(replace(preparation, previous_summary="So far."), _summarizer(writer))
    assert result.summary.startswith("So far.\n\n---\n\n")
    assert len(writer.requests) == 1


@pytest.mark.parametrize(
    ("reserve", "answer_limit", "window", "expected"),
    [
        (1000, 4096, 128_000, [800, 500]),
        (16_384, 4096, 128_000, [4096, 4096]),
        (16_384, 4096, 6000, [1500, 1500]),
    ],
)
def test_a_summary_is_bounded_by_reserve_model_and_window(
    reserve: int, answer_limit: int, window: int, expected: list[int]
) -> None:
    writer = FakeWriter()
    preparation = _prepared(10, *LONG_TURN)
    settings = replace(preparation.settings, reserve_tokens=reserve)
    model = replace(MODEL, max_tokens=answer_limit, context_window=window)
    _run(
        replace(preparation, settings=settings),
        _summarizer(writer, model=model, api_key="secret"),
    )
    assert [options.max_tokens for options in writer.options] == expected
    assert {options.api_key for options in writer.options} == {"secret"}


def test_what_does_not_fit_the_summarisers_window_is_read_in_parts() -> None:
    writer = FakeWriter()
    long = [user_message(words(f"q{n}", 500)) for n in range(20)]
    model = replace(MODEL, context_window=8000, max_tokens=500)
    result = _run(_prepared(1, *long), _summarizer(writer, model=model))
    assert 2 < len(writer.requests) <= 8
    assert result.summary == f"summary {len(writer.requests)}"
    first, second, *_ = writer.requests
    assert first.startswith('<conversation part="1 of ')
    assert first.endswith(PROMPTS.initial)
    assert "<previous-summary>\nsummary 1\n</previous-summary>" in second
    assert second.endswith(PROMPTS.update)
    read = "".join(writer.requests)
    assert all(f"[user]: q{n} " in read for n in range(19))
    assert result.usage["total_tokens"] == 3 * len(writer.requests)


def test_a_window_without_room_is_a_failure_before_a_model_is_asked() -> None:
    writer = FakeWriter()
    model = replace(MODEL, context_window=400)
    preparation = _prepared(1, user_message("x" * 9000), *TWO_TURNS)
    assert _failure(preparation, _summarizer(writer, model=model)) == (
        "summarization_failed"
    )
    assert writer.requests == []


def _scripted(folder: Path, *lines: JsonObject) -> Model:
    path = folder / "script.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines))
    return resolve_model(f"scripted:{path}")


@pytest.mark.parametrize("messages", [TWO_TURNS, LONG_TURN])
def test_an_abort_ends_the_work_at_once_and_quietly(
    tmp_path: Path, messages: tuple[Message, ...]
) -> None:
    stalling: JsonObject = {"text": "half", "stall": True}
    model = _scripted(tmp_path, stalling, stalling)
    signal = AbortSignal()
    summarizer = Summarizer(model=model, prompts=PROMPTS, signal=signal)
    complaints: list[object] = []

    async def abort_midway() -> str:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(context))
        work = asyncio.create_task(compact(_prepared(10, *messages), summarizer))
        loop.call_later(0.02, signal.abort)
        with pytest.raises(CompactionError) as failure:
            await asyncio.wait_for(work, 10)
        return failure.value.code

    assert asyncio.run(abort_midway()) == "aborted"
    assert complaints == []


def test_a_signal_that_was_raised_before_asks_nobody(tmp_path: Path) -> None:
    writer = FakeWriter()
    signal = AbortSignal()
    signal.abort()
    for messages in (TWO_TURNS, LONG_TURN):
        summarizer = _summarizer(writer, signal=signal)
        assert _failure(_prepared(10, *messages), summarizer) == "aborted"
    assert writer.requests == []


@pytest.mark.parametrize(
    "line", [{"text": " "}, {"text": "half", "error": "the server burns"}]
)
def test_a_summary_that_did_not_come_about_is_never_made_up(
    tmp_path: Path, line: JsonObject
) -> None:
    summarizer = Summarizer(model=_scripted(tmp_path, line), prompts=PROMPTS)
    assert _failure(_prepared(20_000, *TWO_TURNS), summarizer) == (
        "summarization_failed"
    )


def test_a_failure_that_may_pass_is_tried_again(tmp_path: Path) -> None:
    overloaded: JsonObject = {
        "error": {"message": "overloaded", "status": 529, "retry_after": 0}
    }
    model = _scripted(tmp_path, overloaded, overloaded, {"text": "at last"})
    summarizer = Summarizer(model=model, prompts=PROMPTS, retry=RetryPolicy(attempts=3))
    assert _run(_prepared(20_000, *TWO_TURNS), summarizer).summary == "at last"


def test_an_abort_ends_the_wait_for_another_attempt(tmp_path: Path) -> None:
    overloaded: JsonObject = {"error": {"message": "overloaded", "retry_after": 50}}
    signal = AbortSignal()
    summarizer = Summarizer(
        model=_scripted(tmp_path, overloaded), prompts=PROMPTS, signal=signal
    )

    async def abort_while_it_waits() -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(0.05, signal.abort)
        await asyncio.wait_for(compact(_prepared(20_000, *TWO_TURNS), summarizer), 10)

    with pytest.raises(CompactionError) as failure:
        asyncio.run(abort_while_it_waits())
    assert failure.value.code == "aborted"


def test_an_unknown_provider_is_a_failure_of_the_summary() -> None:
    model = Model(id="m", name="m", api="none", provider="p")
    summarizer = Summarizer(model=model, prompts=PROMPTS)
    assert _failure(_prepared(20_000, *TWO_TURNS), summarizer) == (
        "summarization_failed"
    )


def test_one_failed_request_of_two_fails_both_and_what_was_spent_counts() -> None:
    spent: list[UsageDict] = []

    async def complete(
        model: Model, context: ModelContext, options: StreamOptions
    ) -> AssistantMessage:
        if message_text(context["messages"][1]).endswith(PROMPTS.turn_prefix):
            return say(" ", total=7)
        await asyncio.Event().wait()
        raise AssertionError

    summarizer = Summarizer(
        model=MODEL,
        prompts=PROMPTS,
        complete=complete,
        bank=lambda usage, _: spent.append(usage),
    )
    assert _failure(_prepared(10, *LONG_TURN), summarizer) == "summarization_failed"
    assert [usage["total_tokens"] for usage in spent] == [7]


def test_a_summary_cut_at_its_limit_says_so() -> None:
    async def complete(
        model: Model, context: ModelContext, options: StreamOptions
    ) -> AssistantMessage:
        message = say("## Goal\nAll of")
        message["stop_reason"] = "length"
        return message

    summarizer = Summarizer(model=MODEL, prompts=PROMPTS, complete=complete)
    summary = _run(_prepared(20_000, *TWO_TURNS), summarizer).summary
    assert summary.startswith("## Goal\nAll of\n\n[The summary ends here")


def test_the_key_of_a_summariser_shows_nowhere() -> None:
    assert "secret" not in repr(_summarizer(FakeWriter(), api_key="secret"))


def test_a_heads_own_list_keeps_its_last_turn() -> None:
    messages: list[Message] = [system_message("task"), *TWO_TURNS]
    done = asyncio.run(
        compact_messages(
            messages,
            _summarizer(FakeWriter(["S"])),
            CompactionSettings(),
            custom_instructions="Be brief.",
        )
    )
    assert done is not None
    shorter, usage = done
    assert shorter == [messages[0], compaction_note("S"), *TWO_TURNS[2:]]
    assert usage["total_tokens"] == 3


def test_a_heads_own_list_is_compacted_again_from_its_summary() -> None:
    writer = FakeWriter(["S2"])
    messages: list[Message] = [compaction_note("S1"), *TWO_TURNS]
    done = asyncio.run(
        compact_messages(messages, _summarizer(writer), CompactionSettings())
    )
    assert done is not None
    assert done[0] == [compaction_note("S2"), *TWO_TURNS[2:]]
    (request,) = writer.requests
    assert "<previous-summary>\nS1\n</previous-summary>" in request
    assert "Compaction summary" not in request


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [system_message("task")],
        [user_message("q"), say("a")],
        [compaction_note("S"), user_message("q"), say("a")],
    ],
)
def test_a_heads_own_list_of_one_turn_is_left_alone(messages: list[Message]) -> None:
    writer = FakeWriter()
    work = compact_messages(messages, _summarizer(writer), CompactionSettings())
    assert asyncio.run(work) is None
    assert writer.requests == []
