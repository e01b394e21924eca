"""A real server on the loopback that speaks OpenAI's chat completions.

A test scripts what it streams, piece by piece, may hold it between two pieces, drop
the connection or fail with a status, and reads what was asked::

    with OpenAIServer() as server:
        gate = threading.Event()
        server.reply(delta(content="Hel"), gate, delta(content="lo"), *finish())
        ...  # ask the model at server.base_url
        asked = server.wait_for_request()
        gate.set()
        assert asked.body["messages"]

A piece with a ``type`` is sent as an event of that name, as Anthropic's are.

Source: https://platform.openai.com/docs/api-reference/chat/streaming
"""

from __future__ import annotations

import json
import select
import socket
import struct
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Final, Self, TypeAlias, cast

from tau_kernel.messages import JsonObject, JsonValue

__all__ = ["DROP", "OpenAIServer", "Piece", "Request", "delta", "finish", "tool_call"]


class _Drop:
    """Cut the connection, without the end that HTTP asks for."""


DROP: Final = _Drop()

#: A JSON object is sent as one event, an Event holds the stream until it is set, and
#: `DROP` cuts the connection.
Piece: TypeAlias = JsonObject | threading.Event | _Drop

_SECONDS: Final = 10.0
#: How often a held stream looks whether the client is still there, in seconds.
_LOOK: Final = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request as it came; `gone` is set when its client hung up early."""

    path: str
    headers: Mapping[str, str]
    body: JsonObject
    gone: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reply:
    pieces: Sequence[Piece] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: JsonObject | None = None


def delta(**fields: JsonValue) -> JsonObject:
    """Make an event that adds to the answer, as ``content`` or another field."""
    return _chunk([{"index": 0, "delta": fields, "finish_reason": None}])


def tool_call(
    index: int,
    arguments: str,
    *,
    call_id: str | None = None,
    name: str | None = None,
) -> JsonObject:
    """Make an event that begins or continues a tool call."""
    call: JsonObject = {"index": index, "function": {"arguments": arguments}}
    if call_id is not None:
        call |= {"id": call_id, "type": "function"}
        call["function"] = {"name": name, "arguments": arguments}
    return delta(tool_calls=[call])


def finish(
    reason: str = "stop", *, asked: int = 7, answered: int = 5, cached: int = 0
) -> tuple[JsonObject, JsonObject]:
    """Make the two events at the end: the reason and the usage, in tokens."""
    usage: JsonObject = {
        "prompt_tokens": asked,
        "completion_tokens": answered,
        "total_tokens": asked + answered,
        "prompt_tokens_details": {"cached_tokens": cached},
    }
    last = _chunk([{"index": 0, "delta": {}, "finish_reason": reason}])
    return last, {**_chunk([]), "usage": usage}


def _chunk(choices: list[JsonValue]) -> JsonObject:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "scripted-model",
        "choices": choices,
    }


class OpenAIServer:
    """Plays replies in the order they were scripted; a context manager.

    Every request takes the next reply. A request that finds none is answered with
    status 400, which no client repeats. Leaving lets go of every held stream.
    """

    def __init__(self) -> None:
        """Bind a free port; requests are answered once it is entered."""
        self.requests: list[Request] = []
        self._replies: deque[_Reply] = deque()
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._http = _Http(("127.0.0.1", 0), _Exchange)
        self._http.owner = self
        self._thread = threading.Thread(target=self._serve, name="openai-server")

    @property
    def base_url(self) -> str:
        """The address to configure as a model's `base_url`."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def reply(self, *pieces: Piece) -> None:
        """Script one answer, streamed piece by piece."""
        with self._changed:
            self._replies.append(_Reply(pieces=pieces))

    def say(self, *texts: str) -> None:
        """Script one whole answer of prose, a piece for each text."""
        self.reply(*(delta(content=text) for text in texts), *finish())

    def fail(
        self,
        status: int,
        message: str,
        *,
        headers: Mapping[str, str] | None = None,
        code: str | None = None,
    ) -> None:
        """Script a refusal with an HTTP status and the service's words."""
        body: JsonObject = {"error": {"message": message, "type": "e", "code": code}}
        with self._changed:
            self._replies.append(
                _Reply(status=status, headers=headers or {}, body=body)
            )

    def drop_replies(self) -> None:
        """Forget the replies that no request has taken."""
        with self._changed:
            self._replies.clear()

    def wait_for_request(self, number: int = 1) -> Request:
        """Give the request of this number, from 1, waiting until it has come."""
        with self._changed:
            came = self._changed.wait_for(
                lambda: len(self.requests) >= number, timeout=_SECONDS
            )
            assert came, f"only {len(self.requests)} requests came, {number} expected"
            return self.requests[number - 1]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closing.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def _serve(self) -> None:
        self._http.serve_forever(poll_interval=0.01)

    def take(self, request: Request) -> _Reply:
        """Note a request and give its reply; for the handler alone."""
        missing: JsonObject = {"error": {"message": "no reply is scripted"}}
        with self._changed:
            self.requests.append(request)
            self._changed.notify_all()
            if self._replies:
                return self._replies.popleft()
            return _Reply(status=400, body=missing)

    def hold(self, gate: threading.Event, client: socket.socket) -> bool:
        """Wait at a gate; give whether the client is still there."""
        while not gate.is_set():
            if self._closing.is_set():
                return False
            readable, _, _ = select.select([client], [], [], _LOOK)
            if readable and not client.recv(1, socket.MSG_PEEK):
                return False
        return True


class _Http(ThreadingHTTPServer):
    owner: OpenAIServer

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that hang up: tests look at `Request.gone`."""


class _Exchange(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        request = Request(
            path=self.path,
            headers={name.lower(): value for name, value in self.headers.items()},
            body=cast("JsonObject", json.loads(self.rfile.read(length))),
        )
        self.close_connection = True
        owner = cast("_Http", self.server).owner
        reply = owner.take(request)
        try:
            if reply.body is not None:
                self._refuse(reply)
            else:
                self._stream(reply, request, owner)
        except OSError:
            request.gone.set()

    def _refuse(self, reply: _Reply) -> None:
        body = json.dumps(reply.body).encode()
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, reply: _Reply, request: Request, owner: OpenAIServer) -> None:
        self.send_response(reply.status)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in reply.pieces:
            if isinstance(piece, _Drop):
                # With this the client gets a reset instead of a regular end.
                linger = struct.pack("ii", 1, 0)
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                return
            if isinstance(piece, threading.Event):
                if not owner.hold(piece, self.connection):
                    request.gone.set()
                    return
            else:
                # Anthropic's events say their type twice.
                name = f"event: {piece['type']}\n" if "type" in piece else ""
                self._send(f"{name}data: {json.dumps(piece)}\n\n")
        self._send("data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def _send(self, event: str) -> None:
        data = event.encode()
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - theirs
        """Print nothing: the output of a test is its own."""
