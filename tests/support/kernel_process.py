"""A real kernel process and its clients, read in one thread and bounded in time.

::

    with KernelProcess("--TauKernel.model=echo") as kernel:
        cell = kernel.client().run("hello")
        assert cell.text == "hello"

A client reads its channels only inside `wait_for` (and what calls it), so that each
message has the time at which it came.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeAlias, TypeVar

import zmq
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from tau_kernel.messages import JsonObject

__all__ = [
    "BOUND",
    "Cell",
    "Client",
    "KernelProcess",
    "Received",
    "StartKernel",
    "write_script",
]

T = TypeVar("T")

#: Seconds that anything here may take; a busy machine is slow.
BOUND: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A message as a client got it; `time` is in seconds, monotonic."""

    channel: str
    time: float
    message: Mapping[str, Any]

    @property
    def kind(self) -> str:
        return str(self.message["msg_type"])

    @property
    def content(self) -> Mapping[str, Any]:
        content: Mapping[str, Any] = self.message["content"]
        return content

    @property
    def parent(self) -> str | None:
        parent: str | None = self.message["parent_header"].get("msg_id")
        return parent


class Cell:
    """What one client knows of one request of its own."""

    def __init__(self, client: Client, message_id: str) -> None:
        self.id = message_id
        self.sent = time.monotonic()
        self._client = client

    @property
    def messages(self) -> list[Received]:
        """All that came for this request, on every channel."""
        return [one for one in self._client.received if one.parent == self.id]

    @property
    def outputs(self) -> list[Received]:
        """What it published, without status and execute_input."""
        silent = {"status", "execute_input"}
        iopub = [one for one in self.messages if one.channel == "iopub"]
        return [one for one in iopub if one.kind not in silent]

    @property
    def errors(self) -> list[Received]:
        """The error outputs."""
        return [one for one in self.outputs if one.kind == "error"]

    @property
    def replies(self) -> list[Received]:
        """The execute replies."""
        return [one for one in self.messages if one.kind == "execute_reply"]

    @property
    def reply(self) -> Mapping[str, Any]:
        """The content of the one reply."""
        (reply,) = self.replies
        return reply.content

    @property
    def text(self) -> str:
        """What a reader sees: streams and displays, each as it was updated last."""
        shown: dict[str, str] = {}
        for number, one in enumerate(self.outputs):
            if one.kind == "stream":
                shown[str(number)] = one.content["text"]
            elif one.kind != "error":
                place = one.content.get("transient", {}).get("display_id", str(number))
                data = one.content["data"]
                shown[place] = data.get("text/markdown", data.get("text/plain", ""))
        return "".join(shown.values()).strip()

    @property
    def tau(self) -> Mapping[str, Any]:
        """The provenance of the last display."""
        with_metadata = [one for one in self.outputs if "metadata" in one.content]
        found: Mapping[str, Any] = with_metadata[-1].content["metadata"]["tau"]
        return found

    @property
    def is_done(self) -> bool:
        """Whether the reply and the idle status have come."""
        idle = any(
            one.kind == "status" and one.content["execution_state"] == "idle"
            for one in self.messages
        )
        return idle and bool(self.replies)

    def wait(self) -> Self:
        """Wait until the cell is done."""
        self._client.wait_for(lambda: self.is_done)
        return self

    def wait_for_text(self, text: str = "") -> float:
        """Wait until an output holds `text`, and give the time it came at."""

        def found() -> float | None:
            times = (o.time for o in self.outputs if text in json.dumps(o.content))
            return next(times, None)

        return self._client.wait_for(found)


