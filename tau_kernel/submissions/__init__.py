"""What comes into a session and what goes out of it while it works.

`submission` holds the request, its answer and the two context variables that tell
work within a turn which submission it serves; `events` holds what the turn reports
and the bus that carries it. Who admits a submission is `tau_kernel.agent`'s affair.
"""

from __future__ import annotations

from .events import (
    AgentEvent,
    AgentEventType,
    DeltaDict,
    EndReason,
    EventBus,
)
from .submission import (
    DRIVING_SUBMISSION_DEPTH,
    MAX_SUBMISSION_DEPTH,
    SUBMISSION_ALLOWS_USER_INPUT,
    MultitaskStrategy,
    Submission,
    SubmissionResult,
    SubmissionSource,
    next_submission_depth,
    user_input_permitted,
)

__all__ = [
    "DRIVING_SUBMISSION_DEPTH",
    "MAX_SUBMISSION_DEPTH",
    "SUBMISSION_ALLOWS_USER_INPUT",
    "AgentEvent",
    "AgentEventType",
    "DeltaDict",
    "EndReason",
    "EventBus",
    "MultitaskStrategy",
    "Submission",
    "SubmissionResult",
    "SubmissionSource",
    "next_submission_depth",
    "user_input_permitted",
]
