"""What user code, tools and clients may do to a kernel, which goes on regardless."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from kernel_process import Cell, Client, KernelProcess, StartKernel
from kernel_tools import arguments_for
from openai_server import OpenAIServer, delta, finish, tool_call

from tau_kernel.messages import JsonObject

pytestmark = pytest.mark.slow

#: Seconds in which a kernel must have ended.
ENDED: Final = 5.0


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
    arguments, env = arguments_for("asks", "exits", "breaks_oddly", "asks_itself")
    with KernelProcess(*arguments, home=home, env=env) as process:
        yield process


@pytest.fixture
def client(kernel: KernelProcess, service: OpenAIServer) -> Iterator[Client]:
    client = kernel.client()
    yield client
    service.drop_replies()
    service.reply(delta(content="still here"), *finish())
    assert client.run("are you?").text.endswith("still here")


def configure(home: Path, service: OpenAIServer) -> None:
    stub = {"backend": "openai", "model": "m", "base_url": service.base_url}
    config = {"default_model": "stub", "models": {"stub": stub}}
    (home / "config.json").write_text(json.dumps(config))


def call(service: OpenAIServer, name: str) -> None:
    service.reply(tool_call(0, "{}", call_id="t", name=name), *finish("tool_calls"))


def is_locked(file: Path) -> bool:
    with file.open("rb") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        ("exits", "SystemExit(3)"),
        ("breaks_oddly", "half \ufffd here"),
        ("asks_itself", "cannot wait for itself"),
    ],
)
def test_a_tool_cannot_take_the_conversation_down(
    client: Client, service: OpenAIServer, tool: str, words: str
) -> None:
    call(service, tool)
    cell = client.run("go")
    assert cell.reply["status"] == "error"
    assert words in cell.reply["evalue"]
    assert len(cell.errors) == 1


def test_an_error_with_half_a_character_in_it_is_replied(client: Client) -> None:
    cell = client.run("%%python\nraise ValueError('\\ud83d')")
    assert cell.reply["evalue"] == "\ufffd"


TERMINATE: Final = """%%python
import multiprocessing, time
child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
child.start()
child.terminate()
child.join(10)
child.exitcode"""

ASK_IN_A_CHILD: Final = """%%python
import os
read, write = os.pipe()
child = os.fork()
if child == 0:
    try:
        tau.ask("hello")
    except BaseException as error:
        os.write(write, str(error).encode())
    os._exit(0)
os.waitpid(child, 0)
os.read(read, 1000).decode()"""


def test_a_forked_child_is_ended_by_sigterm(client: Client) -> None:
    assert client.run(TERMINATE).text == "-15"


def test_a_forked_child_that_asks_is_told_to_ask_in_its_parent(
    client: Client,
) -> None:
    assert (
        "belongs to the process that this one was forked from"
        in client.run(ASK_IN_A_CHILD).text
    )


def test_a_handler_that_user_code_installs_does_not_outlive_its_cell(
    kernel: KernelProcess, client: Client, service: OpenAIServer
) -> None:
    client.run(
        "%%python\nimport signal\n"
        "kept = 1\nsignal.signal(signal.SIGINT, signal.default_int_handler)"
    )
    asked = len(service.requests)
    service.reply(threading.Event())
    cell = client.execute("wait")
    client.wait_for(lambda: len(service.requests) > asked)
    kernel.interrupt()
    assert cell.wait().reply["ename"] == "KeyboardInterrupt"
    assert client.run("%%python\nkept").text == "1"


TWICE: Final = """%%python
import time
try:
    print("one", flush=True)
    time.sleep(600)
except KeyboardInterrupt:
    print("two", flush=True)
    time.sleep(600)"""

BLOCKING_COROUTINE: Final = """%%python
import time
async def blocks():
    print("one", flush=True)
    time.sleep(600)
await blocks()"""


def test_code_that_catches_an_interrupt_is_ended_by_the_next(
    kernel: KernelProcess, client: Client
) -> None:
    cell = client.execute(TWICE)
    cell.wait_for_text("one")
    kernel.interrupt()
    cell.wait_for_text("two")
    kernel.interrupt()
    assert cell.wait().reply["ename"] == "KeyboardInterrupt"


def test_a_coroutine_that_blocks_is_interrupted(
    kernel: KernelProcess, client: Client
) -> None:
    cell = client.execute(BLOCKING_COROUTINE)
    cell.wait_for_text("one")
    kernel.interrupt()
    assert cell.wait().reply["ename"] == "KeyboardInterrupt"
    assert len(cell.errors) == 1


def test_many_interrupts_of_python_that_asks_end_it_once(
    kernel: KernelProcess, client: Client, service: OpenAIServer
) -> None:
    for _ in range(5):
        asked = len(service.requests)
        service.reply(threading.Event())
        cell = client.execute("%%python\ntau.ask('wait')")
        client.wait_for(lambda before=asked: len(service.requests) > before)  # type: ignore[misc]
        for _ in range(10):
            kernel.interrupt()
        cell.wait()
        assert (len(cell.errors), len(cell.replies)) == (1, 1)
        # One of the ten may have come after the cell had ended.
        client.run("%%python\n1")


WIDGET: Final = """%%python
import ipywidgets, time
slider = ipywidgets.IntSlider()
def block(change):
    print("one", flush=True)
    time.sleep(600)
