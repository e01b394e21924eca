"""Blocking work of a tool, run beside the event loop and left behind by an abort."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Final, TypeVar

from tau_kernel.errors import ToolError
from tau_kernel.messages import AbortSignal

__all__ = ["check_stop", "run_in_thread"]

_Result = TypeVar("_Result")

_ABORTED: Final = "Operation aborted"


def check_stop(stop: AbortSignal) -> None:
    """Leave work that nobody waits for any more.

    Raises:
        ToolError: The call was aborted.
    """
    if stop.is_aborted():
        raise ToolError(_ABORTED)


async def run_in_thread(
    work: Callable[[AbortSignal], _Result], signal: AbortSignal
) -> _Result:
    """Run blocking work in a thread of its own and give what it returns.

    An abort, or cancelling this call, ends it at once and raises the flag that `work`
    was handed. A thread that cannot look at its flag, as in a read from a dead network
    drive, stays behind until the system lets it go; what it returns is dropped. It
    keeps neither loop nor process alive, which a thread of the loop's own pool would,
    and takes no place in that pool.

    Raises:
        ToolError: The signal was raised.
        Exception: What `work` raised.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[_Result] = loop.create_future()
    stop = AbortSignal()

    def settle(result: _Result | None, error: Exception | None) -> None:
        if outcome.done():
            _report(loop, error)
        elif error is not None:
            outcome.set_exception(error)
        else:
            outcome.set_result(result)  # type: ignore[arg-type] # None only as a result

    def tell(result: _Result | None, error: Exception | None) -> None:
        # A loop that was closed under the work has nobody left to tell.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, result, error)

    def run() -> None:
        try:
            result = work(stop)
        except Exception as error:  # noqa: BLE001 - raised where the call is awaited
            tell(None, error)
        else:
            tell(result, None)

    def abort() -> None:
        stop.abort()
        tell(None, ToolError(_ABORTED))

    check_stop(signal)
    threading.Thread(target=run, name="tau-tool", daemon=True).start()
    forget = signal.on_abort(abort)
    try:
        return await outcome
    finally:
        forget()
        stop.abort()


def _report(loop: asyncio.AbstractEventLoop, error: Exception | None) -> None:
    # Left behind, it may end by its flag or with the system's refusal; anything else
    # is a bug that must not vanish.
    if error is not None and not isinstance(error, ToolError | OSError):
        loop.call_exception_handler(
            {"message": "an aborted tool failed", "exception": error}
        )
