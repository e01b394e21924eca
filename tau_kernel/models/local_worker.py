"""The process that runs a GGUF model for `local`; started by path, never imported.

It reads JSON lines: ``{"start": N, "body": {...}}`` asks for a chat completion and
``{"stop": N}`` ends it early. It writes ``{"job": N, "chunk": {...}}`` per piece, then
``{"job": N, "end": null}``, or the words of a failure in place of null. It ends when
its input does, so it cannot outlive the process that started it.
"""

from __future__ import annotations

import json
import os
import queue
import secrets
import sys
import threading
from typing import IO

__all__: list[str] = []


class _Requests:
    """What to run next and what to stop, read in a thread of its own."""

    def __init__(self, lines: IO[bytes]) -> None:
        self._lines = lines
        self.started: queue.SimpleQueue[tuple[int, str]] = queue.SimpleQueue()
        self.stopped: set[int] = set()

    def read(self) -> None:
        for line in self._lines:
            request = json.loads(line)
            if "stop" in request:
                self.stopped.add(request["stop"])
            else:
                self.started.put((request["start"], json.dumps(request["body"])))
        # Not `sys.exit`: a completion may be running and nobody reads it any more.
        os._exit(0)


def _main(path: str, context_tokens: int) -> None:
    answers = os.fdopen(os.dup(1), "wb")
    # llama.cpp may print; its words must not mix with the answers.
    os.dup2(2, 1)
    requests = _Requests(sys.stdin.buffer)
    threading.Thread(target=requests.read, daemon=True).start()
    server: object | None = None
    while True:
        job, body = requests.started.get()
        failure: str | None = None
        try:
            server = server or _load(path, context_tokens)
            _run(server, job, body, requests, answers)
        except Exception as error:  # noqa: BLE001 - told to the process that asked
            failure = str(error) or type(error).__name__
        _write(answers, {"job": job, "end": failure})


def _run(
    server: object, job: int, body: str, requests: _Requests, answers: IO[bytes]
) -> None:
    def on_chunk(chunk: str) -> bool:
        _write(answers, {"job": job, "chunk": json.loads(chunk)})
        return job in requests.stopped

    if job not in requests.stopped:
        server.handle_chat_completions(body, on_chunk)  # type: ignore[attr-defined] # the library publishes no types


def _load(path: str, context_tokens: int) -> object:
    # Heavy and optional: a process that cannot import it says so in its answer.
    import xllamacpp  # noqa: PLC0415

    params = xllamacpp.CommonParams()
    params.model.path = path
    params.n_ctx = context_tokens
    params.cpuparams.n_threads = os.cpu_count() or 1
    params.verbosity = -1
    params.fit_params = False
    params.warmup = False
    # The library always opens a port on the loopback; without this key others on
    # the host could read and use the model.
    params.api_keys = [secrets.token_hex()]
    params.endpoint_slots = False
    params.ui = False
    return xllamacpp.Server(params)


def _write(answers: IO[bytes], answer: dict[str, object]) -> None:
    answers.write(json.dumps(answer).encode() + b"\n")
    answers.flush()


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]))
