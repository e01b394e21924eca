"""From the events of a turn to the outputs of a cell.

An answer is a sequence of displays, or of plain text where a client cannot update
displays. `AnswerWriter` gathers what arrives and sends it in few messages: the first
token at once, then as often as the budget of messages and bytes allows. Whose answer
it is, and how a message gets to Jupyter, is the affair of the `Outlet` it is given.
"""

from __future__ import annotations

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

from tau_kernel.messages import (
    JsonObject,
    JsonValue,
    clean_json,
    clean_text,
    message_text,
)

from .answer_parts import SOFT_LIMIT, MarkdownCutter
from .render_budget import SendBudget
from .render_folded import Thinking, ToolCall, ToolStatus, call_line
from .render_part import AnswerPart, PartContent, message_size

if TYPE_CHECKING:
    from tau_kernel.messages import AssistantMessage
    from tau_kernel.submissions import AgentEvent

__all__ = ["AnswerWriter", "Clock", "Outlet", "RenderMode", "TimerHandle"]

RenderMode: TypeAlias = Literal["display", "stream"]

_SHORTEST_PAUSE: Final = 1 / 30
_LONGEST_PAUSE: Final = 0.4
#: Bytes a second that updates of the open part may take; the rest is for new parts.
_PACE: Final = 48_000
#: Bytes of the budget that closing updates leave to what nobody has seen yet.
_RESERVE: Final = 60_000
_STREAM_CHUNK: Final = 32_000
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Outlet(Protocol):
    """Where outputs go. It may be called from any thread."""

    def display(
        self,
        bundle: Mapping[str, JsonValue],
        metadata: JsonObject,
        display_id: str,
        *,
        update: bool,
    ) -> None:
        """Show a MIME bundle, or replace what the display of that id shows."""

    def stream(self, name: str, text: str) -> None:
        """Append `text` to ``stdout`` or ``stderr``."""

    def error(self, ename: str, evalue: str, traceback: list[str]) -> None:
        """Show an error."""


class TimerHandle(Protocol):
    """A call that was asked for and may be withdrawn."""

    def cancel(self) -> None:
        """Withdraw the call."""


class Clock(Protocol):
    """What an asyncio event loop offers of time, in seconds."""

    def time(self) -> float:
        """Give the time, which never goes back."""

    def call_later(self, delay: float, callback: Callable[[], None], /) -> TimerHandle:
        """Call `callback` once, `delay` seconds from this moment."""


class AnswerWriter:
    """Show one submission's answer while it arrives.

    All calls are made on the thread of the clock's event loop.
    """

    def __init__(
        self,
        outlet: Outlet,
        clock: Clock,
        metadata: JsonObject,
        *,
        mode: RenderMode = "display",
        remote_images: bool = False,
    ) -> None:
        """Begin an answer that shows nothing yet.

        Args:
            outlet: Where the outputs go.
            clock: The running event loop, or a test's clock.
            metadata: What stands under ``metadata.tau`` of every display.
            mode: Displays that are updated, or text appended to stdout.
            remote_images: Whether images are fetched from http and https addresses.
        """
        self._clock = clock
        self._page: _Page = (
            _DisplayPage(outlet, clock, metadata, remote_images=remote_images)
            if mode == "display"
            else _StreamPage(outlet, clock)
        )
        self._timer: TimerHandle | None = None
        self._not_before = 0.0
        self._streamed = False
        self._drained: asyncio.Future[None] | None = None
        self._failure: Exception | None = None

    def feed(self, event: AgentEvent) -> None:
        """Take in one event of the submission."""
        match event.type:
            case "message_start":
                if event.message is None or event.message["role"] == "assistant":
                    self._streamed = False
                # Nothing to show yet: a flush would make the first token wait.
                return
            case "message_update" if event.delta is not None:
                kind, text = event.delta["kind"], event.delta["text"]
                if kind == "text":
                    self._page.add_text(text)
                elif kind == "thinking":
                    self._page.add_thinking(text)
                self._streamed = True
            case "message_end" if event.message is not None:
                if event.message["role"] == "assistant":
                    self._end_message(event.message, event.entry_id)
            case "tool_execution_start" | "tool_execution_end":
                self._page.set_tool(event.tool_call_id or "", _tool_call(event))
            case _:
                return
        self._wake()

    async def finish(self, metadata: JsonObject | None = None) -> None:
        """Close the answer and wait until all of it was sent.

        Args:
            metadata: What is known at the end, such as the usage; it goes into the
                closing updates that are not sent yet.

        Raises:
            Exception: What the outlet raised; the rest of the answer is not sent.
        """
        self._page.close(metadata or {})
        self._drained = asyncio.get_running_loop().create_future()
        self._stop_timer()
        self._send()
        try:
            await self._drained
        finally:
            self._drained = None
            self._stop_timer()

    def _end_message(self, message: AssistantMessage, entry_id: str | None) -> None:
        if not self._streamed:
            # The end is reported twice when tools were called.
            self._page.add_text(message_text(message))
            self._streamed = True
        known: JsonObject = {"model": message["model"]}
        usage = message.get("usage")
        if usage is not None:
            known["usage"] = clean_json(usage, "usage")
        if entry_id is not None:
            known["entry_id"] = entry_id
        self._page.close_text(known)

    def _wake(self) -> None:
        """Send at once if that is allowed, or else as soon as it is."""
        if self._timer is not None:
            return
        wait = self._not_before - self._clock.time()
        if wait > 0:
            self._timer = self._clock.call_later(wait, self._on_time)
        else:
            self._send()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_time(self) -> None:
        self._timer = None
        self._send()

    def _send(self) -> None:
        if self._failure is None:
            now = self._clock.time()
            try:
                resume_at = self._page.send(now)
            except Exception as error:  # noqa: BLE001 - a timer: `finish` raises it
                self._failure = error
            else:
                self._not_before = resume_at
                if self._page.is_pending:
                    wait = max(resume_at - now, 0.001)
                    self._timer = self._clock.call_later(wait, self._on_time)
                    return
        self._report_drained()

    def _report_drained(self) -> None:
        drained = self._drained
        if drained is None or drained.done():
            return
        if self._failure is not None:
            drained.set_exception(self._failure)
        else:
            drained.set_result(None)


