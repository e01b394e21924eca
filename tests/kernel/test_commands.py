"""The commands about the conversation, from cells of a real kernel."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kernel_process import Client, KernelProcess, StartKernel, write_script
from kernel_tools import arguments_for

from tau_kernel.legacy import SessionManager
from tau_kernel.messages import JsonObject

pytestmark = pytest.mark.slow


def run_cells(client: Client, **cells: str) -> None:
    for cell_id, code in cells.items():
        assert client.run(code, cell_id=cell_id).reply["status"] == "ok"


def test_the_tree_shows_both_branches_and_the_path_to_the_cursor(
    start_kernel: StartKernel,
) -> None:
    client = start_kernel("--TauKernel.model=echo").client()
    run_cells(client, a="one", b="two", c="three")
    client.run("two, mended", cell_id="b")
    tree = client.run("/tree", cell_id="t").text
    rows = tree.splitlines()[1:-1]
    assert [row[0] for row in rows] == ["*", "*", " ", " ", " ", " ", "*", ">"]
    assert [row.count("  ") > 2 for row in rows[2:]] == [True] * 6
    assert "two, mended" in rows[-1]
    assert "assistant" in rows[-1]


def test_a_conversation_is_named_forked_listed_and_resumed(
    start_kernel: StartKernel,
) -> None:
    kernel = start_kernel("--TauKernel.model=echo")
    client = kernel.client()
    run_cells(client, a="one", n="/name A *first* talk")
    assert r"A \*first\* talk" in client.run("/name").text
    (before,) = kernel.session_files
    whole = before.read_bytes()
    run_cells(client, f="/fork", b="in the copy")
    assert before.read_bytes() == whole
    assert len(kernel.session_files) == 2
    listed = client.run("/resume").text
    assert listed.count(r"A \*first\* talk") == 2
    run_cells(client, r="/resume last", c="in the first")
    text = client.run("%%python\ntau.session.path").text
    assert text == repr(str(before))
    roles = client.run("%%python\nlen(tau.session.messages)").text
    assert roles == "4"


def test_another_kernel_goes_on_with_a_conversation_and_its_history(
    start_kernel: StartKernel,
) -> None:
    first = start_kernel("--TauKernel.model=echo")
    client = first.client()
    run_cells(client, a="one", p="%%python\n2")
    (file,) = first.session_files
    second = start_kernel("--TauKernel.model=echo").client()
    taken = second.run(f"/resume {file}", cell_id="r")
    assert taken.reply["ename"] == "SessionLockedError"
    first.manager.shutdown_kernel()
    run_cells(second, r=f"/resume {file}", b="two")
    asked: JsonObject = {"hist_access_type": "tail", "n": 9}
    asked |= {"output": False, "raw": True}
    found = second.ask("history_request", asked).content["history"]
    assert [line[2] for line in found][:2] == ["one", "%%python\n2"]
    assert [line[0] for line in found][:2] == [-1, -1]
    assert second.run("%%python\nlen(tau.session.messages)").text == "4"


def test_the_environment_names_the_session_to_go_on_with(
    start_kernel: StartKernel,
) -> None:
    first = start_kernel("--TauKernel.model=echo")
    run_cells(first.client(), a="one")
    (file,) = first.session_files
    first.manager.shutdown_kernel()
    session_id = file.stem.rpartition("_")[2]
    kernel = start_kernel("--TauKernel.model=echo", env={"TAU_SESSION": session_id[:8]})
    client = kernel.client()
    run_cells(client, b="two")
    assert client.run("%%python\nlen(tau.session.messages)").text == "4"
    unknown = start_kernel("--TauKernel.model=echo", env={"TAU_SESSION": "nowhere"})
    assert "'nowhere'" in unknown.client().run("hi").reply["evalue"]


def test_a_file_of_another_home_is_imported_as_a_copy(
    start_kernel: StartKernel, tmp_path: Path
) -> None:
    first = start_kernel("--TauKernel.model=echo")
    run_cells(first.client(), a="one")
    (file,) = first.session_files
    whole = file.read_bytes()
    other = tmp_path / "other"
    second = start_kernel("--TauKernel.model=echo", home=other)
    client = second.client()
    run_cells(client, i=f"/import {file}", b="two")
    assert client.run("%%python\nlen(tau.session.messages)").text == "4"
    assert file.read_bytes() == whole
    (copy,) = second.session_files
    assert copy.is_relative_to(other)


def test_a_damaged_session_is_repaired_and_resumed(start_kernel: StartKernel) -> None:
    first = start_kernel("--TauKernel.model=echo")
    run_cells(first.client(), a="one", b="two")
    (file,) = first.session_files
    first.manager.shutdown_kernel()
    lines = file.read_bytes().splitlines(keepends=True)
    lines[5] = b"{ no JSON\n"
    file.write_bytes(b"".join(lines))
    client = start_kernel("--TauKernel.model=echo").client()
    assert "damaged" in client.run("/resume").text
    repaired = client.run(f"/repair {file}")
    assert "line 6: dropped" in repaired.text
    resume = repaired.text.rpartition("`/resume ")[2].partition("`")[0]
    run_cells(client, r=f"/resume {resume}", c="three")
    assert "two" in client.run("%%python\nstr(tau.session.messages)").text


def test_an_older_file_is_converted_when_it_is_imported(
    start_kernel: StartKernel, tmp_path: Path
) -> None:
    manager = SessionManager(str(tmp_path), str(tmp_path / "old"))
    old = manager.new_session("echo")
    said = {"role": "user", "content": "from long ago"}
    manager.append_entry({"type": "message", "message": said})
    client = start_kernel("--TauKernel.model=echo").client()
    run_cells(client, i=f"/import {old}", b="two")
    seen = client.run("%%python\nstr(tau.session.messages[0])").text
    assert "from long ago" in seen
    missing = client.run("/import nowhere.jsonl")
    assert "'nowhere.jsonl'" in missing.reply["evalue"]


def test_an_answer_with_its_tools_is_drawn_again(
    start_kernel: StartKernel, tmp_path: Path
) -> None:
    arguments, env = arguments_for("asks")
    call: JsonObject = {
        "text": "Wait.",
        "tool_calls": [{"name": "asks", "arguments": {}}],
    }
    model = write_script(tmp_path / "s.jsonl", call, {"text": "**Done.**"})
    kernel = start_kernel(*arguments, f"--TauKernel.model={model}", env=env)
    client = kernel.client()
    cell = client.execute("go", allow_stdin=True, cell_id="a")
    client.wait_for(lambda: client.questions)
    client.answer("Ada")
    cell.wait()
    replayed = client.run(f"/replay {cell.tau['submission_id'][:10]}", cell_id="r")
    assert replayed.text == cell.text
    assert "Ada" in str([one.content for one in replayed.outputs])
    assert replayed.tau["submission_id"] == cell.tau["submission_id"]
    assert replayed.tau["entry_id"] == cell.tau["entry_id"]


@pytest.fixture(scope="module")
def blank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Give a client of a kernel without a conversation."""
    home = tmp_path_factory.mktemp("home")
    with KernelProcess("--TauKernel.model=echo", home=home) as kernel:
        yield kernel.client()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("/tree", "no conversation yet"),
        ("/fork", "no conversation"),
        ("/name x", "no conversation yet"),
        ("/replay", "needs a submission"),
        ("/repair", "needs a session"),
        ("/tree now", "takes no arguments"),
        ("/resume nowhere", "'nowhere'"),
        ("/resume last", "no other session"),
    ],
)
def test_what_a_command_cannot_do_is_told(
    blank: Client, command: str, words: str
) -> None:
    cell = blank.run(command)
    assert words in cell.reply["evalue"]
    assert len(cell.errors) == 1


