"""What a model is, what it is asked, and the events in which it answers.

Values alone: nothing here talks to a provider. `stream` chooses the provider and
`draft` builds the events.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, TypeAlias, TypedDict

from tau_kernel.messages import (
    AbortSignal,
    AssistantMessage,
    JsonObject,
    JsonValue,
    Message,
    UsageDict,
)

__all__ = [
    "ApiKey",
    "DoneEvent",
    "ErrorEvent",
    "Model",
    "ModelContext",
    "Provider",
    "ReasoningLevel",
    "StreamEvent",
    "StreamOptions",
    "TextDeltaEvent",
    "ThinkingDeltaEvent",
    "ToolCallDeltaEvent",
    "ToolSpec",
    "is_retryable_status",
]

#: The APIs that ask no service.
_FREE_APIS: Final = frozenset({"echo", "scripted", "local", "replay"})

ReasoningLevel: TypeAlias = Literal["off", "minimal", "low", "medium", "high", "xhigh"]


class ApiKey:
    """A secret that neither a repr nor a JSON encoder gives away."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        """Hide `text`."""
        self._text = text

    def reveal(self) -> str:
        """Give the secret itself, for the request alone."""
        return self._text

    def __repr__(self) -> str:
        """Say that there is a key, not which."""
        return "ApiKey(hidden)"

    def __eq__(self, other: object) -> bool:
        """Whether both hide the same text."""
        return isinstance(other, ApiKey) and other._text == self._text

    def __hash__(self) -> int:
        """Hash by the hidden text."""
        return hash(self._text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model and the way to reach it.

    Args:
        id: The provider's own name of it, such as ``gpt-5-mini``.
        name: What the user calls it; `resolve_model` of this name gives it again.
        api: The key of its provider among `PROVIDERS`.
        provider: Whose service it is, for people and for the record.
        base_url: Where the service is, if not at its usual place.
        context_window: Tokens that request and answer share.
        max_tokens: Tokens that one answer may have, unless the options say.
        reasoning: Whether it can think before it answers.
        temperature: Used where the options give none.
        request_timeout: Seconds that the service may stay silent.
        source: The script or GGUF file, for providers that read one.
        api_key_env: The environment variable that holds the key.
        api_key: The key itself, where the configuration holds it.
        extra: Fields added to the body of a request, as JSON.
        prices: US dollars for a million tokens, by ``input``, ``output``,
            ``cache_read`` and ``cache_write``; empty to go by public price lists.
    """

    id: str
    name: str
    api: str
    provider: str
    base_url: str | None = None
    context_window: int = 128_000
    max_tokens: int = 4096
    reasoning: bool = False
    temperature: float | None = None
    request_timeout: float | None = None
    source: str = ""
    api_key_env: str | None = None
    api_key: ApiKey | None = None
    extra: Mapping[str, JsonValue] = field(default_factory=dict, hash=False)
    prices: Mapping[str, float] = field(default_factory=dict, hash=False)

    @property
    def is_free(self) -> bool:
        """Whether it runs on this machine, so that asking it costs no money."""
        return self.api in _FREE_APIS


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """What one request wants otherwise than its model's defaults.

    Args:
        temperature: From 0 upward; providers cap it at 1 or 2.
        max_tokens: Tokens that the answer may have.
        seed: Makes sampling repeatable where the provider can.
        reasoning: How hard to think.
        api_key: Wins over the model's own key and its environment variable.
        abort_signal: Ends the stream when raised.
    """

    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    reasoning: ReasoningLevel | None = None
    api_key: str | None = field(default=None, repr=False)
    abort_signal: AbortSignal | None = None


class ToolSpec(TypedDict):
    """A tool as a model sees it; ``parameters`` is a JSON Schema of type object."""

    name: str
    description: str
    parameters: JsonObject


class ModelContext(TypedDict):
    """What a model reads: the messages in order and the tools it may call."""

    messages: list[Message]
    tools: list[ToolSpec]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDeltaEvent:
    """More prose; `partial` is the whole answer so far."""

    delta: str
    partial: AssistantMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingDeltaEvent:
    """More thinking; `partial` is the whole answer so far."""

    delta: str
    partial: AssistantMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallDeltaEvent:
    """A tool call began or grew; its arguments are empty until they are complete."""

    partial: AssistantMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class DoneEvent:
    """The answer is complete, or was aborted; the last event."""

    final: AssistantMessage
    usage: UsageDict


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorEvent:
    """The provider failed; the last event.

    Args:
        message: The provider's words and what to do, in at most three lines.
        retry_after: Seconds that the provider asked to wait.
        retryable: Whether the same request may succeed later.
        status: The HTTP status, where there was one.
    """

    message: str
    retry_after: float | None = None
    retryable: bool = False
    status: int | None = None


StreamEvent: TypeAlias = (
    TextDeltaEvent | ThinkingDeltaEvent | ToolCallDeltaEvent | DoneEvent | ErrorEvent
)


class Provider(Protocol):
    """A module or object that answers requests for the models of one API."""

    def stream(
        self, model: Model, context: ModelContext, options: StreamOptions
    ) -> AsyncGenerator[StreamEvent, None]:
        """Give the events of one answer, a `DoneEvent` or `ErrorEvent` last.

        A provider need not watch the abort signal: when it is raised, the generator
        is cancelled where it waits, or closed, and must let go of its connection
        or thread without waiting for the other side.

        Raises:
            ConfigError: The request cannot be made; `stream_simple` turns it into
                an `ErrorEvent`.
        """
        ...


_TOO_MANY = 429
_TIMED_OUT = 408
_SERVER_ERRORS = range(500, 600)


def is_retryable_status(status: int) -> bool:
    """Whether a request that got this HTTP status may succeed later."""
    return status in (_TIMED_OUT, _TOO_MANY) or status in _SERVER_ERRORS
