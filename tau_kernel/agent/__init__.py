"""The session: who may start a turn, what a turn does, and what is kept of it.

`agent_loop` runs completions and tools as a function over values; `agent_session` is
the façade over admission, turn runner, event hub and usage ledger. What a tool is
belongs to `tau_kernel.extensions`, the log to `tau_kernel.tree`.
"""

from __future__ import annotations

from .agent_loop import run_agent_loop
from .agent_session import AgentSession, SessionState
from .branches import BranchResult
from .limits import Limits, Spending
from .loop_types import (
    DeliveredMessage,
    LoopOutcome,
    LoopPorts,
    LoopSpec,
    SteerQueue,
    StreamFunction,
)
from .retry import RetryNotice, RetryPolicy
from .turn_settings import Start, TurnSettings
from .turn_tasks import TurnTasks

__all__ = [
    "AgentSession",
    "BranchResult",
    "DeliveredMessage",
    "Limits",
    "LoopOutcome",
    "LoopPorts",
    "LoopSpec",
    "RetryNotice",
    "RetryPolicy",
    "SessionState",
    "Spending",
    "Start",
    "SteerQueue",
    "StreamFunction",
    "TurnSettings",
    "TurnTasks",
    "run_agent_loop",
]
