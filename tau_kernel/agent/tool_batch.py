"""The tool calls of one message: run, answered and stored, every one of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, cast

from tau_kernel.errors import ToolError
from tau_kernel.extensions import AgentToolResult
from tau_kernel.messages import (
    ImageBlock,
    JsonValue,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    clean_json,
    tool_result_message,
)
from tau_kernel.submissions import AgentEvent

from .tool_result import argument_fault, tool_result_of

if TYPE_CHECKING:
    from tau_kernel.extensions import AgentTool

    from .loop_types import LoopPorts, LoopSpec

__all__ = ["BatchOutcome", "run_tool_batch"]

_ABORTED: Final = "Operation aborted"
_CUT_OFF: Final = (
    "This message was cut off at the token limit, so none of its calls was run. "
    "Make the call again, shorter."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOutcome:
    """The answers in the order of the calls, and whether the run ends here."""

    results: tuple[ToolResultMessage, ...]
    terminate: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """How one call ended; `failure` is a bug that ends the turn once all is stored."""

    result: AgentToolResult
    failure: Exception | None = None
    blocked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    """A call that may run, or the answer that it has already."""

    call: ToolCallBlock
    tool: AgentTool | None
    answer: _Answer | None


async def run_tool_batch(
    calls: Sequence[ToolCallBlock],
    spec: LoopSpec,
    ports: LoopPorts,
    *,
    is_cut_off: bool = False,
) -> BatchOutcome:
    """Run the calls of one message and answer each, whatever happens.

    Args:
        calls: In the order of the message.
        spec: Holds the tools and whether they may run side by side.
        ports: Where answers are stored and reported, in the order of the calls.
        is_cut_off: Whether the message met the token limit; then nothing runs.

    Raises:
        Exception: What a tool raised other than `ToolError`, or a `CallerError` for a
            result that is no JSON, or what its schema is at fault with, after every
            call has its answer.
        CancelledError: This task was cancelled; open calls are answered as aborted.
    """
    batch = _Batch([_prepare(call, spec, is_cut_off) for call in calls], spec, ports)
    try:
        if batch.is_sequential():
            await batch.run_in_sequence()
        else:
            await batch.run_side_by_side()
    except asyncio.CancelledError:
        await batch.answer_open_calls(_ABORTED)
        raise
    if batch.failure is not None:
        raise batch.failure
    return BatchOutcome(results=tuple(batch.results), terminate=batch.terminate)


def _prepare(call: ToolCallBlock, spec: LoopSpec, is_cut_off: bool) -> _Prepared:  # noqa: FBT001 - a fact about the message, passed on
    tool = next((tool for tool in spec.tools if tool.name == call["name"]), None)
    if is_cut_off:
        answer: _Answer | None = _refusal(_CUT_OFF)
    elif tool is None:
        answer = _refusal(f"Unknown tool: {call['name']}")
    else:
        answer = _fault_of(tool, call)
    return _Prepared(call=call, tool=tool, answer=answer)


def _fault_of(tool: AgentTool, call: ToolCallBlock) -> _Answer | None:
    try:
        words = argument_fault(tool.parameters, call["arguments"])
    except Exception as error:  # noqa: BLE001 - kept, and raised when all is stored
        return _failed(error)
    return None if words is None else _refusal(words)


def _report_unread_failure(task: asyncio.Task[_Answer]) -> None:
    # After an abort nobody reads the answer; a bug in the tool must not vanish with it.
    if task.cancelled() or task.exception() is not None:
        return
    if (error := task.result().failure) is not None:
        task.get_loop().call_exception_handler(
            {"message": "an aborted tool failed", "exception": error, "task": task}
        )


def _failed(error: Exception) -> _Answer:
    words = f"{type(error).__name__}: {error}"
    return _Answer(result=AgentToolResult(words, is_error=True), failure=error)


def _refusal(words: str, *, blocked: bool = True) -> _Answer:
    return _Answer(result=AgentToolResult(words, is_error=True), blocked=blocked)


class _Batch:
    """The state of one batch: which calls are answered, and how."""

    def __init__(
        self, prepared: Sequence[_Prepared], spec: LoopSpec, ports: LoopPorts
    ) -> None:
        self._prepared = prepared
        self._spec = spec
        self._ports = ports
        self._announced = 0
        self.results: list[ToolResultMessage] = []
        self.terminate = False
        self.failure: Exception | None = None

    def is_sequential(self) -> bool:
        """Whether the session or one of the tools wants call after call."""
        return self._spec.tool_execution_mode == "sequential" or any(
            item.tool is not None and item.tool.execution_mode == "sequential"
            for item in self._prepared
        )

    async def run_in_sequence(self) -> None:
        """Run call after call, until one ends the run, fails or is aborted."""
        for position, item in enumerate(self._prepared):
            if self._ports.signal.is_aborted():
                await self.answer_open_calls(_ABORTED)
                return
            await self._announce(position)
            await self._answer(item, await self._run(item))
            if self.terminate or self.failure is not None:
                why = "ended the run" if self.terminate else "failed"
                await self.answer_open_calls(
                    f"Not run: the call of {item.call['name']} before it {why}"
                )
                return

    async def run_side_by_side(self) -> None:
        """Run all calls at once; answers are stored in the order of the calls."""
        for position in range(len(self._prepared)):
            await self._announce(position)
        running = [self._ports.tasks.start(self._run(item)) for item in self._prepared]
        try:
            for item, task in zip(self._prepared, running, strict=True):
                await self._answer(item, await task)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def answer_open_calls(self, words: str) -> None:
        """Answer each call that has no answer yet with an error."""
        for position in range(len(self.results), len(self._prepared)):
            await self._announce(position)
            await self._answer(self._prepared[position], _refusal(words, blocked=False))

    async def _announce(self, position: int) -> None:
        if position < self._announced:
            return
        self._announced += 1
        item = self._prepared[position]
        await self._ports.emit(
            AgentEvent(
                type="tool_execution_start",
                tool_call_id=item.call["id"],
                tool_name=item.call["name"],
                args=item.call["arguments"],
            )
        )

    async def _run(self, item: _Prepared) -> _Answer:
        if item.answer is not None or item.tool is None:
            return item.answer or _refusal(_ABORTED)
        signal = self._ports.signal
        task = self._ports.tasks.start(self._execute(item.tool, item.call))
        answer: _Answer | None = None
        try:
            answer = await self._ports.tasks.finish(task, signal)
        finally:
            if answer is None:
                task.add_done_callback(_report_unread_failure)
        return answer or _refusal(_ABORTED, blocked=False)

    async def _execute(self, tool: AgentTool, call: ToolCallBlock) -> _Answer:
        updates = _Updates(self._ports, call)
        context = replace(self._spec.tool_context, signal=self._ports.signal)
        reporter = self._ports.tasks.start(updates.report())
        try:
            returned = await tool.execute(
                call["id"],
                call["arguments"],
                self._ports.signal,
                updates.put,
                context,
            )
            answer = _Answer(result=tool_result_of(tool.name, returned))
        except ToolError as error:
            answer = _refusal(str(error), blocked=False)
        except Exception as error:  # noqa: BLE001 - kept, and raised when all is stored
            answer = _failed(error)
        except (SystemExit, KeyboardInterrupt) as error:
            # Raised in a task, either ends the loop that every turn runs on.
            msg = f"tool {tool.name!r} raised {error!r}; a tool may not end its process"
            failure = RuntimeError(msg)
            failure.__cause__ = error
            answer = _failed(failure)
        finally:
            updates.close()
        await reporter
        return answer

    async def _answer(self, item: _Prepared, answer: _Answer) -> None:
        result = answer.result
        content: list[TextBlock | ImageBlock] = (
            [{"type": "text", "text": result.content}]
            if isinstance(result.content, str)
            else list(result.content)
        )
        message = tool_result_message(
            item.call, content, is_error=result.is_error, details=result.details
        )
        entry_id = self._ports.record(message)
        self.results.append(message)
        self.terminate = self.terminate or result.terminate
        self.failure = self.failure or answer.failure
        await self._ports.emit(
            AgentEvent(
                type="tool_execution_end",
                tool_call_id=item.call["id"],
                tool_name=item.call["name"],
                args=item.call["arguments"],
                result=cast("JsonValue", content),
                details=result.details,
                is_error=result.is_error,
                blocked=answer.blocked,
                message=message,
                entry_id=entry_id,
            )
        )


class _Updates:
    """Carries what a tool has so far to the listeners, in order, from any thread."""

    def __init__(self, ports: LoopPorts, call: ToolCallBlock) -> None:
        self._ports = ports
        self._call = call
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[list[JsonValue]] = asyncio.Queue()

    def put(self, so_far: JsonValue) -> None:
        """Queue what the tool has so far; never waits."""
        value = clean_json(so_far, f"update of tool {self._call['name']!r}")
        self._loop.call_soon_threadsafe(self._queue.put_nowait, [value])

    def close(self) -> None:
        """Let the report end after what is queued."""
        self._loop.call_soon_threadsafe(self._queue.put_nowait, [])

    async def report(self) -> None:
        """Emit each update until the end."""
        while update := await self._queue.get():
            await self._ports.emit(
                AgentEvent(
                    type="tool_execution_update",
                    tool_call_id=self._call["id"],
                    tool_name=self._call["name"],
                    result=update[0],
                )
            )
