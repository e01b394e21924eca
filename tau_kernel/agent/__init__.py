"""The session: who may start a turn, what a turn does, and what is kept of it.

`agent_loop` runs completions and tools as a function over values; `agent_session` is
the façade over admission, turn runner, event hub and usage ledger. What a tool is
belongs to `tau_kernel.extensions`, the log to `tau_kernel.tree`.
"""

from __future__ import annotations

from .agent_loop import run_agent_loop
from .agent_session import AgentSession, SessionState
from .branches import BranchResult
from .compaction import (
    DEFAULT_COMPACTION_SETTINGS,
    compact,
    compact_messages,
    prepare_compaction,
)
from .compaction_policy import (
    CompactionPolicy,
    CompactionPolicyError,
    CompactionPolicyViolation,
)
from .compaction_values import (
    CompactionDetails,
    CompactionError,
    CompactionPreparation,
    CompactionRecord,
    CompactionResult,
    CompactionSettings,
    SessionStats,
    should_compact,
)
from .compactor import CompactedSession, Compactor, CompactorPorts
from .context_usage import (
    ContextUsageEstimate,
    estimate_context_tokens,
    estimate_path_tokens,
)
from .cut_point import CutPoint, find_cut_point, find_valid_cut_points
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
from .summarizer import Summarizer, WrittenSummary, generate_summary
from .summary_prompts import SummaryPrompts, load_prompts
from .turn_settings import Start, TurnSettings
from .turn_tasks import TurnTasks

__all__ = [
    "DEFAULT_COMPACTION_SETTINGS",
    "AgentSession",
    "BranchResult",
    "CompactedSession",
    "CompactionDetails",
    "CompactionError",
    "CompactionPolicy",
    "CompactionPolicyError",
    "CompactionPolicyViolation",
    "CompactionPreparation",
    "CompactionRecord",
    "CompactionResult",
    "CompactionSettings",
    "Compactor",
    "CompactorPorts",
    "ContextUsageEstimate",
    "CutPoint",
    "DeliveredMessage",
    "Limits",
    "LoopOutcome",
    "LoopPorts",
    "LoopSpec",
    "RetryNotice",
    "RetryPolicy",
    "SessionState",
    "SessionStats",
    "Spending",
    "Start",
    "SteerQueue",
    "StreamFunction",
    "Summarizer",
    "SummaryPrompts",
    "TurnSettings",
    "TurnTasks",
    "WrittenSummary",
    "compact",
    "compact_messages",
    "estimate_context_tokens",
    "estimate_path_tokens",
    "find_cut_point",
    "find_valid_cut_points",
    "generate_summary",
    "load_prompts",
    "prepare_compaction",
    "run_agent_loop",
    "should_compact",
]
