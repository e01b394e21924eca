"""A long answer on its way through a real Jupyter server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from time import monotonic
from typing import Any, Final
from uuid import uuid4

import pytest
from jupyter_server import JupyterServer
from kernel_process import write_script
from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

pytestmark = pytest.mark.slow

_TOKENS: Final = 20_000
_CHARACTERS_OF_A_TOKEN: Final = 5
_OUTPUTS: Final = {"display_data", "update_display_data", "stream", "error"}
#: Seconds that the whole answer may take; a busy machine is slow.
_BOUND: Final = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frame:
    """A message as it came through the websocket.

    `sent` and `came` are in seconds, on the kernel's wall clock and on our own.
    """

    message: Mapping[str, Any]
    size: int
    sent: float
    came: float

    @property
    def kind(self) -> str:
        return str(self.message["header"]["msg_type"])

    @property
    def is_output(self) -> bool:
        return self.message["channel"] == "iopub" and self.kind in _OUTPUTS

    @property
    def display(self) -> str:
        return str(self.message["content"]["transient"]["display_id"])

    def form(self, kind: str) -> str:
        return str(self.message["content"]["data"].get(kind, ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """One execution of a cell, message by message."""

    text: str
    frames: tuple[_Frame, ...]

    @property
    def outputs(self) -> list[_Frame]:
        return [frame for frame in self.frames if frame.is_output]

    def shown(self, form: str) -> str:
        """What all displays show at last, in the order in which they began."""
        last = {frame.display: frame.form(form) for frame in self.outputs}
        return "".join(last.values())

    def windows(self) -> Iterator[list[_Frame]]:
        """Give the outputs of every second that begins with one."""
        outputs = self.outputs
        for number, first in enumerate(outputs):
            later = outputs[number:]
            yield [frame for frame in later if frame.sent < first.sent + 1.0]

    @property
    def growths(self) -> list[float]:
        """The times at which more of the text became visible."""
        lengths: dict[str, int] = {}
        times: list[float] = []
        seen = 0
        for frame in self.outputs:
            lengths[frame.display] = len(frame.form("text/markdown"))
            if (visible := sum(lengths.values())) > seen:
                seen = visible
                times.append(frame.came)
        return times


def _long_text() -> str:
    """Make as many words as there are tokens, with all that an answer may hold."""
    characters = _TOKENS * _CHARACTERS_OF_A_TOKEN
    sections: list[str] = []
    size = number = 0
    while size < characters:
        number += 1
        words = " ".join(f"w{number}x{n}" for n in range(60))
        items = "".join(f"- point {n} of *section* {number}\n" for n in range(12))
        lines = "".join(f"    total += {n} * {number}\n" for n in range(20))
        code = f"```python\ndef work_{number}(total):\n{lines}```\n"
        section = f"## Section {number}\n\n{words}\n\n{items}\n{words}.\n\n{code}\n"
        sections.append(section)
        size += len(section)
    return "".join(sections)[:characters].rstrip()


async def _execute(server: JupyterServer, kernel_id: str, code: str) -> list[_Frame]:
    url = HTTPRequest(server.channels_url(kernel_id), headers=server.headers)
    socket = await websocket_connect(url)
    try:
        request = _request(code)
        await socket.write_message(json.dumps(request))
        return await _read(socket, str(request["header"]["msg_id"]))
    finally:
        socket.close()


def _request(code: str) -> dict[str, Any]:
    header = {
        "msg_id": uuid4().hex,
        "session": uuid4().hex,
        "username": "reader",
        "msg_type": "execute_request",
        "version": "5.4",
    }
    content = {
        "code": code,
        "silent": False,
        "store_history": True,
        "user_expressions": {},
        "allow_stdin": True,
        "stop_on_error": True,
    }
    return {
        "channel": "shell",
        "header": header,
        "parent_header": {},
        "metadata": {"cellId": "long"},
        "content": content,
        "buffers": [],
    }


async def _read(socket: WebSocketClientConnection, request_id: str) -> list[_Frame]:
    """Read what belongs to the request until its reply and its end have come."""
    frames: list[_Frame] = []
    missing = {"execute_reply", "idle"}
    while missing:
        data = await socket.read_message()
        assert isinstance(data, str), "the server closed the websocket"
        message = json.loads(data)
        if message["parent_header"].get("msg_id") != request_id:
            continue
        date = datetime.fromisoformat(message["header"]["date"])
        frame = _Frame(
            message=message,
            size=len(data.encode()),
            sent=date.timestamp(),
            came=monotonic(),
        )
        frames.append(frame)
        missing -= {frame.kind, message["content"].get("execution_state")}
    return frames


def _run(folder: Path, **pace: int) -> _Run:
    text = _long_text()
    model = write_script(folder / "script.jsonl", {"text": text, **pace})
    home = folder / "home"
    with JupyterServer(root=folder, home=home, model=model) as server:
        execution = _execute(server, server.start_kernel(), "Tell me everything.")
        frames = asyncio.run(asyncio.wait_for(execution, _BOUND))
    return _Run(text=text, frames=tuple(frames))


@pytest.fixture(scope="module")
def paced(tmp_path_factory: pytest.TempPathFactory) -> _Run:
    """Run a cell whose model says four tokens in a bit over a millisecond."""
    return _run(
        tmp_path_factory.mktemp("paced"),
        chunk_chars=4 * _CHARACTERS_OF_A_TOKEN,
        delay_ms=1,
    )


@pytest.fixture(scope="module")
def burst(tmp_path_factory: pytest.TempPathFactory) -> _Run:
    """Run a cell whose model says all of its tokens as fast as the kernel takes them.

    That is more than a second may carry, so that parts of the answer have to wait.
    """
    folder = tmp_path_factory.mktemp("burst")
    return _run(folder, chunk_chars=_CHARACTERS_OF_A_TOKEN)


@pytest.fixture(scope="module", params=["paced", "burst"])
def run(request: pytest.FixtureRequest) -> _Run:
    """Give each of the runs."""
    one = request.getfixturevalue(request.param)
    assert isinstance(one, _Run)
    return one


def test_nothing_of_a_long_answer_is_lost(run: _Run) -> None:
    assert run.shown("text/markdown") == run.text
    assert run.shown("text/plain") == run.text


def test_a_long_answer_has_one_reply_and_it_is_ok(run: _Run) -> None:
    replies = [frame for frame in run.frames if frame.kind == "execute_reply"]
    assert [reply.message["content"]["status"] for reply in replies] == ["ok"]


def test_a_long_answer_never_exceeds_the_data_rate_of_the_server(run: _Run) -> None:
    # The server would say so in a stream of its own.
    kinds = {frame.kind for frame in run.outputs}
    assert kinds == {"display_data", "update_display_data"}


def test_no_second_of_a_long_answer_has_over_40_messages(run: _Run) -> None:
    assert max(len(window) for window in run.windows()) <= 40


def test_no_second_of_a_long_answer_has_over_128_kilobytes(run: _Run) -> None:
    sizes = [sum(frame.size for frame in window) for window in run.windows()]
    assert max(sizes) <= 128_000


def test_a_long_answer_grows_at_least_every_half_second(paced: _Run) -> None:
    # The model never pauses, so a gap is as long as a token was out of sight. Kernel,
    # server and reader share the processors with other tests: a single gap may be
    # longer by the half second that one of them may have to wait for its turn.
    gaps = sorted(after - before for before, after in pairwise(paced.growths))
    assert gaps[int(0.95 * len(gaps))] <= 0.5
    assert gaps[-1] <= 1.0
