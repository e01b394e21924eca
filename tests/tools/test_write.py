"""Writing whole files: all or nothing, and never through a link that leads out."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

from tau_kernel.errors import ToolError
from tau_kernel.messages import AbortSignal
from tau_kernel.tools import PathPolicy
from tau_kernel.tools.replace_file import FileState, replace_file

if TYPE_CHECKING:
    from .conftest import Desk


def test_a_new_file_is_written_with_the_folders_on_its_way(desk: Desk) -> None:
    assert desk.call("write", path="a/b/c.txt", content="x\r\n") == (
        "Created 'a/b/c.txt': 3 bytes"
    )
    assert (desk.root / "a/b/c.txt").read_bytes() == b"x\r\n"


def test_a_file_is_replaced_and_keeps_its_mode(desk: Desk) -> None:
    path = desk.file("run.sh", "old")
    path.chmod(0o750)
    assert desk.call("write", path="run.sh", content="new").startswith("Replaced")
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o750


def test_a_new_file_gets_the_mode_that_the_umask_leaves(desk: Desk) -> None:
    desk.file("made-here")
    desk.call("write", path="a.txt", content="")
    modes = {stat.S_IMODE(path.stat().st_mode) for path in desk.root.iterdir()}
    assert len(modes) == 1


def test_nothing_is_left_beside_a_written_file(desk: Desk) -> None:
    desk.call("write", path="a.txt", content="x" * 3_000_000)
    assert desk.names() == ["a.txt"]


def test_the_encoding_is_the_one_that_was_asked_for(desk: Desk) -> None:
    desk.call("write", path="a.txt", content="é", encoding="latin-1")
    assert (desk.root / "a.txt").read_bytes() == b"\xe9"


@pytest.mark.parametrize("encoding", ["klingon", "base64", "a\0b"])
def test_what_is_no_text_encoding_is_refused(desk: Desk, encoding: str) -> None:
    with pytest.raises(ToolError, match="no text encoding"):
        desk.call("write", path="a.txt", content="x", encoding=encoding)
    assert desk.names() == []


@pytest.mark.parametrize(("text", "encoding"), [("€", "latin-1"), ("\ud800", "utf-8")])
def test_a_letter_that_the_encoding_lacks_is_named(
    desk: Desk, text: str, encoding: str
) -> None:
    with pytest.raises(ToolError, match=f"{encoding} has no"):
        desk.call("write", path="a.txt", content=text, encoding=encoding)


def test_a_folder_is_not_replaced(desk: Desk) -> None:
    (desk.root / "a").mkdir()
    with pytest.raises(ToolError, match="is a folder"):
        desk.call("write", path="a", content="x")
    assert desk.names() == ["a"]


def test_a_link_within_stays_and_its_target_is_written(desk: Desk) -> None:
    target = desk.file("real.txt", "old")
    (desk.root / "link.txt").symlink_to("real.txt")
    desk.call("write", path="link.txt", content="new")
    assert (desk.root / "link.txt").is_symlink()
    assert target.read_text() == "new"


def test_a_link_that_leads_out_is_refused_also_where_it_dangles(desk: Desk) -> None:
    (desk.root / "out").symlink_to(desk.outside / "new.txt")
    with pytest.raises(ToolError, match="outside of"):
        desk.call("write", path="out", content="x")
    assert list(desk.outside.iterdir()) == []


def test_an_abort_before_the_move_leaves_the_old_file_alone(desk: Desk) -> None:
    path = desk.file("a.txt", "old")
    place = PathPolicy(root=desk.root).place("a.txt", desk.root)
    stop = AbortSignal()
    stop.abort()
    with pytest.raises(ToolError, match="aborted"):
        replace_file(place, b"new", stop)
    assert path.read_text() == "old"
    assert desk.names() == ["a.txt"]


def test_a_file_that_changed_meanwhile_is_not_replaced(desk: Desk) -> None:
    path = desk.file("a.txt", "old")
    seen = FileState.from_stat(path.stat())
    path.write_text("somebody else's")
    place = PathPolicy(root=desk.root).place("a.txt", desk.root)
    with pytest.raises(ToolError, match="changed by something else"):
        replace_file(place, b"new", AbortSignal(), expected=seen)
    assert path.read_text() == "somebody else's"
