"""The conversation follows the notebook as it is read from top to bottom."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from kernel_process import Client, StartKernel

pytestmark = pytest.mark.slow

PROMPTS = '%%python\n[m["content"][0]["text"] for m in tau.session.messages[::2]]'


def context(client: Client) -> list[str]:
    """Give the prompts that the next turn would see."""
    text = client.run(PROMPTS, store_history=False).text
    found: list[str] = ast.literal_eval(text)
    return found


def run_cells(client: Client, **cells: str) -> None:
    for cell_id, code in cells.items():
        assert client.run(code, cell_id=cell_id).reply["status"] == "ok"


def test_running_cell_two_again_and_then_three_gives_what_a_reader_sees(
    start_kernel: StartKernel,
) -> None:
    client = start_kernel("--TauKernel.model=echo").client()
    run_cells(client, a="one", b="two", c="three", d="four")
    again = client.run("two, mended", cell_id="b")
    assert "2 later turns stay on the old branch" in again.text
    assert context(client) == ["one", "two, mended"]
    run_cells(client, c="three")
    assert context(client) == ["one", "two, mended", "three"]
    run_cells(client, d="four")
    assert context(client) == ["one", "two, mended", "three", "four"]


def test_the_old_branch_is_kept_and_the_note_leads_back_to_it(
    start_kernel: StartKernel,
) -> None:
    client = start_kernel("--TauKernel.model=echo").client()
    run_cells(client, a="one", b="two", c="three")
    note = client.run("two, mended", cell_id="b").text
    tip = note.partition("from=")[2].partition("`")[0]
    run_cells(client, e=f"%%tau from={tip}\nback")
    assert context(client) == ["one", "two", "three", "back"]


def test_running_the_last_cell_again_leaves_nothing_behind_and_says_nothing(
    start_kernel: StartKernel,
) -> None:
    client = start_kernel("--TauKernel.model=echo").client()
    run_cells(client, a="one", b="two")
    assert client.run("two again", cell_id="b").text == "two again"
    assert context(client) == ["one", "two again"]


def test_append_goes_on_where_the_conversation_is(start_kernel: StartKernel) -> None:
    kernel = start_kernel("--TauKernel.model=echo", "--TauKernel.rerun=append")
    client = kernel.client()
    run_cells(client, a="one", b="two")
    run_cells(client, a="one again")
    assert context(client) == ["one", "two", "one again"]


def test_a_client_without_cell_ids_appends(start_kernel: StartKernel) -> None:
    client = start_kernel("--TauKernel.model=echo").client()
    for _ in range(2):
        client.run("the same")
    assert context(client) == ["the same", "the same"]


def test_from_begins_at_a_cell_an_entry_or_the_root(start_kernel: StartKernel) -> None:
    client = start_kernel("--TauKernel.model=echo").client()
    run_cells(client, a="one", b="two", c="three")
    entry = client.run("four", cell_id="d").tau["entry_id"]
    run_cells(client, e="%%tau from=a\nafter one")
    assert context(client) == ["one", "after one"]
    run_cells(client, f="%%tau from=root\nanew")
    assert context(client) == ["anew"]
    run_cells(client, g=f"%%tau from={entry}\nafter four")
    assert context(client) == ["one", "two", "three", "four", "after four"]


def test_a_cell_that_failed_is_run_again_in_its_place(
    start_kernel: StartKernel,
) -> None:
    client = start_kernel("--TauKernel.model=echo").client()
    run_cells(client, a="one")
    failed = client.run("%%tau model=nope\ntwo", cell_id="b")
    assert failed.reply["status"] == "error"
    run_cells(client, b="two", c="three")
    assert context(client) == ["one", "two", "three"]


def test_restart_and_run_all_begins_a_new_conversation(
    start_kernel: StartKernel,
) -> None:
    kernel = start_kernel("--TauKernel.model=echo")
    client = kernel.client()
    run_cells(client, a="one", b="two")
    kernel.manager.restart_kernel()
    client = kernel.client()
    run_cells(client, a="one", b="two")
    assert context(client) == ["one", "two"]
    assert len(kernel.session_files) == 2


def test_two_kernels_on_one_home_keep_two_conversations(
    start_kernel: StartKernel, tmp_path: Path
) -> None:
    kernels = [start_kernel("--TauKernel.model=echo") for _ in range(2)]
    for number, kernel in enumerate(kernels):
        run_cells(kernel.client(), a=f"kernel {number}")
    stored = [file.read_text() for file in kernels[0].session_files]
    assert sorted("kernel 1" in text for text in stored) == [False, True]


def test_python_cells_are_kept_beside_the_conversation(
    start_kernel: StartKernel,
) -> None:
    kernel = start_kernel("--TauKernel.model=echo")
    client = kernel.client()
    run_cells(client, p="%%python\nx = 1", a="one", q="%%python\nx")
    (file,) = kernel.session_files
    entries = [json.loads(line) for line in file.read_text().splitlines()]
    cells = [entry["data"] for entry in entries if entry.get("customType") == "cell"]
    assert [cell["code"] for cell in cells] == ["%%python\nx = 1", "%%python\nx"]
    assert [cell["execution_count"] for cell in cells] == [1, 3]
    assert context(client) == ["one"]


def test_the_stored_submission_says_where_it_came_from(
    start_kernel: StartKernel,
) -> None:
    kernel = start_kernel("--TauKernel.model=echo")
    client = kernel.client()
    cell = client.run("one", cell_id="c-1")
    (file,) = kernel.session_files
    entries = [json.loads(line) for line in file.read_text().splitlines()]
    (stored,) = [e["data"] for e in entries if e.get("customType") == "submission"]
    assert stored["submission_id"] == cell.tau["submission_id"]
    assert stored["correlation"]["cell_id"] == "c-1"
    assert stored["correlation"]["parent_header"]["msg_id"] == cell.id
    assert (stored["source"], stored["submitter"]) == ("interactive", "human")
    assert stored["code"] == "one"
