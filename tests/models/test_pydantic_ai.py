from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from contextlib import aclosing
from typing import Final

import pytest
from asking import ask, ask_and_abort, context_of, done, failed, prose
from openai_server import DROP, OpenAIServer, delta, finish, tool_call

from tau_kernel.errors import ConfigError
from tau_kernel.messages import (
    AssistantMessage,
    ImageBlock,
    JsonObject,
    assistant_message,
    system_message,
    tool_result_message,
    user_message,
)
from tau_kernel.models import (
    ErrorEvent,
    Model,
    ModelSettings,
    StreamOptions,
    TextDeltaEvent,
    ThinkingDeltaEvent,
    ToolCallDeltaEvent,
    ToolSpec,
    resolve_model,
    stream_simple,
)

WEATHER: Final[ToolSpec] = {
    "name": "weather",
    "description": "Tells the weather.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}
#: One transparent pixel.
PIXEL: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAA"
    "AABJRU5ErkJggg=="
)


def model_of(server: OpenAIServer, **settings: object) -> Model:
    fields: dict[str, object] = {
        "backend": "openai",
        "model": "some-model",
        "base_url": server.base_url,
        "api_key": "secret",
    }
    configured = ModelSettings(**(fields | settings))  # type: ignore[arg-type] # a test's own fields
    return resolve_model("mine", {"mine": configured})


def sent_messages(server: OpenAIServer) -> list[JsonObject]:
    messages = server.wait_for_request().body["messages"]
    assert isinstance(messages, list)
    return [message for message in messages if isinstance(message, dict)]


def of_this_model(message: AssistantMessage) -> AssistantMessage:
    message["api"], message["provider"] = "openai-completions", "openai"
    return message


def test_text_arrives_piece_by_piece_and_whole(server: OpenAIServer) -> None:
    server.say("Hel", "lo")
    events = ask(model_of(server), "hi")
    deltas = [event.delta for event in events if isinstance(event, TextDeltaEvent)]
    assert deltas == ["Hel", "lo"]
    assert prose(events) == "Hello"
    assert done(events).final["stop_reason"] == "stop"
    assert done(events).final["response_id"] == "chatcmpl-1"


def test_each_partial_is_the_whole_answer_so_far(server: OpenAIServer) -> None:
    server.say("Hel", "lo")
    events = ask(model_of(server), "hi")
    partials = [
        event.partial["content"]
        for event in events
        if isinstance(event, TextDeltaEvent)
    ]
    assert partials == [
        [{"type": "text", "text": "Hel"}],
        [{"type": "text", "text": "Hello"}],
    ]


def test_a_piece_is_given_before_the_next_one_is_sent(server: OpenAIServer) -> None:
    gate = threading.Event()
    server.reply(delta(content="one"), gate, delta(content="two"), *finish())

    async def first_then_rest() -> list[str]:
        seen = []
        async with aclosing(
            stream_simple(model_of(server), context_of("hi"))
        ) as events:
            async for event in events:
                if isinstance(event, TextDeltaEvent):
                    seen.append(event.delta)
                    gate.set()
        return seen

    assert asyncio.run(asyncio.wait_for(first_then_rest(), 60)) == ["one", "two"]


def test_reasoning_becomes_thinking_before_the_text(server: OpenAIServer) -> None:
    server.reply(
        delta(reasoning_content="Let me "),
        delta(reasoning_content="see."),
        delta(content="Four"),
        *finish(),
    )
    events = ask(model_of(server), "2+2?")
    thought = [event.delta for event in events if isinstance(event, ThinkingDeltaEvent)]
    assert thought == ["Let me ", "see."]
    assert done(events).final["content"] == [
        {
            "type": "thinking",
            "thinking": "Let me see.",
            "thinking_signature": "reasoning_content",
        },
        {"type": "text", "text": "Four"},
    ]


def test_tool_calls_arrive_in_pieces_and_end_whole(server: OpenAIServer) -> None:
    server.reply(
        delta(content="Looking."),
        tool_call(0, "", call_id="call-a", name="weather"),
        tool_call(0, '{"city": '),
        tool_call(0, '"Bern"}'),
        tool_call(1, '{"city": "Ulm"}', call_id="call-b", name="weather"),
        *finish("tool_calls"),
    )
    events = ask(model_of(server), "weather?", tools=[WEATHER])
    grown = [event for event in events if isinstance(event, ToolCallDeltaEvent)]
    assert len(grown) == 4
    assert grown[0].partial["content"][-1] == {
        "type": "toolCall",
        "id": "call-a",
        "name": "weather",
        "arguments": {},
    }
    final = done(events).final
    assert final["stop_reason"] == "toolUse"
    assert [
        (block["id"], block["name"], block["arguments"])
        for block in final["content"]
        if block["type"] == "toolCall"
    ] == [
        ("call-a", "weather", {"city": "Bern"}),
        ("call-b", "weather", {"city": "Ulm"}),
    ]


