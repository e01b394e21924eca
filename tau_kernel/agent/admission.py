"""Who may start a turn, and when: one at a time, on one event loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final, TypeVar, get_args

from tau_kernel.errors import LimitError
from tau_kernel.messages import Message
from tau_kernel.submissions import (
    DRIVING_SUBMISSION_DEPTH,
    MAX_SUBMISSION_DEPTH,
    SUBMISSION_ALLOWS_USER_INPUT,
    MultitaskStrategy,
    Submission,
    SubmissionResult,
    next_submission_depth,
)

from .branches import Branches
from .turn_runner import TurnRequest, TurnRunner

__all__ = ["Admission"]

_Result = TypeVar("_Result")

_BUSY: Final = "a turn is already in flight"
_STALE: Final = "the turn to roll back was followed by another one"
_CLOSED: Final = "the session was shut down while this submission waited"
_STRATEGIES: Final = get_args(MultitaskStrategy)


class _Slot:
    """The place of the one turn, on one event loop, and who waits for it."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self._waiting = 0
        self._closings = 0

    @property
    def is_busy(self) -> bool:
        """Whether a turn runs, or one is about to.

        Between the end of a turn and the start of one that waits, the lock is free.
        """
        return self.lock.locked() or self._waiting > 0

    async def take(self) -> bool:
        """Wait for the slot; false, without it, if it was closed meanwhile."""
        closings = self._closings
        self._waiting += 1
        try:
            await self.lock.acquire()
        finally:
            self._waiting -= 1
        if self._closings == closings:
            return True
        self.lock.release()
        return False

    def close(self) -> None:
        """Turn away who waits; who comes later is welcome."""
        self._closings += 1