class Client:
    """One client of a kernel, with every message it has got."""

    def __init__(self, connection_file: str) -> None:
        self.blocking = BlockingKernelClient(connection_file=connection_file)
        self.blocking.load_connection_file()
        self.blocking.start_channels(hb=False)
        self.received: list[Received] = []
        self._poller = zmq.Poller()
        channels = {
            "iopub": self.blocking.iopub_channel,
            "shell": self.blocking.shell_channel,
            "stdin": self.blocking.stdin_channel,
            "control": self.blocking.control_channel,
        }
        self._sockets = {channel.socket: name for name, channel in channels.items()}
        for socket in self._sockets:
            self._poller.register(socket, zmq.POLLIN)
        self._wait_for_iopub()

    def execute(
        self,
        code: str,
        *,
        cell_id: str | None = None,
        allow_stdin: bool = False,
        silent: bool = False,
        store_history: bool = True,
        stop_on_error: bool = False,
    ) -> Cell:
        """Send an execute_request, and do not wait."""
        content: JsonObject = {
            "code": code,
            "silent": silent,
            "store_history": store_history,
            "user_expressions": {},
            "allow_stdin": allow_stdin,
            "stop_on_error": stop_on_error,
        }
        metadata = {} if cell_id is None else {"cellId": cell_id}
        return Cell(self, self.send("shell", "execute_request", content, metadata))

    def run(self, code: str, **request: Any) -> Cell:  # noqa: ANN401 - of execute
        """Execute a cell and wait until it is done."""
        return self.execute(code, **request).wait()

    def send(
        self,
        channel: str,
        kind: str,
        content: JsonObject | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> str:
        """Send a message and give its id."""
        session = self.blocking.session
        message = session.msg(kind, content or {}, metadata=metadata)
        getattr(self.blocking, f"{channel}_channel").send(message)
        return str(message["header"]["msg_id"])

    def ask(
        self, kind: str, content: JsonObject | None = None, *, channel: str = "shell"
    ) -> Received:
        """Send a request and give the reply to it."""
        asked = self.send(channel, kind, content)
        wanted = kind.replace("_request", "_reply")

        def found() -> Received | None:
            replies = (r for r in self.received if r.parent == asked)
            return next((r for r in replies if r.kind == wanted), None)

        return self.wait_for(found)

    def answer(self, value: str) -> None:
        """Answer the newest question on stdin."""
        question = [one for one in self.received if one.kind == "input_request"][-1]
        session = self.blocking.session
        parent = dict(question.message["header"])
        reply = session.msg("input_reply", {"value": value}, parent=parent)
        self.blocking.stdin_channel.send(reply)

    @property
    def questions(self) -> list[Received]:
        """Every input_request that came."""
        return [one for one in self.received if one.kind == "input_request"]

    def wait_for(self, found: Callable[[], T | None], bound: float = BOUND) -> T:
        """Read messages until `found` gives something true, and give that."""
        end = time.monotonic() + bound
        while not (result := found()):
            left = end - time.monotonic()
            assert left > 0, f"nothing of this kind within {bound} s: {self._seen()}"
            self.read(min(left, 0.5))
        return result

    def read(self, seconds: float = 0.0) -> None:
        """Read what is there, waiting for the first message for so long at most."""
        for socket, _ in self._poller.poll(int(seconds * 1000)):
            while socket.poll(0):
                _, message = self.blocking.session.recv(socket, mode=0)
                assert message is not None
                channel = self._sockets[socket]
                one = Received(channel=channel, time=time.monotonic(), message=message)
                self.received.append(one)

    def close(self) -> None:
        """Close the channels."""
        self.blocking.stop_channels()

    def _seen(self) -> str:
        return ", ".join(one.kind for one in self.received[-12:])

    def _wait_for_iopub(self) -> None:
        """Wait until iopub is connected: what is published before that is lost."""
        end = time.monotonic() + BOUND
        while time.monotonic() < end:
            self.send("shell", "kernel_info_request")
            self.read(1.0)
            self.read(0.2)
            if any(one.channel == "iopub" for one in self.received):
                self.received.clear()
                self.read()
                self.received.clear()
                return
        msg = "the kernel's iopub channel did not answer"
        raise TimeoutError(msg)


class KernelProcess:
    """A kernel in a process of its own; a context manager."""

    def __init__(
        self,
        *arguments: str,
        home: Path,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        kernel_name: str = "tau",
    ) -> None:
        """Prepare to start a kernel.

        Args:
            arguments: Further words of its command line.
            home: Its ``TAU_HOME``.
            cwd: Where it runs.
            env: Further variables of its environment.
            kernel_name: Which kernelspec.
        """
        self.home = home
        self._arguments = arguments
        self._cwd = cwd or home
        self._env = {**os.environ, "TAU_HOME": str(home), **(env or {})}
        self.manager = KernelManager(kernel_name=kernel_name)
        self._clients: list[Client] = []

    def __enter__(self) -> Self:
        self.manager.start_kernel(
            extra_arguments=list(self._arguments), cwd=str(self._cwd), env=self._env
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for client in self._clients:
            client.close()
        self.manager.shutdown_kernel(now=not self.manager.is_alive())
        self.manager.cleanup_resources()

    @property
    def pid(self) -> int:
        """The process's id."""
        provisioner: Any = self.manager.provisioner
        return int(provisioner.pid)

    def client(self) -> Client:
        """Connect a further client."""
        client = Client(self.manager.connection_file)
        self._clients.append(client)
        return client

    def interrupt(self) -> float:
        """Interrupt as a front end does, and give the time of it."""
        at = time.monotonic()
        self.manager.interrupt_kernel()
        return at

    @property
    def session_files(self) -> list[Path]:
        """The files of its conversations, oldest first."""
        return sorted((self.home / "sessions").rglob("*.jsonl"))


#: The fixture that starts kernels: takes what `KernelProcess` takes, `home` optional.
StartKernel: TypeAlias = Callable[..., KernelProcess]


def write_script(path: Path, *lines: JsonObject) -> str:
    """Write what the scripted model shall say, and give the model's name."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return f"scripted:{path}"
