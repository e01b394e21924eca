"""SIGINT: told to whatever waits, raised only inside the user's own Python.

A KeyboardInterrupt that escapes from a callback of the event loop ends the process.
So the handler raises only while a flag says that user code is on the stack, and in
every other case wakes the loop, which then ends what it waits for.
"""

from __future__ import annotations

import asyncio
import signal
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
        self._waiting: list[Callable[[], object]] = []

    def install(self) -> None:
        """Take SIGINT over, from the main thread."""
        signal.signal(signal.SIGINT, self._on_signal)

    @contextmanager
    def user_code(self) -> Iterator[None]:
        """Let an interrupt raise KeyboardInterrupt inside the block."""
        before = self._in_user_code
        self._in_user_code = True
        try:
            yield
        finally:
            self._in_user_code = before

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
        for wake in list(self._waiting):
            wake()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self._in_user_code:
            # One interrupt, one exception: a second one must not hit the traceback.
            self._in_user_code = False
            raise KeyboardInterrupt
        self._loop.call_soon_threadsafe(self.interrupt)


def is_raised_in(code: CodeType) -> bool:
    """Say whether a frame of `code` is the handler, which no traceback should show."""
    return code is Interrupts._on_signal.__code__  # noqa: SLF001 - of this module
