"""A child process in a session of its own, of which nothing survives.

A small shell leads the session and waits for the program. Beside it a watcher reads
from a pipe whose other end this process holds and never writes to: when this process
ends, however it ends, the pipe does, and the watcher kills the group. That needs
neither signals on a parent's death, which only Linux has and which come when a thread
ends, nor code between fork and exec, which is unsafe beside threads.

The leader outlives the program and is reaped last, so its number stays taken while
signals are sent to it. A terminal's interrupt reaches the session as little as one that
is sent to this process's group.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self, cast

import psutil

__all__ = ["Supervised"]

#: 0 is the pipe that ends with this process, 1 takes the program's output, 2 the number
#: of the watcher and then the program's status. Where /proc tells, the watcher finds
#: the members of the session that left the group, as `timeout` and `set -m` make them.
_SCRIPT: Final = """
exec 3<&0 4>&2 </dev/null 2>/dev/null
trap : HUP INT TERM
(
  trap '' HUP INT TERM
  exec 4>&- >/dev/null
  read -r line <&3
  for stat in /proc/[0-9]*/stat; do
    read -r line <"$stat" || continue
    set -- ${line##*) }
    if [ "$4" = "$$" ] && [ "$3" != "$$" ]; then
      pid=${stat#/proc/}
      kill -KILL "${pid%/stat}"
    fi
  done
  kill -KILL 0
) &
echo $! >&4
(exec "$@" 2>&1 3<&- 4>&-)
echo $? >&4
exec 4>&- >/dev/null
wait
"""
_CHUNK: Final = 65_536


class Supervised:
    """A program that is running, or has ended and left its output to be read.

    One thread reads and closes; `kill` and `terminate` may come from any.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        pass_fds: Sequence[int] = (),
    ) -> None:
        """Start a program.

        Args:
            argv: The program and its arguments.
            env: Its whole environment.
            cwd: The folder it starts in.
            pass_fds: Descriptors it inherits, each from 10 up; the shell uses those
                below.

        Raises:
            OSError: It cannot be started: there is no such folder, the arguments are
                too long, or no more processes are allowed.
        """
        self._process = subprocess.Popen(  # noqa: S603 - what to run is the tool's purpose
            ["/bin/sh", "-c", _SCRIPT, "sh", *argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env=env,
            cwd=cwd,
            pass_fds=pass_fds,
            bufsize=0,
        )
        self._lock = threading.Lock()
        self._is_closed = False
        self._told = b""
        self._output, self._status = (
            cast("IO[bytes]", pipe).fileno()
            for pipe in (self._process.stdout, self._process.stderr)
        )
        self._poll = select.poll()
        for pipe in (self._output, self._status):
            os.set_blocking(pipe, False)
            self._poll.register(pipe, select.POLLIN)
        self.is_drained = False
        self.has_ended = False

    def __enter__(self) -> Self:
        """Give itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Kill what is left and reap the leader."""
        self.kill()
        with self._lock:
            self._is_closed = True
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            cast("IO[bytes]", pipe).close()
        self._process.wait()

    @property
    def status(self) -> int | None:
        """The program's exit status, 128 + N for signal N; None if it is unknown."""
        words = self._told.split()
        return int(words[1]) if len(words) > 1 else None

    def read(self, timeout: float) -> bytes:
        """Give what the program wrote, as soon as there is some; else nothing.

        Args:
            timeout: Seconds to wait at most. The wait ends early, with nothing, when
                the program does.
        """
        if self.is_drained and self.has_ended:
            return b""
        ready = {pipe for pipe, _ in self._poll.poll(max(0.0, timeout) * 1000)}
        if self._status in ready:
            self._hear(os.read(self._status, _CHUNK))
        if self._output not in ready:
            return b""
        chunk = os.read(self._output, _CHUNK)
        if not chunk:
            self._poll.unregister(self._output)
            self.is_drained = True
        return chunk

    def _hear(self, words: bytes) -> None:
        self._told += words
        # Without words the leader itself is gone: killed, as it traps all else.
        if not words:
            self._poll.unregister(self._status)
        self.has_ended = self.has_ended or not words or self.status is not None

    def count(self) -> int:
        """Say how many processes are at work, beside the two that watch over them."""
        with self._lock:
            return 0 if self._is_closed else len(self._alive())

    def terminate(self) -> None:
        """Ask every process of the session to end. From any thread."""
        self._send(signal.SIGTERM)

    def kill(self) -> int:
        """End every process of the session at once. From any thread.

        Returns:
            How many there were beside the two that watch over them.
        """
        return self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> int:
        with self._lock:
            if self._is_closed:
                return 0
            alive = self._alive()
            if number != signal.SIGKILL:
                _signal(alive, number)
                return len(alive)
            leader = self._process.pid
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(leader, number)
            reached: set[int] = set()
            # Processes may be born while others are killed: until none is new.
            while fresh := _members(leader) - reached:
                _signal(fresh, number)
                reached |= fresh
            return len(alive)

    def _alive(self) -> set[int]:
        watchers = {self._process.pid, *map(int, self._told.split()[:1])}
        return set(filter(_is_alive, _members(self._process.pid) - watchers))


def _members(session: int) -> set[int]:
    return {pid for pid in psutil.pids() if _session_of(pid) == session}


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        # It has ended since the list was made, or belongs to somebody else.
        return None


def _is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        # It may have ended meanwhile; what runs as another user is out of reach.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
