"""The one way from the session's thread back to the kernel's main thread."""

from __future__ import annotations

import asyncio
import concurrent.futures
import queue
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from .interrupts import Interrupts

__all__ = ["MainThread"]

T = TypeVar("T")

#: Seconds between two looks at what cannot wake a blocked thread.
_LOOK: Final = 0.02


class MainThread:
    """Runs functions on the main thread, whether its loop is free or not.

    While the loop runs, it serves the calls. While a Python cell blocks the thread in
    `wait`, that serves them. Each call is served once, by whoever comes first.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Serve on the calling thread, whose loop is `loop`."""
        self.loop = loop
        self._thread = threading.current_thread()
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lookers: list[Callable[[], bool]] = []

    @property
    def is_current(self) -> bool:
        """Whether the calling code runs on the main thread."""
        return threading.current_thread() is self._thread

    def call(self, function: Callable[[], T]) -> concurrent.futures.Future[T]:
        """Call a function that does not wait; from any thread."""
        future: concurrent.futures.Future[T] = concurrent.futures.Future()

        def called() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(function())
                except Exception as error:  # noqa: BLE001 - the future's holder gets it
                    future.set_exception(error)

        self._calls.put(called)
        self.loop.call_soon_threadsafe(self._serve)
        return future

    def look(self, looker: Callable[[], bool]) -> None:
        """Call `looker` again and again until it gives False; on the main thread.

        For sockets that cannot wake a thread by themselves.
        """
        self._lookers.append(looker)
        self._look()

    def wait(
        self,
        future: concurrent.futures.Future[T],
        interrupts: Interrupts,
        give_up: Callable[[], object],
    ) -> T:
        """Block the main thread until `future` is done, and serve calls meanwhile.

        Raises:
            KeyboardInterrupt: An interrupt came first; `give_up` was called.
            CancelledError: Likewise, where the user's code is not on the stack.
        """
        rung: list[None] = []

        def ring() -> None:
            rung.append(None)
            self._calls.put(_nothing)

        with interrupts.deferred(ring) as is_raised:
            future.add_done_callback(lambda _: self._calls.put(_nothing))
            while not (rung or future.done()):
                try:
                    self._calls.get(timeout=_LOOK if self._lookers else None)()
                except queue.Empty:
                    self._look_once()
            if rung:
                give_up()
        if rung and is_raised:
            raise KeyboardInterrupt
        return future.result()

    def _serve(self) -> None:
        while True:
            try:
                called = self._calls.get_nowait()
            except queue.Empty:
                return
            called()

    def _look(self) -> None:
        self._look_once()
        if self._lookers:
            self.loop.call_later(_LOOK, self._look)

    def _look_once(self) -> None:
        self._lookers = [looker for looker in self._lookers if looker()]


def _nothing() -> None:
    """Wake a thread that waits."""
