"""The thread on which the conversation lives, with an event loop of its own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import TypeVar

from tau_kernel.errors import CallerError

__all__ = ["SessionThread"]

T = TypeVar("T")


class SessionThread:
    """Runs one event loop on one thread until it is stopped."""

    def __init__(self) -> None:
        """Make the thread; it does not run before `start`."""
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="tau-agent", daemon=True)
        self._is_stopping = False

    def start(self) -> None:
        """Start the thread; its loop takes calls at once."""
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether it takes calls: it was not stopped, and this is no forked child."""
        return self._thread.is_alive()

    @property
    def is_current(self) -> bool:
        """Whether the calling code runs on this thread."""
        return threading.current_thread() is self._thread

    def call(self, function: Callable[[], T]) -> concurrent.futures.Future[T]:
        """Call a function that does not wait; from any other thread."""

        async def called() -> T:
            return function()

        return self.run(called())

    def run(self, work: Coroutine[object, object, T]) -> concurrent.futures.Future[T]:
        """Run a coroutine; cancelling the future cancels it.

        Raises:
            CallerError: The thread does not run; nothing else would ever answer.
        """
        if not self.is_running:
            work.close()
            msg = (
                "the conversation has ended, or belongs to the process that this one "
                "was forked from\n"
                "ask there, and hand over what was answered"
            )
            raise CallerError(msg)
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def stop(self, timeout: float) -> bool:
        """Stop the loop and wait for the thread.

        Args:
            timeout: Seconds to wait at most.

        Returns:
            Whether the thread has ended.
        """
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self._stop)
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _stop(self) -> None:
        self._is_stopping = True
        self.loop.stop()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            while not self._is_stopping:
                # A task that raises SystemExit keeps it and leaves the loop as well.
                with contextlib.suppress(SystemExit, KeyboardInterrupt):
                    self.loop.run_forever()
        finally:
            for task in asyncio.all_tasks(self.loop):
                task.cancel()
            self.loop.run_until_complete(asyncio.sleep(0))
            self.loop.close()
