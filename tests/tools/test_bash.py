"""Running commands: output, exit codes, caps, time limits and the environment."""

from __future__ import annotations

import re
import stat
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tau_kernel.errors import ToolError
from tau_kernel.tools.bash import COMMAND_BYTES, command_environment
from tau_kernel.tools.spool import (
    HEAD_BYTES,
    SPOOL_FILE_BYTES,
    SPOOL_FILES,
    TAIL_BYTES,
    CappedOutput,
    Spool,
)

if TYPE_CHECKING:
    from tau_kernel.extensions import AgentToolResult

    from .conftest import Desk


def open_descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def text_of(result: AgentToolResult) -> str:
    assert isinstance(result.content, str)
    return result.content


def test_both_streams_come_in_the_order_they_were_written(desk: Desk) -> None:
    command = "echo one; echo two >&2; echo three; echo four >&2"
    assert desk.call("bash", command=command) == "one\ntwo\nthree\nfour"


def test_a_command_runs_where_the_session_works(desk: Desk) -> None:
    assert desk.call("bash", command="pwd -P") == str(desk.root.resolve())


def test_silence_is_told(desk: Desk) -> None:
    assert desk.call("bash", command="true") == "(no output)"


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("echo out; exit 3", 3),
        ("echo out; kill -9 $$", 137),
        ("echo out; nope-nope", 127),
    ],
)
def test_an_exit_code_other_than_0_is_an_error_with_the_output(
    desk: Desk, command: str, code: int
) -> None:
    result = desk.result("bash", command=command)
    assert result.is_error
    assert text_of(result).startswith("out\n")
    assert text_of(result).endswith(f"[exit code {code}]")
    assert isinstance(result.details, dict)
    assert result.details["exit_code"] == code


def test_a_command_that_kills_its_own_group_ends_alone(desk: Desk) -> None:
    result = desk.result("bash", command="echo out; kill -9 0")
    assert result.is_error
    assert "no exit code" in text_of(result)


def test_there_is_nothing_to_read_and_no_terminal(desk: Desk) -> None:
    assert desk.call("bash", command="cat; wc -c </dev/stdin") == "0"
    assert desk.call("bash", command="(: </dev/tty) 2>/dev/null || echo none") == "none"


def test_the_shells_that_watch_leave_no_descriptors_to_the_command(desk: Desk) -> None:
    listed = desk.call(
        "bash",
        command="for i in 3 4 5 6 7 8 9; do [ -e /dev/fd/$i ] && echo $i; done; true",
    )
    assert listed == "(no output)"


def test_signals_have_their_usual_effect_in_a_command(desk: Desk) -> None:
    for name, code in (("INT", 130), ("TERM", 143), ("HUP", 129), ("QUIT", 131)):
        result = desk.result("bash", command=f"sh -c 'kill -{name} $$'; exit $?")
        assert isinstance(result.details, dict)
        assert result.details["exit_code"] == code


@pytest.mark.slow
def test_what_is_left_in_the_background_is_ended_and_told(desk: Desk) -> None:
    text = desk.call("bash", command="sleep 300 & echo started")
    assert text == ("started\n[1 background process(es) were ended with the command]")


@pytest.mark.slow
def test_what_finishes_just_after_the_command_is_heard(desk: Desk) -> None:
    assert desk.call("bash", command="echo a > >(cat)").split("\n")[0] == "a"


@pytest.mark.slow
def test_a_command_is_ended_at_its_timeout_with_its_output(desk: Desk) -> None:
    begin = time.monotonic()
    result = desk.result("bash", command="echo begun; sleep 300", timeout=200)
    assert time.monotonic() - begin < 2
    assert result.is_error
    assert text_of(result).startswith("begun\n")
    assert "[ended at its timeout of 200 ms; a longer one may help]" in text_of(result)


@pytest.mark.slow
def test_a_command_may_clean_up_at_its_timeout(desk: Desk) -> None:
    command = "trap 'echo cleaned; exit 0' TERM; while :; do sleep 0.01; done"
    result = desk.result("bash", command=command, timeout=200)
    assert "cleaned" in text_of(result)
    assert result.is_error


@pytest.mark.slow
def test_a_command_that_ignores_the_request_to_end_is_killed(desk: Desk) -> None:
    begin = time.monotonic()
    result = desk.result("bash", command="trap '' TERM; sleep 300", timeout=100)
    assert result.is_error
    assert 2 <= time.monotonic() - begin < 6


def test_a_command_too_long_to_pass_is_refused_with_a_way_out(desk: Desk) -> None:
    with pytest.raises(ToolError, match="write it to a file"):
        desk.call("bash", command=": " + "x" * COMMAND_BYTES)
    for command in ("echo \0", "echo \ud800"):
        with pytest.raises(ToolError, match="the command holds"):
            desk.call("bash", command=command)


