"""What an answer sends, when, and how much of it."""

from __future__ import annotations

import asyncio
import heapq
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import pytest

from tau_kernel.jupyter.render import AnswerWriter
from tau_kernel.messages import (
    AssistantMessage,
    JsonObject,
    JsonValue,
    assistant_message,
    zero_usage,
)
from tau_kernel.submissions import AgentEvent

_TAU: JsonObject = {"session_id": "s", "submission_id": "u", "usage": None}


class _Call:
    def __init__(self, due: float, number: int, callback: Callable[[], None]) -> None:
        self.key = (due, number)
        self.callback = callback
        self.cancelled = False

    def __lt__(self, other: _Call) -> bool:
        return self.key < other.key

    def cancel(self) -> None:
        self.cancelled = True


class FakeClock:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self._now = 100.0
        self._calls: list[_Call] = []
        self._count = 0

    def time(self) -> float:
        return self._now

    def call_later(self, delay: float, callback: Callable[[], None], /) -> _Call:
        self._count += 1
        call = _Call(self._now + delay, self._count, callback)
        heapq.heappush(self._calls, call)
        return call

    def drag(self, seconds: float) -> None:
        """Let time pass while no callback can run."""
        self._now += seconds

    def advance(self, seconds: float) -> None:
        end = self._now + seconds
        while self._calls and self._calls[0].key[0] <= end:
            call = heapq.heappop(self._calls)
            self._now = max(self._now, call.key[0])
            if not call.cancelled:
                call.callback()
        self._now = max(self._now, end)


@dataclass(slots=True, kw_only=True)
class Sent:
    """One message that an outlet was given."""

    at: float
    display_id: str
    bundle: Mapping[str, JsonValue]
    metadata: JsonObject
    update: bool

    @property
    def size(self) -> int:
        return len(json.dumps([self.bundle, self.metadata], ensure_ascii=False))


@dataclass(slots=True)
class FakeOutlet:
    """Keeps what it is given."""

    clock: FakeClock
    sent: list[Sent] = field(default_factory=list)
    text: str = ""
    failure: Exception | None = None
    #: Seconds that it takes to send the next display.
    delay: float = 0.0

    def display(
        self,
        bundle: Mapping[str, JsonValue],
        metadata: JsonObject,
        display_id: str,
        *,
        update: bool,
    ) -> None:
        if self.failure is not None:
            raise self.failure
        self.clock.drag(self.delay)
        self.delay = 0.0
        self.sent.append(
            Sent(
                at=self.clock.time(),
                display_id=display_id,
                bundle=bundle,
                metadata=metadata,
                update=update,
            )
        )

    def stream(self, name: str, text: str) -> None:
        self.text += text
        self.sent.append(
            Sent(
                at=self.clock.time(),
                display_id=name,
                bundle={"text": text},
                metadata={},
                update=False,
            )
        )

    def error(self, ename: str, evalue: str, traceback: list[str]) -> None:
        raise AssertionError((ename, evalue, traceback))

    def shown(self, form: str = "text/markdown") -> list[str]:
        """What each display shows at last, in the order in which they began."""
        last: dict[str, str] = {}
        for message in self.sent:
            if form in message.bundle:
                last[message.display_id] = str(message.bundle[form])
        return list(last.values())


def _writer(
    mode: Literal["display", "stream"] = "display",
) -> tuple[FakeClock, FakeOutlet, AnswerWriter]:
    clock = FakeClock()
    outlet = FakeOutlet(clock)
    return clock, outlet, AnswerWriter(outlet, clock, _TAU, mode=mode)


def _delta(text: str, kind: Literal["text", "thinking"] = "text") -> AgentEvent:
    return AgentEvent(type="message_update", delta={"kind": kind, "text": text})


def _message(text: str) -> AssistantMessage:
    return assistant_message(
        [{"type": "text", "text": text}],
        model="m",
        provider="p",
        api="a",
        stop_reason="stop",
        usage=zero_usage(),
    )


def _tool(kind: Literal["start", "end"], *, is_error: bool = False) -> AgentEvent:
    if kind == "start":
        return AgentEvent(
            type="tool_execution_start",
            tool_call_id="c1",
            tool_name="read",
            args={"path": "<b>.py"},
        )
    return AgentEvent(
        type="tool_execution_end",
        tool_call_id="c1",
        tool_name="read",
        result=[{"type": "text", "text": "<i>" * 3000}],
        is_error=is_error,
    )