def test_a_tool_call_cut_by_the_limit_is_reported_and_not_mended(
    server: OpenAIServer,
) -> None:
    server.reply(
        tool_call(0, '{"city": "Be', call_id="call-a", name="weather"),
        *finish("length"),
    )
    error = failed(ask(model_of(server), "weather?", tools=[WEATHER]))
    assert "'weather'" in error.message
    assert "max_tokens" in error.message
    assert not error.retryable


def test_an_answer_cut_by_the_limit_says_so(server: OpenAIServer) -> None:
    server.reply(delta(content="Once upon"), *finish("length"))
    events = ask(model_of(server), "a tale")
    assert done(events).final["stop_reason"] == "length"


def test_usage_tells_cached_tokens_from_fresh_ones(server: OpenAIServer) -> None:
    server.reply(delta(content="x"), *finish(asked=100, answered=9, cached=60))
    events = ask(model_of(server), "hi")
    usage = done(events).usage
    assert usage["input_tokens"] == 40
    assert usage["cache_read_tokens"] == 60
    assert usage["output_tokens"] == 9
    assert usage["total_tokens"] == 109
    assert done(events).final["usage"] == usage


def test_configured_prices_give_the_cost_of_an_answer(server: OpenAIServer) -> None:
    server.reply(delta(content="x"), *finish(asked=100, answered=9, cached=60))
    priced = model_of(server, prices={"input": 2, "output": 10, "cache_read": 0.5})
    cost = done(ask(priced, "hi")).usage["cost"]
    assert cost["input"] == pytest.approx(40 * 2 / 1e6)
    assert cost["cache_read"] == pytest.approx(60 * 0.5 / 1e6)
    assert cost["output"] == pytest.approx(9 * 10 / 1e6)
    assert cost["total"] == pytest.approx(sum(cost.values()) - cost["total"])


def test_an_answer_of_a_service_without_prices_tells_no_cost(
    server: OpenAIServer,
) -> None:
    server.reply(delta(content="x"), *finish(asked=100, answered=9, cached=60))
    assert done(ask(model_of(server), "hi")).usage["cost"] == {}


def test_usage_is_estimated_where_the_service_counts_nothing(
    server: OpenAIServer,
) -> None:
    last, _usage = finish()
    server.reply(delta(content="four"), last)
    usage = done(ask(model_of(server), "hi")).usage
    assert usage["output_tokens"] == 1
    assert usage["extra"] == {"estimated": True}


def test_the_request_carries_what_was_asked_for(server: OpenAIServer) -> None:
    server.say("ok")
    options = StreamOptions(temperature=0.5, seed=7, max_tokens=33)
    ask(model_of(server), "hi", tools=[WEATHER], options=options)
    request = server.wait_for_request()
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == "Bearer secret"
    body = request.body
    assert (body["model"], body["stream"]) == ("some-model", True)
    assert (body["temperature"], body["seed"], body["max_tokens"]) == (0.5, 7, 33)
    assert body["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "weather",
                "description": "Tells the weather.",
                "parameters": WEATHER["parameters"],
            },
        }
    ]


def test_fields_that_nobody_gave_are_not_sent(server: OpenAIServer) -> None:
    server.say("ok")
    ask(model_of(server), "hi")
    body = server.wait_for_request().body
    assert not {"temperature", "seed", "tools", "reasoning_effort"} & set(body)
    assert body["max_tokens"] == 4096


def test_reasoning_is_asked_for_where_the_model_can(server: OpenAIServer) -> None:
    server.say("ok")
    options = StreamOptions(reasoning="low")
    ask(model_of(server, reasoning=True), "hi", options=options)
    assert server.wait_for_request().body["reasoning_effort"] == "low"


