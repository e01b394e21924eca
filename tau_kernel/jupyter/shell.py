"""IPython's shell, told when the user's own code is on the stack."""

from __future__ import annotations

import importlib
import sys
import threading
from types import CodeType, TracebackType
from typing import TYPE_CHECKING, Any, Final

from ipykernel.zmqshell import ZMQInteractiveShell

from .interrupts import is_raised_in

if TYPE_CHECKING:
    from .interrupts import Interrupts

__all__ = ["TauShell"]

#: What IPython imports for its first traceback: longer than an interrupt may take.
_FOR_TRACEBACKS: Final = (
    "stack_data",
    "pygments.formatters.html",
    "pygments.formatters.terminal256",
    "pygments.lexers.python",
)


class TauShell(ZMQInteractiveShell):
    """Runs Python cells; an interrupt raises inside them and nowhere else."""

    #: Set by the kernel once it exists.
    interrupts: Interrupts | None = None
    _is_warm = False

    async def run_code(
        self,
        code_obj: CodeType,
        result: Any = None,  # noqa: ANN401 - IPython's signature
        *,
        async_: bool = False,
    ) -> bool:
        """Run compiled code, as IPython does.

        Awaiting code is cancelled from the loop: KeyboardInterrupt raised in a task's
        step would leave the loop.
        """
        if not self._is_warm:
            self._is_warm = True
            threading.Thread(target=_warm, name="tau-warm", daemon=True).start()
        if async_ or self.interrupts is None:
            return await super().run_code(code_obj, result, async_=async_)
        with self.interrupts.user_code():
            return await super().run_code(code_obj, result, async_=async_)

    def showtraceback(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - IPython's
        """Show an error, without the frame of our handler of SIGINT."""
        _forget_handler(sys.exc_info()[2])
        super().showtraceback(*args, **options)


def _forget_handler(trace: TracebackType | None) -> None:
    while trace is not None and (inner := trace.tb_next) is not None:
        if is_raised_in(inner.tb_frame.f_code):
            trace.tb_next = None
        trace = inner


def _warm() -> None:
    for name in _FOR_TRACEBACKS:
        importlib.import_module(name)
