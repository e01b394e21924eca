"""A provider that fails for a while, and prompts that may not take for ever."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from kernel_process import StartKernel, write_script
from kernel_tools import arguments_for
from openai_server import OpenAIServer

from tau_kernel.messages import JsonObject

pytestmark = pytest.mark.slow

BUSY = "too many requests"
AT_ONCE = {"Retry-After": "0"}


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


def test_a_rate_limit_is_waited_out_and_told_in_the_cell(
    start_kernel: StartKernel, service: OpenAIServer
) -> None:
    client = start_kernel().client()
    service.fail(429, BUSY, headers=AT_ONCE)
    service.fail(503, BUSY, headers=AT_ONCE)
    service.say("here it is")
    cell = client.run("go", cell_id="a")
    assert cell.reply["status"] == "ok"
    assert cell.text.endswith("here it is")
    assert "Request 2 of 5 failed" in cell.text
    assert len(service.requests) == 3


def test_a_console_is_told_of_another_request_beside_the_answer(
    start_kernel: StartKernel, service: OpenAIServer
) -> None:
    client = start_kernel().client()
    service.fail(429, BUSY, headers=AT_ONCE)
    service.say("here")
    cell = client.run("go", allow_stdin=True)
    told = [one.content for one in cell.outputs if one.content["name"] == "stderr"]
    assert ["Request 1 of 5 failed" in one["text"] for one in told] == [True]


def test_an_interrupt_ends_the_wait_for_another_request(
    start_kernel: StartKernel, service: OpenAIServer
) -> None:
    kernel = start_kernel()
    client = kernel.client()
    service.fail(429, BUSY, headers={"Retry-After": "50"})
    cell = client.execute("go", cell_id="a")
    cell.wait_for_text("Request 1 of 5 failed")
    kernel.interrupt()
    assert cell.wait().reply["ename"] == "KeyboardInterrupt"
    assert len(service.requests) == 1
    service.say("back")
    assert client.run("again", cell_id="b").text == "back"


def test_what_does_not_pass_is_asked_once(
    start_kernel: StartKernel, service: OpenAIServer
) -> None:
    client = start_kernel().client()
    service.fail(401, "wrong key")
    assert "wrong key" in client.run("go", cell_id="a").reply["evalue"]
    assert len(service.requests) == 1


def test_a_limit_of_a_cell_ends_it_and_says_how_to_raise_it(
    start_kernel: StartKernel, tmp_path: Path
) -> None:
    arguments, env = arguments_for("returns_text")
    call: JsonObject = {"tool_calls": [{"name": "returns_text", "arguments": {}}]}
    model = write_script(tmp_path / "s.jsonl", *[call] * 9, {"text": "never"})
    client = start_kernel(*arguments, f"--TauKernel.model={model}", env=env).client()
    cell = client.run("%%tau max_turns=2\ngo", cell_id="a")
    assert cell.reply["ename"] == "LimitError"
    assert "max_turns" in cell.reply["evalue"]
    assert "%%tau max_turns=" in cell.reply["evalue"]
    assert client.run("%%tau model=echo\nhello", cell_id="b").text == "hello"


def test_a_limit_of_the_session_holds_over_its_cells(
    start_kernel: StartKernel, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    limits = {"session": {"max_turns": 2}}
    (home / "config.json").write_text(json.dumps({"limits": limits}))
    client = start_kernel("--TauKernel.model=echo", home=home).client()
    for name in ("one", "two"):
        assert client.run(name, cell_id=name).text == name
    reply = client.run("three", cell_id="three").reply
    assert reply["ename"] == "LimitError"
    assert "limits.session.max_turns" in reply["evalue"]
    (home / "config.json").write_text("{}")
    assert client.run("three", cell_id="three").text == "three"
