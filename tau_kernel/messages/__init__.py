"""Messages between people, models and tools, and how they become bytes.

What a message is (`message`), how tokens are counted (`usage`) or estimated
(`token_estimate`) and texts cut to size (`text_pieces`), how a running turn is told to
stop (`abort_signal`), and the one place where JSON text is made and read (`codec`).
Entries of the log belong to `tau_kernel.tree`.
"""

from __future__ import annotations

from .abort_signal import AbortSignal
from .codec import clean_json, clean_text, dump_line, load_line
from .message import (
    AssistantBlock,
    AssistantMessage,
    Block,
    CustomMessage,
    ImageBlock,
    JsonObject,
    JsonValue,
    Message,
    StopReason,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
    assistant_message,
    convert_to_llm,
    last_assistant_text,
    message_text,
    now_ms,
    system_message,
    tool_result_message,
    user_message,
)
from .text_pieces import cut_middle, text_pieces
from .token_estimate import estimate_tokens, estimated_tokens
from .usage import USAGE_FIELDS, Usage, UsageDict, sum_usage, zero_usage

__all__ = [
    "USAGE_FIELDS",
    "AbortSignal",
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
    "Usage",
    "UsageDict",
    "UserMessage",
    "assistant_message",
    "clean_json",
    "clean_text",
    "convert_to_llm",
    "cut_middle",
    "dump_line",
    "estimate_tokens",
    "estimated_tokens",
    "last_assistant_text",
    "load_line",
    "message_text",
    "now_ms",
    "sum_usage",
    "system_message",
    "text_pieces",
    "tool_result_message",
    "user_message",
    "zero_usage",
]
