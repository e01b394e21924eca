"""What a message of a pi-style session is in the shapes of `tau_kernel.messages`.

Nothing is lost: what our shapes have no place for is given back beside the message.
Blocks keep keys that are unknown here, which no provider is sent; a block of an unknown
type goes to the rest, because a provider could not be sent it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias, cast, get_args

from tau_kernel.messages import JsonObject, JsonValue, StopReason, Usage

__all__ = ["Meaning", "blocks_of", "message_meaning"]

Content: TypeAlias = str | list[JsonValue]

_STOP_REASONS: Final = get_args(StopReason)
_INPUT: Final = frozenset({"text", "image"})
_ANSWER: Final = frozenset({"text", "thinking", "toolCall"})
_TOKENS: Final[Mapping[str, str]] = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cacheRead": "cache_read_tokens",
    "cacheWrite": "cache_write_tokens",
    "totalTokens": "total_tokens",
}
_PRICES: Final[Mapping[str, str]] = {
    "input": "input",
    "output": "output",
    "cacheRead": "cache_read",
    "cacheWrite": "cache_write",
    "total": "total",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What a record of a session means as an entry.

    Args:
        kind: The entry's ``type``.
        fields: The fields of that kind.
        rest: What of the record they do not hold.
        unknown_blocks: The types of blocks that went to the rest.
    """

    kind: str
    fields: JsonObject
    rest: JsonObject = field(default_factory=dict)
    unknown_blocks: tuple[str, ...] = ()


def message_meaning(message: JsonObject, timestamp: int) -> Meaning | None:
    """Give what a message means, or None where its role or shape is unknown.

    Args:
        message: As it is stored; the parts of it that are kept are shared.
        timestamp: When it was stored, in milliseconds since 1970.
    """
    said = message.get("timestamp")
    when = said if type(said) is int and said >= 0 else timestamp
    told = {"role"} | ({"timestamp"} if when is said else set())
    match message:
        case {"role": "user", "content": str() | list() as content}:
            return _user(message, content, when, told)
        case {"role": "assistant", "content": str() | list() as content}:
            return _answer(message, content, when, told)
        case {
            "role": "toolResult",
            "toolCallId": str(),
            "content": str() | list() as content,
        }:
            return _result(message, content, when, told)
        case {"role": "bashExecution", "command": str(), "output": str()}:
            return _command(message, when, told)
        case {
            "role": "custom" | "hookMessage",
            "customType": str(),
            "content": str() | list() as content,
        }:
            return _custom(message, content, when, told)
        case {"role": "branchSummary", "summary": str(summary)}:
            return _summary(message, f"[[Branch summary: {summary}]]", when, told)
        case {"role": "compactionSummary", "summary": str(summary)}:
            return _summary(message, f"[[Compaction summary: {summary}]]", when, told)
        case _:
            return None


def _meaning(
    message: JsonObject, said: JsonObject, told: set[str], unknown: list[JsonValue]
) -> Meaning:
    kind = "customMessage" if said["role"] == "custom" else "message"
    rest = {key: value for key, value in message.items() if key not in told}
    if unknown:
        rest["content"] = unknown
    fields: JsonObject = {"message": said}
    if kind == "customMessage":
        fields["customType"] = said["customType"]
    return Meaning(
        kind=kind, fields=fields, rest=rest, unknown_blocks=_types_of(unknown)
    )


def _types_of(blocks: Iterable[JsonValue]) -> tuple[str, ...]:
    return tuple(
        str(block.get("type")) if isinstance(block, dict) else type(block).__name__
        for block in blocks
    )


def _user(message: JsonObject, content: Content, when: int, told: set[str]) -> Meaning:
    kept, unknown = _input(content)
    said: JsonObject = {"role": "user", "content": kept, "timestamp": when}
    return _meaning(message, said, told | {"content"}, unknown)


def _answer(
    message: JsonObject, content: Content, when: int, told: set[str]
) -> Meaning:
    blocks, unknown = blocks_of(content, _ANSWER)
    calls = any(isinstance(b, dict) and b["type"] == "toolCall" for b in blocks)
    said: JsonObject = {"role": "assistant", "content": blocks}
    for name in ("api", "provider", "model"):
        said[name] = _text(message, name, told) or ""
    said["response_id"] = _text(message, "responseId", told)
    said["usage"] = _usage(message, told)
    stop = message.get("stopReason")
    if stop in _STOP_REASONS:
        told.add("stopReason")
    else:
        stop = "toolUse" if calls else "stop"
    said["stop_reason"] = stop
    said["error_message"] = _text(message, "errorMessage", told)
    said["timestamp"] = when
    return _meaning(message, said, told | {"content"}, unknown)


def _text(message: JsonObject, name: str, told: set[str]) -> str | None:
    value = message.get(name)
    if value is None or isinstance(value, str):
        told.add(name)
        return value
    return None


