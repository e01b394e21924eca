"""The session's bus, and the stamp that says whose turn an event belongs to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tau_kernel.submissions import AgentEvent, EventBus, Submission
from tau_kernel.tree import BranchView

from .loop_types import Emit

__all__ = ["BranchHub", "EventHub"]


class EventHub:
    """Stamps and delivers the events of turns."""

    def __init__(self, bus: EventBus | None = None) -> None:
        """Deliver on `bus`, or on a new one that nobody listens to."""
        self.bus = bus or EventBus()

    def subscribe(self, handler: Callable[[AgentEvent], object]) -> Callable[[], None]:
        """Call `handler` with every event; gives the function that ends that."""
        return self.bus.on("all", handler)

    def emitter(self, submission: Submission | None) -> Emit:
        """Give the function that delivers events under the stamp of `submission`."""

        async def emit(event: AgentEvent) -> None:
            await self.deliver(_stamped(event, submission))

        return emit

    async def deliver(self, event: AgentEvent) -> None:
        """Hand a stamped event to who listens."""
        await self.bus.emit(event)


class BranchHub(EventHub):
    """Delivers the events of a branch on the main line's bus, under its lane."""

    def __init__(self, bus: EventBus, view: BranchView) -> None:
        """Announce what happens on `view`."""
        super().__init__(bus)
        self._view = view

    async def deliver(self, event: AgentEvent) -> None:
        """Hand a stamped event to who listens to branches."""
        view = self._view
        await self.bus.emit_channel("branch_event", view.lane, view.label, event)


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
