"""Two kernels side by side, and the table of what they took.

Run the benchmarks, and read the table at the end, with::

    pytest tests/benchmarks --benchmark-enable -s

Without ``--benchmark-enable`` each runs once, to show that it still works, and no time
is looked at. No time is ever asserted: the table says which budget is met.

Ours and the reference, ipykernel, are measured in turns, so that a machine that slows
down slows both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from kernel_process import Client, KernelProcess, write_script
from measured import Compare, Report, Row, Samples, table

from tau_kernel.messages import JsonObject

_ROWS: Final = pytest.StashKey[list[Row]]()


def pytest_configure(config: pytest.Config) -> None:
    """Begin an empty table."""
    config.stash[_ROWS] = []


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the table, if anything was measured."""
    rows = config.stash.get(_ROWS, [])
    if rows:
        terminalreporter.section("budgets")
        for line in table(rows):
            terminalreporter.write_line(line)


@pytest.fixture
def compare(benchmark: Any) -> Compare:  # noqa: ANN401 - pytest-benchmark has no types
    """Give what measures; used once in a test."""

    def run(
        ours: Callable[[], float],
        reference: Callable[[], float],
        *,
        rounds: int,
        warm_up: int = 3,
    ) -> Samples:
        mine: list[float] = []
        theirs: list[float] = []
        benchmark.pedantic(
            lambda: mine.append(ours()),
            setup=lambda: theirs.append(reference()),
            rounds=rounds,
            warmup_rounds=warm_up,
        )
        dropped = warm_up if benchmark.enabled else 0
        return Samples(ours=tuple(mine[dropped:]), reference=tuple(theirs[dropped:]))

    return run


@pytest.fixture
def report(benchmark: Any, pytestconfig: pytest.Config) -> Report:  # noqa: ANN401 - as above
    """Give what puts a row into the table; a single run is no measurement."""

    def add(row: Row) -> None:
        if benchmark.enabled:
            pytestconfig.stash[_ROWS].append(row)
            benchmark.extra_info["budget"] = row.cells

    return add


@pytest.fixture(scope="session")
def is_measuring(pytestconfig: pytest.Config) -> bool:
    """Say whether times are looked at, so that costly preparations are worth it."""
    # Both flags are set when the command line overrules the one of pyproject.toml.
    return bool(pytestconfig.getoption("benchmark_enable"))


@pytest.fixture(scope="session")
def compiled(
    is_measuring: bool, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, str]:
    """Give the environment of kernels whose modules are compiled once, as installed.

    An environment that forbids byte code would have our modules compiled at each
    start, and the reference's not.
    """
    if not is_measuring:
        return {}
    cache = tmp_path_factory.mktemp("byte-code")
    return {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(cache)}


@pytest.fixture(scope="session")
def tau_kernel_process(
    compiled: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KernelProcess]:
    """Give our kernel, which says what it is told and has answered once."""
    home = tmp_path_factory.mktemp("home")
    with KernelProcess("--TauKernel.model=echo", home=home, env=compiled) as kernel:
        yield kernel


@pytest.fixture(scope="session")
def tau_client(tau_kernel_process: KernelProcess) -> Client:
    """Give the client of our kernel."""
    client = tau_kernel_process.client()
    client.run("hello", cell_id="first")
    return client


@pytest.fixture(scope="session")
def ipython_process(
    compiled: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KernelProcess]:
    """Give the reference, ipykernel."""
    home = tmp_path_factory.mktemp("ipython-home")
    with KernelProcess(home=home, env=compiled, kernel_name="python3") as kernel:
        yield kernel


@pytest.fixture(scope="session")
def ipython_client(ipython_process: KernelProcess) -> Client:
    """Give the client of the reference."""
    client = ipython_process.client()
    client.run("1")
    return client


@pytest.fixture(scope="session")
def streaming(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Give a model that speaks for ten seconds, each time that it is asked."""
    path: Path = tmp_path_factory.mktemp("scripts") / "streaming.jsonl"
    line: JsonObject = {"text": "word " * 1600, "chunk_chars": 4, "delay_ms": 5}
    return write_script(path, *[line] * 200)
