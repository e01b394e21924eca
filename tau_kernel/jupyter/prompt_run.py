"""One prompt from its request to its reply."""

from __future__ import annotations

import asyncio
import concurrent.futures
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Literal

from tau_kernel.agent import AgentSession, BranchResult, Start, TurnSettings
from tau_kernel.config import Config
from tau_kernel.errors import CallerError, LimitError
from tau_kernel.messages import ImageBlock, JsonObject
from tau_kernel.models import Model
from tau_kernel.submissions import Submission, SubmissionResult
from tau_kernel.tree import SessionLog

from .answer_watch import AnswerWatch
from .cell_options import CellOptions
from .cell_request import CURRENT_REQUEST, CellRequest
from .conversation import Conversation
from .interrupts import Interrupts
from .outlet import CellOutlet
from .placement import Branching, place_rerun, place_start
from .render import AnswerWriter, RenderMode
from .replies import CellFailure, failure_of, interrupted

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
        settings = self._settings(model, config, known)
        writer = AnswerWriter(
            self.outlet,
            asyncio.get_running_loop(),
            known,
            mode=self.mode,
            remote_images=config.remote_images,
        )
        watch = AnswerWatch(
            self.submission_id, writer, self.outlet, known, mode=self.mode
        )
        result = await self._shown(session, settings, watch)
        if result.accepted and self.options.strategy == "steer" and not result.messages:
            self.outlet.page("*Sent into the running turn.*", known)
        return result

    def _settings(
        self, model: Model, config: Config, known: JsonObject
    ) -> TurnSettings:
        options, usual = self.options, config.cell_limits
        return TurnSettings(
            model=model,
            system_prompt=options.system,
            tools=options.tools,
            temperature=options.temperature,
            seed=options.seed,
            max_tokens=options.max_tokens or usual.get("max_tokens"),
            max_turns=options.max_turns or usual.get("max_turns"),
            max_cost=options.max_cost or usual.get("max_cost"),
            reasoning=options.reasoning,
            place=self._place(known),
            provenance={
                "code": self.request.code,
                "execution_count": self.request.execution_count,
            },
        )

    async def _shown(
        self, session: AgentSession, settings: TurnSettings, watch: AnswerWatch
    ) -> SubmissionResult:
        watch.begin(session)
        is_left_open = False
        try:
            result = await session.submit(
                self._submission(),
                settings=settings,
                context=None if self.options.history else (),
            )
            if self._forks and result.accepted:
                ending = session.branch_finished(self.submission_id)
                if not self._waits:
                    is_left_open = True
                    self.conversation.keep(self._follow(ending, watch))
                    return result
                branch = await ending
                if branch.error is not None:
                    raise _failure_of(branch)
                result = replace(result, messages=list(branch.messages))
        except LimitError as error:
            raise failure_of(_with_advice(error)) from error
        finally:
            if not is_left_open:
                await watch.end()
        if watch.end_reason == "aborted":
            raise interrupted()
        if watch.end_reason in {"max_turns", "repeat_tool_calls"}:
            raise failure_of(_ended_by(watch.end_reason))
        return result

    async def _follow(
        self, ending: Awaitable[BranchResult], watch: AnswerWatch
    ) -> None:
        """Show a fork's answer in its cell, which has ended, until that ends too."""
        try:
            branch = await ending
        finally:
            await watch.end()
        if branch.error is not None:
            failure = _failure_of(branch)
            self.outlet.error(failure.ename, failure.evalue, failure.traceback)

    @property
    def _forks(self) -> bool:
        return self.options.strategy == "fork"

    @property
    def _waits(self) -> bool:
        """Whether a fork's cell stays open; where nobody sits at it, it does."""
        wait = self.options.wait
        return not self.request.allow_stdin if wait is None else wait

    def _submission(self) -> Submission:
        return Submission(
            text=self.text,
            source="interactive",
            submitter="human",
            submission_id=self.submission_id,
            images=list(self.images) or None,
            multitask_strategy=self.options.strategy or "enqueue",
            expand_commands=True,
            # What runs beside a cell must never open a dialog on it.
            allow_user_input=self.request.allow_stdin and not self._forks,
            store_history=self.request.store_history,
            silent=self.request.silent,
            correlation=self.request.correlation,
        )

    def _place(self, known: JsonObject) -> Callable[[SessionLog], Start | None] | None:
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
        if self._forks:
            return None
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


def _failure_of(branch: BranchResult) -> CellFailure:
    """Give what the cell of a branch shows that did not end by itself."""
    if branch.error is None or branch.error == "aborted":
        return interrupted()
    name, _, words = branch.error.partition(": ")
    return CellFailure(name, words, [branch.error])


def _with_advice(error: LimitError) -> LimitError:
    """Say how to raise a limit where people set it."""
    place = "cell" if error.scope == "submission" else "session"
    raised = f"raise limits.{place}.{error.limit} in config.json"
    if place == "cell":
        raised = f"write %%tau {error.limit}=… above the prompt, or {raised}"
    return LimitError(f"{error}\n{raised}", limit=error.limit, scope=error.scope)


def _ended_by(reason: str) -> LimitError:
    if reason == "max_turns":
        msg = "the prompt took all completions that max_turns lets it have"
        return _with_advice(LimitError(msg, limit=reason, scope="submission"))
    msg = (
        "the model called the same tools with the same arguments again and again, and "
        "each call failed\nsay in the prompt what is wrong with them"
    )
    return LimitError(msg, limit=reason, scope="submission")
