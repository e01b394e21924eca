"""An abort ends every tool at once, and the event loop never waits for one."""

from __future__ import annotations

import asyncio
import statistics
import threading
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import psutil
import pytest

from tau_kernel.errors import ToolError
from tau_kernel.messages import AbortSignal, JsonValue
from tau_kernel.tools.in_thread import run_in_thread

if TYPE_CHECKING:
    from .conftest import Desk

pytestmark = pytest.mark.slow

#: Seconds from an abort to the answer, and to the end of a process: a fifth of that
#: for the answer is promised, a tenth for the process; the rest is a busy machine's.
PROMISED: Final = 0.5
BOUND: Final = 5.0


async def started(desk: Desk, tool: str, **params: JsonValue) -> asyncio.Task[object]:
    """Start a call; give it once its first update came."""
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    def note(update: JsonValue) -> None:
        desk.updates.append(update)
        loop.call_soon_threadsafe(begun.set)

    desk.on_update = note
    task: asyncio.Task[object] = asyncio.create_task(desk.start(tool, **params))
    async with asyncio.timeout(BOUND):
        await begun.wait()
    return task


async def end(task: asyncio.Task[object]) -> BaseException:
    """Wait for a task that ends with an error."""
    async with asyncio.timeout(BOUND):
        [error] = await asyncio.gather(task, return_exceptions=True)
    assert isinstance(error, BaseException)
    return error


def is_over(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def dies(pid: int, seconds: float) -> bool:
    limit = time.monotonic() + seconds
    while not is_over(pid) and time.monotonic() < limit:
        threading.Event().wait(0.001)
    return is_over(pid)


Stop = Callable[["Desk", asyncio.Task[object]], object]
by_signal: Stop = lambda desk, _task: desk.signal.abort()  # noqa: E731 - two of a kind
by_cancel: Stop = lambda _desk, task: task.cancel()  # noqa: E731 - two of a kind


@pytest.mark.parametrize("stop", [by_signal, by_cancel], ids=["abort", "cancel"])
@pytest.mark.parametrize("command", ["sleep 300", "yes", "trap '' TERM INT; sleep 300"])
def test_an_abort_ends_a_command_and_its_processes(
    desk: Desk, stop: Stop, command: str
) -> None:
    async def run() -> tuple[float, BaseException, int]:
        call = f"echo $$ >pid; echo; sleep 300 & {command}"
        task = await started(desk, "bash", command=call)
        pid = int((desk.root / "pid").read_text())
        begin = time.monotonic()
        stop(desk, task)
        if stop is by_signal:
            # Before the loop goes on: the abort itself kills.
            assert dies(pid, PROMISED)
        error = await end(task)
        return time.monotonic() - begin, error, pid

    took, error, pid = asyncio.run(run())
    assert took < PROMISED
    assert dies(pid, PROMISED)
    wanted = ToolError if stop is by_signal else asyncio.CancelledError
    assert isinstance(error, wanted)


def test_a_call_after_the_abort_does_nothing(desk: Desk) -> None:
    desk.signal.abort()
    with pytest.raises(ToolError, match="Operation aborted"):
        desk.call("bash", command="touch ran")
    assert not (desk.root / "ran").exists()


@pytest.mark.parametrize("stop", [by_signal, by_cancel], ids=["abort", "cancel"])
def test_an_abort_ends_a_search_whose_pattern_is_stuck(desk: Desk, stop: Stop) -> None:
    desk.file("a.txt", "a" * 60 + "!")

    async def run() -> float:
        task: asyncio.Task[object] = asyncio.create_task(
            desk.start("grep", pattern="^(a+)+$")
        )
        worker = await running_worker()
        begin = time.monotonic()
        stop(desk, task)
        await end(task)
        took = time.monotonic() - begin
        assert dies(worker, PROMISED)
        return took

    assert asyncio.run(run()) < PROMISED


async def running_worker() -> int:
    """Give the process of the search once it has used some of the processor."""
    async with asyncio.timeout(BOUND):
        while True:
            for child in psutil.Process().children(recursive=True):
                try:
                    is_searching = "search_worker" in " ".join(child.cmdline())
                    if is_searching and child.cpu_times().user > 0.1:
                        return child.pid
                except psutil.Error:
                    continue
            await asyncio.sleep(0)


def test_work_that_cannot_look_at_its_flag_is_left_behind() -> None:
    signal = AbortSignal()
    begun, release, returned = threading.Event(), threading.Event(), threading.Event()

    def stuck(stop: AbortSignal) -> None:
        begun.set()
        release.wait(BOUND)
        assert stop.is_aborted()
        returned.set()

    async def run() -> float:
        task = asyncio.create_task(run_in_thread(stuck, signal))
        await asyncio.to_thread(begun.wait, BOUND)
        begin = time.monotonic()
        signal.abort()
        with pytest.raises(ToolError, match="aborted"):
            await task
        return time.monotonic() - begin

    # The loop closes while the thread is still stuck; then it may end.
    assert asyncio.run(run()) < PROMISED
    assert not returned.is_set()
    release.set()
    assert returned.wait(BOUND)


def test_a_bug_in_work_that_was_left_behind_is_reported() -> None:
    signal = AbortSignal()
    begun, release = threading.Event(), threading.Event()

    def buggy(_stop: AbortSignal) -> None:
        begun.set()
        release.wait(BOUND)
        raise KeyError("bug")  # noqa: EM101 - a bug has no message

    async def run() -> object:
        reported: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().set_exception_handler(
            lambda _loop, context: reported.set_result(context["exception"])
        )
        task = asyncio.create_task(run_in_thread(buggy, signal))
        await asyncio.to_thread(begun.wait, BOUND)
        signal.abort()
        with pytest.raises(ToolError):
            await task
        release.set()
        async with asyncio.timeout(BOUND):
            return await reported

    assert isinstance(asyncio.run(run()), KeyError)


async def longest_pauses(work: Awaitable[object]) -> list[float]:
    """Do work; give how long the loop was away, each time it was asked."""
    task = asyncio.ensure_future(work)
    pauses: list[float] = []
    while not task.done():
        begin = time.monotonic()
        await asyncio.sleep(0.001)
        pauses.append(time.monotonic() - begin)
    await task
    return pauses


def test_the_event_loop_goes_on_beside_the_tools(desk: Desk) -> None:
    desk.file("large.txt", "word " * 600_000 + "\nend\n")

    async def run() -> list[float]:
        pauses: list[float] = []
        for tool, params in (
            ("bash", {"command": "head -c 300000000 /dev/zero"}),
            ("grep", {"pattern": "needle"}),
            ("edit", {"path": "large.txt", "old_string": "end", "new_string": "END"}),
            ("read", {"path": "large.txt", "offset": 2}),
        ):
            pauses += await longest_pauses(desk.start(tool, **params))
        return pauses

    pauses = asyncio.run(run())
    assert statistics.median(pauses) < 0.02
    assert max(pauses) < 0.5