class _Page(ABC):
    """What an answer is written on: the outputs of one mode."""

    @abstractmethod
    def add_text(self, text: str) -> None: ...

    @abstractmethod
    def add_thinking(self, text: str) -> None: ...

    @abstractmethod
    def set_tool(self, call_id: str, call: ToolCall) -> None: ...

    @abstractmethod
    def close_text(self, known: JsonObject) -> None: ...

    @abstractmethod
    def close(self, known: JsonObject) -> None: ...

    @property
    @abstractmethod
    def is_pending(self) -> bool: ...

    @abstractmethod
    def send(self, now: float) -> float:
        """Send what the budget allows; give when the next sending may be."""


class _DisplayPage(_Page):
    """Displays, in the order in which their content began."""

    def __init__(
        self,
        outlet: Outlet,
        clock: Clock,
        metadata: JsonObject,
        *,
        remote_images: bool,
    ) -> None:
        self._outlet = outlet
        self._clock = clock
        self._metadata = metadata
        self._remote_images = remote_images
        self._budget = SendBudget()
        self._parts: list[AnswerPart] = []
        self._open: AnswerPart | None = None
        self._cutter = MarkdownCutter()
        self._thought: list[str] = []
        self._thought_size = 0
        self._tools: dict[str, AnswerPart] = {}

    def add_text(self, text: str) -> None:
        if not text:
            return
        part = self._open_part("")
        for done in self._cutter.feed(text):
            part.content = done
            part.stale = True
            self._close_part(part, {})
            part = self._add("")
            self._open = part
        part.stale = True

    def add_thinking(self, text: str) -> None:
        if not text:
            return
        self._open_part(Thinking(text="")).stale = True
        self._thought.append(text)
        self._thought_size += len(text)
        if self._thought_size > SOFT_LIMIT:
            self.close_text({})

    def set_tool(self, call_id: str, call: ToolCall) -> None:
        part = self._tools.get(call_id)
        if part is None:
            self.close_text({})
            part = self._tools[call_id] = self._add(call)
        if isinstance(part.content, ToolCall) and not call.arguments:
            # The end of a call need not repeat what it was called with.
            call = replace(call, arguments=part.content.arguments)
        part.content = call
        part.stale = True
        if call.status != "running":
            self._close_part(part, {})
            del self._tools[call_id]

    def close_text(self, known: JsonObject) -> None:
        part = self._open
        if part is None:
            return
        self._take_content(part)
        self._close_part(part, known)
        self._open = None
        self._cutter = MarkdownCutter()
        self._thought = []
        self._thought_size = 0

    def close(self, known: JsonObject) -> None:
        self._metadata = {**self._metadata, **known}
        self.close_text({})
        for part in self._tools.values():
            if isinstance(part.content, ToolCall):
                part.content = replace(part.content, status="interrupted")
                part.stale = True
            self._close_part(part, {})
        self._tools = {}
        for part in self._parts:
            part.metadata = {**part.metadata, **known}

    @property
    def is_pending(self) -> bool:
        return any(part.stale or part.closed for part in self._parts)

    def send(self, now: float) -> float:
        if self._open is not None:
            self._take_content(self._open)
        self._parts = [p for p in self._parts if not (p.closed and p.is_empty)]
        unseen = [part for part in self._parts if part.stale]
        resume_at = now + _SHORTEST_PAUSE
        spent = 0
        for part in unseen:
            if part.is_empty:
                part.stale = False
                continue
            size = 0
            # What is folded is short, and a turn may have hundreds of tool calls.
            if part.closed and (len(unseen) == 1 or not isinstance(part.content, str)):
                size = self._send_part(part, now, every=True)
            size = size or self._send_part(part, now, every=False)
            if size == 0:
                return max(resume_at, self._budget.next_release())
            spent += size
        for part in [part for part in self._parts if part.closed]:
            if part.complete:
                continue
            if not self._budget.fits(now, part.least_size, reserve=_RESERVE):
                break
            if self._send_part(part, now, every=True) == 0:
                break
        self._parts = [part for part in self._parts if not part.complete]
        return now + min(max(_SHORTEST_PAUSE, spent / _PACE), _LONGEST_PAUSE)

    def _send_part(self, part: AnswerPart, now: float, *, every: bool) -> int:
        """Send one part and give the size of the message, 0 if it has to wait."""
        shown = part.forms(every=every, remote_images=self._remote_images)
        metadata: JsonObject = {"tau": part.metadata}
        size = message_size(shown, metadata)
        reserve = 0 if part.stale else _RESERVE
        if not self._budget.fits(now, size, reserve=reserve):
            return 0
        self._outlet.display(shown, metadata, part.display_id, update=part.shown)
        # Rendering many parts takes a while, and the second is counted from here.
        self._budget.spend(self._clock.time(), size)
        part.shown, part.stale, part.complete = True, False, every
        return size

    def _open_part(self, content: PartContent) -> AnswerPart:
        """Give the open part of this kind of content; begin one if there is none."""
        part = self._open
        if part is None or type(part.content) is not type(content):
            self.close_text({})
            part = self._open = self._add(content)
        return part

    def _add(self, content: PartContent) -> AnswerPart:
        part = AnswerPart(content=content, metadata=self._metadata)
        self._parts.append(part)
        return part

    def _close_part(self, part: AnswerPart, known: JsonObject) -> None:
        part.closed = True
        part.metadata = {**part.metadata, **known}

    def _take_content(self, part: AnswerPart) -> None:
        if isinstance(part.content, Thinking):
            part.content = Thinking(text="".join(self._thought))
        else:
            part.content = self._cutter.tail


