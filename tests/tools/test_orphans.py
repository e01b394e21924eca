"""Nothing that a tool started outlives its call or its kernel."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, cast

import psutil
import pytest

if TYPE_CHECKING:
    from .conftest import Desk

pytestmark = pytest.mark.slow

#: Seconds within which a killed process is gone, on a busy machine.
BOUND: Final = 5.0

#: A family: a child, one whose parent has ended, one in a group of its own, and one
#: under `timeout`, which makes itself a group.
FAMILY: Final = """
echo $$
sleep 300 & echo $!
sh -c 'sleep 300 & echo $!'
set -m; sleep 300 & echo $!; set +m
timeout 290 sleep 300 & echo $!
echo ready
"""


def gone(pids: list[int]) -> bool:
    """Whether all end within the bound; a zombie, which init may not reap, has."""
    limit = time.monotonic() + BOUND
    left = [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]
    while left and time.monotonic() < limit:
        left = [one for one in left if not has_ended(one)]
        psutil.wait_procs(left, timeout=0.05)
    return not left


def has_ended(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def numbers(text: str) -> list[int]:
    return [int(word) for word in text.split() if word.isdigit()]


def test_a_family_in_the_background_ends_with_its_command(desk: Desk) -> None:
    pids = numbers(desk.call("bash", command=FAMILY).split("ready")[0])
    assert len(pids) == 5
    assert gone(pids)


def test_a_family_ends_at_the_timeout(desk: Desk) -> None:
    result = desk.result("bash", command=f"{FAMILY}\nsleep 300", timeout=700)
    pids = numbers(str(result.content).split("ready")[0])
    assert len(pids) == 5
    assert gone(pids)


#: A kernel in small: runs one tool, tells what it shows, and goes on.
KERNEL: Final = """
import asyncio, signal, sys
from pathlib import Path
from tau_kernel.extensions import ExtensionUI, ToolContext
from tau_kernel.messages import AbortSignal
from tau_kernel.tools import PathPolicy, builtin_tools

def show(update):
    print(update, flush=True)

async def main():
    root = Path(sys.argv[1])
    tools = {tool.name: tool for tool in builtin_tools(PathPolicy(root=root))}
    abort = AbortSignal()
    context = ToolContext(
        ui=ExtensionUI(), signal=abort, submission_id=None, cwd=root
    )
    asyncio.get_running_loop().add_signal_handler(
        signal.SIGINT, lambda: print("interrupted", flush=True)
    )
    params = {sys.argv[3]: sys.argv[4]}
    print("begins", flush=True)
    result = await tools[sys.argv[2]].execute("c", params, abort, show, context)
    print(result.content, flush=True)

asyncio.run(main())
"""


@pytest.fixture
def kernels() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for kernel in started:
        kernel.kill()
        kernel.wait()
        cast("IO[str]", kernel.stdout).close()


def start(
    kernels: list[subprocess.Popen[str]], root: Path, *words: str
) -> subprocess.Popen[str]:
    kernel = subprocess.Popen(
        [sys.executable, "-c", KERNEL, str(root), *words],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    kernels.append(kernel)
    return kernel


def until(kernel: subprocess.Popen[str], word: str) -> str:
    """Read what a kernel prints until a word comes."""
    seen = ""
    for line in cast("IO[str]", kernel.stdout):
        seen += line
        if word in line:
            return seen
    pytest.fail(f"{word!r} never came: {seen}")


def test_a_family_dies_when_its_kernel_is_killed(
    tmp_path: Path, kernels: list[subprocess.Popen[str]]
) -> None:
    kernel = start(kernels, tmp_path, "bash", "command", f"{FAMILY}\nsleep 300")
    pids = numbers(until(kernel, "ready"))
    pids += [one.pid for one in psutil.Process(kernel.pid).children(recursive=True)]
    assert len(pids) > 5
    os.kill(kernel.pid, signal.SIGKILL)
    assert gone(pids)


def test_a_search_that_is_stuck_dies_when_its_kernel_is_killed(
    tmp_path: Path, kernels: list[subprocess.Popen[str]]
) -> None:
    (tmp_path / "a.txt").write_text("a" * 60 + "!")
    kernel = start(kernels, tmp_path, "grep", "pattern", "^(a+)+$")
    until(kernel, "begins")
    parent = psutil.Process(kernel.pid)
    limit = time.monotonic() + BOUND
    family: list[psutil.Process] = []
    # The worker is there once the shell, its watcher and it are.
    while len(family) < 3 and time.monotonic() < limit:
        family = parent.children(recursive=True)
    assert len(family) >= 3
    os.kill(kernel.pid, signal.SIGKILL)
    assert gone([one.pid for one in family])


def test_an_interrupt_of_the_kernel_does_not_reach_a_command(
    tmp_path: Path, kernels: list[subprocess.Popen[str]]
) -> None:
    go_on = tmp_path / "go-on"
    os.mkfifo(go_on)
    command = f"echo ready; cat {go_on}; echo done"
    kernel = start(kernels, tmp_path, "bash", "command", command)
    until(kernel, "ready")
    os.killpg(kernel.pid, signal.SIGINT)
    until(kernel, "interrupted")
    go_on.write_text("went on\n")
    assert until(kernel, "done").endswith("went on\ndone\n")
    assert kernel.wait(BOUND) == 0
