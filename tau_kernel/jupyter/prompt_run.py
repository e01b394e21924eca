"""One prompt from its request to its reply."""

from __future__ import annotations

import asyncio
import concurrent.futures
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal

from tau_kernel.agent import AgentSession, TurnSettings
from tau_kernel.errors import CallerError
from tau_kernel.messages import ImageBlock, JsonObject
from tau_kernel.models import Model
from tau_kernel.submissions import AgentEvent, Submission, SubmissionResult
from tau_kernel.tree import SessionLog

from .cell_options import CellOptions
from .cell_request import CURRENT_REQUEST, CellRequest
from .conversation import Conversation
from .interrupts import Interrupts
from .outlet import CellOutlet
from .placement import Branching, place_rerun, place_start
from .render import AnswerWriter, RenderMode
from .replies import failure_of, interrupted

__all__ = ["PromptRun", "RerunMode", "provenance"]

RerunMode = Literal["branch", "append"]

#: Seconds that an aborted turn has to unwind before its cell is answered anyway.
_UNWIND: Final = 0.08
#: Seconds between two abort calls: a turn may be admitted just after the first.
_ABORT_AGAIN: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptRun:
    """Submits one cell's prompt, shows the answer and waits for the end.

    Args:
        conversation: Where the prompt goes.
        interrupts: Who tells of an interrupt.
        request: The cell.
        outlet: Where its outputs go.
        text: The prompt.
        options: What the cell's first line set.
        images: Pictures that go with the prompt.
        rerun: What running a cell again does.
        mode: How the answer is shown.
    """

    conversation: Conversation
    interrupts: Interrupts
    request: CellRequest
    outlet: CellOutlet
    text: str
    options: CellOptions
    images: tuple[ImageBlock, ...] = ()
    rerun: RerunMode = "branch"
    mode: RenderMode = "display"
    submission_id: str = field(default_factory=lambda: uuid.uuid4().hex)

    async def run(self) -> SubmissionResult:
        """Run the prompt; on the main loop.

        Raises:
            CellFailure: The prompt failed, was refused or was interrupted.
        """
        token = CURRENT_REQUEST.set(self.request)
        try:
            future = self.conversation.thread.run(self._on_session_thread())
        finally:
            CURRENT_REQUEST.reset(token)
        bell = asyncio.Event()
        with self.interrupts.waiting(bell.set):
            return await self._wait(future, bell)

    async def _wait(
        self,
        future: concurrent.futures.Future[SubmissionResult],
        bell: asyncio.Event,
    ) -> SubmissionResult:
        result = asyncio.wrap_future(future)
        rung = asyncio.create_task(bell.wait())
        try:
            first: set[asyncio.Future[Any]] = {result, rung}
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
            if bell.is_set():
                await self._unwind(result)
                raise interrupted()
            answer = await result
        finally:
            rung.cancel()
        if not answer.accepted:
            raise failure_of(CallerError(answer.rejection_reason or "refused"))
        return answer

    async def _unwind(self, result: asyncio.Future[SubmissionResult]) -> None:
        """Abort until the turn has ended, but let nobody wait for long."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + _UNWIND
        while not result.done() and loop.time() < give_up:
            session = self.conversation.session
            if session is not None:
                session.abort()
            await asyncio.wait({result}, timeout=_ABORT_AGAIN)
        if not result.done():
            result.cancel()
        elif not result.cancelled():
            # Retrieved, so that it is not reported as lost: the cell was interrupted.
            result.exception()

    async def _on_session_thread(self) -> SubmissionResult:
        config = self.conversation.config()
        model = self.conversation.model(self.options.model, config)
        session = await self.conversation.open(
            model, config, is_kept=self.request.store_history
        )
        known = provenance(session, self.submission_id, model)
        settings = TurnSettings(
            model=model,
            system_prompt=self.options.system,
            tools=self.options.tools,
            temperature=self.options.temperature,
            seed=self.options.seed,
            max_tokens=self.options.max_tokens,
            reasoning=self.options.reasoning,
            place=self._place(known),
            provenance={
                "code": self.request.code,
                "execution_count": self.request.execution_count,
            },
        )
        writer = AnswerWriter(
            self.outlet,
            asyncio.get_running_loop(),
            known,
            mode=self.mode,
            remote_images=config.remote_images,
        )
        result = await self._shown(session, settings, writer)
        if result.accepted and self.options.strategy == "steer" and not result.messages:
            self.outlet.page("*Sent into the running turn.*", known)
        return result

    async def _shown(
        self, session: AgentSession, settings: TurnSettings, writer: AnswerWriter
    ) -> SubmissionResult:
        def feed(event: AgentEvent) -> None:
            # The stamp says whose event it is, never the time at which it comes.
            if event.submission_id == self.submission_id:
                writer.feed(event)
                outcome.take(event)

        outcome = _Outcome()
        unsubscribe = session.subscribe(feed)
        try:
            result = await session.submit(
                self._submission(),
                settings=settings,
                context=None if self.options.history else (),
            )
        finally:
            unsubscribe()
            await writer.finish()
        if outcome.reason == "aborted":
            raise interrupted()
        if outcome.reason in {"max_turns", "repeat_tool_calls"}:
            msg = f"the turn was ended by its limit {outcome.reason}"
            raise failure_of(CallerError(msg))
        return result

    def _submission(self) -> Submission:
        return Submission(
            text=self.text,
            source="interactive",
            submitter="human",
            submission_id=self.submission_id,
            images=list(self.images) or None,
            multitask_strategy=self.options.strategy or "enqueue",
            expand_commands=True,
            allow_user_input=self.request.allow_stdin,
            store_history=self.request.store_history,
            silent=self.request.silent,
            correlation=self.request.correlation,
        )

    def _place(self, known: JsonObject) -> Callable[[SessionLog], None] | None:
        if not self.request.store_history:
            if self.options.from_ is not None:
                msg = (
                    "from= begins a branch, and this client asked to keep nothing\n"
                    "run the cell with store_history, or write history=off for an "
                    "empty context"
                )
                raise CallerError(msg)
            return None
        if self.options.from_ is not None:
            return place_start(self.options.from_)
        if self.rerun == "branch" and self.request.cell_id is not None:
            return place_rerun(self.request.cell_id, partial(self._tell, known))
        return None

    def _tell(self, known: JsonObject, branching: Branching) -> None:
        if branching.left:
            turns = "turn stays" if branching.left == 1 else "turns stay"
            self.outlet.page(
                f"*{branching.left} later {turns} on the old branch; "
                f"`%%tau from={branching.tip}` goes on there.*",
                known,
            )


def provenance(
    session: AgentSession | None, submission_id: str | None, model: Model | None
) -> JsonObject:
    """Give what an output of a cell says of its origin, for ``metadata.tau``."""
    return {
        "session_id": None if session is None else session.session_log.id,
        "submission_id": submission_id,
        "entry_id": None,
        "source": "interactive",
        "submitter": "human",
        "model": None if model is None else model.name,
        "usage": None,
    }


class _Outcome:
    """How the turn ended, as its last event says."""

    def __init__(self) -> None:
        self.reason: str | None = None

    def take(self, event: AgentEvent) -> None:
        if event.type == "agent_end":
            self.reason = event.end_reason
