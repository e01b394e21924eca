"""What a run of the agent loop is given, and what it gives back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

from tau_kernel.messages import Message, UserMessage
from tau_kernel.models import Model, ModelContext, StreamEvent, StreamOptions

from .limits import Budget
from .retry import Announce, RetryNotice, RetryPolicy
from .turn_tasks import TurnTasks

if TYPE_CHECKING:
    from tau_kernel.extensions import AgentTool, ToolContext, ToolExecutionMode
    from tau_kernel.messages import AbortSignal
    from tau_kernel.submissions import AgentEvent, EndReason

__all__ = [
    "DeliveredMessage",
    "Emit",
    "LoopOutcome",
    "LoopPorts",
    "LoopSpec",
    "NoSteering",
    "Record",
    "SteerQueue",
    "StreamFunction",
]

StreamFunction: TypeAlias = Callable[
    [Model, ModelContext, StreamOptions], AsyncIterator[StreamEvent]
]
Emit: TypeAlias = "Callable[[AgentEvent], Awaitable[None]]"
#: Stores one finished message and gives the entry's id; None where none is kept.
Record: TypeAlias = Callable[[Message], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveredMessage:
    """A user's message that joins a running turn, and where it was stored."""

    message: UserMessage
    entry_id: str | None


class SteerQueue(Protocol):
    """Where messages wait that shall reach the model before its next completion."""

    def __len__(self) -> int:
        """How many wait."""

    def take(self) -> Sequence[DeliveredMessage]:
        """Store what waits and give it, oldest first; nothing waits after."""


class NoSteering:
    """A queue that stays empty."""

    def __len__(self) -> int:
        """Nothing waits."""
        return 0

    def take(self) -> Sequence[DeliveredMessage]:
        """Give nothing."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSpec:
    """What one run does.

    Args:
        model: Who answers.
        tool_context: What each tool may use.
        system_prompt: Put first, if the context does not begin with one.
        tools: What the model may call.
        options: Settings of each completion; the abort signal is filled in, and
            ``max_tokens`` is for all completions of the run together.
        max_turns: Completions of this run at most, from 1; None for no limit.
        max_cost: US dollars of this run at most; None for no limit.
        retry: How a request that failed is made again.
        tool_execution_mode: ``"sequential"`` runs every batch call by call.
        repeat_tool_call_limit: Identical failing batches in a row that end the run,
            from 2; None for no limit.
    """

    model: Model
    tool_context: ToolContext
    system_prompt: str = ""
    tools: tuple[AgentTool, ...] = ()
    options: StreamOptions = field(default_factory=StreamOptions)
    max_turns: int | None = None
    max_cost: float | None = None
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    tool_execution_mode: ToolExecutionMode = "parallel"
    repeat_tool_call_limit: int | None = 3


async def _tell_nobody(notice: RetryNotice) -> None:
    del notice


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopPorts:
    """What a run reports to and draws from.

    Args:
        emit: Delivers an event; the run waits for it.
        record: Stores a finished message, before the event of its end.
        signal: Its rise ends the run.
        stream: Gives the events of one completion.
        steer: Messages that join the run.
        tasks: Where the run starts what an abort cancels.
        budget: Says whether another completion may be asked for.
        announce: Told before a request is made again.
    """

    emit: Emit
    record: Record
    signal: AbortSignal
    stream: StreamFunction
    steer: SteerQueue = field(default_factory=NoSteering)
    tasks: TurnTasks = field(default_factory=TurnTasks)
    budget: Budget = field(default_factory=Budget)
    announce: Announce = _tell_nobody


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopOutcome:
    """What a run added, in order, and why it ended."""

    messages: tuple[Message, ...]
    end_reason: EndReason
