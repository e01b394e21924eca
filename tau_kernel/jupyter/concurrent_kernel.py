"""The kernel's traffic rules: what is served beside a prompt, and who is interrupted.

ipykernel serves one shell message at a time, and its interrupt reaches running Python
only. A prompt waits for minutes without using the thread, so both would leave a person
without completion and without a way to stop.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Any, Final, cast

import zmq
from ipykernel.ipkernel import IPythonKernel
from tornado.ioloop import IOLoop
from traitlets import Type

from .cells import KnownNames, PromptCell, parse
from .interrupts import Interrupts
from .main_thread import MainThread
from .packing import pack_any_text
from .replies import Reply, skipped_reply
from .shell import TauShell

if TYPE_CHECKING:
    from jupyter_client.session import Session
    from tornado.platform.asyncio import BaseAsyncIOLoop

__all__ = ["ConcurrentKernel"]

#: What is served while a prompt is awaited; anything else waits for the cell.
_PAST_THE_LOCK: Final = frozenset(
    {
        "complete_request",
        "inspect_request",
        "is_complete_request",
        "history_request",
        "kernel_info_request",
        "comm_info_request",
        "interrupt_request",
    }
)
#: What runs the user's callbacks.
_WIDGETS: Final = ("comm_open", "comm_msg", "comm_close")


class ConcurrentKernel(IPythonKernel):
    """An ipykernel that goes on serving while one of its cells awaits a prompt."""

    shell_class = Type(TauShell)

    def __init__(self, **kwargs: Any) -> None:  # noqa: ANN401 - traitlets' keywords
        """Make the kernel; signals are taken over by `start`."""
        super().__init__(**kwargs)
        # The loop that `start` serves on; ipykernel's attribute is set only there.
        loop = cast("BaseAsyncIOLoop", IOLoop.current()).asyncio_loop
        self.main = MainThread(loop)
        self.interrupts = Interrupts(loop)
        self.ipython.interrupts = self.interrupts
        pack_any_text(self.messenger)
        self._prompts = 0
        for kind in _WIDGETS:
            self.shell_handlers[kind] = self._interruptible(self.shell_handlers[kind])

    @property
    def messenger(self) -> Session:
        """What signs, packs and sends messages."""
        assert self.session is not None
        return self.session

    @property
    def ipython(self) -> TauShell:
        """The shell of Python cells."""
        return cast("TauShell", self.shell)

    def routing(self) -> Sequence[bytes]:
        """Give the routing frames of the request being served."""
        # ipykernel annotates one frame, and keeps all of them.
        var = cast("ContextVar[Sequence[bytes]]", self._shell_parent_ident)
        return self._get_shell_context_var(var)

    def start(self) -> None:
        """Take SIGINT over and begin to serve."""
        self.interrupts.install()
        super().start()

    def names(self) -> KnownNames:
        """Give the names that decide what a cell is."""
        raise NotImplementedError

    @contextmanager
    def awaiting_prompt(self) -> Iterator[None]:
        """Serve other messages past the lock inside the block."""
        self._prompts += 1
        try:
            yield
        finally:
            self._prompts -= 1

    def pre_handler_hook(self) -> None:
        """Take SIGINT back: the user's code may have installed another handler."""
        self.interrupts.install()

    def post_handler_hook(self) -> None:
        """Take SIGINT back, as another handler would end the idle kernel."""
        self.interrupts.install()

    def _interruptible(self, handler: Callable[..., object]) -> Callable[..., object]:
        """Let an interrupt raise in the callbacks of a widget."""

        def handle(*args: object) -> object:
            with self.interrupts.user_code():
                return handler(*args)

        return handle

    @contextmanager
    def _cancel_on_sigint(self, future: asyncio.Future[Any]) -> Iterator[None]:
        """Cancel an awaiting Python cell from the loop, so that its select wakes."""
        with self.interrupts.waiting(future.cancel):
            yield

    async def interrupt_request(
        self, stream: zmq.Socket[bytes], ident: list[bytes], parent: Reply
    ) -> None:
        """Interrupt as SIGINT does, this process only: helpers must live on."""
        os.kill(os.getpid(), signal.SIGINT)
        self.messenger.send(
            stream, "interrupt_reply", {"status": "ok"}, parent, ident=ident
        )

    def _send_abort_reply(
        self, stream: zmq.Socket[bytes], msg: Reply, idents: list[bytes]
    ) -> None:
        self.messenger.send(
            stream,
            "execute_reply",
            skipped_reply(self.ipython.execution_count),
            parent=msg,
            ident=idents,
        )

    async def shell_main(self, subshell_id: str | None, msg: list[zmq.Frame]) -> None:
        """Serve what need not wait for a prompt that is awaited."""
        if self._prompts and self._main_asyncio_lock.locked():
            peeked = self._peek(msg)
            kind = peeked["header"]["msg_type"] if peeked else ""
            if kind in _PAST_THE_LOCK:
                await self._serve_past_lock(subshell_id, msg)
                return
            if peeked and kind == "execute_request" and self._is_impatient(peeked):
                # Only cells publish their status here: the idle of a completion would
                # tell a front end that the prompt has ended.
                self._publish_status("busy", "shell", peeked)
                await self._serve_past_lock(subshell_id, msg)
                self._publish_status("idle", "shell", peeked)
                return
        await super().shell_main(subshell_id, msg)

    def _peek(self, msg: list[zmq.Frame]) -> Reply | None:
        """Read a message's headers; its signature is checked when it is served."""
        try:
            _, frames = self.messenger.feed_identities(msg, copy=False)
            found: Reply = self.messenger.deserialize(frames, content=False, copy=False)
        except (ValueError, TypeError, IndexError):
            return None
        return found

    def _is_impatient(self, peeked: Reply) -> bool:
        """Say whether a cell asks not to wait for the turn in flight."""
        content = self.messenger.unpack(peeked["content"])
        try:
            cell = parse(str(content.get("code", "")), self.names())
        except ValueError:
            return False
        strategy = cell.options.strategy if isinstance(cell, PromptCell) else None
        return strategy not in {None, "enqueue"}

    async def _serve_past_lock(
        self, subshell_id: str | None, msg: list[zmq.Frame]
    ) -> None:
        try:
            await asyncio.create_task(
                self.dispatch_shell(msg, subshell_id=subshell_id, concurrent=True),
                context=copy_context(),
            )
        finally:
            # Every message under the lock shares this task's context, so that this is
            # the parent of the cell served by then: a later one than at the start,
            # if the one it began beside has ended.
            self.set_parent(self.routing(), self.get_parent("shell"), channel="shell")
