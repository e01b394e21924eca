"""Answers while they come, and what else a client may do meanwhile."""

from __future__ import annotations

import json
import statistics
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from kernel_process import BOUND, Cell, Client, Received, StartKernel
from kernel_tools import arguments_for
from openai_server import OpenAIServer, delta, finish, tool_call

from tau_kernel.messages import JsonObject

pytestmark = pytest.mark.slow

#: Seconds; half of the completions must be faster on any machine.
COMPLETION: Final = 0.05


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


def test_the_first_token_is_shown_before_the_last_was_sent(
    start_kernel: StartKernel, service: OpenAIServer
) -> None:
    client = start_kernel().client()
    gate = threading.Event()
    service.reply(delta(content="first"), gate, delta(content=" last"), *finish())
    cell = client.execute("go", cell_id="a")
    cell.wait_for_text("first")
    assert not gate.is_set()
    assert cell.replies == []
    gate.set()
    assert cell.wait().text == "first last"


def test_a_console_gets_text_that_grows_and_is_never_updated(
    start_kernel: StartKernel, service: OpenAIServer
) -> None:
    client = start_kernel().client()
    gate = threading.Event()
    service.reply(delta(content="first"), gate, delta(content=" last"), *finish())
    cell = client.execute("go", allow_stdin=True)
    cell.wait_for_text("first")
    gate.set()
    cell.wait()
    assert {one.kind for one in cell.outputs} == {"stream"}
    assert "".join(one.content["text"] for one in cell.outputs) == "first last\n"


def test_completion_and_the_rest_are_answered_during_a_stalled_prompt(
    start_kernel: StartKernel, service: OpenAIServer
) -> None:
    client = start_kernel().client()
    gate = threading.Event()
    service.reply(gate, delta(content="late"), *finish())
    cell = client.execute("wait", cell_id="a")
    client.wait_for(lambda: service.requests)
    took = []
    for _ in range(20):
        begun = len(client.received)
        answer = client.ask("complete_request", {"code": "/he", "cursor_pos": 3})
        sent = answer.message["parent_header"]["date"]
        took.append((answer.message["header"]["date"] - sent).total_seconds())
        assert answer.content["matches"] == ["/help"]
        others = client.received[begun:]
        assert not [one for one in others if one.kind == "status"]
    assert statistics.median(took) <= COMPLETION
    python: JsonObject = {"code": "%%python\nprint", "cursor_pos": 12}
    assert client.ask("complete_request", python).content["matches"][0] == "print"
    shown = client.ask("inspect_request", {"code": "/help", "cursor_pos": 2})
    assert "Lists the commands" in shown.content["data"]["text/markdown"]
    asked: JsonObject = {"code": "what is"}
    assert client.ask("is_complete_request", asked).content["status"] == "complete"
    assert client.ask("kernel_info_request").content["implementation"] == "tau-kernel"
    assert client.ask("comm_info_request").content["comms"] == {}
    tail: JsonObject = {"hist_access_type": "tail", "n": 1, "output": False}
    history = client.ask("history_request", {**tail, "raw": True}).content["history"]
    assert history == [[0, 1, "wait"]]
    assert cell.replies == []
    gate.set()
    assert cell.wait().text == "late"
    later = client.run("%%python\nprint('own')")
    assert later.text == "own"


def test_no_question_reaches_a_client_that_allows_none(
    start_kernel: StartKernel, service: OpenAIServer
) -> None:
    arguments, env = arguments_for("asks")
    client = start_kernel(*arguments, env=env).client()
    _call(service, "asks")
    service.reply(delta(content="after"), *finish())
    cell = client.run("go", allow_stdin=False, cell_id="a")
    assert client.questions == []
    assert cell.reply["ename"] == "HeadlessDialogError"
    assert "may not ask a person" in cell.reply["evalue"]


def test_a_question_is_answered_while_other_messages_are_served(
    start_kernel: StartKernel, service: OpenAIServer
) -> None:
    arguments, env = arguments_for("asks")
    client = start_kernel(*arguments, env=env).client()
    _call(service, "asks")
    service.reply(delta(content="thanks"), *finish())
    cell = client.execute("go", allow_stdin=True, cell_id="a")
    question = _question(client, cell)
    assert question.content == {"prompt": "name [nobody]: ", "password": False}
    assert client.ask("kernel_info_request").content["status"] == "ok"
    client.answer("Ada")
    assert "thanks" in cell.wait().text
    results = [m for m in _asked(service) if m["role"] == "tool"]
    assert [m["content"] for m in results] == ["Ada"]


