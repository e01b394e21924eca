"""An interrupt ends what a cell waits for, whatever that is, and nothing else."""

from __future__ import annotations

import json
import random
import statistics
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from kernel_process import Cell, Client, KernelProcess
from kernel_tools import arguments_for
from openai_server import OpenAIServer, delta, finish, tool_call

pytestmark = pytest.mark.slow

TIMES: Final = 20
#: Seconds; the half of all interrupts must be faster on any machine. The benchmarks
#: look at the slowest.
BUDGET: Final = 0.1


@pytest.fixture(scope="module")
def service() -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        yield running


@pytest.fixture(scope="module")
def kernel(
    service: OpenAIServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KernelProcess]:
    home = tmp_path_factory.mktemp("home")
    configure(home, service)
    arguments, env = arguments_for("waits", "asks")
    with KernelProcess(*arguments, home=home, env=env) as process:
        yield process


@pytest.fixture(scope="module")
def client(kernel: KernelProcess, service: OpenAIServer) -> Client:
    """Give a client whose provider is imported already."""
    client = kernel.client()
    service.reply(delta(content="ready"), *finish())
    client.run("warm up")
    return client


def configure(home: Path, service: OpenAIServer) -> None:
    stub = {"backend": "openai", "model": "m", "base_url": service.base_url}
    config = {"default_model": "stub", "models": {"stub": stub}}
    (home / "config.json").write_text(json.dumps(config))


def stall(service: OpenAIServer) -> None:
    service.reply(threading.Event(), delta(content="late"), *finish())


def stream(service: OpenAIServer) -> None:
    service.reply(delta(content="some text"), threading.Event(), *finish())


def call(name: str) -> Callable[[OpenAIServer], None]:
    def script(service: OpenAIServer) -> None:
        service.reply(tool_call(0, "{}", call_id="t", name=name), *finish("tool_calls"))

    return script


def nothing(service: OpenAIServer) -> None:
    """Let a Python cell be."""


def shows(text: str) -> Callable[[Cell, Client], bool]:
    return lambda cell, client: (
        text in cell.text
        or any(text in json.dumps(one.content) for one in cell.outputs)
    )


def is_asked(cell: Cell, client: Client) -> bool:
    return any(one.parent == cell.id for one in client.questions)


SLEEP: Final = "%%python\nimport time\nprint('on', flush=True)\ntime.sleep(600)"
AWAIT: Final = (
    "%%python\nimport asyncio\nprint('on', flush=True)\nawait asyncio.sleep(600)"
)
ASK: Final = "%%python\nprint('on', flush=True)\ntau.ask('wait')"


@pytest.mark.parametrize(
    ("script", "code", "is_ready"),
    [
        pytest.param(stall, "wait", None, id="a stalled provider"),
        pytest.param(stream, "go", shows("some text"), id="a stream"),
        pytest.param(call("waits"), "go", shows("waits"), id="a tool"),
        pytest.param(call("asks"), "go", is_asked, id="a question"),
        pytest.param(nothing, SLEEP, shows("on"), id="blocking Python"),
        pytest.param(nothing, AWAIT, shows("on"), id="awaiting Python"),
        pytest.param(stall, ASK, None, id="Python that asks the model"),
    ],
)
def test_an_interrupt_is_answered_at_once_while_the_cell_waits_for(
    kernel: KernelProcess,
    client: Client,
    service: OpenAIServer,
    script: Callable[[OpenAIServer], None],
    code: str,
    is_ready: Callable[[Cell, Client], bool] | None,
) -> None:
    took = []
    for _ in range(TIMES):
        asked = len(service.requests)
        script(service)
        cell = client.execute(code, allow_stdin=True)
        if is_ready is None:
            client.wait_for(lambda before=asked: len(service.requests) > before)  # type: ignore[misc]
        else:
            client.wait_for(lambda cell=cell: is_ready(cell, client))  # type: ignore[misc]
        at = kernel.interrupt()
        cell.wait()
        assert cell.reply["status"] == "error"
        assert cell.reply["ename"] in {"KeyboardInterrupt", "CancelledError"}
        assert len(cell.errors) == 1
        took.append(cell.replies[0].time - at)
    assert statistics.median(took) <= BUDGET
    service.reply(delta(content="right"), *finish())
    assert client.run("next", cell_id="next").text.endswith("right")


def test_an_interrupt_request_on_shell_and_control_ends_a_prompt(
    client: Client, service: OpenAIServer
) -> None:
    for channel in ("shell", "control"):
        asked = len(service.requests)
        stall(service)
        cell = client.execute("wait")
        client.wait_for(lambda before=asked: len(service.requests) > before)  # type: ignore[misc]
        answer = client.ask("interrupt_request", channel=channel)
        assert answer.content["status"] == "ok"
        assert cell.wait().reply["ename"] == "KeyboardInterrupt"


def test_what_was_streamed_before_an_interrupt_is_kept_and_marked(
    kernel: KernelProcess, client: Client, service: OpenAIServer
) -> None:
    stream(service)
    cell = client.execute("go")
    cell.wait_for_text("some text")
    kernel.interrupt()
    cell.wait()
    (file,) = kernel.session_files
    last = json.loads(file.read_text().splitlines()[-1])
    assert last["message"]["content"][0]["text"] == "some text"
    assert last["message"]["stop_reason"] == "aborted"


def test_interrupts_at_random_moments_leave_the_next_cell_right(
    start_kernel: Callable[..., KernelProcess], service: OpenAIServer, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    configure(home, service)
    kernel = start_kernel()
    client = kernel.client()
    service.reply(delta(content="ready"), *finish())
    client.run("warm up")
    chance = random.Random(20_251)
    for number in range(200):
        words = [delta(content=f"w{n} ") for n in range(30)]
        service.reply(*words, *finish())
        is_python = number % 5 == 4
        code = "%%python\nsum(range(300_000))" if is_python else "go"
        cell = client.execute(code)
        client.read(chance.uniform(0, 0.03))
        kernel.interrupt()
        cell.wait()
        assert len(cell.replies) == 1
        assert len(cell.errors) == (cell.reply["status"] == "error")
        assert kernel.manager.is_alive()
        # An interrupt that came after its cell must not end the next one.
        check = client.run("%%python\n6 * 7")
        if check.reply["status"] == "error":
            assert check.reply["ename"] == "KeyboardInterrupt"
            check = client.run("%%python\n6 * 7")
        assert check.text == "42"
        service.drop_replies()
    service.reply(delta(content="alive"), *finish())
    assert client.run("still there?", cell_id="last").text == "alive"


def test_an_idle_kernel_survives_interrupts(
    start_kernel: Callable[..., KernelProcess],
) -> None:
    kernel = start_kernel("--TauKernel.model=echo")
    client = kernel.client()
    for _ in range(20):
        kernel.interrupt()
    assert client.run("here", cell_id="a").text == "here"
