"""The session's bus, and the stamp that says whose turn an event belongs to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tau_kernel.submissions import AgentEvent, EventBus, Submission

from .loop_types import Emit
from .usage_ledger import UsageLedger

__all__ = ["EventHub"]


class EventHub:
    """Stamps and delivers the events of turns, and lets the ledger see their cost."""

    def __init__(self, ledger: UsageLedger) -> None:
        """Start with a bus that nobody listens to."""
        self.bus = EventBus()
        self._ledger = ledger

    def subscribe(self, handler: Callable[[AgentEvent], object]) -> Callable[[], None]:
        """Call `handler` with every event; gives the function that ends that."""
        return self.bus.on("all", handler)

    def emitter(self, submission: Submission | None) -> Emit:
        """Give the function that delivers events under the stamp of `submission`."""

        async def emit(event: AgentEvent) -> None:
            self._account(event)
            await self.bus.emit(_stamped(event, submission))

        return emit

    def _account(self, event: AgentEvent) -> None:
        message = event.message
        if (
            event.type == "message_end"
            and message is not None
            and message["role"] == "assistant"
            and message["usage"] is not None
        ):
            self._ledger.record(message["usage"])


def _stamped(event: AgentEvent, submission: Submission | None) -> AgentEvent:
    if submission is None:
        return event
    return replace(
        event,
        submission_id=submission.submission_id,
        source=submission.source,
        submitter=submission.submitter,
        correlation=submission.correlation,
    )
