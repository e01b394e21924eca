"""SIGINT: told to whatever waits, raised only inside the user's own Python.

A KeyboardInterrupt that escapes from a callback of the event loop ends the process.
So the handler raises only while a flag says that user code is on the stack, and in
every other case wakes the loop, which then ends what it waits for.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType

__all__ = ["Interrupts", "is_raised_in"]


class Interrupts:
    """The process's one handler of SIGINT. Made on the main thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Serve `loop`, the main thread's; nothing is installed yet."""
        self._loop = loop
        self._in_user_code = False
        self._in_cell = False
        self._is_missed = False
        self._wake_blocked: Callable[[], object] | None = None
        self._waiting: list[Callable[[], object]] = []

    def install(self) -> None:
        """Take SIGINT over, from the main thread."""
        signal.signal(signal.SIGINT, self._on_signal)

    @contextmanager
    def user_code(self) -> Iterator[None]:
        """Let an interrupt raise KeyboardInterrupt inside the block.

        Elsewhere than on the main thread this does nothing: an interrupt is raised
        there only.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = self._in_user_code
        self._in_user_code = True
        try:
            if self._is_missed:
                self._is_missed = False
                raise KeyboardInterrupt
            yield
        finally:
            self._in_user_code = before

    @contextmanager
    def python_cell(self) -> Iterator[None]:
        """Keep an interrupt that comes between two statements for the second one."""
        self._in_cell = True
        try:
            yield
        finally:
            self._in_cell = self._is_missed = False

    @contextmanager
    def deferred(self, wake: Callable[[], object]) -> Iterator[bool]:
        """Raise nothing inside the block, on the main thread, but call `wake`.

        For what holds locks of other threads: an exception there leaves them locked.

        Args:
            wake: Called by the handler itself, between any two instructions.

        Yields:
            Whether an interrupt would have raised.
        """
        before = self._in_user_code, self._wake_blocked
        self._wake_blocked = wake
        self._in_user_code = False
        try:
            yield before[0]
        finally:
            self._in_user_code, self._wake_blocked = before

    def leave_user_code(self) -> None:
        """Raise no more in this block: what follows in it is not the user's code."""
        if threading.current_thread() is threading.main_thread():
            self._in_user_code = False

    @contextmanager
    def waiting(self, wake: Callable[[], object]) -> Iterator[None]:
        """Call `wake` on the loop for each interrupt that comes inside the block."""
        self._waiting.append(wake)
        try:
            yield
        finally:
            self._waiting.remove(wake)

    def interrupt(self) -> None:
        """Wake everything that waits; from the loop's own thread."""
        if self._waiting:
            self._is_missed = False
        for wake in list(self._waiting):
            wake()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self._in_user_code:
            raise KeyboardInterrupt
        if self._wake_blocked is not None:
            self._wake_blocked()
            return
        self._is_missed = self._in_cell
        self._loop.call_soon_threadsafe(self.interrupt)


def is_raised_in(code: CodeType) -> bool:
    """Say whether a frame of `code` is the handler, which no traceback should show."""
    return code is Interrupts._on_signal.__code__  # noqa: SLF001 - of this module
