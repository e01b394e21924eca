"""What a person gets for a cell, from a real kernel process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kernel_process import Client, KernelProcess, StartKernel, write_script

from tau_kernel.messages import JsonObject

pytestmark = pytest.mark.slow


def test_a_prompt_is_answered_as_markdown_with_its_provenance(echo: Client) -> None:
    cell = echo.run("say *this*", cell_id="c1")
    assert cell.reply["status"] == "ok"
    assert cell.text == "say *this*"
    assert {o.kind for o in cell.outputs} <= {"display_data", "update_display_data"}
    assert cell.tau["model"] == "echo"
    assert cell.tau["source"] == "interactive"
    assert cell.tau["submitter"] == "human"
    assert cell.tau["usage"]["output_tokens"] > 0
    assert set(cell.tau) == {
        "session_id",
        "submission_id",
        "entry_id",
        "source",
        "submitter",
        "model",
        "usage",
    }


def test_prompt_prompt_python_prompt_count_one_to_four(
    start_kernel: StartKernel,
) -> None:
    client = start_kernel("--TauKernel.model=echo").client()
    cells = [client.run(code) for code in ("a", "b", "%%python\n1", "c")]
    assert [cell.reply["execution_count"] for cell in cells] == [1, 2, 3, 4]
    inputs = [
        one.content["execution_count"]
        for cell in cells
        for one in cell.messages
        if one.kind == "execute_input"
    ]
    assert inputs == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "request_", [{"silent": True}, {"store_history": False}], ids=str
)
def test_what_is_not_kept_leaves_history_file_and_count_untouched(
    echo_kernel: KernelProcess, echo: Client, request_: dict[str, bool]
) -> None:
    before = echo.run("kept")
    (file,) = echo_kernel.session_files
    stored, history = file.read_bytes(), _history(echo)
    for code in ("forgotten", "%%python\n1", "/help", "%%tau model=nope\nx"):
        cell = echo.run(code, **request_)
        shown = bool(cell.outputs)
        assert shown == ("silent" not in request_)
    assert file.read_bytes() == stored
    assert _history(echo) == history
    after = echo.run("kept again")
    assert after.reply["execution_count"] == before.reply["execution_count"] + 1
    context = echo.run('%%python\n[m["role"] for m in tau.session.messages][-4:]')
    assert context.text == "['user', 'assistant', 'user', 'assistant']"


def test_a_silent_first_cell_makes_no_file(start_kernel: StartKernel) -> None:
    kernel = start_kernel("--TauKernel.model=echo")
    kernel.client().run("hush", silent=True)
    assert kernel.session_files == []


def test_a_python_cell_reads_the_last_answer_and_asks(echo: Client) -> None:
    echo.run("the answer")
    assert echo.run("%%python\ntau.last.text").text == "'the answer'"
    assert echo.run('%%python\ntau.ask("and this?").text').text == "'and this?'"
    assert echo.run("%%python\ntau.session.messages[-1]['role']").text == "'assistant'"


def test_variables_go_into_a_prompt_and_answers_into_variables(echo: Client) -> None:
    echo.run("%%python\nfruit = 'pear'")
    cell = echo.run("%%tau expand=on into=said\na {{fruit}}")
    assert cell.text == "a pear"
    assert echo.run("%%python\nsaid").text == "'a pear'"
    assert "fruit'" in echo.run("%%tau expand=on\n{{fruity}}").reply["evalue"]


def test_history_off_hides_the_conversation_from_the_model(
    start_kernel: StartKernel, tmp_path: Path
) -> None:
    model = write_script(tmp_path / "s.jsonl", {"text": "one"}, {"text": "two"})
    kernel = start_kernel(f"--TauKernel.model={model}")
    client = kernel.client()
    first = client.run("first", cell_id="a")
    alone = client.run("%%tau history=off\nalone", cell_id="b")
    asked = [cell.tau["usage"]["input_tokens"] for cell in (first, alone)]
    assert asked[1] <= asked[0]


def test_an_attached_file_reaches_the_model(echo: Client, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("remember the milk")
    assert "remember the milk" in echo.run(f"read @{tmp_path}/notes.txt").text


def test_commands_are_run_by_the_kernel_and_unknown_ones_are_prose(
    echo: Client,
) -> None:
    assert "`/model`" in echo.run("/help").text
    assert echo.run("/nothing here").text == "/nothing here"


def test_ipython_is_there_with_magics_and_shell(echo: Client) -> None:
    assert "magic" in echo.run("%lsmagic").text.lower()
    assert echo.run("!echo from the shell").text == "from the shell"


def test_a_lone_surrogate_does_no_harm(
    start_kernel: StartKernel, tmp_path: Path
) -> None:
    model = write_script(
        tmp_path / "s.jsonl", {"text": "half \ud83d here"}, {"text": "fine"}
    )
    kernel = start_kernel(f"--TauKernel.model={model}")
    client = kernel.client()
    assert client.run("go", cell_id="a").text == "half \ufffd here"
    assert client.run("again", cell_id="b").text == "fine"
    (file,) = kernel.session_files
    for line in file.read_text(encoding="utf-8").splitlines():
        json.loads(line)


def test_history_requests_give_the_cells_of_this_kernel(
    start_kernel: StartKernel,
) -> None:
    client = start_kernel("--TauKernel.model=echo").client()
    for code in ("one", "%%python\n2", "one"):
        client.run(code)
    assert _history(client) == [[0, 1, "one"], [0, 2, "%%python\n2"], [0, 3, "one"]]
    unique = client.ask(
        "history_request",
        {
            "hist_access_type": "search",
            "pattern": "o*",
            "unique": True,
            "output": True,
            "raw": True,
        },
    )
    assert unique.content["history"] == [[0, 3, ["one", None]]]


def _history(client: Client) -> object:
    asked: JsonObject = {"hist_access_type": "tail", "n": 100}
    asked |= {"output": False, "raw": True}
    return client.ask("history_request", asked).content["history"]
