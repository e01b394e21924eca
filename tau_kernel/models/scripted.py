r"""The provider that plays a script: JSON lines, one completion each.

A line may have ``text``, ``thinking``, ``tool_calls`` (a list of ``{"name",
"arguments"}``, an ``id`` if it matters), ``chunk_chars`` (characters of one event, 16
by default), ``delay_ms`` (milliseconds before each event but the first), ``usage``,
``stall`` (after its text, wait until aborted) and ``error`` (fail after its text): the
message, or ``{"message", "status", "retry_after"}``. Blank lines are skipped.

Within one process each request plays the next completion of its file, whoever asks.
A file that changed is read again and starts at its first line.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Final, cast

from tau_kernel.errors import ConfigError
from tau_kernel.messages import (
    USAGE_FIELDS,
    JsonObject,
    JsonValue,
    Message,
    Usage,
    UsageDict,
    load_line,
)

from .draft import Draft, estimated_usage, tool_call_block
from .model import (
    ErrorEvent,
    Model,
    ModelContext,
    StreamEvent,
    StreamOptions,
    is_retryable_status,
)

__all__ = ["check_script", "stream"]

_DEFAULT_CHUNK: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class _ScriptedCall:
    name: str
    arguments: JsonObject
    id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Completion:
    line: int
    text: str = ""
    thinking: str = ""
    tool_calls: tuple[_ScriptedCall, ...] = ()
    chunk_chars: int = _DEFAULT_CHUNK
    delay: float = 0.0
    usage: Mapping[str, int] = field(default_factory=dict)
    error: ErrorEvent | None = None
    stall: bool = False


@dataclass(slots=True)
class _Reel:
    """A script that was read, and which completion comes next."""

    fingerprint: tuple[int, int]
    completions: tuple[_Completion, ...]
    position: int = 0


class _Projector:
    """The scripts of this process, each at its own place."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reels: dict[Path, _Reel] = {}

    def next_completion(self, path: Path) -> _Completion | ErrorEvent:
        with self._lock:
            fingerprint = _fingerprint(path)
            reel = self._reels.get(path)
            if reel is None or reel.fingerprint != fingerprint:
                reel = _Reel(fingerprint, check_script(path))
                self._reels[path] = reel
            if reel.position == len(reel.completions):
                return _exhausted(path, len(reel.completions))
            reel.position += 1
            return reel.completions[reel.position - 1]


#: Which line comes next is a fact of the process: a model is a value and keeps none.
_PROJECTOR: Final = _Projector()


async def stream(
    model: Model, context: ModelContext, options: StreamOptions
) -> AsyncGenerator[StreamEvent, None]:
    """Play the next completion of the script that `model` names.

    Raises:
        ConfigError: The script is missing or has a bad line; none was played.
    """
    del options  # The script decides; the dispatch watches the abort signal.
    completion = _PROJECTOR.next_completion(Path(model.source))
    if isinstance(completion, ErrorEvent):
        yield completion
        return
    draft = Draft(model)
    first = True
    for event in _played(draft, completion):
        if not first:
            await asyncio.sleep(completion.delay)
        first = False
        yield event
    if completion.stall:
        await asyncio.Event().wait()
    if completion.error is not None:
        yield completion.error
        return
    for event in _called(draft, completion, context["messages"]):
        yield event
    usage = _usage(completion, context["messages"])
    yield draft.done("toolUse" if completion.tool_calls else "stop", usage)


def check_script(path: Path) -> tuple[_Completion, ...]:
    """Read a script whole.

    Raises:
        ConfigError: It cannot be read, or a line is no completion; the message names
            file and line.
    """
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise _unreadable(path, error) from error
    return tuple(
        _completion(line, number, f"{path}:{number}")
        for number, line in enumerate(lines, start=1)
        if line.strip()
    )


def _played(draft: Draft, completion: _Completion) -> Iterator[StreamEvent]:
    for chunk in _chunks(completion.thinking, completion.chunk_chars):
        yield draft.add_thinking(chunk)
    for chunk in _chunks(completion.text, completion.chunk_chars):
        yield draft.add_text(chunk)


def _called(
    draft: Draft, completion: _Completion, messages: list[Message]
) -> Iterator[StreamEvent]:
    taken = {
        block["id"]
        for message in messages
        if message["role"] == "assistant"
        for block in message["content"]
        if block["type"] == "toolCall"
    }
    for number, call in enumerate(completion.tool_calls, start=1):
        call_id = call.id or _free_id(f"call-{completion.line}-{number}", taken)
        taken.add(call_id)
        yield draft.add_tool_call(tool_call_block(call_id, call.name, call.arguments))


def _free_id(wanted: str, taken: set[str]) -> str:
    # A script that starts again in the same conversation must not repeat an id.
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted}-{number}"
    return name


def _chunks(text: str, size: int) -> Iterator[str]:
    for start in range(0, len(text), size):
        yield text[start : start + size]