def _finish(clock: FakeClock, writer: AnswerWriter, seconds: float = 10.0) -> None:
    async def run() -> None:
        finishing = asyncio.create_task(writer.finish({"usage": {"total_tokens": 3}}))
        for _ in range(int(seconds * 100)):
            await asyncio.sleep(0)
            if finishing.done():
                break
            clock.advance(0.01)
        assert finishing.done(), "the answer was not sent in time"
        await finishing

    asyncio.run(run())


def _assert_budgets(sent: list[Sent]) -> None:
    for first in sent:
        window = [m for m in sent if first.at <= m.at <= first.at + 1.0]
        assert len(window) <= 40
        assert sum(message.size for message in window) <= 128_000


def _simulate(rate: float | None, count: int = 20_000) -> tuple[FakeOutlet, float]:
    """Stream tokens; give the outlet and the longest time that one was invisible."""
    clock, outlet, writer = _writer()
    tokens = [f"t{n} " if n % 80 else f"t{n}\n\n" for n in range(count)]
    if rate is None:
        tokens = [f"{n % 1000} " if n % 80 else f"{n}\n\n" for n in range(count)]
    arrived: list[float] = []
    for token in tokens:
        arrived.append(clock.time())
        writer.feed(_delta(token))
        if rate is not None:
            clock.advance(1 / rate)
    _finish(clock, writer)
    assert "".join(outlet.shown()) == "".join(tokens)
    visible: dict[str, int] = {}
    seen = 0
    longest = 0.0
    ends = []
    total = 0
    for token in tokens:
        total += len(token)
        ends.append(total)
    for message in outlet.sent:
        visible[message.display_id] = len(str(message.bundle["text/markdown"]))
        characters = sum(visible.values())
        while seen < count and ends[seen] <= characters:
            longest = max(longest, message.at - arrived[seen])
            seen += 1
    assert seen == count
    return outlet, longest


@pytest.mark.slow
@pytest.mark.parametrize("rate", [200.0, 2000.0, 6000.0, None])
def test_a_long_stream_keeps_to_its_budgets_and_hides_nothing(
    rate: float | None,
) -> None:
    outlet, longest = _simulate(rate)
    _assert_budgets(outlet.sent)
    assert longest <= 0.5


def test_messages_that_were_held_up_count_from_when_they_were_sent() -> None:
    clock, outlet, writer = _writer()
    writer.feed(_delta("word"))
    outlet.delay = 0.3
    for _ in range(3):
        for _ in range(12):
            writer.feed(_delta("word " * 1000 + "\n\n"))
        clock.advance(0.4)
    _finish(clock, writer)
    _assert_budgets(outlet.sent)


def test_closed_parts_are_never_sent_again() -> None:
    outlet, _ = _simulate(2000.0, 4000)
    finished: set[str] = set()
    for message in outlet.sent:
        assert message.display_id not in finished
        if "text/plain" in message.bundle:
            finished.add(message.display_id)
    assert finished == {message.display_id for message in outlet.sent}


def test_the_first_token_is_shown_at_once() -> None:
    clock, outlet, writer = _writer()
    writer.feed(AgentEvent(type="message_start"))
    writer.feed(_delta("Hel"))
    assert [(m.at, m.bundle) for m in outlet.sent] == [
        (clock.time(), {"text/markdown": "Hel"})
    ]


def test_the_closing_update_has_every_form_and_the_usage() -> None:
    clock, outlet, writer = _writer()
    writer.feed(_delta("a <b>"))
    _finish(clock, writer)
    first, last = outlet.sent
    assert first.metadata == {"tau": _TAU}
    assert last.update
    assert last.display_id == first.display_id
    assert last.bundle == {"text/markdown": "a &lt;b>", "text/plain": "a <b>"}
    assert last.metadata == {"tau": {**_TAU, "usage": {"total_tokens": 3}}}


def test_the_end_of_a_message_names_its_entry_model_and_usage() -> None:
    clock, outlet, writer = _writer()
    writer.feed(_delta("a"))
    clock.advance(1)
    writer.feed(AgentEvent(type="message_end", message=_message("a"), entry_id="e1"))
    tau = outlet.sent[-1].metadata["tau"]
    assert isinstance(tau, dict)
    assert (tau["entry_id"], tau["model"]) == ("e1", "m")
    assert tau["usage"] == zero_usage()


def test_a_message_that_was_not_streamed_is_shown_once() -> None:
    clock, outlet, writer = _writer()
    writer.feed(AgentEvent(type="message_start"))
    writer.feed(AgentEvent(type="message_end", message=_message("whole")))
    writer.feed(AgentEvent(type="message_end", message=_message("whole")))
    _finish(clock, writer)
    assert outlet.shown() == ["whole"]


