"""Kernels to talk to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from kernel_process import Client, KernelProcess, StartKernel


@pytest.fixture
def start_kernel(tmp_path: Path) -> Iterator[StartKernel]:
    """Give what starts kernels that end with the test."""
    with ExitStack() as stack:

        def start(*arguments: str, **options: Any) -> KernelProcess:  # noqa: ANN401 - of KernelProcess
            home: Path = options.pop("home", tmp_path / "home")
            home.mkdir(exist_ok=True)
            process = KernelProcess(*arguments, home=home, **options)
            return stack.enter_context(process)

        yield start


@pytest.fixture(scope="module")
def echo_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KernelProcess]:
    """Give a kernel that says what it is told, shared by a module's tests."""
    home = tmp_path_factory.mktemp("home")
    with KernelProcess("--TauKernel.model=echo", home=home) as kernel:
        yield kernel


@pytest.fixture
def echo(echo_kernel: KernelProcess) -> Iterator[Client]:
    """Give a client of `echo_kernel`."""
    client = echo_kernel.client()
    yield client
    client.close()
