"""The kernel's process: sockets, signals and the kernel in them."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence

import zmq
from ipykernel.kernelapp import IPKernelApp, kernel_aliases
from traitlets import Type
from traitlets.config import Config

from .kernel import TauKernel

__all__ = ["TauKernelApp", "launch"]


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

    def _on_sigterm(self, *_: object) -> None:
        loop: asyncio.AbstractEventLoop = self.kernel.io_loop.asyncio_loop
        loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        ending = asyncio.ensure_future(self.kernel.do_shutdown(restart=False))
        ending.add_done_callback(lambda _: self.kernel.io_loop.stop())


def launch(argv: Sequence[str]) -> None:
    """Run a kernel in this process until it is shut down.

    Args:
        argv: Command line arguments, such as ``-f CONNECTION_FILE``.
    """
    config = Config()
    # The tree is the history; IPython's own file would be a second, partial one.
    config.HistoryManager.enabled = False
    TauKernelApp.launch_instance(list(argv), config=config)