slider.observe(block, "value")
print(slider.comm.comm_id)"""


def test_a_widgets_callback_that_blocks_is_interrupted(
    kernel: KernelProcess, client: Client
) -> None:
    comm_id = client.run(WIDGET).text
    state: JsonObject = {"method": "update", "state": {"value": 5}, "buffer_paths": []}
    content: JsonObject = {"comm_id": comm_id, "data": state}
    moved = Cell(client, client.send("shell", "comm_msg", content))
    moved.wait_for_text("one")
    kernel.interrupt()
    assert client.run("%%python\n6 * 7").text == "42"


def test_a_cell_beside_one_that_was_rolled_back_ends_under_its_own_parent(
    kernel: KernelProcess, client: Client, service: OpenAIServer
) -> None:
    other, gate = kernel.client(), threading.Event()
    service.reply(delta(content="first"), threading.Event())
    service.reply(delta(content="second"), gate, *finish())
    first = client.execute("one")
    first.wait_for_text("first")
    second = other.execute("%%tau strategy=rollback\ntwo")
    second.wait_for_text("second")
    first.wait()
    third = client.execute(
        "%%python\nimport asyncio\nprint('on', flush=True)\nawait asyncio.sleep(1)"
    )
    third.wait_for_text("on")
    gate.set()
    second.wait()
    assert third.wait().reply["status"] == "ok"
    idle = [
        one for one in first.messages if one.content.get("execution_state") == "idle"
    ]
    assert len(idle) == 1


def test_what_is_no_signed_answer_leaves_the_question_open(
    client: Client, service: OpenAIServer
) -> None:
    call(service, "asks")
    service.reply(delta(content="thanks"), *finish())
    cell = client.execute("go", allow_stdin=True)
    client.wait_for(lambda: client.questions)
    frames = [b"<IDS|MSG>", b"forged", b"{}", b"{}", b"{}", b"{}"]
    client.blocking.stdin_channel.socket.send_multipart(frames)
    client.answer("me")
    assert "thanks" in cell.wait().text


def test_a_start_is_refused_where_nothing_is_kept(client: Client) -> None:
    cell = client.run("%%tau from=root\ngo", store_history=False)
    assert "from=" in cell.reply["evalue"]


def test_the_name_tau_outlives_a_reset(client: Client) -> None:
    client.run("%reset -f")
    assert "ask(text)" in client.run("%%python\ntau").text


def test_an_empty_cell_answers_the_expressions_that_came_with_it(
    client: Client,
) -> None:
    content: JsonObject = {"code": "", "silent": True, "user_expressions": {"x": "6*7"}}
    cell = Cell(client, client.send("shell", "execute_request", content)).wait()
    assert cell.reply["user_expressions"]["x"]["data"] == {"text/plain": "42"}


@pytest.mark.parametrize("cell_id", ["", 5, ["a"]])
def test_a_cell_id_that_names_no_cell_appends(
    start_kernel: StartKernel, cell_id: object
) -> None:
    client = start_kernel("--TauKernel.model=echo").client()
    client.run("one")
    content: JsonObject = {"code": "two", "silent": False}
    sent = client.send("shell", "execute_request", content, {"cellId": cell_id})
    Cell(client, sent).wait()
    assert client.run("%%python\nlen(tau.session.messages)").text == "4"


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("history_request", {"hist_access_type": "tail", "n": "three"}),
        ("complete_request", {"code": "/he", "cursor_pos": None}),
        ("inspect_request", {"code": "/help", "cursor_pos": None}),
        ("is_complete_request", {"code": None}),
    ],
)
def test_a_request_that_makes_no_sense_is_answered(
    client: Client, kind: str, content: JsonObject
) -> None:
    assert client.ask(kind, content).content["status"] == "error"


def test_a_tool_that_cannot_be_loaded_does_not_end_completion(
    start_kernel: StartKernel,
) -> None:
    kernel = start_kernel("--TauKernel.model=echo", "--TauKernel.tools=nowhere:tool")
    reply = kernel.client().ask("complete_request", {"code": "/he", "cursor_pos": 3})
    assert reply.content["matches"] == ["/help"]


def test_a_relative_home_stays_where_it_was_when_a_cell_changes_the_directory(
    start_kernel: StartKernel, tmp_path: Path
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.json").write_text('{"default_model": "echo"}')
    client = start_kernel(cwd=tmp_path, env={"TAU_HOME": "home"}).client()
    client.run("%cd /")
    assert client.run("one").text == "one"
    assert len(list((tmp_path / "home").rglob("*.jsonl"))) == 1


def test_python_runs_and_is_warned_when_the_conversation_was_deleted(
    start_kernel: StartKernel,
) -> None:
    kernel = start_kernel("--TauKernel.model=echo")
    client = kernel.client()
    client.run("one")
    kernel.session_files[0].unlink()
    cell = client.run("%%python\n6 * 7")
    assert cell.reply["status"] == "ok"
    assert "was not recorded" in cell.text
    assert client.run("two").reply["status"] == "error"


def block_python(client: Client) -> None:
    code = "%%python\nimport time\nprint('on', flush=True)\ntime.sleep(600)"
    client.execute(code).wait_for_text("on")


def leave_a_thread(client: Client) -> None:
    code = "threading.Thread(target=time.sleep, args=(600,)).start()"
    client.run(f"%%python\nimport threading, time\n{code}")


def rest(client: Client) -> None:
    """Let the kernel be idle."""


@pytest.mark.parametrize("keep_busy", [block_python, leave_a_thread, rest])
def test_sigterm_ends_the_kernel_and_closes_the_conversation(
    start_kernel: StartKernel, keep_busy: Callable[[Client], None]
) -> None:
    kernel = start_kernel("--TauKernel.model=echo")
    client = kernel.client()
    client.run("one")
    keep_busy(client)
    os.kill(kernel.pid, signal.SIGTERM)
    client.wait_for(lambda: not kernel.manager.is_alive(), ENDED)
    (file,) = kernel.session_files
    assert not is_locked(file)
    for line in file.read_bytes().splitlines(keepends=True):
        json.loads(line)
        assert line.endswith(b"\n")
