"""The kernel's process: sockets, signals and the kernel in them."""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from functools import partial
from typing import Final

import zmq
from ipykernel.kernelapp import IPKernelApp, kernel_aliases
from traitlets import Type
from traitlets.config import Config

from .kernel import TauKernel

__all__ = ["TauKernelApp", "launch"]

_TERM: Final = frozenset({signal.SIGTERM})
#: Seconds that the main thread has to end after SIGTERM, once the session is closed.
_LEAVE: Final = 0.5


class TauKernelApp(IPKernelApp):
    """ipykernel's application with the kernel τ in it."""

    name = "tau-kernel"
    kernel_class = Type(TauKernel, klass=TauKernel).tag(config=True)
    classes = [*IPKernelApp.classes, TauKernel]  # noqa: RUF012 - traitlets' attribute
    aliases = {  # noqa: RUF012 - as above
        **kernel_aliases,
        "model": "TauKernel.model",
        "home": "TauKernel.home",
    }

    def init_iopub(self, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        """Open iopub without a bound on its queue.

        At the default bound of 1000 messages a client that reads slowly loses
        messages without a word, the final idle among them.
        """
        super().init_iopub(context)
        self.iopub_socket.sndhwm = 0

    def init_signal(self) -> None:
        """Let SIGTERM end the kernel as a shutdown request does."""
        super().init_signal()
        signal.signal(signal.SIGTERM, self._on_sigterm)
        # Held back meanwhile: Python drops what reaches a child before its hook.
        os.register_at_fork(
            before=partial(signal.pthread_sigmask, signal.SIG_BLOCK, _TERM),
            after_in_parent=partial(signal.pthread_sigmask, signal.SIG_UNBLOCK, _TERM),
            after_in_child=_take_usual_signals,
        )

    def _on_sigterm(self, *_: object) -> None:
        # The main thread may be blocked by a Python cell for as long as it likes.
        threading.Thread(target=self._end, name="tau-end", daemon=True).start()

    def _end(self) -> None:
        try:
            asyncio.run(self.kernel.do_shutdown(restart=False))
            self.kernel.io_loop.add_callback(self.kernel.io_loop.stop)
            time.sleep(_LEAVE)
        finally:
            os._exit(128 + signal.SIGTERM)


def _leave_debugger_out() -> None:
    """Let ipykernel find no debugger, as this kernel offers none.

    It would take a good part of the time to start, and warn on the first cell's output.
    Python cells may import it all the same.
    """
    if "debugpy" not in sys.modules:
        # None is how the import system is told that there is no such module.
        sys.modules["debugpy"] = None  # type: ignore[assignment]
        try:
            importlib.import_module("ipykernel.debugger")
        finally:
            del sys.modules["debugpy"]


def _take_usual_signals() -> None:
    """Let a forked child be ended as any other: the kernel is not its to shut down."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _TERM)


def launch(argv: Sequence[str]) -> None:
    """Run a kernel in this process until it is shut down.

    Args:
        argv: Command line arguments, such as ``-f CONNECTION_FILE``.
    """
    _leave_debugger_out()
    config = Config()
    # The tree is the history; IPython's own file would be a second, partial one.
    config.HistoryManager.enabled = False
    TauKernelApp.launch_instance(list(argv), config=config)