def test_a_conversation_is_sent_in_order(server: OpenAIServer) -> None:
    server.say("ok")
    answer = of_this_model(
        assistant_message(
            [
                {"type": "text", "text": "Looking."},
                {
                    "type": "toolCall",
                    "id": "call-a",
                    "name": "weather",
                    "arguments": {"city": "Bern"},
                },
            ],
            model="some-model",
            provider="openai",
            api="openai-completions",
        )
    )
    call = answer["content"][1]
    assert call["type"] == "toolCall"
    result = tool_result_message(
        call, [{"type": "text", "text": "no such city"}], is_error=True
    )
    ask(
        model_of(server), system_message("Be brief."), "weather?", answer, result, "So?"
    )
    messages = sent_messages(server)
    assert [message["role"] for message in messages] == [
        "system",
        "user",
        "assistant",
        "tool",
        "user",
    ]
    assert messages[0]["content"] == "Be brief."
    assert messages[2]["content"] == "Looking."
    assert messages[2]["tool_calls"] == [
        {
            "id": "call-a",
            "type": "function",
            "function": {"name": "weather", "arguments": '{"city":"Bern"}'},
        }
    ]
    assert messages[3]["tool_call_id"] == "call-a"
    assert "no such city" in str(messages[3]["content"])


def test_thinking_goes_back_to_the_service_it_came_from(server: OpenAIServer) -> None:
    server.say("ok")
    answer = assistant_message(
        [
            {
                "type": "thinking",
                "thinking": "Hmm.",
                "thinking_signature": "reasoning_content",
            },
            {"type": "text", "text": "Four"},
        ],
        model="m",
        provider="openai",
        api="openai-completions",
    )
    ask(model_of(server), "2+2?", answer, "Sure?")
    assert sent_messages(server)[1]["reasoning_content"] == "Hmm."


def test_the_thinking_of_another_service_is_left_out(server: OpenAIServer) -> None:
    server.say("ok")
    answer = assistant_message(
        [
            {"type": "thinking", "thinking": "Hmm.", "thinking_signature": "sig"},
            {"type": "text", "text": "Four"},
        ],
        model="m",
        provider="anthropic",
        api="anthropic-messages",
    )
    ask(model_of(server), "2+2?", answer, "Sure?")
    assert "Hmm." not in str(sent_messages(server))


def test_an_image_is_sent_as_a_data_url(server: OpenAIServer) -> None:
    server.say("a pixel")
    image: ImageBlock = {"type": "image", "data": PIXEL, "mime_type": "image/png"}
    ask(model_of(server), user_message("What is this?", [image]))
    content = sent_messages(server)[0]["content"]
    assert isinstance(content, list)
    assert content[0] == {"type": "text", "text": "What is this?"}
    assert isinstance(content[1], dict)
    assert isinstance(content[1]["image_url"], dict)
    assert content[1]["image_url"]["url"] == f"data:image/png;base64,{PIXEL}"


def test_an_image_that_a_tool_gave_reaches_the_model(server: OpenAIServer) -> None:
    server.say("a pixel")
    answer = assistant_message(
        [{"type": "toolCall", "id": "c", "name": "look", "arguments": {}}],
        model="m",
        provider="openai",
        api="openai-completions",
    )
    call = answer["content"][0]
    assert call["type"] == "toolCall"
    result = tool_result_message(
        call, [{"type": "image", "data": PIXEL, "mime_type": "image/png"}]
    )
    ask(model_of(server), "look", answer, result)
    assert PIXEL in str(sent_messages(server))


def test_a_rate_limit_may_be_retried_after_what_the_service_says(
    server: OpenAIServer,
) -> None:
    server.fail(429, "slow down", headers={"Retry-After": "7"})
    error = failed(ask(model_of(server), "hi"))
    assert (error.status, error.retryable, error.retry_after) == (429, True, 7.0)
    assert "slow down" in error.message


def test_an_exhausted_account_is_no_rate_limit(server: OpenAIServer) -> None:
    server.fail(429, "pay first", code="insufficient_quota")
    error = failed(ask(model_of(server), "hi"))
    assert not error.retryable
    assert "pay first" in error.message


@pytest.mark.parametrize(
    ("status", "retryable"),
    [(400, False), (401, False), (404, False), (500, True), (503, True)],
)
def test_a_status_says_whether_to_try_again(
    server: OpenAIServer, status: int, *, retryable: bool
) -> None:
    server.fail(status, "the reason")
    error = failed(ask(model_of(server), "hi"))
    assert (error.status, error.retryable) == (status, retryable)
    assert "the reason" in error.message


def test_one_request_is_one_attempt(server: OpenAIServer) -> None:
    server.fail(500, "broken")
    ask(model_of(server), "hi")
    assert len(server.requests) == 1


def test_a_dropped_connection_may_be_retried(server: OpenAIServer) -> None:
    server.reply(delta(content="Hel"), DROP)
    events = ask(model_of(server), "hi")
    assert [e.delta for e in events if isinstance(e, TextDeltaEvent)] == ["Hel"]
    assert failed(events).retryable


def test_a_stream_that_ends_without_a_reason_is_no_complete_answer(
    server: OpenAIServer,
) -> None:
    server.reply(delta(content="Hel"))
    error = failed(ask(model_of(server), "hi"))
    assert "broke off" in error.message
    assert error.retryable


