"""How long a list of commands takes to appear in a long conversation."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

import pytest
from kernel_process import Client, KernelProcess, write_script
from measured import Compare, Report, Row, at_most

pytestmark = pytest.mark.slow

_ROUNDS = 60
_ENTRIES = 10_000


@pytest.fixture(scope="module")
def long_conversation(
    compiled: Mapping[str, str],
    is_measuring: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[KernelProcess]:
    """Give a kernel whose conversation is long, if times are looked at."""
    home = tmp_path_factory.mktemp("home")
    with KernelProcess("--TauKernel.model=echo", home=home, env=compiled) as kernel:
        client = kernel.client()
        client.run("hello")
        missing = _ENTRIES if is_measuring else 1
        while missing > 0:
            # Three entries are kept of a turn; few turns at a time keep to the bound.
            turns = min(missing // 3 + 1, 500)
            cell = client.run(f"%%python\nfor _ in range({turns}): tau.ask('go on')")
            assert cell.reply["status"] == "ok"
            missing = _ENTRIES - _count_entries(kernel) if is_measuring else 0
        yield kernel


@pytest.fixture
def writer(long_conversation: KernelProcess) -> Client:
    """Give a client of the kernel with the long conversation."""
    return long_conversation.client()


def test_completion_while_idle(
    compare: Compare,
    report: Report,
    long_conversation: KernelProcess,
    writer: Client,
    ipython_client: Client,
) -> None:
    samples = compare(
        lambda: _complete(writer, "/"),
        lambda: _complete(ipython_client, "im"),
        rounds=_ROUNDS,
    )
    entries = _count_entries(long_conversation)
    report(
        Row(
            what=f"`/` completion, idle, {entries} entries",
            reference="`im` completion",
            samples=samples,
            budget=at_most(0.01),
        )
    )


@pytest.mark.parametrize("what", ["stalled", "streaming"])
def test_completion_during_a_prompt(
    compare: Compare,
    report: Report,
    long_conversation: KernelProcess,
    writer: Client,
    ipython_client: Client,
    streaming: str,
    what: str,
) -> None:
    model = streaming if what == "streaming" else _stalled(long_conversation)
    prompt = writer.execute(f"%%tau model={model}\ngo")
    prompt.wait_for_text("word")
    samples = compare(
        lambda: _complete(writer, "/"),
        lambda: _complete(ipython_client, "im"),
        rounds=_ROUNDS,
    )
    writer.read()
    assert not prompt.replies, "the prompt ended while completion was measured"
    long_conversation.interrupt()
    prompt.wait()
    entries = _count_entries(long_conversation)
    report(
        Row(
            what=f"`/` completion, {what} prompt, {entries} entries",
            reference="`im` completion",
            samples=samples,
            budget=at_most(0.01),
        )
    )


def _stalled(kernel: KernelProcess) -> str:
    """Give a model that says a word and then waits."""
    path = kernel.home / "stalled.jsonl"
    return write_script(path, {"text": "word", "stall": True})


def _count_entries(kernel: KernelProcess) -> int:
    (file,) = kernel.session_files
    return len(file.read_bytes().splitlines()) - 1


def _complete(client: Client, code: str) -> float:
    begin = time.monotonic()
    reply = client.ask("complete_request", {"code": code, "cursor_pos": len(code)})
    assert reply.content["matches"]
    return reply.time - begin
