"""Scripted streams and small tools, handed to the code under test as values."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from tau_kernel.agent import AgentSession, LoopPorts, LoopSpec
from tau_kernel.extensions import AgentToolResult, ExtensionUI, ToolContext
from tau_kernel.messages import (
    AbortSignal,
    AssistantBlock,
    AssistantMessage,
    JsonObject,
    JsonValue,
    Message,
    StopReason,
    assistant_message,
    zero_usage,
)
from tau_kernel.models import (
    DoneEvent,
    Model,
    ModelContext,
    StreamEvent,
    StreamOptions,
    TextDeltaEvent,
)
from tau_kernel.submissions import AgentEvent, Submission
from tau_kernel.tree import InMemorySessionLog

MODEL = Model(id="m", name="m", api="echo", provider="p")


def answer(
    text: str = "", *calls: AssistantBlock, stop_reason: StopReason = "stop"
) -> AssistantMessage:
    content: list[AssistantBlock] = []
    if text:
        content.append({"type": "text", "text": text})
    content.extend(calls)
    return assistant_message(
        content,
        model="m",
        provider="p",
        api="echo",
        stop_reason="toolUse" if calls and stop_reason == "stop" else stop_reason,
        usage={**zero_usage(), "total_tokens": 7},
    )


def call(name: str, call_id: str = "c1", **arguments: JsonValue) -> AssistantBlock:
    return {"type": "toolCall", "id": call_id, "name": name, "arguments": arguments}


def say(text: str, *calls: AssistantBlock) -> list[StreamEvent]:
    final = answer(text, *calls)
    usage = zero_usage()
    return [
        TextDeltaEvent(delta=text, partial=answer(text)),
        DoneEvent(final=final, usage=usage),
    ]


@dataclass(slots=True)
class ScriptedStream:
    """Plays one list of events a completion, then hangs if `hangs` says so."""

    script: list[list[StreamEvent]]
    hangs: bool = False
    requests: list[ModelContext] = field(default_factory=list)
    options: list[StreamOptions] = field(default_factory=list)
    models: list[Model] = field(default_factory=list)
    hanging: asyncio.Event = field(default_factory=asyncio.Event)

    def __call__(
        self, model: Model, context: ModelContext, options: StreamOptions
    ) -> AsyncIterator[StreamEvent]:
        self.models.append(model)
        self.requests.append(context)
        self.options.append(options)
        return self._play(self.script.pop(0) if self.script else [])

    async def _play(self, events: list[StreamEvent]) -> AsyncIterator[StreamEvent]:
        for event in events:
            yield event
        if self.hangs:
            self.hanging.set()
            await asyncio.Event().wait()


@dataclass(slots=True)
class FakeTool:
    """Runs a coroutine function of its arguments and context."""

    name: str
    run: Callable[[JsonObject, ToolContext], Awaitable[Any]]
    parameters: JsonObject = field(default_factory=lambda: {"type": "object"})
    execution_mode: Literal["sequential", "parallel"] = "parallel"
    description: str = "a fake"
    started: asyncio.Event = field(default_factory=asyncio.Event)
    update: JsonValue = None

    async def execute(
        self,
        tool_call_id: str,
        params: JsonObject,
        signal: AbortSignal,
        on_update: Callable[[JsonValue], None],
        ctx: ToolContext,
    ) -> AgentToolResult | JsonValue:
        self.started.set()
        if self.update is not None:
            on_update(self.update)
        result: AgentToolResult | JsonValue = await self.run(params, ctx)
        return result


@dataclass(slots=True)
class Bench:
    """What a test needs to run a loop or a session and to see what it did."""

    events: list[AgentEvent] = field(default_factory=list)
    stored: list[Message] = field(default_factory=list)
    signal: AbortSignal = field(default_factory=AbortSignal)
    log: InMemorySessionLog = field(default_factory=InMemorySessionLog)

    def spec(self, *tools: FakeTool, **more: Any) -> LoopSpec:  # noqa: ANN401
        context = ToolContext(
            ui=ExtensionUI(), signal=self.signal, submission_id=None, cwd=Path("/")
        )
        return LoopSpec(model=MODEL, tool_context=context, tools=tools, **more)

    def ports(self, stream: ScriptedStream) -> LoopPorts:
        async def emit(event: AgentEvent) -> None:
            self.events.append(event)

        def record(message: Message) -> str:
            self.stored.append(message)
            return f"e{len(self.stored)}"

        return LoopPorts(emit=emit, record=record, signal=self.signal, stream=stream)

    def session(
        self,
        stream: ScriptedStream,
        *tools: FakeTool,
        **more: Any,  # noqa: ANN401
    ) -> AgentSession:
        session = AgentSession(
            self.log, MODEL, tools=tools, stream=stream, cwd=Path("/"), **more
        )
        session.subscribe(self.events.append)
        return session

    def types(self) -> list[str]:
        return [event.type for event in self.events]

    def kinds(self) -> list[str]:
        return [
            entry["customType"]
            if entry["type"] == "customEntry"
            else entry["message"]["role"]
            if entry["type"] == "message"
            else entry["type"]
            for entry in self.log.entries()
        ]

    @staticmethod
    def submission(text: str = "hi", **more: Any) -> Submission:  # noqa: ANN401
        facts: dict[str, Any] = {
            "source": "interactive",
            "submitter": "human",
            "submission_id": text,
            **more,
        }
        return Submission(text=text, **facts)


@dataclass(frozen=True, slots=True)
class Kit:
    """The makers, as one fixture: test modules do not import one another."""

    bench: Bench
    answer: Callable[..., AssistantMessage] = answer
    call: Callable[..., AssistantBlock] = call
    say: Callable[..., list[StreamEvent]] = say
    stream: type[ScriptedStream] = ScriptedStream
    tool: type[FakeTool] = FakeTool


@pytest.fixture
def kit() -> Kit:
    return Kit(Bench())
