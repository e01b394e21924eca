from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Final

import pytest
from asking import ask, ask_and_abort, context_of, done, failed, prose

from tau_kernel.messages import (
    JsonObject,
    assistant_message,
    system_message,
    tool_result_message,
)
from tau_kernel.models import (
    Model,
    ModelSettings,
    StreamEvent,
    StreamOptions,
    TextDeltaEvent,
    ToolCallDeltaEvent,
    ToolSpec,
    complete_simple,
    local_model_path,
    resolve_model,
    stream_simple,
)
from tau_kernel.models.local_process import WORKERS
from tau_kernel.models.local_wire import ChunkReader, request_body

LOCAL: Final = resolve_model("local")
OTHER: Final = resolve_model("local:/models/other.gguf")
TOOL: Final[ToolSpec] = {
    "name": "look",
    "description": "Looks.",
    "parameters": {"type": "object"},
}

needs_model = pytest.mark.local_model


def with_room(tokens: int) -> Model:
    """Give the local model in a process that no other test uses."""
    settings = ModelSettings(backend="local", context_window=tokens)
    return resolve_model("mine", {"mine": settings})


def chunk(finish: str | None = None, **delta: object) -> JsonObject:
    return {"choices": [{"delta": delta, "finish_reason": finish}]}  # type: ignore[dict-item] # JSON of the test's own


@needs_model
def test_tokens_arrive_one_by_one_and_are_counted() -> None:
    events = ask(LOCAL, "Tell me a story.", options=StreamOptions(max_tokens=16))
    deltas = [event.delta for event in events if isinstance(event, TextDeltaEvent)]
    assert len(deltas) > 3
    assert "".join(deltas) == prose(events)
    usage = done(events).usage
    assert usage["input_tokens"] + usage["cache_read_tokens"] > 3
    assert usage["output_tokens"] == 16
    assert done(events).final["stop_reason"] == "length"


@needs_model
def test_the_same_seed_at_temperature_zero_gives_the_same_text() -> None:
    options = StreamOptions(temperature=0.0, seed=3, max_tokens=24)
    first = prose(ask(LOCAL, "Name a colour.", options=options))
    second = prose(ask(LOCAL, "Name a colour.", options=options))
    assert first == second
    assert first


@needs_model
def test_an_answer_is_aborted_at_once_and_kept() -> None:
    events, seconds = ask_and_abort(
        LOCAL, "Write a long tale.", when=lambda has_text: has_text.wait(60)
    )
    assert seconds < 0.05
    assert done(events).final["stop_reason"] == "aborted"
    assert prose(events)


@needs_model
def test_the_model_answers_after_an_abort() -> None:
    ask_and_abort(LOCAL, "Write a long tale.", when=lambda has_text: has_text.wait(60))
    assert prose(ask(LOCAL, "Hi.", options=StreamOptions(max_tokens=4)))


@needs_model
@pytest.mark.slow
def test_loading_is_aborted_at_once_and_begins_again_later() -> None:
    model = with_room(1024)
    events, seconds = ask_and_abort(model, "Hi.", when=lambda _: None)
    assert seconds < 0.05
    assert done(events).final["content"] == []
    assert prose(ask(model, "Hi.", options=StreamOptions(max_tokens=4)))


@needs_model
def test_questions_at_once_are_answered_one_after_another() -> None:
    options = StreamOptions(max_tokens=6)

    async def both() -> list[str]:
        asked = (complete_simple(LOCAL, context_of(q), options) for q in ("A?", "B?"))
        answers = await asyncio.wait_for(asyncio.gather(*asked), 120)
        return [answer["stop_reason"] for answer in answers]

    assert len(asyncio.run(both())) == 2


@needs_model
def test_a_conversation_larger_than_the_context_is_refused() -> None:
    error = failed(ask(LOCAL, "word " * 6000))
    assert "context" in error.message
    assert not error.retryable