class _StreamPage(_Page):
    """Text on stdout, for clients that cannot change what they have shown."""

    def __init__(self, outlet: Outlet, clock: Clock) -> None:
        self._outlet = outlet
        self._clock = clock
        self._budget = SendBudget()
        self._pending: list[str] = []
        self._at_line_start = True
        self._is_thinking = False

    def add_text(self, text: str) -> None:
        # An escape sequence could do anything to the reader's terminal.
        text = _CONTROL.sub("", clean_text(text))
        if text:
            self._is_thinking = False
            self._pending.append(text)
            self._at_line_start = text.endswith("\n")

    def add_thinking(self, text: str) -> None:
        if text and not self._is_thinking:
            self._add_line("[thinking]")
            self._is_thinking = True

    def set_tool(self, call_id: str, call: ToolCall) -> None:
        del call_id
        if call.status == "running":
            self._add_line(f"[tool] {call_line(call)}")
        elif call.status != "done":
            self._add_line(f"[tool] {call.name}: {call.status}")

    def close_text(self, known: JsonObject) -> None:
        del known
        if not self._at_line_start:
            self.add_text("\n")

    def close(self, known: JsonObject) -> None:
        self.close_text(known)

    def _add_line(self, line: str) -> None:
        self.close_text({})
        self.add_text(f"{line}\n")

    @property
    def is_pending(self) -> bool:
        return bool(self._pending)

    def send(self, now: float) -> float:
        text = "".join(self._pending)
        self._pending = []
        while text:
            chunk, text = text[: _STREAM_CHUNK // 4], text[_STREAM_CHUNK // 4 :]
            size = message_size({"stdout": chunk}, {})
            if not self._budget.fits(now, size):
                self._pending = [chunk, text]
                return max(now + _SHORTEST_PAUSE, self._budget.next_release())
            self._outlet.stream("stdout", chunk)
            self._budget.spend(self._clock.time(), size)
        return now + _SHORTEST_PAUSE


def _tool_call(event: AgentEvent) -> ToolCall:
    status: ToolStatus = "running"
    if event.type == "tool_execution_end":
        status = "failed" if event.is_error else "done"
        if event.blocked:
            status = "blocked"
    return ToolCall(
        name=event.tool_name or "?",
        arguments=event.args or {},
        result=event.result,
        status=status,
    )
