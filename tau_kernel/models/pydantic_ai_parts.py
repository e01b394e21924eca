"""Messages as pydantic-ai's parts, and its events as ours; imports pydantic-ai.

Thinking and signatures go back only to the service that they came from: to another
one they would be noise, or be refused.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, cast

from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    SystemPromptPart,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.usage import RequestUsage

from tau_kernel.messages import (
    AssistantBlock,
    AssistantMessage,
    Block,
    JsonObject,
    JsonValue,
    Message,
    StopReason,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    Usage,
    UsageDict,
    clean_json,
    load_line,
    message_text,
)

from .draft import Draft, estimated_usage, tool_call_block
from .model import ErrorEvent, Model, StreamEvent

__all__ = ["AnswerReader", "to_requests"]

#: Where OpenAI-compatible services put thinking, which has no signature there.
_THINKING_FIELDS: Final = ("reasoning", "reasoning_content")


def to_requests(
    messages: Sequence[Message], model: Model, system: str
) -> list[ModelMessage]:
    """Map a conversation.

    Args:
        messages: As `convert_to_llm` gives them, without custom ones.
        model: The one that is asked; what it thought is sent back to it.
        system: What pydantic-ai calls the service, for the parts' records.
    """
    mapped: list[ModelMessage] = []
    asked: list[ModelRequestPart] = []
    for message in messages:
        if message["role"] == "assistant":
            if asked:
                mapped.append(ModelRequest(parts=asked))
                asked = []
            answered = list(_answered(message, model, system))
            if answered:
                mapped.append(ModelResponse(parts=answered, provider_name=system))
        else:
            asked.append(_asked(message, is_first=not mapped and not asked))
    if asked:
        mapped.append(ModelRequest(parts=asked))
    return mapped


def _asked(message: Message, *, is_first: bool) -> ModelRequestPart:
    match message["role"]:
        case "system" if is_first:
            return SystemPromptPart(message_text(message))
        case "toolResult":
            return _returned(message)
        case _:
            content = message["content"]
            if isinstance(content, str):
                return UserPromptPart(content)
            inputs = list(_inputs(content))
            if len(inputs) == 1 and isinstance(inputs[0], str):
                # Some compatible services take plain prompts as strings only.
                return UserPromptPart(inputs[0])
            return UserPromptPart(inputs)


def _returned(message: ToolResultMessage) -> ToolReturnPart:
    inputs = list(_inputs(message["content"]))
    has_image = any(isinstance(item, BinaryContent) for item in inputs)
    return ToolReturnPart(
        tool_name=message["tool_name"],
        tool_call_id=message["tool_call_id"],
        content=inputs if has_image else message_text(message),
        outcome="failed" if message["is_error"] else "success",
    )


def _inputs(blocks: Iterable[Block]) -> Iterator[str | BinaryContent]:
    for block in blocks:
        if block["type"] == "text":
            yield block["text"]
        elif block["type"] == "image":
            data = base64.b64decode(block["data"])
            yield BinaryContent(data, media_type=block["mime_type"])


def _answered(
    message: AssistantMessage, model: Model, system: str
) -> Iterator[ModelResponsePart]:
    is_own = message["api"] == model.api and message["provider"] == model.provider
    for block in message["content"]:
        match block["type"]:
            case "text":
                # Services refuse an empty text.
                if block["text"]:
                    yield TextPart(block["text"])
            case "thinking":
                if is_own and block.get("thinking_signature"):
                    yield _thought(block, system)
            case "toolCall":
                yield _called(block, system if is_own else None)


def _thought(block: ThinkingBlock, system: str) -> ThinkingPart:
    signature = block["thinking_signature"]
    if signature in _THINKING_FIELDS:
        return ThinkingPart(block["thinking"], id=signature, provider_name=system)
    return ThinkingPart(
        block["thinking"],
        # Anthropic's name of thinking that it shows to nobody.
        id=None if block["thinking"] else "redacted_thinking",
        signature=signature,
        provider_name=system,
    )


def _called(block: ToolCallBlock, own_system: str | None) -> ToolCallPart:
    signature = block.get("provider_signature") if own_system else None
    return ToolCallPart(
        tool_name=block["name"],
        args=cast("dict[str, object]", block["arguments"]),
        tool_call_id=block["id"],
        provider_name=own_system if signature else None,
        provider_details=cast("dict[str, object]", signature) if signature else None,
    )


class AnswerReader:
    """Turns the events of one answer into ours."""

    def __init__(self, model: Model, asked: Sequence[Message]) -> None:
        """Start an answer of `model` to the messages `asked`."""
        self._model = model
        self._asked = asked
        self._draft = Draft(model)
        self._calls: dict[int, ToolCallBlock] = {}

    def read(self, event: ModelResponseStreamEvent) -> Iterator[StreamEvent]:
        """Give the events that one of pydantic-ai's amounts to; maybe none."""
        match event:
            case PartStartEvent(part=TextPart(content=text)) if text:
                yield self._draft.add_text(text)
            case PartStartEvent(part=ThinkingPart(content=text)) if text:
                yield self._draft.add_thinking(text)
            case PartStartEvent(part=ToolCallPart() as part):
                call = tool_call_block(part.tool_call_id, part.tool_name, {})
                self._calls[event.index] = call
                yield self._draft.add_tool_call(call)
            case PartDeltaEvent(delta=TextPartDelta(content_delta=text)) if text:
                yield self._draft.add_text(text)
            case PartDeltaEvent(delta=ThinkingPartDelta(content_delta=text)) if text:
                yield self._draft.add_thinking(text)
            case PartDeltaEvent(delta=ToolCallPartDelta()):
                yield self._draft.add_tool_call(self._calls[event.index])
            case _:
                # The end of a part, or a kind of part that nobody asked for.
                return

    def last_event(self, response: ModelResponse) -> StreamEvent:
        """Judge the whole answer: done, cut short, or refused."""
        if _was_cut(response, self._model):
            return ErrorEvent(
                message=f"the answer of model {self._model.name!r} broke off before "
                "its end: the service closed the connection\nRun the cell again.",
                retryable=True,
            )
        if response.finish_reason in ("content_filter", "error"):
            return self._refused(response)
        content: list[AssistantBlock] = []
        for part in response.parts:
            match part:
                case TextPart(content=text) if text:
                    content.append({"type": "text", "text": text})
                case ThinkingPart() if part.content or part.signature:
                    content.append(_thinking_block(part))
                case ToolCallPart():
                    call = _complete_call(part)
                    if call is None:
                        return self._truncated(part, response)
                    content.append(call)
        stop: StopReason = "stop"
        if any(block["type"] == "toolCall" for block in content):
            stop = "toolUse"
        elif response.finish_reason == "length":
            stop = "length"
        return self._draft.done(
            stop,
            self._usage(response),
            content=content,
            response_id=response.provider_response_id,
        )

    def _refused(self, response: ModelResponse) -> ErrorEvent:
        words = (response.provider_details or {}).get("refusal") or "no reason given"
        return ErrorEvent(
            message=f"model {self._model.name!r} refused to answer "
            f"({response.finish_reason}): {' '.join(str(words).split())[:500]}\n"
            "Ask otherwise, or use another model."
        )

    def _truncated(self, part: ToolCallPart, response: ModelResponse) -> ErrorEvent:
        return ErrorEvent(
            message=f"the call of tool {part.tool_name!r} is not complete JSON; the "
            f"answer of {self._model.name!r} ended with {response.finish_reason!r}\n"
            "Ask again with a larger max_tokens."
        )

    def _usage(self, response: ModelResponse) -> UsageDict:
        usage = response.usage
        if not usage.input_tokens and not usage.output_tokens:
            written = "".join(
                part.content
                for part in response.parts
                if isinstance(part, TextPart | ThinkingPart)
            )
            return estimated_usage(self._asked, written)
        return Usage(
            input_tokens=usage.input_tokens
            - usage.cache_read_tokens
            - usage.cache_write_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_tokens=usage.cache_write_tokens,
            total_tokens=usage.input_tokens + usage.output_tokens,
            cost=self._priced(usage) or self._cost(response),
            extra=_details(usage),
        ).to_dict()

    def _priced(self, usage: RequestUsage) -> dict[str, float]:
        """Give what the answer cost by the configured prices; empty without any."""
        prices = self._model.prices
        if not prices:
            return {}
        cached = usage.cache_read_tokens, usage.cache_write_tokens
        tokens = {
            "input": usage.input_tokens - sum(cached),
            "output": usage.output_tokens,
            "cache_read": cached[0],
            "cache_write": cached[1],
        }
        cost = {
            kind: count * prices.get(kind, prices.get("input", 0.0)) / 1_000_000
            for kind, count in tokens.items()
        }
        return {**cost, "total": sum(cost.values())}

    def _cost(self, response: ModelResponse) -> dict[str, float]:
        # A service of the user's own has prices of its own.
        if self._model.base_url is not None:
            return {}
        try:
            price = response.cost()
        except (LookupError, ValueError):
            # No list price is known: the record says nothing rather than zero.
            return {}
        return {
            "input": float(price.input_price),
            "output": float(price.output_price),
            "total": float(price.total_price),
        }


