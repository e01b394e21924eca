"""The messages of a conversation, as the JSON objects they are stored as.

A message is told apart by its ``role``, a block by its ``type``. Keys inside messages
are snake_case but for ``toolCall`` and ``customType``, as the v1 session format has it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Literal, NotRequired, TypeAlias, TypedDict, cast

from .usage import JsonObject, JsonValue, UsageDict

__all__ = [
    "AssistantBlock",
    "AssistantMessage",
    "Block",
    "CustomMessage",
    "ImageBlock",
    "JsonObject",
    "JsonValue",
    "Message",
    "StopReason",
    "SystemMessage",
    "TextBlock",
    "ThinkingBlock",
    "ToolCallBlock",
    "ToolResultMessage",
    "UserMessage",
    "assistant_message",
    "convert_to_llm",
    "last_assistant_text",
    "message_text",
    "now_ms",
    "system_message",
    "tool_result_message",
    "user_message",
]

StopReason: TypeAlias = Literal["stop", "length", "toolUse", "error", "aborted"]


class TextBlock(TypedDict):
    """Prose."""

    type: Literal["text"]
    text: str


class ImageBlock(TypedDict):
    """A picture: its bytes in base64 and their media type."""

    type: Literal["image"]
    data: str
    mime_type: str


class ThinkingBlock(TypedDict):
    """What a model thought before it answered."""

    type: Literal["thinking"]
    thinking: str
    cached_tokens: NotRequired[int]
    thinking_signature: NotRequired[str]


class ToolCallBlock(TypedDict):
    """A model's wish to run a tool; ``id`` is unique within the conversation."""

    type: Literal["toolCall"]
    id: str
    name: str
    arguments: JsonObject
    provider_signature: NotRequired[JsonObject]


InputBlock: TypeAlias = TextBlock | ImageBlock
AssistantBlock: TypeAlias = TextBlock | ThinkingBlock | ToolCallBlock
Block: TypeAlias = TextBlock | ImageBlock | ThinkingBlock | ToolCallBlock


class SystemMessage(TypedDict):
    """What the model is told before the conversation."""

    role: Literal["system"]
    content: str | list[TextBlock]
    timestamp: NotRequired[int]


class UserMessage(TypedDict):
    """What a person, or something that speaks for one, said."""

    role: Literal["user"]
    content: str | list[InputBlock]
    timestamp: NotRequired[int]


class AssistantMessage(TypedDict):
    """One completion of a model; ``timestamp`` is in milliseconds since 1970."""

    role: Literal["assistant"]
    content: list[AssistantBlock]
    api: str
    provider: str
    model: str
    response_id: str | None
    usage: UsageDict | None
    stop_reason: StopReason
    error_message: str | None
    timestamp: int


class ToolResultMessage(TypedDict):
    """What a tool gave back; ``details`` is for people and never for the model."""

    role: Literal["toolResult"]
    tool_call_id: str
    tool_name: str
    content: list[InputBlock]
    details: JsonValue
    is_error: bool
    timestamp: int


class CustomMessage(TypedDict):
    """A message of an extension, shown or sent as its two flags say."""

    role: Literal["custom"]
    customType: str
    content: str | list[InputBlock]
    display: bool
    visibleToModel: bool
    details: NotRequired[JsonValue]
    timestamp: NotRequired[int]


Message: TypeAlias = (
    SystemMessage | UserMessage | AssistantMessage | ToolResultMessage | CustomMessage
)


def now_ms() -> int:
    """Give the wall clock's time in whole milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def system_message(text: str) -> SystemMessage:
    """Make the message that tells the model its task."""
    return {"role": "system", "content": text, "timestamp": now_ms()}


def user_message(text: str, images: Iterable[ImageBlock] | None = None) -> UserMessage:
    """Make a user's message of one text block and any images after it."""
    blocks: list[InputBlock] = [{"type": "text", "text": text}, *(images or ())]
    return {"role": "user", "content": blocks, "timestamp": now_ms()}


def assistant_message(
    content: list[AssistantBlock],
    *,
    model: str,
    provider: str,
    api: str,
    stop_reason: StopReason = "stop",
    usage: UsageDict | None = None,
    error_message: str | None = None,
    response_id: str | None = None,
) -> AssistantMessage:
    """Make a model's message; its blocks are kept, not copied."""
    return {
        "role": "assistant",
        "content": content,
        "api": api,
        "provider": provider,
        "model": model,
        "response_id": response_id,
        "usage": usage,
        "stop_reason": stop_reason,
        "error_message": error_message,
        "timestamp": now_ms(),
    }


def tool_result_message(
    call: ToolCallBlock,
    content: list[InputBlock],
    *,
    is_error: bool = False,
    details: JsonValue = None,
) -> ToolResultMessage:
    """Make the message that answers `call`."""
    return {
        "role": "toolResult",
        "tool_call_id": call["id"],
        "tool_name": call["name"],
        "content": content,
        "details": details,
        "is_error": is_error,
        "timestamp": now_ms(),
    }


def message_text(message: Message) -> str:
    """Give the text blocks of a message, joined with nothing between them."""
    content = message["content"]
    if isinstance(content, str):
        return content
    return "".join(block["text"] for block in content if block["type"] == "text")


def last_assistant_text(messages: Sequence[Message]) -> str | None:
    """Give the text of the newest answer, stripped, or None where there is none.

    A message that was aborted before it said anything does not count as an answer.
    Thinking and tool calls are no text: a message of those alone gives None.
    """
    for message in reversed(messages):
        if message["role"] != "assistant":
            continue
        if message["stop_reason"] == "aborted" and not message["content"]:
            continue
        return message_text(message).strip() or None
    return None


def convert_to_llm(messages: Iterable[Message]) -> list[Message]:
    """Give what a model may read: custom messages become users', or nothing.

    The other messages are passed on as they are, not copied.
    """
    wire: list[Message] = []
    for message in messages:
        if message["role"] != "custom":
            wire.append(message)
        elif message.get("visibleToModel", True) is not False:
            wire.append(_as_user(message))
    return wire


def _as_user(message: CustomMessage) -> UserMessage:
    content = message["content"]
    blocks = (
        [cast("InputBlock", {"type": "text", "text": content})]
        if isinstance(content, str)
        else content
    )
    user: UserMessage = {"role": "user", "content": blocks}
    if "timestamp" in message:
        user["timestamp"] = message["timestamp"]
    return user