def test_a_working_directory_that_is_gone_is_told(desk: Desk) -> None:
    desk.root.rmdir()
    with pytest.raises(ToolError, match="No such file"):
        desk.call("bash", command="true")


def test_a_long_output_shows_both_ends_and_is_kept_whole(desk: Desk) -> None:
    text = desk.call("bash", command="seq 1 20000")
    whole = "".join(f"{number}\n" for number in range(1, 20001))
    head, note, tail = re.split(r"\n(\[… .* …\])\n", text)
    assert whole.startswith(head)
    assert whole.rstrip().endswith(tail)
    assert f"{len(whole) - HEAD_BYTES - TAIL_BYTES} bytes are cut out" in note
    found = re.search(r"is in (\S+),", note)
    assert found is not None
    path = Path(found[1])
    assert path.read_text() == whole
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert desk.call("read", path=str(path), offset=20000) == "20000"
    assert desk.call("grep", pattern="^19999$", path=str(path)).endswith(":19999")
    with pytest.raises(ToolError, match="outside of"):
        desk.call("write", path=str(path), content="")


def test_the_folder_of_outputs_goes_with_its_owner() -> None:
    spool = Spool()
    with spool.create() as file:
        path = Path(file.name)
    assert path.is_file()
    del spool
    assert not path.parent.exists()


def test_only_the_latest_outputs_are_kept() -> None:
    spool = Spool()
    paths: list[Path] = []
    for _ in range(SPOOL_FILES + 2):
        with spool.create() as file:
            paths.append(Path(file.name))
    assert [path.exists() for path in paths] == [False] * 2 + [True] * SPOOL_FILES


def test_an_output_without_end_fills_no_disk() -> None:
    spool = Spool()
    output = CappedOutput(spool)
    chunk = b"x" * 1024 * 1024
    for _ in range(SPOOL_FILE_BYTES // len(chunk) + 3):
        output.add(chunk)
    output.close()
    assert output.path is not None
    assert Path(output.path).stat().st_size == SPOOL_FILE_BYTES
    assert f"its first {SPOOL_FILE_BYTES} bytes are in" in output.text()


def test_an_output_that_cannot_be_kept_does_not_fail_its_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    output = CappedOutput(Spool())
    output.add(b"x" * (HEAD_BYTES + TAIL_BYTES + 1))
    assert output.path is None
    assert "could not be kept: [Errno 2]" in output.text()


@settings(deadline=None)
@given(st.lists(st.text(max_size=9000), max_size=8))
def test_however_output_is_cut_both_ends_are_whole_characters(
    pieces: list[str],
) -> None:
    spool = Spool()
    whole = "".join(pieces).replace("\r", "").encode("utf-8", "replace")
    output = CappedOutput(spool)
    for begin in range(0, len(whole), 777):
        output.add(whole[begin : begin + 777])
    output.close()
    text = output.text()
    if not output.is_cut:
        assert text == whole.decode()
        return
    head, tail = re.split(r"\n\[… \d+ bytes .* …\]\n", text)
    assert whole.decode().startswith(head)
    assert whole.decode().endswith(tail)
    assert len(head.encode()) in range(HEAD_BYTES - 3, HEAD_BYTES + 1)
    assert len(tail.encode()) in range(TAIL_BYTES - 3, TAIL_BYTES + 1)


@pytest.mark.slow
def test_what_is_there_so_far_is_shown_at_most_ten_times_a_second(desk: Desk) -> None:
    begin = time.monotonic()
    desk.call("bash", command="for i in $(seq 60); do echo $i; sleep 0.01; done")
    allowed = 10 * (time.monotonic() - begin) + 1
    assert 2 <= len(desk.updates) <= allowed
    shown = [str(update).split() for update in desk.updates]
    for earlier, later in pairwise(shown):
        assert later[: len(earlier)] == earlier


def test_variables_that_name_secrets_are_not_inherited(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    monkeypatch.setenv("PLAIN", "seen")
    assert (
        desk.call("bash", command="echo ${OPENAI_API_KEY:-gone} $PLAIN") == "gone seen"
    )


def test_a_secret_is_known_by_its_name() -> None:
    secret = (
        "API_KEY", "HF_TOKEN", "github_token", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN", "MY_SECRET", "SSH_PRIVATE_KEY", "CUSTOM",
    )  # fmt: skip
    plain = ("PATH", "HOME", "TOKENIZERS_PARALLELISM", "SECRETARY", "KEYMAP", "LANG")
    environ = dict.fromkeys((*secret, *plain), "x")
    assert tuple(command_environment(environ, {"CUSTOM"})) == plain


def test_the_tools_share_no_descriptors_with_commands(desk: Desk) -> None:
    before = open_descriptors()
    for _ in range(3):
        desk.call("bash", command="true")
        desk.call("ls")
    assert open_descriptors() == before
