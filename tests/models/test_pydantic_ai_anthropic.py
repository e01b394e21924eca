from __future__ import annotations

import threading

from asking import ask, ask_and_abort, done, failed, prose
from openai_server import OpenAIServer, Piece

from tau_kernel.messages import (
    JsonObject,
    assistant_message,
    system_message,
    tool_result_message,
)
from tau_kernel.models import (
    Model,
    ModelSettings,
    ThinkingDeltaEvent,
    ToolSpec,
    resolve_model,
)


def model_of(server: OpenAIServer) -> Model:
    settings = ModelSettings(
        backend="anthropic",
        model="claude-haiku-4-5",
        base_url=server.base_url.removesuffix("/v1"),
        api_key="secret",
    )
    return resolve_model("mine", {"mine": settings})


def block(index: int, start: JsonObject, *deltas: JsonObject) -> list[Piece]:
    pieces: list[Piece] = [
        {"type": "content_block_start", "index": index, "content_block": start}
    ]
    pieces.extend(
        {"type": "content_block_delta", "index": index, "delta": delta}
        for delta in deltas
    )
    pieces.append({"type": "content_block_stop", "index": index})
    return pieces


def text_block(index: int, *texts: str) -> list[Piece]:
    deltas: list[JsonObject] = [{"type": "text_delta", "text": t} for t in texts]
    return block(index, {"type": "text", "text": ""}, *deltas)


START: JsonObject = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-haiku-4-5",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {
            "input_tokens": 10,
            "cache_read_input_tokens": 80,
            "cache_creation_input_tokens": 20,
            "output_tokens": 1,
        },
    },
}


def end(reason: str = "end_turn") -> list[Piece]:
    return [
        {
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": None},
            "usage": {"output_tokens": 9},
        },
        {"type": "message_stop"},
    ]


def test_text_and_usage_are_read(server: OpenAIServer) -> None:
    server.reply(START, *text_block(0, "Hel", "lo"), *end())
    events = ask(model_of(server), "hi")
    assert prose(events) == "Hello"
    usage = done(events).usage
    assert usage["input_tokens"] == 10
    assert usage["cache_read_tokens"] == 80
    assert usage["cache_write_tokens"] == 20
    assert usage["output_tokens"] == 9
    assert usage["total_tokens"] == 119
    assert done(events).final["response_id"] == "msg_1"


def test_thinking_keeps_its_signature_and_goes_back_with_it(
    server: OpenAIServer,
) -> None:
    thinking = block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "Hmm."},
        {"type": "signature_delta", "signature": "c2ln"},
    )
    server.reply(START, *thinking, *text_block(1, "Four"), *end())
    server.reply(START, *text_block(0, "Yes"), *end())
    first = ask(model_of(server), "2+2?")
    assert [e.delta for e in first if isinstance(e, ThinkingDeltaEvent)] == ["Hmm."]
    answer = done(first).final
    assert answer["content"][0] == {
        "type": "thinking",
        "thinking": "Hmm.",
        "thinking_signature": "c2ln",
    }
    ask(model_of(server), "2+2?", answer, "Sure?")
    sent = str(server.wait_for_request(2).body["messages"])
    assert "'signature': 'c2ln'" in sent


def test_a_tool_call_and_its_failed_result_make_the_round(server: OpenAIServer) -> None:
    tool: ToolSpec = {
        "name": "look",
        "description": "Looks.",
        "parameters": {"type": "object", "properties": {"at": {"type": "string"}}},
    }
    call = block(
        0,
        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}},
        {"type": "input_json_delta", "partial_json": '{"at": '},
        {"type": "input_json_delta", "partial_json": '"sky"}'},
    )
    server.reply(START, *call, *end("tool_use"))
    server.reply(START, *text_block(0, "Too bad"), *end())
    answer = done(
        ask(model_of(server), system_message("S"), "look", tools=[tool])
    ).final
    assert answer["stop_reason"] == "toolUse"
    made = answer["content"][0]
    assert made["type"] == "toolCall"
    assert (made["id"], made["arguments"]) == ("toolu_1", {"at": "sky"})
    result = tool_result_message(
        made, [{"type": "text", "text": "dark"}], is_error=True
    )
    ask(model_of(server), system_message("S"), "look", answer, result, tools=[tool])
    body = server.wait_for_request(2).body
    assert "'text': 'S'" in str(body["system"]) or body["system"] == "S"
    assert "'is_error': True" in str(body["messages"])
    assert "dark" in str(body["messages"])


def test_the_prompts_beginning_is_asked_to_be_cached(server: OpenAIServer) -> None:
    server.reply(START, *text_block(0, "ok"), *end())
    ask(model_of(server), system_message("S"), "hi")
    assert "cache_control" in str(server.wait_for_request().body)


def test_an_overloaded_service_may_be_retried(server: OpenAIServer) -> None:
    server.fail(529, "overloaded", headers={"Retry-After": "3"})
    error = failed(ask(model_of(server), "hi"))
    assert (error.status, error.retryable, error.retry_after) == (529, True, 3.0)


def test_a_stream_that_ends_early_is_no_complete_answer(server: OpenAIServer) -> None:
    server.reply(START, *text_block(0, "Hel"))
    assert failed(ask(model_of(server), "hi")).retryable


def test_a_stalled_answer_is_aborted_at_once(server: OpenAIServer) -> None:
    server.reply(START, *text_block(0, "Hel"), threading.Event())
    events, seconds = ask_and_abort(
        model_of(server), "hi", when=lambda has_text: has_text.wait(60)
    )
    assert seconds < 0.05
    assert prose(events) == "Hel"
    assert server.wait_for_request().gone.wait(10)
    assert server.wait_for_request().path == "/v1/messages"


def test_an_assistants_empty_text_is_not_sent(server: OpenAIServer) -> None:
    server.reply(START, *text_block(0, "ok"), *end())
    silent = assistant_message(
        [{"type": "text", "text": ""}], model="m", provider="p", api="echo"
    )
    ask(model_of(server), "hi", silent, "hello?")
    assert "'text': ''" not in str(server.wait_for_request().body)