@needs_model
@pytest.mark.slow
def test_a_file_that_is_no_model_is_an_error_naming_it(tmp_path: Path) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"no model")
    error = failed(ask(resolve_model(f"local:{path}"), "hi"))
    assert str(path) in error.message
    assert "GGUF" in error.message


@needs_model
@pytest.mark.slow
def test_a_process_that_is_killed_is_an_error_and_another_one_starts() -> None:
    model = with_room(2048)
    path = local_model_path()
    assert path is not None
    worker = WORKERS.worker(path, model.context_window)

    async def kill_at_first_text() -> list[StreamEvent]:
        events = []
        stream = stream_simple(model, context_of("Write a long tale."))
        async with aclosing(stream) as answer:
            async for event in answer:
                events.append(event)
                worker.kill()
        return events

    events = asyncio.run(asyncio.wait_for(kill_at_first_text(), 120))
    assert "process ended" in failed(events).message
    assert prose(ask(model, "Hi.", options=StreamOptions(max_tokens=4)))


def test_a_file_that_is_not_there_is_named_with_what_to_do(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    error = failed(ask(resolve_model(f"local:{tmp_path / 'none.gguf'}"), "hi"))
    assert "none.gguf" in error.message
    assert "local:FILE.gguf" in error.message


def test_the_default_model_is_told_of_no_tools() -> None:
    body = request_body(LOCAL, context_of("hi", tools=[TOOL]), StreamOptions())
    assert body["tools"] == []


def test_a_larger_model_is_told_of_tools_calls_and_results() -> None:
    answer = assistant_message(
        [{"type": "toolCall", "id": "c", "name": "look", "arguments": {"at": 1}}],
        model="m",
        provider="local",
        api="local",
    )
    call = answer["content"][0]
    assert call["type"] == "toolCall"
    result = tool_result_message(call, [{"type": "text", "text": "dark"}])
    context = context_of(system_message("S"), "hi", answer, result, tools=[TOOL])
    body = request_body(OTHER, context, StreamOptions())
    assert body["tools"] == [{"type": "function", "function": TOOL}]
    assert body["messages"] == [
        {"role": "system", "content": "S"},
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {
                    "id": "c",
                    "type": "function",
                    "function": {"name": "look", "arguments": '{"at": 1}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "c", "content": "dark"},
    ]


def test_the_options_win_over_the_models_defaults() -> None:
    options = StreamOptions(temperature=0.0, seed=9, max_tokens=5)
    body = request_body(LOCAL, context_of("hi"), options)
    assert (body["temperature"], body["seed"], body["max_tokens"]) == (0.0, 9, 5)


def test_a_tool_call_is_read_from_its_pieces() -> None:
    reader = ChunkReader(OTHER)
    pieces: list[JsonObject] = [
        {"index": 0, "id": "c", "function": {"name": "look", "arguments": '{"a'}},
        {"index": 0, "function": {"arguments": 't": 2}'}},
    ]
    events = [
        event for piece in pieces for event in reader.read(chunk(tool_calls=[piece]))
    ]
    assert all(isinstance(event, ToolCallDeltaEvent) for event in events)
    events.extend(reader.read(chunk("tool_calls")))
    last = done([reader.last_event()])
    assert last.final["stop_reason"] == "toolUse"
    assert last.final["content"] == [
        {"type": "toolCall", "id": "c", "name": "look", "arguments": {"at": 2}}
    ]


def test_a_tool_call_cut_by_the_limit_is_reported() -> None:
    reader = ChunkReader(OTHER)
    piece: JsonObject = {"index": 0, "id": "c", "function": {"name": "look"}}
    piece["function"] = {"name": "look", "arguments": '{"a'}
    list(reader.read(chunk(tool_calls=[piece])))
    list(reader.read(chunk("length")))
    assert "'look'" in failed([reader.last_event()]).message


def test_an_answer_without_an_end_is_an_error() -> None:
    reader = ChunkReader(OTHER)
    list(reader.read(chunk(content="Hel")))
    assert "before its end" in failed([reader.last_event()]).message
