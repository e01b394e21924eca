"""The kernel: requests in, outputs and replies out.

It only translates. What a cell is says `cells`, what a prompt does `prompt_run`, and
the conversation lives on its own thread (`conversation`).
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

from ipykernel.iostream import OutStream
from traitlets import Enum, List, Unicode

import tau_kernel
from tau_kernel.errors import CallerError, StorageError
from tau_kernel.messages import last_assistant_text

from .attachments import Attached, attach
from .cell_options import check_available
from .cell_request import CURRENT_REQUEST, CellRequest
from .cell_values import expand_names
from .cells import (
    CommandCell,
    EmptyCell,
    IPythonCell,
    KnownNames,
    PromptCell,
    PythonCell,
    parse,
)
from .command_call import CommandCall
from .commands import COMMANDS, run_command
from .completion_bridge import CompletionBridge
from .concurrent_kernel import ConcurrentKernel
from .conversation import Conversation, ConversationOptions
from .history import CellHistory
from .interrupts import Interrupts
from .outlet import CellOutlet
from .prompt_run import PromptRun, RerunMode, provenance
from .python_names import TauNames
from .render import RenderMode
from .replies import (
    CellFailure,
    Reply,
    error_reply,
    failure_of,
    interrupted,
    ok_reply,
)
from .session_thread import SessionThread
from .stdin import StdinDialogs, StdinExchange

__all__ = ["TauKernel"]

#: What ends a cell beside exceptions; none of it may leave the loop.
_ENDINGS: Final = (KeyboardInterrupt, SystemExit, asyncio.CancelledError)
#: Seconds that the last outputs have to leave at shutdown.
_LAST_FLUSH: Final = 0.25
#: Seconds that the session has to unwind at shutdown.
_UNWIND: Final = 2.0


class TauKernel(ConcurrentKernel):
    """A kernel whose cells are prompts."""

    implementation = "tau-kernel"
    implementation_version = tau_kernel.__version__
    language_info: dict[str, Any] = {  # noqa: RUF012 - ipykernel's attribute
        "name": "tau",
        "version": tau_kernel.__version__,
        "mimetype": "text/x-ipythongfm",
        "codemirror_mode": "ipythongfm",
        "pygments_lexer": "markdown",
        "file_extension": ".md",
    }

    model = Unicode(help="The model of cells that name none.").tag(config=True)
    home = Unicode(help="The folder used in place of TAU_HOME.").tag(config=True)
    rerun = Enum(
        ("branch", "append"),
        "branch",
        help="What running a cell again does: begin a sibling turn, or go on.",
    ).tag(config=True)
    render = Enum(
        ("auto", "display", "stream"),
        "auto",
        help="Answers as displays that are updated, or as text on stdout.",
    ).tag(config=True)
    tools = List(
        Unicode(), help="Further tools, each as package.module:attribute."
    ).tag(config=True)

    def __init__(self, **kwargs: Any) -> None:  # noqa: ANN401 - traitlets' keywords
        """Make the session's thread; the conversation begins with a prompt."""
        super().__init__(**kwargs)
        self.stdin = StdinExchange(self.main, self.messenger, self.stdin_socket)
        self.thread = SessionThread()
        options = ConversationOptions(
            model=self.model or None, home=self.home or None, tools=tuple(self.tools)
        )
        dialogs = StdinDialogs(self.stdin, self._notify)
        self.conversation = Conversation(self.thread, options, dialogs)
        self.cell_history = CellHistory()
        self.completion = CompletionBridge(self.conversation, self.names)
        self.ipython.give(
            "tau", TauNames(self.conversation, self.main, self.interrupts)
        )

    def start(self) -> None:
        """Start the session's thread and begin to serve."""
        self.thread.start()
        super().start()

    @property
    def kernel_info(self) -> Reply:
        """What the kernel is; neither a debugger nor subshells are offered."""
        return {**super().kernel_info, "supported_features": []}

    @property
    def banner(self) -> str:  # type: ignore[override]  # ipykernel declares an attribute
        """What a console shows first."""
        return (
            f"τ {tau_kernel.__version__}: a cell is a prompt. "
            "%%python runs Python, /help lists commands."
        )

    def names(self) -> KnownNames:
        """Give the names that decide what a cell is."""
        magics = self.ipython.magics_manager.magics
        return KnownNames(
            commands=frozenset(COMMANDS),
            line_magics=frozenset(magics["line"]),
            cell_magics=frozenset(magics["cell"]),
            is_bound=self.ipython.user_ns.__contains__,
        )

    async def do_execute(
        self,
        code: str,
        silent: bool,  # noqa: FBT001 - ipykernel's signature
        store_history: bool = True,  # noqa: FBT001, FBT002 - as above
        user_expressions: Mapping[str, str] | None = None,
        allow_stdin: bool = False,  # noqa: FBT001, FBT002 - as above
        *,
        cell_meta: Mapping[str, Any] | None = None,
        cell_id: str | None = None,
    ) -> Reply:
        """Run a cell and give its reply, whatever happens."""
        del cell_meta
        if not isinstance(cell_id, str) or not cell_id:
            # Metadata is whatever a client sends; an empty id names no cell.
            cell_id = None
        request = CellRequest(
            code=code,
            parent=self.get_parent("shell"),
            identity=self.routing(),
            execution_count=self.ipython.execution_count,
            silent=silent,
            store_history=store_history and not silent,
            allow_stdin=allow_stdin,
            cell_id=cell_id,
        )
        token = CURRENT_REQUEST.set(request)
        try:
            return await self._execute(request, user_expressions or {})
        except (Exception, *_ENDINGS) as error:  # noqa: BLE001 - every request gets its reply
            return self._failed(request, failure_of(error))
        finally:
            request.mark_answered()
            CURRENT_REQUEST.reset(token)

    async def _execute(
        self, request: CellRequest, expressions: Mapping[str, str]
    ) -> Reply:
        try:
            cell = parse(request.code, self.names())
        except CallerError:
            self._count(request)
            raise
        match cell:
            case PythonCell(code=code) | IPythonCell(code=code):
                return await self._run_python(request, code, expressions)
            case EmptyCell():
                pass
            case CommandCell():
                self._count(request)
                await self._run_command(request, cell)
            case PromptCell():
                self._count(request)
                with self.awaiting_prompt():
                    await self._run_prompt(request, cell)
        values = self.ipython.user_expressions(dict(expressions))
        return {**ok_reply(request), "user_expressions": values}

    async def _run_command(self, request: CellRequest, cell: CommandCell) -> None:
        outlet = self._outlet(request)
        call = CommandCall(
            args=cell.args.strip(),
            conversation=self.conversation,
            outlet=outlet,
            mode=_mode(self.render, request),
            history=self.cell_history,
        )
        shown = await run_command(cell.name, call)
        if shown:
            outlet.page(shown, provenance(self.conversation.session, None, None))

    async def _run_prompt(self, request: CellRequest, cell: PromptCell) -> None:
        options, variables = cell.options, self.ipython.user_ns
        check_available(options)
        text = expand_names(cell.text, variables) if options.expand else cell.text
        attached = await _attached(text, options.image, self.interrupts)
        run = PromptRun(
            conversation=self.conversation,
            interrupts=self.interrupts,
            request=request,
            outlet=self._outlet(request),
            text=attached.text,
            images=attached.images,
            options=options,
            rerun=cast("RerunMode", self.rerun),
            mode=_mode(self.render, request),
        )
        result = await run.run()
        if options.into is not None:
            variables[options.into] = last_assistant_text(result.messages) or ""

    async def _run_python(
        self, request: CellRequest, code: str, expressions: Mapping[str, str]
    ) -> Reply:
        with self.interrupts.python_cell():
            reply: Reply = await super().do_execute(
                code,
                request.silent,
                request.store_history,
                dict(expressions),
                request.allow_stdin,
                cell_id=request.cell_id,
            )
        if request.store_history:
            self.cell_history.add(request.execution_count, request.code)
            record = self.conversation.record_python(
                {
                    "code": request.code,
                    "execution_count": request.execution_count,
                    "status": reply["status"],
                    "correlation": request.correlation,
                }
            )
            try:
                await asyncio.wrap_future(self.thread.run(record))
            except StorageError as error:
                # The cell did what it was to do; only its record is missing.
                self._notify(f"this cell was not recorded: {error}", "warning", None)
        return reply

    def _count(self, request: CellRequest) -> None:
        """Count a cell that IPython does not run."""
        if request.store_history:
            self.ipython.execution_count += 1
            self.cell_history.add(request.execution_count, request.code)

    def _outlet(self, request: CellRequest) -> CellOutlet:
        return CellOutlet(self.messenger, self.iopub_socket, self._topic(""), request)

    def _notify(self, message: str, level: str, source: str | None) -> None:
        request = CURRENT_REQUEST.get()
        text = f"[{source}] {message}" if source else message
        if request is None:
            self.log.warning("%s: %s", level, text)
        else:
            self._outlet(request).stream("stderr", f"{level}: {text}\n")

    def _failed(self, request: CellRequest, failure: CellFailure) -> Reply:
        self._outlet(request).error(failure.ename, failure.evalue, failure.traceback)
        return error_reply(request, failure)

    async def do_complete(self, code: str, cursor_pos: int) -> Reply:
        """Complete commands, files and options; Python's names in Python cells."""
        python = super().do_complete
        return await _answered(self.completion.complete(code, cursor_pos, python))

    async def do_inspect(
        self,
        code: str,
        cursor_pos: int,
        detail_level: int = 0,
        omit_sections: Sequence[str] = (),
    ) -> Reply:
        """Explain the command or option under the cursor, or a Python name."""
        python = partial(
            super().do_inspect, detail_level=detail_level, omit_sections=omit_sections
        )
        return await _answered(self.completion.inspect(code, cursor_pos, python))

    async def do_is_complete(self, code: str) -> Reply:
        """Tell a console whether Enter runs the cell."""
        python = super().do_is_complete
        return await _answered(self.completion.is_complete(code, python))

    async def do_history(  # type: ignore[override]  # a request comes as keywords
        self,
        hist_access_type: str,
        output: bool = False,  # noqa: FBT001, FBT002 - ipykernel's signature
        raw: bool = True,  # noqa: FBT001, FBT002 - as above
        **asked: Any,  # noqa: ANN401 - the rest of the request, as a client sent it
    ) -> Reply:
        """Give the cells that ran in this kernel."""
        del raw
        return await _answered(
            _history(self.cell_history, hist_access_type, asked, output=output)
        )

    async def do_shutdown(self, restart: bool) -> Reply:  # noqa: FBT001 - ipykernel's
        """Let the turn unwind, sync the conversation and release its lock.

        A shutdown_request is served on the control thread.
        """
        if self.thread.is_running:
            await self._close_session()
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, OutStream):
                # ipykernel's threads end in any order: a flush on the control thread
                # may wait for iopub's, which has ended, for all of its ten seconds.
                stream.flush_timeout = _LAST_FLUSH  # type: ignore[assignment]  # theirs is a whole number, and only waited for
        reply: Reply = super().do_shutdown(restart)
        return reply

    async def _close_session(self) -> None:
        self.main.call(self.stdin.withdraw_all)
        closing = asyncio.wrap_future(self.thread.run(self.conversation.close()))
        done, _ = await asyncio.wait({closing}, timeout=_UNWIND)
        if not done:
            self.log.error("the session did not unwind in %s s", _UNWIND)
        elif (error := closing.exception()) is not None:
            self.log.error("the session could not be closed: %s", error)
        self.thread.stop(timeout=0.5)


