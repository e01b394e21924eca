"""The tool that runs a shell command.

It is not confined to any folder: what may run is for approvals to say.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from tau_kernel.errors import ToolError
from tau_kernel.extensions import AgentToolResult
from tau_kernel.messages import JsonObject

from .builtin_tool import BuiltinTool, Invocation, schema
from .in_thread import check_stop
from .spool import CappedOutput, Spool
from .supervised import Supervised

__all__ = [
    "COMMAND_BYTES",
    "DEFAULT_TIMEOUT_MS",
    "MAX_TIMEOUT_MS",
    "SECRET_NAMES",
    "SECRET_SUFFIXES",
    "bash_tool",
    "command_environment",
]

DEFAULT_TIMEOUT_MS: Final = 30_000
MAX_TIMEOUT_MS: Final = 3_600_000
COMMAND_BYTES: Final = 100_000
"""Bytes of a command at most; systems limit the length of one argument."""

SECRET_NAMES: Final = frozenset(
    {"API_KEY", "APIKEY", "CREDENTIALS", "PASSWD", "PASSWORD", "SECRET", "TOKEN"}
)
"""Variables that a command does not inherit; the case of letters does not matter."""
SECRET_SUFFIXES: Final = (
    *(f"_{name}" for name in sorted(SECRET_NAMES)),
    "_ACCESS_KEY",
    "_PRIVATE_KEY",
    "_SECRET_KEY",
)
"""Nor those whose names end so."""

#: Seconds from the request to end, at a timeout, to the end that cannot be refused.
_TERM_GRACE: Final = 2.0
#: Seconds that processes in the background have to finish once the command has.
_BACKGROUND_GRACE: Final = 0.5
#: Seconds that a process needs at most to be gone after its last output.
_EXIT_GRACE: Final = 0.1
#: Seconds for what was written before the end to come through.
_LAST_WORDS: Final = 0.2
#: Seconds between two updates of what is shown, and the bytes that are.
_UPDATE_INTERVAL: Final = 0.1
_UPDATE_BYTES: Final = 4000


def bash_tool(spool: Spool, secret_variables: Collection[str] = ()) -> BuiltinTool:
    """Make the tool.

    Args:
        spool: Where long outputs are kept.
        secret_variables: Names that commands do not inherit beside those that
            `SECRET_NAMES` and `SECRET_SUFFIXES` tell.
    """
    timeout: JsonObject = {
        "type": "integer",
        "minimum": 1,
        "maximum": MAX_TIMEOUT_MS,
        "description": f"milliseconds; {DEFAULT_TIMEOUT_MS} if left out",
    }
    return BuiltinTool(
        name="bash",
        description=(
            "Run a shell command in the working directory. Gives its output, standard "
            "error included, and its exit code if that is not 0; of a long output the "
            "start, the end and a file with all of it. There is no input to read. What "
            "it leaves in the background ends with it."
        ),
        parameters=schema(
            "command", command=("text", "what the shell runs"), timeout=timeout
        ),
        execution_mode="sequential",
        run=lambda call: _run(call, spool, frozenset(secret_variables)),
    )


def command_environment(
    environ: Mapping[str, str], secret_variables: Collection[str] = ()
) -> dict[str, str]:
    """Give what of an environment a command inherits: all but what names a secret.

    That keeps keys out of a transcript that shows ``env``. It is no wall: a command can
    read whatever its user can.
    """
    return {
        name: value
        for name, value in environ.items()
        if name not in secret_variables
        and name.upper() not in SECRET_NAMES
        and not name.upper().endswith(SECRET_SUFFIXES)
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ending:
    """How a command ended; `status` is None if it took its own session down."""

    status: int | None
    timed_out: bool
    background: int


def _run(
    call: Invocation, spool: Spool, secret_variables: frozenset[str]
) -> AgentToolResult:
    command = call.text("command")
    _check_command(command)
    timeout_ms = call.number("timeout", DEFAULT_TIMEOUT_MS)
    child = Supervised(
        [shutil.which("bash") or "/bin/sh", "-c", command],
        env=command_environment(os.environ, secret_variables),
        cwd=call.cwd,
    )
    output = CappedOutput(spool)
    forget = call.stop.on_abort(child.kill)
    try:
        with child:
            ending = _follow(child, timeout_ms / 1000, _LiveTail(call, output))
    finally:
        forget()
        output.close()
    check_stop(call.stop)
    return _result(output, ending, timeout_ms)


def _check_command(command: str) -> None:
    try:
        size = len(os.fsencode(command))
    except UnicodeEncodeError as error:
        msg = f"the command holds {command[error.start]!r}, half a character; mend it"
        raise ToolError(msg) from error
    if "\0" in command:
        msg = "the command holds a NUL character, which cannot be passed; leave it out"
        raise ToolError(msg)
    if size > COMMAND_BYTES:
        msg = (
            f"the command has {size} bytes, and {COMMAND_BYTES} may be passed\n"
            "write it to a file with the write tool, and run that"
        )
        raise ToolError(msg)


class _LiveTail:
    """Takes output and shows its end from time to time while the command runs."""

    def __init__(self, call: Invocation, output: CappedOutput) -> None:
        self._call = call
        self._output = output
        self._next = time.monotonic()
        self._size = 0

    def add(self, chunk: bytes) -> None:
        """Take the next piece, perhaps empty."""
        if chunk:
            self._output.add(chunk)
        due = time.monotonic() >= self._next and self._output.size > self._size
        if due and not self._call.stop.is_aborted():
            self._next = time.monotonic() + _UPDATE_INTERVAL
            self._size = self._output.size
            self._call.on_update(self._output.tail(_UPDATE_BYTES))


def _follow(child: Supervised, timeout: float, shown: _LiveTail) -> _Ending:
    """Take what a command writes until it ends, or is ended at its time."""
    limit = time.monotonic() + timeout
    timed_out = False
    while not child.has_ended:
        left = limit - time.monotonic()
        if left > 0:
            shown.add(child.read(min(left, _UPDATE_INTERVAL)))
        elif timed_out:
            break
        else:
            child.terminate()
            timed_out = True
            limit = time.monotonic() + _TERM_GRACE
    _drain(child, _BACKGROUND_GRACE, shown)
    # A process that is done has closed its output a moment before it is gone.
    limit = time.monotonic() + _EXIT_GRACE
    while child.count() and time.monotonic() < limit:
        time.sleep(_EXIT_GRACE / 20)
    background = child.kill()
    _drain(child, _LAST_WORDS, shown)
    return _Ending(status=child.status, timed_out=timed_out, background=background)


def _drain(child: Supervised, grace: float, shown: _LiveTail) -> None:
    limit = time.monotonic() + grace
    while not child.is_drained and (left := limit - time.monotonic()) > 0:
        shown.add(child.read(left))


def _result(output: CappedOutput, ending: _Ending, timeout_ms: int) -> AgentToolResult:
    notes: list[str] = []
    if ending.timed_out:
        notes.append(
            f"[ended at its timeout of {timeout_ms} ms; a longer one may help]"
        )
    elif ending.status is None:
        notes.append("[the command ended its own process group; no exit code]")
    elif ending.status:
        notes.append(f"[exit code {ending.status}]")
    if ending.background and not ending.timed_out:
        notes.append(
            f"[{ending.background} background process(es) were ended with the command]"
        )
    text = output.text().rstrip("\n")
    return AgentToolResult(
        "\n".join(filter(None, [text, *notes])) or "(no output)",
        is_error=ending.timed_out or ending.status != 0,
        details={
            "exit_code": ending.status,
            "timed_out": ending.timed_out,
            "bytes": output.size,
            "full_output": output.path,
        },
    )
