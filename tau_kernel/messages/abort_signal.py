"""The one way a running turn is told to stop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

__all__ = ["AbortSignal"]


class AbortSignal:
    """A flag that is raised once, from any thread, and never lowered."""

    def __init__(self) -> None:
        """Start unraised, with nobody listening."""
        self._lock = threading.Lock()
        self._raised = False
        self._listeners: dict[object, Callable[[], object]] = {}

    def abort(self) -> None:
        """Raise the flag and tell each listener, in this thread. Idempotent."""
        with self._lock:
            self._raised = True
            listeners = list(self._listeners.values())
            self._listeners.clear()
        for listener in listeners:
            listener()

    def is_aborted(self) -> bool:
        """Whether the flag was raised."""
        return self._raised

    def on_abort(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Call `listener` when the flag rises, at once if it already has.

        Args:
            listener: Called in the thread that aborts; it must not block or raise.

        Returns:
            The function that takes the listener off again.
        """
        token = object()
        with self._lock:
            if not self._raised:
                self._listeners[token] = listener
                return lambda: self._forget(token)
        listener()
        return lambda: None

    async def wait(self) -> None:
        """Return when the flag is raised; cancelling leaves the flag alone."""
        loop = asyncio.get_running_loop()
        raised = asyncio.Event()
        forget = self.on_abort(lambda: _set_from_any_thread(loop, raised))
        try:
            await raised.wait()
        finally:
            forget()

    def _forget(self, token: object) -> None:
        with self._lock:
            self._listeners.pop(token, None)


def _set_from_any_thread(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(event.set)
