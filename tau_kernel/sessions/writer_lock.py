"""The writer's lock, and who keeps it across a fork.

The lock is the kernel's own on the open session file, so it ends with the process
however that ends. A forked child inherits the open file and would keep the lock alive
after its parent; it therefore closes what it inherited.
"""

from __future__ import annotations

import errno
import fcntl
import os
from functools import cache
from pathlib import Path
from typing import Final, Protocol
from weakref import WeakSet

from tau_kernel.errors import SessionLockedError, StorageError

__all__ = ["Inherited", "let_go_in_children", "lock_for_writing"]

_HELD_ELSEWHERE: Final = frozenset({errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES})


class Inherited(Protocol):
    """Something that a forked child must let go of."""

    def let_go_in_child(self) -> None:
        """Close what was inherited; called in the child, before its own code runs."""
        ...


def lock_for_writing(fd: int, path: Path) -> None:
    """Take the lock of an open session file, at once or not at all.

    Args:
        fd: The open file; closing it gives the lock back.
        path: How errors name it.

    Raises:
        SessionLockedError: Somebody writes this session already.
        StorageError: The file system has no locks.
    """
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _HELD_ELSEWHERE:
            msg = (
                f"session {str(path)!r} is open for writing elsewhere; "
                "one process writes a session at a time.\n"
                "Close it there, or export a fork and continue in that: "
                "catalog.fork(FileSession.read(path), cwd)"
            )
            raise SessionLockedError(msg) from error
        msg = (
            f"{str(path)!r} cannot be locked ({error.strerror}); "
            "keep TAU_HOME on a file system with locks"
        )
        raise StorageError(error.errno, msg) from error


@cache
def _held() -> WeakSet[Inherited]:
    held: WeakSet[Inherited] = WeakSet()

    def let_go() -> None:
        for one in list(held):
            one.let_go_in_child()

    # There is one fork hook for the process, since none can be taken off again.
    os.register_at_fork(after_in_child=let_go)
    return held


def let_go_in_children(one: Inherited) -> None:
    """Have `one` let go in every child forked from here on, while it lives."""
    _held().add(one)
