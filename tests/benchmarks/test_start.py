"""How long a kernel takes until it answers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import pytest
import zmq
from kernel_process import BOUND, KernelProcess
from measured import Compare, Report, Row, difference_at_most

pytestmark = pytest.mark.slow

#: Milliseconds between two attempts to connect; zmq's 100 would hide what is measured.
_RECONNECT = 5


def test_our_kernel_starts_nearly_as_soon_as_ipykernel(
    compare: Compare, report: Report, compiled: Mapping[str, str], tmp_path: Path
) -> None:
    samples = compare(
        lambda: _start_to_ready("tau", tmp_path, compiled),
        lambda: _start_to_ready("python3", tmp_path, compiled),
        rounds=15,
        warm_up=1,
    )
    report(
        Row(
            what="start to ready",
            reference="ipykernel",
            samples=samples,
            budget=difference_at_most(0.1),
        )
    )


def _start_to_ready(name: str, home: Path, env: Mapping[str, str]) -> float:
    """Start a kernel and give the seconds until it has answered a first request."""
    begin = time.monotonic()
    with (
        KernelProcess(home=home, env=env, kernel_name=name) as kernel,
        zmq.Context() as context,
    ):
        context.setsockopt(zmq.RECONNECT_IVL, _RECONNECT)
        client = kernel.manager.client(context=context)
        client.start_channels(iopub=False, stdin=False, hb=False, control=False)
        client.session.send(client.shell_channel.socket, "kernel_info_request")
        answered = client.shell_channel.socket.poll(int(BOUND * 1000))
        ready = time.monotonic() - begin
        client.stop_channels()
    assert answered, f"{name} did not answer within {BOUND} s"
    return ready
