"""The processes that run GGUF files, and the completions that wait for them.

A process is started at the first request and kept. One completion runs in it at a
time; a thread of each waits for its turn and tells the event loop.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final, cast

from tau_kernel.errors import ConfigError
from tau_kernel.messages import JsonObject

from .local_install import check_gguf
from .model import ErrorEvent

__all__ = ["WORKERS", "LocalJob", "LocalWorker"]

_WORKER: Final = Path(__file__).with_name("local_worker.py")


class LocalWorker:
    """One process with one model; its owner is whoever holds `lock`."""

    def __init__(self, path: Path, context_tokens: int) -> None:
        self.path = path
        self.lock = threading.Lock()
        self.is_checked = False
        self._context_tokens = context_tokens
        self._process: subprocess.Popen[bytes] | None = None
        self._job = 0

    def begin(self, body: JsonObject) -> int:
        """Send a request, starting the process if none runs; give its number."""
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                # Not isolated (`-I`), which would hide packages on PYTHONPATH; `-P`
                # keeps this folder, with its `pydantic_ai.py`, off the path.
                [
                    *(sys.executable, "-P", str(_WORKER)),
                    *(str(self.path), str(self._context_tokens)),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                # An interrupt of the terminal or kernel is not for the model.
                start_new_session=True,
            )
        self._job += 1
        self._send({"start": self._job, "body": body})
        return self._job

    def answers(self, job: int) -> Iterator[JsonObject]:
        """Give the lines that answer `job`, the end last; none if the process died."""
        assert self._process is not None, "answers follow begin"
        for line in cast("IO[bytes]", self._process.stdout):
            answer: JsonObject = json.loads(line)
            if answer["job"] == job:
                yield answer
                if "end" in answer:
                    return
        # Reaped here: to the next request a dying process would look alive.
        self.close()

    def ask_to_stop(self, job: int) -> None:
        """Stop at the next token. From any thread."""
        self._send({"stop": job})

    def kill(self) -> None:
        """End the process at once; the next request starts another. Any thread."""
        process = self._process
        if process is not None:
            process.kill()

    def close(self) -> None:
        """End the process and wait until it is gone."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def _send(self, request: JsonObject) -> None:
        process = self._process
        if process is None or process.stdin is None:
            return
        # A process that died is reported where its answers end.
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        except (BrokenPipeError, ValueError):
            process.kill()


class _Workers:
    """The workers of this process, one for each file and context size."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._workers: dict[tuple[Path, int], LocalWorker] = {}

    def worker(self, path: Path, context_tokens: int) -> LocalWorker:
        with self._lock:
            if not self._workers:
                atexit.register(self._close)
            key = (path, context_tokens)
            if key not in self._workers:
                self._workers[key] = LocalWorker(path, context_tokens)
            return self._workers[key]

    def _close(self) -> None:
        for worker in self._workers.values():
            worker.close()


#: A loaded model is a fact of the process: loading it per request takes seconds.
WORKERS: Final = _Workers()


class LocalJob:
    """One completion: a thread that waits for the worker and tells the loop."""

    def __init__(
        self, worker: LocalWorker, body: JsonObject, *, is_default: bool
    ) -> None:
        self.items: asyncio.Queue[JsonObject | ErrorEvent | None] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        self._worker = worker
        self._body = body
        self._is_default = is_default
        self._stopped = threading.Event()
        self._guard = threading.Lock()
        self._number: int | None = None
        self._has_answered = False

    def start(self) -> None:
        """Wait for the worker, and then answer, in a thread of its own."""
        # Daemonic: a thread that waits for a killed worker must not hold up exit.
        threading.Thread(target=self._run, name="tau-local", daemon=True).start()

    def stop(self) -> None:
        """Let go: end the completion if it still runs. Never waits for it."""
        with self._guard:
            self._stopped.set()
            if self._number is None:
                return
            if self._has_answered:
                self._worker.ask_to_stop(self._number)
            else:
                # Nothing stops the loading, or the reading of a prompt, but this.
                self._worker.kill()

    def _run(self) -> None:
        while not self._worker.lock.acquire(timeout=0.05):
            if self._stopped.is_set():
                return
        try:
            self._check_file()
            self._converse()
        except ConfigError as error:
            self._tell(ErrorEvent(message=str(error)))
        finally:
            with self._guard:
                self._number = None
            self._worker.lock.release()
            self._tell(None)

    def _check_file(self) -> None:
        if self._is_default and not self._worker.is_checked:
            check_gguf(self._worker.path)
        self._worker.is_checked = True

    def _converse(self) -> None:
        with self._guard:
            if self._stopped.is_set():
                return
            self._number = number = self._worker.begin(self._body)
        for answer in self._worker.answers(number):
            if "end" in answer:
                if answer["end"] is not None:
                    self._tell(_failure(self._worker.path, str(answer["end"])))
                return
            chunk = cast("JsonObject", answer["chunk"])
            if not self._has_answered:
                with self._guard:
                    self._has_answered = True
            self._tell(chunk)
        self._tell(_failure(self._worker.path, "its process ended"))

    def _tell(self, item: JsonObject | ErrorEvent | None) -> None:
        if self._stopped.is_set():
            return
        try:
            self._loop.call_soon_threadsafe(self.items.put_nowait, item)
        except RuntimeError:
            # The loop was closed under the stream; there is nobody left to tell.
            self._stopped.set()


def _failure(path: Path, words: str) -> ErrorEvent:
    return ErrorEvent(
        message=f"the local model {str(path)!r} failed: {words.strip()[:500]}\n"
        "Check that it is a GGUF file of a chat model and fits in memory."
    )