def test_thinking_and_tools_are_folded_between_the_text() -> None:
    clock, outlet, writer = _writer()
    writer.feed(_delta("hm <u>", "thinking"))
    writer.feed(_delta("I read."))
    writer.feed(_tool("start"))
    writer.feed(_tool("end"))
    writer.feed(_delta("Done."))
    _finish(clock, writer)
    thinking, tool = outlet.shown("text/html")
    assert thinking.startswith("<details><summary>Thinking…</summary>")
    assert "hm &lt;u&gt;" in thinking
    assert "✓ <code>read</code>" in tool
    assert "&lt;b&gt;.py" in tool
    assert "<i>" not in tool
    assert "4904 characters more" in tool
    assert outlet.shown() == ["I read.", "Done."]
    begun = [m.bundle for m in outlet.sent if not m.update]
    assert ["text/html" in bundle for bundle in begun] == [True, False, True, False]


def test_a_tool_that_never_ended_is_shown_as_interrupted() -> None:
    clock, outlet, writer = _writer()
    writer.feed(_tool("start"))
    _finish(clock, writer)
    assert outlet.shown("text/plain")[0].startswith("[tool] read interrupted\n")


def test_an_answer_of_nothing_shows_nothing() -> None:
    clock, outlet, writer = _writer()
    writer.feed(_delta("\n\n"))
    _finish(clock, writer)
    assert outlet.sent == []


def test_what_the_outlet_raises_comes_out_of_finish() -> None:
    clock, outlet, writer = _writer()
    outlet.failure = RuntimeError("socket closed")
    writer.feed(_delta("a"))
    with pytest.raises(RuntimeError, match="socket closed"):
        _finish(clock, writer)


def test_a_plain_client_gets_text_with_a_line_for_each_tool() -> None:
    clock, outlet, writer = _writer("stream")
    writer.feed(_delta("hm", "thinking"))
    writer.feed(_delta("m", "thinking"))
    writer.feed(_delta("Look\x1b[2J:"))
    writer.feed(_tool("start"))
    writer.feed(_tool("end", is_error=True))
    writer.feed(_delta("No."))
    _finish(clock, writer)
    assert outlet.text == (
        '[thinking]\nLook[2J:\n[tool] read(path="<b>.py")\n[tool] read: failed\nNo.\n'
    )


def test_a_plain_client_gets_a_long_text_within_the_budgets() -> None:
    clock, outlet, writer = _writer("stream")
    text = "".join(f"{n} " for n in range(20_000))
    for start in range(0, len(text), 10):
        writer.feed(_delta(text[start : start + 10]))
        clock.advance(1 / 2000)
    _finish(clock, writer)
    _assert_budgets(outlet.sent)
    assert outlet.text == f"{text}\n"


def test_an_event_loop_is_a_clock() -> None:
    outlet = FakeOutlet(FakeClock())

    async def run() -> None:
        writer = AnswerWriter(outlet, asyncio.get_running_loop(), _TAU)
        for word in ("one ", "two ", "three"):
            writer.feed(_delta(word))
        await asyncio.wait_for(writer.finish(), 5)

    asyncio.run(run())
    assert outlet.shown() == ["one two three"]


def test_a_finish_that_was_cancelled_can_be_called_again() -> None:
    clock, outlet, writer = _writer()
    for number in range(20_000):
        writer.feed(_delta(f"{number % 100} " if number % 80 else "\n\n"))

    async def run() -> None:
        finishing = asyncio.create_task(writer.finish())
        await asyncio.sleep(0)
        finishing.cancel()
        await asyncio.wait([finishing])
        assert finishing.cancelled()

    asyncio.run(run())
    _finish(clock, writer)
    finished = {m.display_id for m in outlet.sent if "text/plain" in m.bundle}
    assert finished == {m.display_id for m in outlet.sent}


def test_a_tool_call_that_ended_before_it_was_shown_takes_one_message() -> None:
    clock, outlet, writer = _writer()
    writer.feed(_delta("first"))
    for number in range(20):
        for kind in ("start", "end"):
            event = _tool(kind)
            writer.feed(replace(event, tool_call_id=f"c{number}"))
    _finish(clock, writer)
    tools = [message for message in outlet.sent if "text/html" in message.bundle]
    assert len(tools) == 20
    assert all("text/plain" in message.bundle for message in tools)