def _was_cut(response: ModelResponse, model: Model) -> bool:
    if (response.provider_details or {}).get("finish_reason") is not None:
        return False
    # For Chat Completions, pydantic-ai puts "stop" where the service said nothing.
    return model.api == "openai-completions" or response.finish_reason is None


def _thinking_block(part: ThinkingPart) -> ThinkingBlock:
    block: ThinkingBlock = {"type": "thinking", "thinking": part.content}
    signature = part.signature or (part.id if part.id in _THINKING_FIELDS else None)
    if signature:
        block["thinking_signature"] = signature
    return block


def _complete_call(part: ToolCallPart) -> ToolCallBlock | None:
    """Give the whole call, or None where its arguments are no JSON object."""
    arguments: JsonValue
    if isinstance(part.args, str) and part.args.strip():
        try:
            arguments = load_line(part.args.encode())
        except ValueError:
            return None
    else:
        arguments = clean_json(part.args or {}, f"arguments of {part.tool_name}")
    call = tool_call_block(
        part.tool_call_id, part.tool_name, cast("JsonObject", arguments)
    )
    if part.provider_details:
        signature = clean_json(part.provider_details, "provider_details")
        call["provider_signature"] = cast("JsonObject", signature)
    return call


def _details(usage: RequestUsage) -> dict[str, JsonValue]:
    return {name: count for name, count in usage.details.items() if count}