def _usage(message: JsonObject, told: set[str]) -> JsonValue:
    usage = message.get("usage")
    if not isinstance(usage, dict):
        return None
    told.add("usage")
    counts = {
        ours: count
        for theirs, ours in _TOKENS.items()
        if type(count := usage.get(theirs)) is int
    }
    cost = usage.get("cost")
    prices = cost if isinstance(cost, dict) else {}
    known = {
        ours: float(price)
        for theirs, ours in _PRICES.items()
        if type(price := prices.get(theirs)) in {int, float}
        and isinstance(price, int | float)
    }
    extra: JsonObject = {
        key: value
        for key, value in usage.items()
        if _TOKENS.get(key) not in counts and key != "cost"
    }
    if unpriced := {k: v for k, v in prices.items() if _PRICES.get(k) not in known}:
        extra["cost"] = unpriced
    elif cost is not None and not isinstance(cost, dict):
        extra["cost"] = cost
    # A usage record is a JSON object; a TypedDict cannot say so.
    made = Usage(**counts, cost=known, extra=extra).to_dict()
    return cast("JsonObject", made)


def _result(
    message: JsonObject, content: Content, when: int, told: set[str]
) -> Meaning:
    blocks, unknown = blocks_of(content, _INPUT)
    is_error = message.get("isError") is True
    if isinstance(message.get("isError"), bool):
        told.add("isError")
    said: JsonObject = {
        "role": "toolResult",
        "tool_call_id": message["toolCallId"],
        "tool_name": _text(message, "toolName", told) or "",
        "content": blocks,
        "details": message.get("details"),
        "is_error": is_error,
        "timestamp": when,
    }
    told |= {"toolCallId", "content", "details"}
    return _meaning(message, said, told, unknown)


def _custom(
    message: JsonObject, content: Content, when: int, told: set[str]
) -> Meaning:
    kept, unknown = _input(content)
    display = message.get("display", True)
    if isinstance(display, bool):
        told.add("display")
    said: JsonObject = {
        "role": "custom",
        "customType": message["customType"],
        "content": kept,
        "display": display is not False,
        "visibleToModel": True,
        "timestamp": when,
    }
    if "details" in message:
        said["details"] = message["details"]
    told |= {"customType", "content", "details"}
    return _meaning(message, said, told, unknown)


def _summary(message: JsonObject, text: str, when: int, told: set[str]) -> Meaning:
    blocks: list[JsonValue] = [{"type": "text", "text": text}]
    said: JsonObject = {"role": "user", "content": blocks, "timestamp": when}
    return _meaning(message, said, told | {"summary"}, [])


def _command(message: JsonObject, when: int, told: set[str]) -> Meaning:
    blocks: list[JsonValue] = [{"type": "text", "text": _command_text(message)}]
    said: JsonObject = {"role": "user", "content": blocks, "timestamp": when}
    if message.get("excludeFromContext") is True:
        said |= {
            "role": "custom",
            "customType": "bashExecution",
            "display": True,
            "visibleToModel": False,
        }
    # How it ended is told in words; the values stay beside them.
    return _meaning(message, said, told | {"command", "output"}, [])


def _command_text(message: JsonObject) -> str:
    output = str(message["output"]).rstrip("\n")
    parts = ["The user ran a shell command:", _fenced(str(message["command"]), "sh")]
    parts += ["It printed:", _fenced(output, "")] if output else ["It printed nothing."]
    code = message.get("exitCode")
    if message.get("cancelled") is True:
        parts.append("It was cancelled before its end.")
    elif type(code) is int and code:
        parts.append(f"It failed with exit code {code}.")
    if message.get("truncated") is True:
        whole = message.get("fullOutputPath")
        where = f"; the whole is in {whole}" if isinstance(whole, str) else ""
        parts.append(f"What it printed is cut{where}.")
    return "\n".join(parts)


def _fenced(text: str, language: str) -> str:
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _input(content: Content) -> tuple[Content, list[JsonValue]]:
    """Give what a person may say, text or blocks as it was, and the unknown blocks."""
    return (content, []) if isinstance(content, str) else blocks_of(content, _INPUT)


def blocks_of(
    content: Content, allowed: frozenset[str]
) -> tuple[list[JsonValue], list[JsonValue]]:
    """Give the blocks of a content in our shapes, and those that have none.

    Args:
        content: Blocks as they are stored, or one text.
        allowed: The types that may stand here.
    """
    if isinstance(content, str):
        return ([{"type": "text", "text": content}] if content else []), []
    kept: list[JsonValue] = []
    unknown: list[JsonValue] = []
    for block in content:
        ours = _block(block)
        if ours is None or ours["type"] not in allowed:
            unknown.append(block)
        else:
            kept.append(ours)
    return kept, unknown


def _block(block: JsonValue) -> JsonObject | None:
    if not isinstance(block, dict):
        return None
    match block:
        case {"type": "image", "data": str(), "mimeType": str()}:
            return _renamed(block, "mimeType", "mime_type")
        case {"type": "thinking", "thinking": str(), "thinkingSignature": str()}:
            return _renamed(block, "thinkingSignature", "thinking_signature")
        case (
            {"type": "text", "text": str()}
            | {"type": "thinking", "thinking": str()}
            | {"type": "toolCall", "id": str(), "name": str(), "arguments": dict()}
        ):
            return block
        case _:
            return None


def _renamed(block: JsonObject, theirs: str, ours: str) -> JsonObject:
    return {ours if key == theirs else key: value for key, value in block.items()}
