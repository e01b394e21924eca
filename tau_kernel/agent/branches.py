"""Turns beside the main line: forks that run on, and branches that somebody waits for.

Each has a cursor, a signal and a stamp of its own and writes through to the same log.
What it reports goes to the channels ``branch_event`` and ``branch_end``; its failure
is its own and never the main line's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tau_kernel.errors import CallerError
from tau_kernel.messages import Message
from tau_kernel.submissions import (
    DRIVING_SUBMISSION_DEPTH,
    SUBMISSION_ALLOWS_USER_INPUT,
)
from tau_kernel.tree import (
    BranchView,
    ConversationTree,
    open_branch,
    resolve_cursor,
    session_log_is_addressable,
)

from .turn_runner import TurnRequest, TurnRunner

__all__ = ["BranchResult", "Branches"]

_LABEL: Final = 60
#: Seconds that aborted branches have to unwind before they are cancelled.
_GRACE: Final = 1.0
_ABORTED: Final = "aborted"


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchResult:
    """How a branch ended.

    Args:
        ok: Whether its turn ended by itself.
        lane: What named its live output.
        label: What people saw for it.
        leaf: The last entry of the branch; None if it is empty and begins before the
            root.
        messages: What the turn added after the prompt.
        error: Why it did not end by itself; None if it did.
    """

    ok: bool
    lane: str
    label: str
    leaf: str | None
    messages: tuple[Message, ...]
    error: str | None


class Branches:
    """Opens branches of one session, watches over them, and ends them with it."""

    def __init__(self, main: TurnRunner) -> None:
        """Branch from the log of `main`, with its model, tools and keys."""
        self._main = main
        self._running: dict[str, TurnRunner] = {}
        self._tasks: dict[str, asyncio.Task[BranchResult]] = {}

    def __len__(self) -> int:
        """How many run."""
        return len(self._running)

    def refusal(self, parent_id: str | None) -> str | None:
        """Say why no branch may begin at an entry, or give None.

        Raises:
            CallerError: `parent_id` names no entry.
        """
        tree = ConversationTree(self._main.log.view(), self._main.log.cursor)
        return tree.fork_admission_reason(parent_id)

    def start(self, parent_id: str | None, request: TurnRequest) -> None:
        """Run a branch in the background until it ends or the session does.

        Raises:
            CallerError: The submission's id is in use, its settings name what is not
                there, or the start is no entry.
        """
        key = request.submission.submission_id
        if key in self._tasks:
            msg = f"submission {key!r} runs already; draw a new submission_id"
            raise CallerError(msg)
        self._main.spec_for(request.settings)
        view = self._open(parent_id, request, label=None)
        task = asyncio.get_running_loop().create_task(self._run(view, request))
        self._tasks[key] = task
        task.add_done_callback(lambda _: self._tasks.pop(key, None))

    def finished(self, submission_id: str) -> Awaitable[BranchResult]:
        """Give the end of a branch that `start` began, to wait for.

        Cancelling that leaves the branch running.

        Raises:
            CallerError: No branch of this submission runs.
        """
        task = self._tasks.get(submission_id)
        if task is None:
            msg = f"no branch of submission {submission_id!r} runs; it may have ended"
            raise CallerError(msg)
        return asyncio.shield(task)

    async def run(
        self, parent_id: str | None, request: TurnRequest, *, label: str | None = None
    ) -> BranchResult:
        """Run a branch and give how it ended; cancelling this aborts it.

        Raises:
            CallerError: The start is no entry; nothing was written.
        """
        return await self._run(self._open(parent_id, request, label=label), request)

    def abort(self, submission_id: str | None = None) -> None:
        """End one branch, or all; what they produced is kept. From any thread."""
        for key, runner in tuple(self._running.items()):
            if submission_id in {None, key}:
                runner.abort()

    async def close(self) -> None:
        """End all branches, and wait until they have unwound."""
        self.abort()
        here = asyncio.current_task()
        tasks = {task for task in self._tasks.values() if task is not here}
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=_GRACE)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)

    def _open(
        self, parent_id: str | None, request: TurnRequest, *, label: str | None
    ) -> BranchView:
        words = " ".join(request.submission.text.split())[:_LABEL]
        return open_branch(self._main.log, parent_id, label=label or words)

    async def _run(self, view: BranchView, request: TurnRequest) -> BranchResult:
        submission = request.submission
        runner = self._main.for_branch(view)
        self._running[submission.submission_id] = runner
        depth = DRIVING_SUBMISSION_DEPTH.set(submission.depth)
        asks = SUBMISSION_ALLOWS_USER_INPUT.set(submission.allow_user_input)
        error: str | None = _ABORTED
        messages: Sequence[Message] = ()
        try:
            messages = await runner.run(replace(request, on_admitted=None))
            error = _ABORTED if runner.signal.is_aborted() else None
        except Exception as failure:  # noqa: BLE001 - a branch's failure is its own
            error = f"{type(failure).__name__}: {failure}"
            self._note_failure(view, error)
        finally:
            SUBMISSION_ALLOWS_USER_INPUT.reset(asks)
            DRIVING_SUBMISSION_DEPTH.reset(depth)
            del self._running[submission.submission_id]
            self._come_back()
            await self._main.hub.bus.emit_channel(
                "branch_end", view.lane, view.label, error
            )
        return BranchResult(
            ok=error is None,
            lane=view.lane,
            label=view.label,
            leaf=view.cursor,
            messages=tuple(messages),
            error=error,
        )

    def _note_failure(self, view: BranchView, error: str) -> None:
        data = {"lane": view.lane, "label": view.label, "error": error}
        try:
            view.append_custom_entry("branch_error", data)
        except Exception as second:  # noqa: BLE001 - the disk may be what failed
            self._main.hub.bus.surface(second, "branch_error")

    def _come_back(self) -> None:
        """Let a stored log reopen on the main line, not where the branch wrote last."""
        log = self._main.log
        if not session_log_is_addressable(log):
            return
        try:
            if resolve_cursor(log.view()) != log.cursor:
                log.append_navigate(log.cursor)
        except Exception as error:  # noqa: BLE001 - the branch itself is stored
            self._main.hub.bus.surface(error, "branch_end")
