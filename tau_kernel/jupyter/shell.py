"""IPython's shell, told when the user's own code is on the stack."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import sys
import threading
from collections.abc import Callable, Coroutine, Generator
from functools import partial
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

    def __init__(self, **kwargs: Any) -> None:  # noqa: ANN401 - traitlets' keywords
        """Make the shell; nothing is given yet."""
        self._given: dict[str, object] = {}
        super().__init__(**kwargs)

    def give(self, name: str, value: object) -> None:
        """Put a name into the user's namespace, and again whenever that is reset."""
        self._given[name] = value
        self.push({name: value}, interactive=False)

    def init_user_ns(self) -> None:
        """Begin the user's namespace, as IPython does, with the names given."""
        super().init_user_ns()
        self.push(self._given, interactive=False)

    async def run_code(
        self,
        code_obj: CodeType,
        result: Any = None,  # noqa: ANN401 - IPython's signature
        *,
        async_: bool = False,
    ) -> bool:
        """Run compiled code, as IPython does.

        Code that awaits is cancelled from the loop; an interrupt raises in its own
        steps only, where this ends it before it could leave the loop.
        """
        if not self._is_warm:
            self._is_warm = True
            threading.Thread(target=_warm, name="tau-warm", daemon=True).start()
        # A traceback asks for the module of each frame, and where none is known
        # `inspect` looks through every module there is, for tens of milliseconds.
        inspect.modulesbyfile.setdefault(code_obj.co_filename, "__main__")
        work = super().run_code(code_obj, result, async_=async_)
        if self.interrupts is None:
            return await work
        if async_:
            return await _Stepwise(work, self.interrupts)
        with self.interrupts.user_code():
            return await work

    def showtraceback(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - IPython's
        """Show an error, without the frame of our handler of SIGINT."""
        if self.interrupts is not None and options.get("running_compiled_code"):
            # The user's code has ended: a second interrupt must not hit this.
            self.interrupts.leave_user_code()
        _forget_handler(sys.exc_info()[2])
        super().showtraceback(*args, **options)

    def _format_exception_for_storage(
        self,
        exception: BaseException,
        filename: str | None = None,
        running_compiled_code: bool = False,  # noqa: FBT001, FBT002 - IPython's signature
    ) -> dict[str, object]:
        """Keep the traceback that was shown: formatting it anew takes as long again."""
        shown = self._last_traceback
        if not shown or filename is not None or isinstance(exception, SyntaxError):
            kept: dict[str, object] = super()._format_exception_for_storage(
                exception, filename, running_compiled_code
            )
            return kept
        return {
            "ename": type(exception).__name__,
            "evalue": str(exception),
            "traceback": list(shown),
        }


def _forget_handler(trace: TracebackType | None) -> None:
    while trace is not None and (inner := trace.tb_next) is not None:
        if is_raised_in(inner.tb_frame.f_code):
            trace.tb_next = None
        trace = inner


class _Stepwise:
    """Awaits a coroutine, open to interrupts while that runs and not while it waits."""

    def __init__(self, work: Coroutine[Any, Any, bool], interrupts: Interrupts) -> None:
        self._work = work
        self._interrupts = interrupts

    def __await__(self) -> Generator[Any, Any, bool]:
        work = self._work
        step: Callable[[], object] = partial(work.send, None)
        while True:
            try:
                with self._interrupts.user_code():
                    waited = step()
            except StopIteration as end:
                return bool(end.value)
            except KeyboardInterrupt as error:
                # Raised between two frames; it would leave the task and end the loop.
                if inspect.getcoroutinestate(work) == inspect.CORO_CLOSED:
                    raise asyncio.CancelledError from error
                step = partial(work.throw, asyncio.CancelledError())
                continue
            try:
                step = partial(work.send, (yield waited))
            except BaseException as error:  # noqa: BLE001 - thrown on into the work
                step = partial(work.throw, error)


def _warm() -> None:
    for name in _FOR_TRACEBACKS:
        importlib.import_module(name)
