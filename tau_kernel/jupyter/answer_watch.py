"""What a cell hears of its own submission, whichever line of the log it runs on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tau_kernel.agent import AgentSession, RetryNotice
from tau_kernel.messages import JsonObject
from tau_kernel.submissions import AgentEvent, EndReason, Submission

from .outlet import CellOutlet
from .render import AnswerWriter, RenderMode

__all__ = ["AnswerWatch"]

_QUIET: Final = str.maketrans(
    {character: f"\\{character}" for character in "\\`*_[]<>"}
)


class AnswerWatch:
    """Feeds a writer with the events of one submission; on the session's thread."""

    def __init__(
        self,
        submission_id: str,
        writer: AnswerWriter,
        outlet: CellOutlet,
        known: JsonObject,
        *,
        mode: RenderMode,
    ) -> None:
        """Watch for `submission_id`.

        Args:
            submission_id: Whose events count. The stamp says whose an event is, never
                the time at which it comes.
            writer: Shows the answer.
            outlet: Where else the cell's outputs go.
            known: The provenance of those.
            mode: How the cell's outputs are shown.
        """
        self._id = submission_id
        self._writer = writer
        self._outlet = outlet
        self._known = known
        self._mode = mode
        self._undo: list[Callable[[], None]] = []
        self._told = 0
        self.end_reason: EndReason | None = None

    def begin(self, session: AgentSession) -> None:
        """Listen to the session, to its branches, and to its second requests."""
        self._undo = [
            session.subscribe(self._take),
            session.subscribe_channel("branch_event", self._take_of_branch),
            session.subscribe_channel("retry", self._tell),
        ]

    async def end(self) -> None:
        """Stop listening, and wait until the answer was shown."""
        for undo in self._undo:
            undo()
        self._undo = []
        await self._writer.finish()

    def _take(self, event: AgentEvent) -> None:
        if event.submission_id != self._id:
            return
        self._writer.feed(event)
        if event.type == "agent_end":
            self.end_reason = event.end_reason

    def _take_of_branch(self, lane: str, label: str, event: AgentEvent) -> None:
        del lane, label
        self._take(event)

    def _tell(self, *, submission: Submission | None, notice: RetryNotice) -> None:
        if submission is None or submission.submission_id != self._id:
            return
        words = (
            f"{notice.reason} Request {notice.attempt} of {notice.attempts} failed; "
            f"the next one comes in {notice.wait:.1f} s."
        )
        if self._mode == "stream":
            self._outlet.stream("stderr", f"{words}\n")
            return
        bundle: JsonObject = {
            "text/markdown": f"*{words.translate(_QUIET)}*",
            "text/plain": words,
        }
        display_id = f"retry-{self._id}"
        metadata: JsonObject = {"tau": self._known}
        self._outlet.display(bundle, metadata, display_id, update=self._told > 0)
        self._told += 1
