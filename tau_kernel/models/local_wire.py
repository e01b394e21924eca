"""What a local model is sent and what it sends: OpenAI's chat completions as JSON.

The default model is too small for tools and is not told of them.

Source: https://platform.openai.com/docs/api-reference/chat/streaming
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, cast

from tau_kernel.messages import (
    AssistantMessage,
    JsonObject,
    JsonValue,
    Message,
    StopReason,
    Usage,
    UsageDict,
    message_text,
    zero_usage,
)

from .draft import Draft, tool_call_block
from .model import ErrorEvent, Model, ModelContext, StreamEvent, StreamOptions

__all__ = ["ChunkReader", "request_body"]

_DEFAULT_ANSWER: Final = 256
# Greedy decoding makes the smallest models repeat themselves without end.
_DEFAULT_TEMPERATURE: Final = 0.2
_SEED: Final = 0


class ChunkReader:
    """Reads the chunks of an OpenAI-style stream into events."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._draft = Draft(model)
        self._calls: dict[int, _PartialCall] = {}
        self._finish: str | None = None
        self._usage: UsageDict = zero_usage()
        self._response_id: str | None = None

    def read(self, chunk: JsonObject) -> Iterator[StreamEvent]:
        """Give the events that one chunk amounts to; an error is the last."""
        if "error" in chunk:
            yield self._refusal(cast("JsonObject", chunk["error"]))
            return
        self._response_id = cast("str | None", chunk.get("id")) or self._response_id
        usage = chunk.get("usage")
        if isinstance(usage, dict):
            self._usage = _usage(usage)
        for choice in cast("list[JsonObject]", chunk.get("choices") or []):
            self._finish = cast("str | None", choice.get("finish_reason"))
            yield from self._read_delta(cast("JsonObject", choice.get("delta") or {}))

    def last_event(self) -> StreamEvent:
        """Judge the whole answer: done, or cut short."""
        if self._finish is None:
            return ErrorEvent(message=f"{self._model.name!r} stopped before its end")
        for at in sorted(self._calls):
            call = self._calls[at]
            arguments = call.decoded()
            if arguments is None:
                return _truncated(call.name, self._finish)
            self._draft.add_tool_call(tool_call_block(call.id, call.name, arguments))
        stop: StopReason = "toolUse" if self._calls else "stop"
        if self._finish == "length":
            stop = "length"
        return self._draft.done(stop, self._usage, response_id=self._response_id)

    def _read_delta(self, delta: JsonObject) -> Iterator[StreamEvent]:
        thinking, text = delta.get("reasoning_content"), delta.get("content")
        if isinstance(thinking, str) and thinking:
            yield self._draft.add_thinking(thinking)
        if isinstance(text, str) and text:
            yield self._draft.add_text(text)
        for piece in cast("list[JsonObject]", delta.get("tool_calls") or []):
            call = self._calls.setdefault(cast("int", piece["index"]), _PartialCall())
            call.grow(piece)
            yield self._draft.add_tool_call(tool_call_block(call.id, call.name, {}))

    def _refusal(self, error: JsonObject) -> ErrorEvent:
        words = error.get("message")
        return ErrorEvent(
            message=f"the local model {self._model.name!r} refused: {words}\n"
            "Shorten the conversation, or use a model with a larger context."
        )


class _PartialCall:
    """A tool call that arrives in pieces."""

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self._arguments = ""

    def grow(self, piece: JsonObject) -> None:
        function = cast("JsonObject", piece.get("function") or {})
        self.id = self.id or cast("str", piece.get("id") or "")
        self.name += cast("str", function.get("name") or "")
        self._arguments += cast("str", function.get("arguments") or "")

    def decoded(self) -> JsonObject | None:
        """Give the arguments, or None where they are no JSON object."""
        try:
            arguments = json.loads(self._arguments or "{}")
        except ValueError:
            return None
        return arguments if isinstance(arguments, dict) else None


def _truncated(name: str, finish: str) -> ErrorEvent:
    return ErrorEvent(
        message=f"the call of tool {name!r} is not complete JSON; the answer ended "
        f"with {finish!r}\nAsk again with a larger max_tokens."
    )


def _usage(usage: Mapping[str, JsonValue]) -> UsageDict:
    details = cast("Mapping[str, int]", usage.get("prompt_tokens_details") or {})
    cached = details.get("cached_tokens", 0)
    return Usage(
        input_tokens=cast("int", usage["prompt_tokens"]) - cached,
        output_tokens=cast("int", usage["completion_tokens"]),
        cache_read_tokens=cached,
        total_tokens=cast("int", usage["total_tokens"]),
    ).to_dict()


def request_body(
    model: Model, context: ModelContext, options: StreamOptions
) -> JsonObject:
    """Make the body of the request, with defaults that suit the smallest models."""
    tools = context["tools"] if model.source else []
    temperature = options.temperature
    if temperature is None:
        temperature = model.temperature
    return {
        **model.extra,
        "messages": list(_wire(context["messages"], bool(tools))),
        "tools": [
            {"type": "function", "function": cast("JsonObject", dict(tool))}
            for tool in tools
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": options.max_tokens or model.max_tokens or _DEFAULT_ANSWER,
        "temperature": _DEFAULT_TEMPERATURE if temperature is None else temperature,
        "seed": _SEED if options.seed is None else options.seed,
    }


def _wire(messages: Iterable[Message], with_tools: bool) -> Iterator[JsonObject]:  # noqa: FBT001 - private
    for message in messages:
        match message["role"]:
            case "toolResult" if with_tools:
                yield {
                    "role": "tool",
                    "tool_call_id": message["tool_call_id"],
                    "content": _text(message),
                }
            case "toolResult":
                yield {"role": "user", "content": _text(message)}
            case "assistant":
                yield _assistant(message, with_tools)
            case role:
                yield {"role": role, "content": _text(message)}


def _assistant(message: AssistantMessage, with_tools: bool) -> JsonObject:  # noqa: FBT001 - private
    wire: JsonObject = {"role": "assistant", "content": message_text(message)}
    calls: list[JsonValue] = [
        {
            "id": block["id"],
            "type": "function",
            "function": {
                "name": block["name"],
                "arguments": json.dumps(block["arguments"]),
            },
        }
        for block in message["content"]
        if block["type"] == "toolCall"
    ]
    if calls and with_tools:
        wire["tool_calls"] = calls
    return wire


def _text(message: Message) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    has_image = any(block["type"] == "image" for block in content)
    return message_text(message) + (" [image]" if has_image else "")
