"""How long it takes from an interrupt to the reply, whatever the cell was doing."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

import pytest
from kernel_process import Client, KernelProcess, write_script
from kernel_tools import arguments_for
from measured import Compare, Report, Row, quick_at_worst
from openai_server import OpenAIServer

from tau_kernel.messages import JsonObject

pytestmark = pytest.mark.slow

_ROUNDS = 40
#: A signal that comes on the way into one long sleep is seen after it, by Python;
#: short ones bound that. An interrupt that is lost counts with the five seconds.
_BLOCKING = """import time
for turn in range(100):
    if turn == 0:
        print('here', flush=True)
    time.sleep(0.05)
"""
#: The loop says that the cell awaits: it has no turn before.
_AWAITING = """import asyncio
asyncio.get_running_loop().call_soon(lambda: print('here', flush=True))
await asyncio.sleep(5)
"""
_ASK_STALLED = "%%tau model=stalled history=off\nanswer me"

Measure: TypeAlias = Callable[[str, Callable[[], float]], None]


@pytest.fixture
def measure(
    compare: Compare,
    report: Report,
    ipython_process: KernelProcess,
    ipython_client: Client,
) -> Measure:
    """Give what measures one kind of cell beside a blocking one of ipykernel."""

    def run(what: str, ours: Callable[[], float]) -> None:
        samples = compare(
            ours,
            lambda: _interrupt_shown(ipython_process, ipython_client, _BLOCKING),
            rounds=_ROUNDS,
            warm_up=1,
        )
        report(
            Row(
                what=f"interrupt to reply, {what}",
                reference="blocking cell",
                samples=samples,
                budget=quick_at_worst(0.1, 0.2),
            )
        )

    return run


@pytest.fixture
def stalled(
    tau_kernel_process: KernelProcess, tau_client: Client
) -> Iterator[OpenAIServer]:
    """Give a service that took one request and is silent; its model is `stalled`."""
    with OpenAIServer() as server:
        entry = {"backend": "openai", "model": "m", "base_url": server.base_url}
        config = {"models": {"stalled": {**entry, "api_key": "k"}}}
        file = tau_kernel_process.home / "config.json"
        file.write_text(json.dumps(config))
        # The first request waits for the client's libraries.
        server.say("yes")
        assert tau_client.run(_ASK_STALLED).reply["status"] == "ok"
        yield server
        file.unlink()


def test_a_stalled_provider(
    measure: Measure,
    tau_kernel_process: KernelProcess,
    tau_client: Client,
    stalled: OpenAIServer,
) -> None:
    def interrupt() -> float:
        def wait_for_request(number: int = len(stalled.requests) + 1) -> None:
            stalled.wait_for_request(number)

        stalled.reply(threading.Event())
        return _interrupt(
            tau_kernel_process,
            tau_client,
            _ASK_STALLED,
            wait_for_request,
        )

    measure("stalled provider", interrupt)


def test_a_streamed_answer(
    measure: Measure,
    tau_kernel_process: KernelProcess,
    tau_client: Client,
    streaming: str,
) -> None:
    code = f"%%tau model={streaming}\ntell me"
    measure(
        "streamed answer",
        lambda: _interrupt_shown(tau_kernel_process, tau_client, code, "word"),
    )


@pytest.mark.parametrize(
    ("what", "code"),
    [("blocking cell", _BLOCKING), ("awaiting cell", _AWAITING)],
    ids=["blocking", "awaiting"],
)
def test_a_python_cell(
    measure: Measure,
    tau_kernel_process: KernelProcess,
    tau_client: Client,
    what: str,
    code: str,
) -> None:
    code = f"%%python\n{code}"
    measure(what, lambda: _interrupt_shown(tau_kernel_process, tau_client, code))


@pytest.mark.parametrize(
    ("what", "tool"),
    [("running tool", "waits"), ("open question", "asks")],
    ids=["tool", "question"],
)
def test_a_tool(
    measure: Measure,
    compiled: Mapping[str, str],
    tmp_path: Path,
    what: str,
    tool: str,
) -> None:
    call: JsonObject = {"tool_calls": [{"name": tool, "arguments": {}}]}
    model = write_script(tmp_path / "calls.jsonl", *[call] * 100)
    arguments, env = arguments_for(tool)
    arguments.append(f"--TauKernel.model={model}")
    home = tmp_path / "home"
    home.mkdir()
    with KernelProcess(*arguments, home=home, env={**compiled, **env}) as process:
        client = process.client()

        def is_reached() -> bool:
            kind = "input_request" if tool == "asks" else "display_data"
            return any(one.kind == kind for one in client.received)

        measure(
            what,
            lambda: _interrupt(
                process, client, "call it", lambda: client.wait_for(is_reached)
            ),
        )


def _interrupt_shown(
    process: KernelProcess, client: Client, code: str, shown: str = "here"
) -> float:
    """Interrupt a cell that has shown something, and give the seconds to its reply."""
    return _interrupt(process, client, code, lambda: _wait_for_text(client, shown))


def _wait_for_text(client: Client, shown: str) -> None:
    def found() -> bool:
        contents = (one.content for one in client.received if one.channel == "iopub")
        kept = (one for one in contents if "code" not in one)
        return any(shown in json.dumps(one) for one in kept)

    client.wait_for(found)


def _interrupt(
    process: KernelProcess, client: Client, code: str, reach: Callable[[], object]
) -> float:
    client.received.clear()
    cell = client.execute(code, cell_id="c", allow_stdin=True)
    reach()
    at = process.interrupt()
    cell.wait()
    return cell.replies[0].time - at