def _mode(render: str, request: CellRequest) -> RenderMode:
    if render != "auto":
        return "stream" if render == "stream" else "display"
    is_console = request.allow_stdin and request.cell_id is None
    return "stream" if is_console else "display"


async def _answered(answer: Awaitable[Reply]) -> Reply:
    """Give what a front end asked for, or say why not: it waits for a reply."""
    try:
        return await answer
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - every request gets its reply
        failure = failure_of(error)
        return {
            "status": "error",
            "ename": failure.ename,
            "evalue": failure.evalue,
            "traceback": failure.traceback,
        }


async def _history(
    cells: CellHistory, kind: str, asked: Mapping[str, Any], *, output: bool
) -> Reply:
    found = cells.select(
        kind,
        start=asked.get("start") or 0,
        stop=asked.get("stop"),
        n=asked.get("n"),
        pattern=asked.get("pattern"),
        unique=bool(asked.get("unique")),
    )
    lines = [(run, at, (text, None) if output else text) for run, at, text in found]
    return {"status": "ok", "history": lines}


async def _attached(
    text: str, images: Sequence[str], interrupts: Interrupts
) -> Attached:
    if "@" not in text and not images:
        return Attached(text=text, images=(), files=())
    # A disk may be slow, or far away.
    work = asyncio.to_thread(attach, text, Path.cwd(), images)
    reading = asyncio.ensure_future(work)
    with interrupts.waiting(reading.cancel):
        try:
            return await reading
        except asyncio.CancelledError as error:
            raise interrupted() from error
