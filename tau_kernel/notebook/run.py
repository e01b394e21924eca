"""Execute a notebook in a fresh kernel, cell by cell.

What a person sees meanwhile, and other forms of the result than ``.ipynb``, are
left to the caller.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

from tau_kernel.errors import ConfigError

__all__ = ["CellProgress", "RunOutcome", "run_notebook"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellProgress:
    """One code cell that begins or has ended.

    Attributes:
        number: Its place among the code cells, from 1.
        total: How many code cells there are.
        source: Its text.
        seconds: How long it took; ``None`` while it runs.
        error: What failed, in one line; ``None`` if nothing has.
    """

    number: int
    total: int
    source: str
    seconds: float | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """How a run ended.

    Attributes:
        path: The executed notebook, up to the cell that failed if one did.
        cells: How many code cells ran to their end.
        error: What ended the run early; ``None`` if nothing did.
    """

    path: Path
    cells: int
    error: str | None = None


def run_notebook(
    source: Path,
    output: Path,
    *,
    kernel_name: str = "tau",
    cell_timeout: float = 600.0,
    on_cell: Callable[[CellProgress], None] | None = None,
) -> RunOutcome:
    """Execute a notebook from the top, and write the result elsewhere.

    Args:
        source: The notebook; it is left as it is.
        output: The folder for the executed notebook of the same name, made if
            absent. Cells run in it.
        kernel_name: The kernelspec, whatever the notebook says.
        cell_timeout: Seconds that one cell may take.
        on_cell: Called when a code cell begins and when it ends.

    Returns:
        The outcome; a failed cell ends the run and is told there.

    Raises:
        ConfigError: If the notebook cannot be read or would be overwritten.
    """
    notebook = _read(source)
    output.mkdir(parents=True, exist_ok=True)
    target = output / source.name
    if target.exists() and target.samefile(source):
        message = (
            f"{source} would be overwritten by its own run\nname another output folder"
        )
        raise ConfigError(message)
    watch = _Watch(notebook, on_cell or _say_nothing)
    client = NotebookClient(
        notebook,
        kernel_name=kernel_name,
        timeout=cell_timeout,
        resources={"metadata": {"path": str(output)}},
        on_cell_start=watch.cell_starts,
        on_cell_executed=watch.cell_ends,
    )
    error = _execute(client, cell_timeout)
    if error is not None:
        watch.run_fails(error)
    nbformat.write(notebook, target)
    return RunOutcome(path=target, cells=watch.ended, error=error)


def _execute(client: NotebookClient, cell_timeout: float) -> str | None:
    """Run the cells, and give what ended the run early."""
    with tempfile.TemporaryFile() as words:
        try:
            # What a healthy kernel writes to its log is of no use to a reader.
            client.execute(stderr=words)
        except CellExecutionError as failure:
            return f"{failure.ename}: {failure.evalue}"
        except CellTimeoutError:
            return f"a cell took longer than {cell_timeout:g} s"
        except (DeadKernelError, RuntimeError) as failure:
            words.seek(0)
            last = words.read().decode(errors="replace").strip().splitlines()[-1:]
            return "\n".join([f"the kernel ended: {failure}", *last])
    return None


def _read(source: Path) -> Any:  # noqa: ANN401 - nbformat publishes no type
    try:
        return nbformat.read(source, as_version=4)
    except (OSError, nbformat.reader.NotJSONError, nbformat.ValidationError) as error:
        message = (
            f"{source} cannot be read as a notebook: {error}\n"
            "name an .ipynb file of format 4"
        )
        raise ConfigError(message) from error


def _say_nothing(progress: CellProgress) -> None:
    del progress


class _Watch:
    """Turns nbclient's hooks into progress over the code cells alone."""

    def __init__(
        self,
        notebook: Any,  # noqa: ANN401 - nbformat publishes no type
        tell: Callable[[CellProgress], None],
    ) -> None:
        # nbclient skips code cells without text, and so does the count.
        code = [
            index
            for index, cell in enumerate(notebook.cells)
            if cell.cell_type == "code" and cell.source.strip()
        ]
        self._numbers = {index: number for number, index in enumerate(code, start=1)}
        self._tell = tell
        self._running: CellProgress | None = None
        self._began = 0.0
        self.ended = 0

    def cell_starts(self, *, cell: Any, cell_index: int) -> None:  # noqa: ANN401
        if cell_index not in self._numbers:
            return
        self._running = CellProgress(
            number=self._numbers[cell_index],
            total=len(self._numbers),
            source=cell.source,
        )
        self._began = time.monotonic()
        self._tell(self._running)

    def cell_ends(
        self,
        *,
        cell: Any,  # noqa: ANN401, ARG002 - nbclient's keywords
        cell_index: int,  # noqa: ARG002
        execute_reply: Any,  # noqa: ANN401
    ) -> None:
        # A failed cell is told by run_fails, with what nbclient makes of it.
        if self._running is None or execute_reply["content"]["status"] != "ok":
            return
        self.ended += 1
        self._close(None)

    def run_fails(self, error: str) -> None:
        if self._running is not None:
            self._close(error)

    def _close(self, error: str | None) -> None:
        assert self._running is not None
        running, self._running = self._running, None
        self._tell(
            CellProgress(
                number=running.number,
                total=running.total,
                source=running.source,
                seconds=time.monotonic() - self._began,
                error=error,
            )
        )