def test_a_question_waits_for_a_client_whose_channel_is_not_there_yet(
    start_kernel: StartKernel, service: OpenAIServer
) -> None:
    arguments, env = arguments_for("asks")
    kernel = start_kernel(*arguments, env=env)
    observer = kernel.client()
    late = BlockingKernelClient(connection_file=kernel.manager.connection_file)
    late.load_connection_file()
    late.start_channels(stdin=False, hb=False, control=False)
    _call(service, "asks")
    service.reply(delta(content="thanks"), *finish())
    asked = late.execute("go", allow_stdin=True)
    observer.wait_for(
        lambda: any(
            one.parent == asked and one.kind in {"stream", "display_data"}
            for one in observer.received
        )
    )
    question = late.get_stdin_msg(timeout=BOUND)
    assert question["content"]["prompt"] == "name [nobody]: "
    late.input("Ada")
    assert late.get_shell_msg(timeout=BOUND)["content"]["status"] == "ok"
    late.stop_channels()


def test_a_python_cell_that_waits_for_the_model_can_be_asked(
    start_kernel: StartKernel, service: OpenAIServer
) -> None:
    arguments, env = arguments_for("asks")
    client = start_kernel(*arguments, env=env).client()
    _call(service, "asks")
    service.reply(delta(content="thanks"), *finish())
    cell = client.execute("%%python\ntau.ask('go').text", allow_stdin=True)
    _question(client, cell)
    client.answer("Bob")
    assert cell.wait().text == "'thanks'"


def test_two_clients_get_their_own_answers_under_their_own_parents(
    start_kernel: StartKernel, service: OpenAIServer
) -> None:
    kernel = start_kernel()
    one, two = kernel.client(), kernel.client()
    gates = [threading.Event() for _ in range(4)]
    for number, gate in enumerate(gates):
        words = [delta(content=f"{number}-{n} ") for n in range(50)]
        service.reply(words[0], gate, *words[1:], *finish())
    cells = [
        client.execute(f"cell {n}", cell_id=f"c{n}")
        for n, client in enumerate((one, two, one, two))
    ]
    for number, gate in enumerate(gates):
        _read_until(cells, (one, two), f"{number}-0")
        gate.set()
    answers = {cell.wait().text.partition("-")[0]: cell for cell in cells}
    assert sorted(answers) == ["0", "1", "2", "3"]
    for name, cell in answers.items():
        assert cell.text == " ".join(f"{name}-{n}" for n in range(50))
        assert len(cell.replies) == 1


def test_a_cell_may_steer_the_turn_of_another(
    start_kernel: StartKernel, service: OpenAIServer
) -> None:
    client = start_kernel().client()
    gate = threading.Event()
    service.reply(delta(content="before"), gate, *finish())
    service.reply(delta(content=" after"), *finish())
    first = client.execute("go", cell_id="a")
    first.wait_for_text("before")
    steered = client.execute("%%tau strategy=steer\nturn left", cell_id="b").wait()
    assert steered.reply["status"] == "ok"
    assert "running turn" in steered.text
    gate.set()
    assert "after" in first.wait().text
    assert _asked(service)[-1]["content"] == "turn left"


def test_a_cell_may_roll_back_the_turn_of_another(
    start_kernel: StartKernel, service: OpenAIServer
) -> None:
    client = start_kernel().client()
    service.reply(delta(content="wrong"), threading.Event(), *finish())
    service.reply(delta(content="right"), *finish())
    first = client.execute("go", cell_id="a")
    first.wait_for_text("wrong")
    instead = client.execute("%%tau strategy=rollback\nother", cell_id="b").wait()
    assert instead.text == "right"
    assert first.wait().reply["ename"] == "KeyboardInterrupt"
    assert [m["content"] for m in _asked(service)] == ["other"]


def test_a_cell_may_be_refused_while_a_turn_runs(
    start_kernel: StartKernel, service: OpenAIServer
) -> None:
    client = start_kernel().client()
    gate = threading.Event()
    service.reply(delta(content="mine"), gate, *finish())
    first = client.execute("go", cell_id="a")
    first.wait_for_text("mine")
    refused = client.execute("%%tau strategy=reject\nnow?", cell_id="b").wait()
    assert "already in flight" in refused.reply["evalue"]
    assert len(refused.errors) == 1
    gate.set()
    assert first.wait().reply["status"] == "ok"


def _call(service: OpenAIServer, name: str) -> None:
    service.reply(tool_call(0, "{}", call_id="t", name=name), *finish("tool_calls"))


def _question(client: Client, cell: Cell) -> Received:
    asked = [one for one in client.questions if one.parent == cell.id]
    return asked[-1] if asked else client.wait_for(lambda: _newest(client, cell))


def _newest(client: Client, cell: Cell) -> Received | None:
    asked = [one for one in client.questions if one.parent == cell.id]
    return asked[-1] if asked else None


def _asked(service: OpenAIServer) -> list[dict[str, object]]:
    """Give the messages of the newest request, but what tells the model its task."""
    messages = service.requests[-1].body["messages"]
    assert isinstance(messages, list)
    found = [message for message in messages if isinstance(message, dict)]
    return [{**m} for m in found if m["role"] not in {"system", "developer"}]


def _read_until(cells: list[Cell], clients: tuple[Client, ...], text: str) -> None:
    def seen() -> bool:
        for client in clients:
            client.read()
        return any(text in json.dumps(o.content) for c in cells for o in c.outputs)

    clients[0].wait_for(seen)