def _usage(completion: _Completion, messages: list[Message]) -> UsageDict:
    if not completion.usage:
        return estimated_usage(messages, completion.thinking + completion.text)
    counts = dict(completion.usage)
    if "total_tokens" not in counts:
        counts["total_tokens"] = sum(counts.values())
    return Usage(**counts).to_dict()  # type: ignore[arg-type] # keys were checked


def _completion(line: bytes, number: int, where: str) -> _Completion:
    try:
        record = load_line(line)
    except ValueError as error:
        msg = f"{where} is no JSON object: {error}\nEach line is one completion."
        raise ConfigError(msg) from error
    _check(record, _FIELDS, where)
    return _Completion(
        line=number,
        text=cast("str", record.get("text", "")),
        thinking=cast("str", record.get("thinking", "")),
        tool_calls=_tool_calls(record.get("tool_calls", []), where),
        chunk_chars=_at_least(record.get("chunk_chars", _DEFAULT_CHUNK), 1, where),
        delay=_at_least(record.get("delay_ms", 0), 0, where) / 1000,
        usage=_counts(record.get("usage", {}), where),
        error=_error(record.get("error"), where),
        stall=cast("bool", record.get("stall", False)),
    )


_NUMBER: Final = (int, float)
_FIELDS: Final[Mapping[str, type | tuple[type, ...]]] = {
    "text": str,
    "thinking": str,
    "tool_calls": list,
    "chunk_chars": int,
    "delay_ms": int,
    "usage": dict,
    "error": (str, dict),
    "stall": bool,
}
_CALL_FIELDS: Final[Mapping[str, type | tuple[type, ...]]] = {
    "name": str,
    "arguments": dict,
    "id": str,
}
_ERROR_FIELDS: Final[Mapping[str, type | tuple[type, ...]]] = {
    "message": str,
    "status": int,
    "retry_after": _NUMBER,
}
_USAGE_TYPES: Final[Mapping[str, type | tuple[type, ...]]] = dict.fromkeys(
    USAGE_FIELDS, int
)


def _check(
    record: JsonObject, fields: Mapping[str, type | tuple[type, ...]], where: str
) -> None:
    for key, value in record.items():
        if key not in fields:
            near = get_close_matches(key, fields, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"use {', '.join(fields)}."
            msg = f"{where} has the unknown key {key!r}; {hint}"
            raise ConfigError(msg)
        if not isinstance(value, fields[key]):
            msg = f"{where} has {key!r} of the wrong type: {value!r}"
            raise ConfigError(msg)


def _tool_calls(calls: JsonValue, where: str) -> tuple[_ScriptedCall, ...]:
    made = []
    for call in cast("list[JsonValue]", calls):
        if not isinstance(call, dict) or "name" not in call:
            msg = f"{where} has a tool call without a name: {call!r}"
            raise ConfigError(msg)
        _check(call, _CALL_FIELDS, where)
        made.append(
            _ScriptedCall(
                name=cast("str", call["name"]),
                arguments=cast("JsonObject", call.get("arguments", {})),
                id=cast("str | None", call.get("id")),
            )
        )
    return tuple(made)


def _at_least(number: JsonValue, least: int, where: str) -> int:
    value = cast("int", number)
    if value < least:
        msg = f"{where} has the number {value}, which must be at least {least}"
        raise ConfigError(msg)
    return value


def _counts(usage: JsonValue, where: str) -> Mapping[str, int]:
    counts = cast("JsonObject", usage)
    _check(counts, _USAGE_TYPES, where)
    return cast("Mapping[str, int]", counts)


def _error(error: JsonValue, where: str) -> ErrorEvent | None:
    if error is None:
        return None
    if isinstance(error, str):
        return ErrorEvent(message=error)
    record = cast("JsonObject", error)
    _check(record, _ERROR_FIELDS, where)
    if "message" not in record:
        msg = f"{where} has an error without a message: {record!r}"
        raise ConfigError(msg)
    status = cast("int | None", record.get("status"))
    retry_after = cast("float | None", record.get("retry_after"))
    return ErrorEvent(
        message=cast("str", record["message"]),
        status=status,
        retry_after=retry_after,
        retryable=retry_after is not None
        or (status is not None and is_retryable_status(status)),
    )


def _fingerprint(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError as error:
        raise _unreadable(path, error) from error
    return found.st_mtime_ns, found.st_size


def _unreadable(path: Path, error: OSError) -> ConfigError:
    return ConfigError(
        f"the script {str(path)!r} cannot be read: {error.strerror}\n"
        "Name an existing file of JSON lines: scripted:FILE."
    )


def _exhausted(path: Path, count: int) -> ErrorEvent:
    return ErrorEvent(
        message=f"the script {str(path)!r} is exhausted: all of its {count} "
        "completions were played\nAdd a line to it, or restart the kernel to begin "
        "again."
    )
