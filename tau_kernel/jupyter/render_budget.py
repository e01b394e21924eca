"""How much one answer may send: messages and bytes in any second."""

from __future__ import annotations

from collections import deque
from typing import Final

__all__ = ["SendBudget"]

# A little more than the second that is promised: clocks and receivers are not exact.
_WINDOW: Final = 1.02


class SendBudget:
    """A ledger of what was sent within the last second."""

    def __init__(self, *, messages: int = 40, size: int = 128_000) -> None:
        """Begin with nothing sent.

        Args:
            messages: At most so many in any second.
            size: Bytes of UTF-8 in any second.
        """
        self._messages = messages
        self._limit = size
        self._sent: deque[tuple[float, int]] = deque()
        self._used = 0

    def room(self, now: float) -> int:
        """Give how many bytes one message may have at `now`; 0 for no message."""
        while self._sent and self._sent[0][0] <= now - _WINDOW:
            self._used -= self._sent.popleft()[1]
        if len(self._sent) >= self._messages:
            return 0
        return max(0, self._limit - self._used)

    def fits(self, now: float, size: int, *, reserve: int = 0) -> bool:
        """Tell whether a message of `size` may be sent at `now`.

        A message that exceeds the limit by itself may be sent when nothing else was.

        Args:
            now: Seconds, on the clock of the other calls.
            size: Bytes of the message.
            reserve: Bytes to leave for others.
        """
        room = self.room(now)
        return size + reserve <= room or not self._sent

    def spend(self, now: float, size: int) -> None:
        """Note a message of `size` bytes sent at `now`."""
        self._sent.append((now, size))
        self._used += size

    def next_release(self) -> float:
        """Give when the oldest message leaves the window; 0 if there is none."""
        return self._sent[0][0] + _WINDOW if self._sent else 0.0