class Admission:
    """The one door of a session: checks, then the lock, then the turn."""

    def __init__(self, runner: TurnRunner, branches: Branches) -> None:
        """Guard `runner`; the loop is bound by the first use."""
        self._runner = runner
        self._branches = branches
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turn_task: asyncio.Task[object] | None = None
        self._turn_count = 0
        self._leaf_before_turn: str | None = None
        self._marshalled: dict[str, asyncio.Task[None]] = {}
        self._slot = _Slot()

    @property
    def lock(self) -> asyncio.Lock:
        """The lock that a turn holds."""
        return self._slot.lock

    @property
    def is_running(self) -> bool:
        """Whether a turn holds the lock, be it unwinding after an abort."""
        return self._turn_task is not None

    def bind_loop(self) -> None:
        """Make the running loop the session's, or check that it is.

        Raises:
            RuntimeError: No loop runs here, or the session lives on another live one.
        """
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            msg = "no event loop runs in this thread; use submit_threadsafe"
            raise RuntimeError(msg) from None
        if self._loop is not None and self._loop is not here and _lives(self._loop):
            msg = "this session lives on another event loop; use submit_threadsafe"
            raise RuntimeError(msg)
        if self._loop is not None and self._loop is not here:
            # A lock stays with its loop, and what ran there runs no more.
            self._slot, self._turn_task, self._marshalled = _Slot(), None, {}
        self._loop = here

    async def submit(self, request: TurnRequest) -> SubmissionResult:
        """Admit the request as its strategy says, run it, and give its result.

        Raises:
            RuntimeError: Called from a foreign loop, or from within the running turn.
            LimitError: Submissions caused submissions too deep.
            NotImplementedError: The strategy is not available.
        """
        self.bind_loop()
        depth = next_submission_depth(request.submission.depth)
        submission = replace(request.submission, depth=depth)
        request = replace(request, submission=submission)
        self._check_depth(submission)
        self._check_reentrancy()
        if submission.multitask_strategy == "fork":
            return self._fork(request)
        slot = self._slot
        refusal = await self._take_slot(slot, submission)
        if refusal is not None:
            return refusal
        try:
            messages = await self._in_slot(request)
        finally:
            slot.lock.release()
        return SubmissionResult(
            accepted=True, submission_id=submission.submission_id, messages=messages
        )

    def submit_threadsafe(
        self, request: TurnRequest
    ) -> concurrent.futures.Future[SubmissionResult]:
        """Submit from a thread that is not the session's.

        Requests are taken up in the order of the calls. Cancelling the future before
        that keeps the turn from running; later it has no effect.

        Raises:
            RuntimeError: The session has no live loop, or it is the calling one.
        """
        loop = self._loop
        if loop is None or not _lives(loop):
            msg = (
                "this session has no running event loop; call emit_session_start on one"
            )
            raise RuntimeError(msg)
        if _running_loop() is loop:
            msg = "this is the session's own event loop; await submit instead"
            raise RuntimeError(msg)
        future: concurrent.futures.Future[SubmissionResult] = (
            concurrent.futures.Future()
        )
        loop.call_soon_threadsafe(self._pick_up, request, future)
        return future

    async def go_on(self) -> list[Message]:
        """Run the loop without a prompt.

        Raises:
            RuntimeError: A turn is in flight, or the calling loop is a foreign one.
        """
        self.bind_loop()
        if self._slot.is_busy:
            raise RuntimeError(_BUSY)
        async with self._slot.lock:
            try:
                self._enter()
                return list(await self._runner.go_on())
            finally:
                self._turn_task = None

    async def alone(self, work: Callable[[], Awaitable[_Result]]) -> _Result:
        """Run what must have the conversation to itself, when no turn runs.

        An abort raises the runner's signal, as for a turn.

        Raises:
            RuntimeError: Called from within the running turn, or from a foreign loop.
        """
        self.bind_loop()
        self._check_reentrancy()
        if not await self._slot.take():
            raise RuntimeError(_CLOSED)
        try:
            self._enter()
            return await work()
        finally:
            self._turn_task = None
            self._slot.lock.release()

    async def close(self) -> None:
        """Abort the turn, refuse what waits, end what other threads submitted."""
        self._runner.abort()
        self._branches.abort()
        self._slot.close()
        here = asyncio.current_task()
        tasks = [task for task in self._marshalled.values() if task is not here]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self._turn_task is not None and self._turn_task is not here:
            async with self.lock:
                pass
        await self._branches.close()

    def _check_depth(self, submission: Submission) -> None:
        if submission.depth > MAX_SUBMISSION_DEPTH:
            msg = (
                f"submission {submission.submission_id!r} has depth "
                f"{submission.depth}, over {MAX_SUBMISSION_DEPTH}: "
                "submissions keep causing submissions"
            )
            raise LimitError(msg)

    def _check_reentrancy(self) -> None:
        task = asyncio.current_task()
        if task is self._turn_task or self._runner.tasks.holds(task):
            msg = (
                "submit was called from within the running turn, which would wait "
                "for itself; start a task for it"
            )
            raise RuntimeError(msg)

    async def _take_slot(
        self, slot: _Slot, submission: Submission
    ) -> SubmissionResult | None:
        match submission.multitask_strategy:
            case "reject" if slot.is_busy:
                return _refused(submission, _BUSY)
            case "steer" if slot.is_busy:
                self._runner.steering.put(submission)
                return SubmissionResult(
                    accepted=True, submission_id=submission.submission_id
                )
            case "reject" | "enqueue" | "steer":
                if not await slot.take():
                    return _refused(submission, _CLOSED)
            case "rollback":
                return await self._roll_back(slot, submission)
            case other:
                msg = (
                    f"strategy {other!r} is unknown; "
                    f"take one of {', '.join(_STRATEGIES)}"
                )
                raise NotImplementedError(msg)
        return None

    def _fork(self, request: TurnRequest) -> SubmissionResult:
        """Begin a branch where the conversation was last complete.

        That is before the running turn, whose entries are still being written.
        """
        log, place = self._runner.log, request.settings.place
        parent_id = self._leaf_before_turn if self.is_running else log.cursor
        if place is not None and (start := place(log)) is not None:
            parent_id = start.entry_id
        reason = self._branches.refusal(parent_id)
        if reason is not None:
            return _refused(request.submission, reason)
        self._branches.start(parent_id, request)
        return SubmissionResult(
            accepted=True, submission_id=request.submission.submission_id
        )

    async def _roll_back(
        self, slot: _Slot, submission: Submission
    ) -> SubmissionResult | None:
        turn, leaf = self._turn_count, self._leaf_before_turn
        was_running = self.is_running
        if was_running:
            self._runner.abort()
        if not await slot.take():
            return _refused(submission, _CLOSED)
        if not was_running:
            return None
        if self._turn_count != turn:
            slot.lock.release()
            return _refused(submission, _STALE)
        try:
            self._runner.log.append_navigate(leaf)
        except BaseException:
            slot.lock.release()
            raise
        return None

    def _enter(self) -> None:
        self._turn_task = asyncio.current_task()
        self._turn_count += 1
        self._leaf_before_turn = self._runner.log.cursor
        self._runner.renew_signal()

    async def _in_slot(self, request: TurnRequest) -> list[Message]:
        submission = request.submission
        depth = DRIVING_SUBMISSION_DEPTH.set(submission.depth)
        asks = SUBMISSION_ALLOWS_USER_INPUT.set(submission.allow_user_input)
        try:
            self._enter()
            return await self._runner.run(request)
        finally:
            self._turn_task = None
            SUBMISSION_ALLOWS_USER_INPUT.reset(asks)
            DRIVING_SUBMISSION_DEPTH.reset(depth)

    def _pick_up(
        self,
        request: TurnRequest,
        future: concurrent.futures.Future[SubmissionResult],
    ) -> None:
        if not future.set_running_or_notify_cancel():
            return
        key = request.submission.submission_id
        if key in self._marshalled:
            msg = f"submission {key!r} is in flight already; draw a new submission_id"
            future.set_exception(RuntimeError(msg))
            return
        work = self._settle(request, future)
        task = asyncio.get_running_loop().create_task(work)
        self._marshalled[key] = task
        task.add_done_callback(lambda _: self._marshalled.pop(key, None))

    async def _settle(
        self,
        request: TurnRequest,
        future: concurrent.futures.Future[SubmissionResult],
    ) -> None:
        try:
            future.set_result(await self.submit(request))
        except asyncio.CancelledError:
            future.set_exception(concurrent.futures.CancelledError())
            raise
        except Exception as error:  # noqa: BLE001 - the future's holder gets it
            future.set_exception(error)


def _refused(submission: Submission, reason: str) -> SubmissionResult:
    return SubmissionResult(
        accepted=False,
        submission_id=submission.submission_id,
        rejection_reason=reason,
    )


def _lives(loop: asyncio.AbstractEventLoop) -> bool:
    return loop.is_running() and not loop.is_closed()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
