"""What a working session reports, and the bus that carries the reports."""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, fields
from typing import Final, Literal, TypeAlias, TypedDict, cast, get_args

from tau_kernel.errors import CallerError
from tau_kernel.messages import (
    JsonObject,
    JsonValue,
    Message,
    ToolResultMessage,
    now_ms,
)

from .submission import SubmissionSource

__all__ = [
    "AgentEvent",
    "AgentEventType",
    "DeltaDict",
    "EndReason",
    "EventBus",
]

AgentEventType: TypeAlias = Literal[
    "agent_start",
    "agent_end",
    "turn_start",
    "turn_end",
    "message_start",
    "message_update",
    "message_end",
    "tool_execution_start",
    "tool_execution_update",
    "tool_execution_end",
]
EndReason: TypeAlias = Literal[
    "done", "terminate", "aborted", "max_turns", "repeat_tool_calls", "error"
]
_EVENT_TYPES: Final = frozenset(get_args(AgentEventType))


class DeltaDict(TypedDict):
    """What one ``message_update`` adds: which kind of block grew, and by what."""

    kind: Literal["text", "thinking", "toolCall"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEvent:
    """One report of a running turn.

    Args:
        type: What happened.
        timestamp: When, in milliseconds since 1970.
        message: The message that starts, grows or ends; cumulative while it grows.
        delta: On ``message_update``, what was added since the last one.
        entry_id: On ``message_end``, the stored entry, or None if none is kept.
        turn_index: Which completion of the run, from 0.
        tool_call_id: The call that a ``tool_execution_*`` event is about.
        tool_name: The tool of that call.
        args: The arguments of that call.
        result: What the tool gave so far, or gave: content blocks.
        details: On ``tool_execution_end``, what is for people only.
        is_error: Whether the tool or the run failed.
        blocked: Whether the call was refused before the tool ran.
        blocked_by: Who refused it.
        tool_results: On ``turn_end``, the answers of that turn's calls.
        messages: On ``agent_end``, what the run added.
        error: On a failed ``agent_end``, ``Type: message``.
        end_reason: On ``agent_end``, why the run ended.
        submission_id: The submission that drives the turn; None if none does.
        source: Its source.
        submitter: Its submitter.
        correlation: Its correlation; empty differs from None.
    """

    type: AgentEventType
    timestamp: int = field(default_factory=now_ms)
    message: Message | None = None
    delta: DeltaDict | None = None
    entry_id: str | None = None
    turn_index: int | None = None
    tool_call_id: str | None = None
    tool_name: str | None = None
    args: JsonObject | None = None
    result: JsonValue = None
    details: JsonValue = None
    is_error: bool = False
    blocked: bool = False
    blocked_by: str | None = None
    tool_results: tuple[ToolResultMessage, ...] | None = None
    messages: tuple[Message, ...] | None = None
    error: str | None = None
    end_reason: EndReason | None = None
    submission_id: str | None = None
    source: SubmissionSource | None = None
    submitter: str | None = None
    correlation: JsonObject | None = None

    def __post_init__(self) -> None:
        """Refuse a type outside the closed set, and a time before 1970."""
        if self.type not in _EVENT_TYPES:
            msg = f"{self.type!r} is no event type; take one of {sorted(_EVENT_TYPES)}"
            raise CallerError(msg)
        if self.timestamp < 0:
            msg = f"timestamp {self.timestamp!r} is negative; give milliseconds"
            raise CallerError(msg)

    def to_dict(self) -> JsonObject:
        """Give the event as JSON, every field named, tuples as lists."""
        record: dict[str, object] = {
            spec.name: getattr(self, spec.name) for spec in fields(self)
        }
        for name in ("tool_results", "messages"):
            value = record[name]
            record[name] = list(value) if isinstance(value, tuple) else None
        return cast("JsonObject", record)

    @classmethod
    def from_dict(cls, record: JsonObject) -> AgentEvent:
        """Build the event that `to_dict` wrote.

        Raises:
            CallerError: A field is unknown, or the type is unknown or missing.
        """
        known = {spec.name for spec in fields(cls)}
        if "type" not in record:
            msg = f"an event without a type; give one of {sorted(_EVENT_TYPES)}"
            raise CallerError(msg)
        if unknown := sorted(record.keys() - known):
            msg = f"an event has no field {unknown[0]!r}; it has {sorted(known)}"
            raise CallerError(msg)
        values: dict[str, object] = dict(record)
        for name in ("tool_results", "messages"):
            value = values.get(name)
            values[name] = tuple(value) if isinstance(value, list) else None
        build = cast("Callable[..., AgentEvent]", cls)
        return build(**values)


#: A listener; what it returns is awaited if it can be and otherwise ignored.
Listener: TypeAlias = Callable[..., object]
ErrorListener: TypeAlias = Callable[[Exception, str], object]


class EventBus:
    """Delivers events and channel calls to listeners, one after another.

    A listener that waits holds up the emitter: that is the back-pressure. One that
    raises never keeps the others from hearing; its exception goes to the error
    listeners, and to stderr where there are none.
    """

    def __init__(self) -> None:
        """Start with nobody listening."""
        self._listeners: dict[str, list[Listener]] = {}
        self._error_listeners: list[ErrorListener] = []

    def on(self, channel: str, handler: Listener) -> Callable[[], None]:
        """Call `handler` for each emission on `channel`.

        Args:
            channel: An event type, ``"all"`` for every event, or a channel's name.
            handler: Plain or async; called with the event or the channel's arguments.

        Returns:
            The function that takes the handler off again; calling it twice is fine.
        """
        self._listeners.setdefault(channel, []).append(handler)
        return _once(lambda: self.off(channel, handler))

    def off(self, channel: str, handler: Listener) -> None:
        """Take one registration of `handler` off `channel`, if there is one."""
        registered = self._listeners.get(channel, [])
        if handler in registered:
            registered.remove(handler)

    def on_error(self, listener: ErrorListener) -> Callable[[], None]:
        """Call `listener` with exception and channel when a handler raises."""
        self._error_listeners.append(listener)

        return _once(lambda: self._error_listeners.remove(listener))

    def has_listeners(self, channel: str) -> bool:
        """Whether somebody listens on `channel` itself; ``"all"`` does not count."""
        return bool(self._listeners.get(channel))

    async def emit(self, event: AgentEvent) -> None:
        """Deliver `event` to the listeners of its type, then to those of all."""
        for channel in (event.type, "all"):
            for handler in tuple(self._listeners.get(channel, ())):
                await self._deliver(channel, handler, (event,), {})

    async def emit_channel(self, name: str, *args: object, **kwargs: object) -> None:
        """Call the listeners of the channel `name` with these arguments."""
        for handler in tuple(self._listeners.get(name, ())):
            await self._deliver(name, handler, args, kwargs)

    async def _deliver(
        self,
        channel: str,
        handler: Listener,
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> None:
        try:
            outcome = handler(*args, **kwargs)
            if inspect.isawaitable(outcome):
                await cast("Awaitable[object]", outcome)
        except Exception as error:  # noqa: BLE001 - a boundary: listeners are strangers
            self.surface(error, channel)

    def surface(self, error: Exception, channel: str) -> None:
        """Report a failure of `channel` to the error listeners, or on stderr."""
        if not self._error_listeners:
            _print_failure(error, channel)
        for listener in tuple(self._error_listeners):
            try:
                listener(error, channel)
            except Exception as second:  # noqa: BLE001 - a reporter may fail as well
                _print_failure(error, channel)
                _print_failure(second, f"{channel} (error listener)")


def _once(undo: Callable[[], None]) -> Callable[[], None]:
    # A second call would end another registration of the same listener.
    open_undos = [undo]

    def end() -> None:
        if open_undos:
            open_undos.pop()()

    return end


def _print_failure(error: Exception, channel: str) -> None:
    sys.stderr.write(f"[τ] a listener of {channel!r} failed:\n")
    traceback.print_exception(error, file=sys.stderr)
