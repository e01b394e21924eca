"""What a prompt costs beside a Python cell of ipykernel."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from kernel_process import Cell, Client, KernelProcess, Received, write_script
from measured import (
    Compare,
    Report,
    Row,
    Samples,
    at_most,
    difference_at_most,
    ratio_at_most,
)

from tau_kernel.messages import JsonObject

pytestmark = pytest.mark.slow

_ROUNDS = 100
_PRINT = "print(1, flush=True)"


class _Disk:
    """A file that is written and synced as the conversation's is."""

    def __init__(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
        self._file = os.open(path, flags, 0o600)

    def write(self, size: int) -> float:
        """Write so many bytes, sync, and give the seconds."""
        begin = time.monotonic()
        os.write(self._file, b"x" * size)
        os.fsync(self._file)
        return time.monotonic() - begin

    def close(self) -> None:
        os.close(self._file)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[_Disk]:
    disk = _Disk(tmp_path / "beside")
    yield disk
    disk.close()


def test_a_prompt_costs_little_more_than_a_python_cell_and_an_fsync(
    compare: Compare,
    report: Report,
    tau_kernel_process: KernelProcess,
    tau_client: Client,
    ipython_client: Client,
    disk: _Disk,
) -> None:
    (file,) = tau_kernel_process.session_files
    before = file.stat().st_size
    _run_prompt(tau_client)
    size = file.stat().st_size - before

    samples = compare(
        lambda: _round_trip(_run_prompt(tau_client)),
        lambda: _round_trip(_run(ipython_client, "1")) + disk.write(size),
        rounds=_ROUNDS,
    )
    report(
        Row(
            what="prompt round trip, echo, durable",
            reference=f"cell `1`, fsync of {size} bytes",
            samples=samples,
            budget=ratio_at_most(1.5),
        )
    )


@pytest.fixture
def unhurried(tmp_path: Path) -> str:
    """Give a model whose answer goes on for a while after its first token."""
    line: JsonObject = {"text": "word " * 20, "chunk_chars": 5, "delay_ms": 5}
    return write_script(tmp_path / "unhurried.jsonl", *[line] * 200)


def test_the_first_token_of_a_short_answer_is_visible_as_soon_as_a_print(
    compare: Compare, report: Report, tau_client: Client, ipython_client: Client
) -> None:
    samples = compare(
        lambda: _first_output(_run_prompt(tau_client)),
        lambda: _first_output(_run(ipython_client, _PRINT)),
        rounds=_ROUNDS,
    )
    report(_first_token("echo", samples))


def test_the_first_token_of_a_long_answer_is_visible_as_soon_as_a_print(
    compare: Compare,
    report: Report,
    tau_client: Client,
    ipython_client: Client,
    unhurried: str,
) -> None:
    options = f"%%tau model={unhurried}\n"
    samples = compare(
        lambda: _first_output(_run_prompt(tau_client, options)),
        lambda: _first_output(_run(ipython_client, _PRINT)),
        rounds=_ROUNDS,
    )
    report(_first_token("an answer that goes on", samples))


def _first_token(what: str, samples: Samples) -> Row:
    return Row(
        what=f"request to first token, {what}",
        reference="request to first flushed print",
        samples=samples,
        budget=difference_at_most(0.005),
    )


def test_the_kernel_holds_the_first_token_only_briefly(
    compare: Compare, report: Report, tau_client: Client, ipython_client: Client
) -> None:
    samples = compare(
        lambda: _share(_run_prompt(tau_client)),
        lambda: _share(_run(ipython_client, _PRINT)),
        rounds=_ROUNDS,
    )
    report(
        Row(
            what="busy to first token, echo, by the kernel's clock",
            reference="busy to first flushed print",
            samples=samples,
            budget=at_most(0.005),
        )
    )


def _run(client: Client, code: str, cell_id: str | None = None) -> tuple[float, Cell]:
    """Run a cell, and give when it was sent too."""
    # What came earlier would be looked through with each message.
    client.received.clear()
    begin = time.monotonic()
    cell = client.run(code, cell_id=cell_id)
    assert cell.reply["status"] == "ok"
    return begin, cell


def _run_prompt(client: Client, options: str = "") -> tuple[float, Cell]:
    return _run(client, f"{options}say this", cell_id=uuid.uuid4().hex)


def _round_trip(ran: tuple[float, Cell]) -> float:
    """Give the seconds from the request to reply and idle."""
    begin, cell = ran
    return max(one.time for one in cell.messages) - begin


def _first_output(ran: tuple[float, Cell]) -> float:
    begin, cell = ran
    return cell.outputs[0].time - begin


def _share(ran: tuple[float, Cell]) -> float:
    """Give the seconds from when the kernel took the cell up to its first output."""
    _, cell = ran
    busy = next(one for one in cell.messages if one.kind == "status")
    return (_made(cell.outputs[0]) - _made(busy)).total_seconds()


def _made(one: Received) -> datetime:
    made: datetime = one.message["header"]["date"]
    return made
