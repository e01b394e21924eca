"""Messages that wait to join the turn at work."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tau_kernel.submissions import Submission

from .loop_types import DeliveredMessage

__all__ = ["OpenedSteering", "Steering"]


class Steering:
    """Submissions for the running turn; what it leaves is for the next one."""

    def __init__(self) -> None:
        """Start with nothing waiting."""
        self._waiting: deque[Submission] = deque()

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def put(self, submission: Submission) -> None:
        """Let `submission` wait for the next completion."""
        self._waiting.append(submission)

    def clear(self) -> None:
        """Drop what waits: the turn that it was for is being aborted."""
        self._waiting.clear()

    def next(self) -> Submission | None:
        """Take the oldest, or None when nothing waits."""
        return self._waiting.popleft() if self._waiting else None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedSteering:
    """What waits, together with how the turn at work stores it."""

    waiting: Steering
    store: Callable[[Submission], DeliveredMessage]

    def __len__(self) -> int:
        """How many wait."""
        return len(self.waiting)

    def take(self) -> Sequence[DeliveredMessage]:
        """Store what waits and give it, oldest first."""
        delivered: list[DeliveredMessage] = []
        while (submission := self.waiting.next()) is not None:
            delivered.append(self.store(submission))
        return delivered
