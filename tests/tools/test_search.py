"""Searching files and names, with limits that a pattern cannot break."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tau_kernel.errors import ToolError
from tau_kernel.tools import PathPolicy
from tau_kernel.tools.search import (
    FIND_PATHS,
    GREP_FILE_BYTES,
    GREP_HITS,
    GREP_LINE_CHARS,
    SEARCH_CHARS,
    find_tool,
    grep_tool,
)
from tau_kernel.tools.spool import Spool

if TYPE_CHECKING:
    from .conftest import Desk

pytestmark = pytest.mark.slow


def test_lines_come_with_path_and_number_in_order(desk: Desk) -> None:
    desk.file("b.py", "x = 1\ny = 2\nx = 3\r\n")
    desk.file("a/c.py", b"\xef\xbb\xbfx = 4")
    desk.file("d.txt", b"caf\xe9 x = 5")
    assert desk.call("grep", pattern=r"^x = \d$") == (
        "a/c.py:1:x = 4\nb.py:1:x = 1\nb.py:3:x = 3"
    )
    assert desk.call("grep", pattern="café") == "d.txt:1:café x = 5"


def test_a_search_may_begin_in_a_folder_or_at_a_file(desk: Desk) -> None:
    desk.file("a/b/c.py", "x\n")
    desk.file("x.py", "x\n")
    assert desk.call("grep", pattern="x", path="a") == "a/b/c.py:1:x"
    assert desk.call("grep", pattern="x", path="a/b/c.py") == "a/b/c.py:1:x"


def test_letters_are_told_apart_by_case_unless_asked_not_to(desk: Desk) -> None:
    desk.file("a.txt", "Word\n")
    assert desk.call("grep", pattern="word") == "(no match)"
    assert desk.call("grep", pattern="word", ignore_case=True) == "a.txt:1:Word"


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ("*.py", ["src/a.py", "src/deep/b.py", "z.py"]),
        ("src/*.py", ["src/a.py", "src/deep/b.py"]),
        ("**/*.py", ["src/a.py", "src/deep/b.py", "z.py"]),
        ("*.{ts,md}", ["c.md", "src/d.ts"]),
        ("[ac].*", ["c.md", "src/a.py"]),
    ],
)
def test_a_glob_chooses_the_files(desk: Desk, files: str, found: list[str]) -> None:
    for name in ("src/a.py", "src/deep/b.py", "z.py", "c.md", "src/d.ts"):
        desk.file(name, "x")
    lines = desk.call("grep", pattern="x", files=files).split("\n")
    assert [line.split(":")[0] for line in lines] == found


def test_binary_files_links_and_version_control_are_left_out(desk: Desk) -> None:
    desk.file("a.bin", b"x\0")
    desk.file(".git/config", "x")
    (desk.outside / "o.txt").write_text("x")
    (desk.root / "link").symlink_to(desk.outside)
    assert desk.call("grep", pattern="x") == "(no match)"
    assert desk.call("grep", pattern="x", path=".git") == ".git/config:1:x"


def test_what_does_not_fit_is_counted(desk: Desk) -> None:
    desk.file("a.txt", "x\n" * (GREP_HITS + 5))
    *lines, note = desk.call("grep", pattern="x").split("\n")
    assert len(lines) == GREP_HITS
    assert note.startswith("[5 more lines match;")


def test_a_long_line_is_shown_around_its_match(desk: Desk) -> None:
    desk.file("a.txt", "a" * 5000 + "needle" + "b" * 5000)
    line = desk.call("grep", pattern="needle")
    assert "needle" in line
    assert len(line) < GREP_LINE_CHARS + 20


def test_a_file_that_is_too_large_is_left_out_and_counted(desk: Desk) -> None:
    desk.file("big.txt", "x\n" * (GREP_FILE_BYTES // 2 + 1))
    assert "[1 file(s) over 16 MiB left out" in desk.call("grep", pattern="x")


@pytest.mark.parametrize(("tool", "name"), [("grep", "pattern"), ("find", "regex")])
def test_what_is_no_pattern_is_refused(desk: Desk, tool: str, name: str) -> None:
    with pytest.raises(ToolError, match="no regular expression: missing"):
        desk.call(tool, **{name: "a(b"})
    with pytest.raises(ToolError, match="too long"):
        desk.call(tool, **{name: "a" * 20_000})


def test_a_pattern_that_warns_is_searched_for(desk: Desk) -> None:
    desk.file("a.txt", "[[x")
    assert desk.call("grep", pattern="[[]x") == "a.txt:1:[[x"


def test_a_pattern_that_backtracks_ends_at_its_time_with_what_there_is(
    desk: Desk,
) -> None:
    desk.file("a.txt", "aab\n")
    desk.file("z.txt", "a" * 60 + "!\n")
    policy = PathPolicy(root=desk.root)
    desk.tools["grep"] = grep_tool(policy, Spool(), seconds=0.2)
    begin = time.monotonic()
    result = desk.result("grep", pattern="^(a+)+b?$")
    assert time.monotonic() - begin < 10
    assert result.is_error
    assert result.content == (
        "a.txt:1:aab\n[stopped after 0.2 s at a single line: the pattern backtracks; "
        "make it simpler]"
    )


def test_a_search_that_takes_too_long_gives_what_it_has(desk: Desk) -> None:
    for number in range(50):
        desk.file(f"{number}.txt", "x\n")
    desk.tools["find"] = find_tool(PathPolicy(root=desk.root), seconds=0.0)
    result = desk.result("find")
    assert not result.is_error
    assert str(result.content).endswith("give a narrower path, name or regex]")
    assert "stopped after 0 s" in str(result.content)


def test_paths_are_found_by_name_kind_and_pattern(desk: Desk) -> None:
    desk.file("src/a.py")
    desk.file("src/b.txt")
    (desk.root / "link.py").symlink_to("src/a.py")
    assert desk.call("find") == "link.py\nsrc/\nsrc/a.py\nsrc/b.txt"
    assert desk.call("find", name="*.py") == "link.py\nsrc/a.py"
    assert desk.call("find", name="*.py", type="f") == "src/a.py"
    assert desk.call("find", type="d") == "src/"
    assert desk.call("find", type="l") == "link.py"
    assert desk.call("find", regex=r"b\.t") == "src/b.txt"
    assert desk.call("find", path="src", name="a*") == "src/a.py"
    assert desk.call("find", name="src/*.txt") == "src/b.txt"


def test_a_file_cannot_be_searched_for_files(desk: Desk) -> None:
    desk.file("a.txt")
    with pytest.raises(ToolError, match="is a file"):
        desk.call("find", path="a.txt")


def test_paths_that_do_not_fit_are_counted(desk: Desk) -> None:
    for number in range(FIND_PATHS + 3):
        (desk.root / f"{number:05}").touch()
    *paths, note = desk.call("find").split("\n")
    assert len(paths) == FIND_PATHS
    assert note.startswith("[3 more paths match;")


def test_a_tree_of_any_depth_is_no_trouble(desk: Desk) -> None:
    deep = desk.root
    for _ in range(220):
        deep /= "d"
    deep.mkdir(parents=True)
    text = desk.call("find", type="f")
    assert text == "(no match)\n[1 place(s) could not be opened]"


def test_paths_that_are_few_but_long_are_cut_as_well(desk: Desk) -> None:
    deep = desk.root.joinpath(*["d" * 250] * 14)
    deep.mkdir(parents=True)
    for number in range(60):
        (deep / f"{number:02}").touch()
    *paths, note = desk.call("find", type="f").split("\n")
    assert sum(map(len, paths)) <= SEARCH_CHARS
    assert note.startswith(f"[{60 - len(paths)} more paths match;")
