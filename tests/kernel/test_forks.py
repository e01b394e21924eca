"""Cells that fork: an answer beside the conversation, in the cell that asked for it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from kernel_process import StartKernel
from kernel_tools import arguments_for
from openai_server import OpenAIServer, delta, finish, tool_call

pytestmark = pytest.mark.slow

FORK = "%%tau strategy=fork\n"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[OpenAIServer]:
    """Give a provider that the kernels of this test use by default."""
    with OpenAIServer() as running:
        stub = {"backend": "openai", "model": "m", "base_url": running.base_url}
        config = {"default_model": "stub", "models": {"stub": stub}}
        home = tmp_path / "home"
        home.mkdir()
        (home / "config.json").write_text(json.dumps(config))
        yield running


def test_a_fork_shows_its_answer_in_its_own_cell_while_later_cells_run(
    start_kernel: StartKernel, service: OpenAIServer
) -> None:
    client = start_kernel().client()
    gate = threading.Event()
    service.reply(delta(content="beside "), gate, delta(content="the line"), *finish())
    fork = client.execute(FORK + "look aside", cell_id="a", allow_stdin=True).wait()
    fork.wait_for_text("beside")
    service.reply(delta(content="ahead"), *finish())
    later = client.run("go on", cell_id="b", allow_stdin=True)
    assert later.text == "ahead"
    assert "look aside" not in json.dumps(service.requests[1].body["messages"])
    gate.set()
    client.wait_for(lambda: fork.text == "beside the line")
    assert fork.reply["status"] == "ok"
    assert fork.tau["source"] == "interactive"


def test_a_fork_during_a_turn_leaves_that_turn_alone(
    start_kernel: StartKernel, service: OpenAIServer
) -> None:
    client = start_kernel().client()
    gate = threading.Event()
    service.reply(delta(content="slow "), gate, delta(content="answer"), *finish())
    slow = client.execute("take your time", cell_id="a", allow_stdin=True)
    slow.wait_for_text("slow")
    service.reply(delta(content="quick"), *finish())
    fork = client.execute(FORK + "quickly", cell_id="b", allow_stdin=True).wait()
    client.wait_for(lambda: fork.text == "quick")
    assert slow.replies == []
    gate.set()
    assert slow.wait().text == "slow answer"
    shown = client.run("/tree", allow_stdin=True).text
    assert "quick" in shown
    assert "slow answer" in shown


def test_a_fork_of_a_batch_keeps_its_cell_open_until_it_ends(
    start_kernel: StartKernel, service: OpenAIServer
) -> None:
    client = start_kernel().client()
    gate = threading.Event()
    service.reply(delta(content="one"), gate, *finish())
    fork = client.execute(FORK + "aside", cell_id="a")
    fork.wait_for_text("one")
    assert fork.replies == []
    gate.set()
    assert fork.wait().text == "one"


def test_a_fork_that_is_waited_for_fills_its_variable(
    start_kernel: StartKernel,
) -> None:
    client = start_kernel("--TauKernel.model=echo").client()
    cell = "%%tau strategy=fork wait=on into=answer\ngood morning"
    assert client.run(cell, cell_id="a").text == "good morning"
    assert client.run("%%py\nprint(answer)").text == "good morning"
    assert client.run("%%py\nprint(len(tau.session.messages))").text == "0"


def test_a_failing_fork_says_so_in_its_cell(
    start_kernel: StartKernel, service: OpenAIServer
) -> None:
    client = start_kernel().client()
    service.fail(400, "no such thing")
    fork = client.execute(FORK + "aside", cell_id="a", allow_stdin=True).wait()
    client.wait_for(lambda: fork.errors)
    assert "no such thing" in fork.errors[0].content["evalue"]
    service.fail(400, "no such thing")
    waiting = client.run(FORK + "aside", cell_id="b")
    assert waiting.reply["ename"] == "ModelError"


def test_an_interrupt_ends_a_fork_that_its_cell_waits_for(
    start_kernel: StartKernel, service: OpenAIServer
) -> None:
    kernel = start_kernel()
    client = kernel.client()
    gate = threading.Event()
    service.reply(delta(content="half"), gate, *finish())
    fork = client.execute(FORK + "aside", cell_id="a")
    fork.wait_for_text("half")
    kernel.interrupt()
    assert fork.wait().reply["ename"] == "KeyboardInterrupt"
    gate.set()
    (file,) = kernel.session_files
    client.wait_for(lambda: "half" in file.read_text())


def test_a_fork_opens_no_dialog_on_the_cell_that_runs_beside_it(
    start_kernel: StartKernel, service: OpenAIServer
) -> None:
    arguments, env = arguments_for("asks")
    client = start_kernel(*arguments, env=env).client()
    gate = threading.Event()
    service.reply(gate, delta(content="done"), *finish())
    beside = client.execute("wait", cell_id="a", allow_stdin=True)
    client.wait_for(lambda: service.requests)
    service.reply(tool_call(0, "{}", call_id="c1", name="asks"), *finish("tool_calls"))
    fork = client.execute(FORK + "aside", cell_id="b", allow_stdin=True).wait()
    client.wait_for(lambda: fork.errors)
    assert fork.errors[0].content["ename"] == "HeadlessDialogError"
    assert client.questions == []
    gate.set()
    assert beside.wait().text == "done"


@pytest.mark.parametrize(
    ("first", "words"),
    [
        ("%%tau wait=on", "strategy=fork"),
        ("%%tau strategy=fork wait=off into=x", "wait=on"),
        ("%%tau strategy=fork tools=nothing", "'nothing'"),
        ("%%tau strategy=fork from=nowhere", "nowhere"),
    ],
)
def test_what_a_fork_cannot_do_is_refused_in_words(
    start_kernel: StartKernel, first: str, words: str
) -> None:
    client = start_kernel("--TauKernel.model=echo").client()
    reply = client.run(f"{first}\nhello", cell_id="a").reply
    assert reply["status"] == "error"
    assert words in reply["evalue"]
    assert client.run("still here", cell_id="b").text == "still here"