def test_a_notebook_finds_its_last_conversation_again(
    start_kernel: StartKernel,
) -> None:
    theirs = {"JPY_SESSION_NAME": "study.ipynb"}
    first = start_kernel("--TauKernel.model=echo", env=theirs)
    run_cells(first.client(), a="from the study")
    (kept,) = first.session_files
    first.manager.shutdown_kernel()
    other = start_kernel("--TauKernel.model=echo", env={"JPY_SESSION_NAME": "b.ipynb"})
    run_cells(other.client(), a="from elsewhere")
    other.manager.shutdown_kernel()
    again = start_kernel("--TauKernel.model=echo", env=theirs)
    client = again.client()
    rows = [row for row in client.run("/resume").text.splitlines() if "from" in row]
    assert [("this notebook" in row, "study" in row) for row in rows] == [
        (False, False),
        (True, True),
    ]
    client.run("/resume notebook")
    assert client.run("%%python\ntau.session.path").text == repr(str(kept))


def test_a_kernel_without_a_notebook_says_so(start_kernel: StartKernel) -> None:
    # An empty variable is as good as none.
    client = start_kernel("--TauKernel.model=echo", env={"JPY_SESSION_NAME": ""})
    reply = client.client().run("/resume notebook").reply
    assert "no notebook" in reply["evalue"]
