"""The one place where a turn starts tasks, and ends them when it is aborted."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from tau_kernel.messages import AbortSignal

__all__ = ["TurnTasks"]

_Result = TypeVar("_Result")

#: Seconds that cancelled work has for cleaning up before the turn goes on without it.
_GRACE: Final = 0.02


class TurnTasks:
    """Runs the parts of a turn that an abort must be able to end at once."""

    def __init__(self) -> None:
        """Start with nothing running."""
        self._tasks: set[asyncio.Task[object]] = set()

    def holds(self, task: asyncio.Task[object] | None) -> bool:
        """Whether `task` is part of the turn, so that it must not wait for its end."""
        return task in self._tasks

    def start(self, work: Coroutine[None, None, _Result]) -> asyncio.Task[_Result]:
        """Run `work` as a task of the turn; `finish` waits for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def finish(
        self,
        task: asyncio.Task[_Result],
        signal: AbortSignal,
        *,
        patience: float = 0.0,
    ) -> _Result | None:
        """Give what `task` returns or raises, or None if the abort came first.

        Args:
            task: Made by `start`; what it returns is never None.
            signal: Its rise cancels the task.
            patience: Seconds that the task has to notice the signal by itself.

        Cancelling this call cancels the task and lets it clean up. A task that does
        not end within its grace is left behind; what it raises later is reported to
        the loop's exception handler.
        """
        loop = asyncio.get_running_loop()
        raised: asyncio.Future[None] = loop.create_future()
        forget = signal.on_abort(lambda: loop.call_soon_threadsafe(_resolve, raised))
        if signal.is_aborted() and not patience:
            task.cancel()
        try:
            either: set[asyncio.Future[Any]] = {task, raised}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not task.done() and patience:
                await asyncio.wait({task}, timeout=patience)
        except asyncio.CancelledError:
            await _cancel(task)
            raise
        finally:
            forget()
            raised.cancel()
        if not task.done():
            await _cancel(task)
            return None
        return None if task.cancelled() else task.result()


async def _cancel(task: asyncio.Task[_Result]) -> None:
    task.cancel()
    await asyncio.wait({task}, timeout=_GRACE)
    task.add_done_callback(_report)


def _report(task: asyncio.Task[_Result]) -> None:
    if task.cancelled() or (error := task.exception()) is None:
        return
    task.get_loop().call_exception_handler(
        {"message": "aborted work failed", "exception": error, "task": task}
    )


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
