"""The clients that people use: nbclient, nbconvert, papermill and a terminal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import nbformat
import papermill
import pexpect
import pytest
from kernel_process import BOUND, write_script
from nbclient import NotebookClient

from tau_kernel.messages import JsonObject

pytestmark = pytest.mark.slow

QUICKSTART: Final = Path(__file__).parents[2] / "notebooks" / "quickstart.ipynb"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a home whose model says what it is told."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.json").write_text('{"default_model": "echo"}')
    monkeypatch.setenv("TAU_HOME", str(home))
    return home


def check_answered(notebook: Any) -> None:  # noqa: ANN401 - nbformat publishes no type
    """Check that every code cell has its count and its output."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    for cell in cells:
        assert cell.outputs
        assert all(output.output_type != "error" for output in cell.outputs)
    prompts = [cell for cell in cells if not cell.source.startswith("%%python")]
    for cell in prompts:
        (output,) = cell.outputs
        assert output.metadata.tau.model
        assert output.data["text/plain"]
    assert "last answer has" in cells[-1].outputs[0].text


@pytest.mark.usefixtures("home")
def test_nbclient_runs_the_quickstart(tmp_path: Path) -> None:
    notebook = nbformat.read(QUICKSTART, as_version=4)
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=BOUND, resources=resources).execute()
    check_answered(notebook)
    nbformat.validate(notebook)


@pytest.mark.usefixtures("home")
def test_nbconvert_runs_the_quickstart(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "nbconvert", "--execute", "--to", "notebook"]
    command += ["--output-dir", str(tmp_path), str(QUICKSTART)]
    subprocess.run(command, check=True, capture_output=True, timeout=BOUND)
    check_answered(nbformat.read(tmp_path / QUICKSTART.name, as_version=4))


@pytest.mark.usefixtures("home")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_papermill_runs_the_quickstart_without_parameters(tmp_path: Path) -> None:
    target = tmp_path / "out.ipynb"
    papermill.execute_notebook(
        str(QUICKSTART), str(target), cwd=str(tmp_path), progress_bar=False
    )
    check_answered(nbformat.read(target, as_version=4))


@pytest.mark.local_model
def test_the_local_model_answers_every_prompt_of_the_quickstart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAU_HOME", str(tmp_path / "home"))
    notebook = nbformat.read(QUICKSTART, as_version=4)
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=120, resources=resources).execute()
    check_answered(notebook)


def test_a_terminal_console_shows_the_whole_answer(home: Path, tmp_path: Path) -> None:
    words = " ".join(f"word{number}" for number in range(300))
    text = f"Begin.\n\n{words}\n\nThe end."
    script: JsonObject = {"text": text, "chunk_chars": 7, "delay_ms": 1}
    model = write_script(tmp_path / "s.jsonl", script, {"text": "Second answer."})
    (home / "config.json").write_text(json.dumps({"default_model": model}))
    console = pexpect.spawn(
        sys.executable,
        ["-m", "jupyter_console", "--kernel", "tau", "--simple-prompt"],
        encoding="utf-8",
        timeout=BOUND,
        dimensions=(50, 200),
        env={**_environment(), "TAU_HOME": str(home)},
    )
    try:
        console.expect_exact("In [1]:")
        console.sendline("tell me")
        console.expect_exact("In [2]:")
        shown = " ".join((console.before or "").split())
        assert all(f"word{number}" in shown for number in range(300))
        assert shown.count("word299") == 1
        assert shown.index("Begin.") < shown.index("word0") < shown.index("The end.")
        console.sendline("and then?")
        console.expect_exact("Second answer.")
        console.expect_exact("In [3]:")
    finally:
        console.close(force=True)


def _environment() -> dict[str, str]:

    return {**os.environ, "TERM": "dumb"}