def test_an_error_inside_the_stream_is_an_error(server: OpenAIServer) -> None:
    broken: JsonObject = {"error": {"message": "it burnt", "code": "server_error"}}
    server.reply(delta(content="Hel"), broken)
    error = failed(ask(model_of(server), "hi"))
    assert "it burnt" in error.message
    assert error.retryable


def test_a_filtered_answer_is_an_error(server: OpenAIServer) -> None:
    server.reply(*finish("content_filter"))
    assert "content_filter" in failed(ask(model_of(server), "hi")).message


def test_a_service_that_is_not_there_may_be_retried_and_is_named() -> None:
    with OpenAIServer() as server:
        model = model_of(server)
    error = failed(ask(model, "hi"))
    assert error.retryable
    assert str(model.base_url) in error.message


def test_a_silent_service_ends_with_the_timeout(server: OpenAIServer) -> None:
    server.reply(delta(content="Hel"), threading.Event())
    error = failed(ask(model_of(server, request_timeout=0.1), "hi"))
    assert error.retryable


def test_a_stalled_answer_is_aborted_at_once_and_kept(server: OpenAIServer) -> None:
    server.reply(delta(content="Hel"), threading.Event())
    events, seconds = ask_and_abort(
        model_of(server), "hi", when=lambda has_text: has_text.wait(60)
    )
    assert seconds < 0.05
    assert done(events).final["stop_reason"] == "aborted"
    assert prose(events) == "Hel"
    assert server.wait_for_request().gone.wait(10)


def test_a_request_without_any_answer_is_aborted_at_once(server: OpenAIServer) -> None:
    server.reply(threading.Event(), delta(content="Hel"))
    events, seconds = ask_and_abort(
        model_of(server), "hi", when=lambda _: server.wait_for_request()
    )
    assert seconds < 0.05
    assert done(events).final["content"] == []
    assert server.wait_for_request().gone.wait(10)


def test_leaving_a_stream_closes_its_connection(server: OpenAIServer) -> None:
    server.reply(delta(content="Hel"), threading.Event())

    async def leave() -> None:
        stream = stream_simple(model_of(server), context_of("hi"))
        async with aclosing(stream) as events:
            async for _event in events:
                return

    asyncio.run(asyncio.wait_for(leave(), 60))
    assert server.wait_for_request().gone.wait(10)


@pytest.mark.parametrize(
    ("name", "variable"),
    [("openai:gpt-5-mini", "OPENAI_API_KEY"), ("anthropic:x", "ANTHROPIC_API_KEY")],
)
def test_a_missing_key_is_named_with_its_place_and_what_to_do(
    name: str, variable: str
) -> None:
    error = failed(ask(resolve_model(name), "hi"))
    assert repr(name) in error.message
    assert variable in error.message
    assert "config.json" in error.message
    assert not error.retryable


def test_the_options_key_wins_over_the_models(server: OpenAIServer) -> None:
    server.say("ok")
    ask(model_of(server), "hi", options=StreamOptions(api_key="other"))
    assert server.wait_for_request().headers["authorization"] == "Bearer other"


def test_a_key_comes_from_the_variable_that_the_model_names(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "from-there")
    server.say("ok")
    ask(model_of(server, api_key=None, api_key_env="MY_KEY"), "hi")
    assert server.wait_for_request().headers["authorization"] == "Bearer from-there"


def test_a_key_is_not_sent_to_an_address_it_was_not_given_for(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "for-openai-alone")
    server.say("ok")
    ask(model_of(server, api_key=None), "hi")
    assert "for-openai-alone" not in str(server.wait_for_request().headers)


def test_an_unknown_service_suggests_the_nearest() -> None:
    error = failed(ask(resolve_model("antropic:claude"), "hi"))
    assert isinstance(error, ErrorEvent)
    assert "did you mean 'anthropic'" in error.message


def test_a_service_whose_package_is_missing_says_what_to_install() -> None:
    options = StreamOptions(api_key="k")
    error = failed(ask(resolve_model("google:gemini"), "hi", options=options))
    assert "pip install" in error.message


def test_an_api_that_nobody_serves_is_refused() -> None:
    model = Model(id="m", name="m", api="carrier-pigeon", provider="p")
    with pytest.raises(ConfigError, match="carrier-pigeon"):
        ask(model, "hi")


def test_importing_the_models_imports_no_provider() -> None:
    heavy = ("pydantic_ai", "openai", "anthropic", "xllamacpp", "httpx", "httpx2")
    code = (
        "import sys, tau_kernel.models\n"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"
