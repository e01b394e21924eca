"""Editing: one place or all, bytes kept as they were, a diff that can be applied."""

from __future__ import annotations

import os
import re
import stat
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tau_kernel.errors import ToolError
from tau_kernel.tools.edit import DIFF_CHARS, EDIT_BYTES, EDIT_PASSAGES
from tau_kernel.tools.passage import find_passages, replace_passages, unified_diff

if TYPE_CHECKING:
    from .conftest import Desk


def edited(desk: Desk, content: bytes, old: str, new: str) -> bytes:
    path = desk.file("a.txt", content)
    desk.call("edit", path="a.txt", old_string=old, new_string=new)
    return path.read_bytes()


def test_the_one_place_is_replaced_and_its_line_named(desk: Desk) -> None:
    path = desk.file("a.py", "def f():\n    return 1\n")
    path.chmod(0o600)
    said = desk.call("edit", path="a.py", old_string="return 1", new_string="return 2")
    assert said == "Replaced 1 passage in 'a.py' (line 2)"
    assert path.read_text() == "def f():\n    return 2\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_diff_is_in_the_details(desk: Desk) -> None:
    desk.file("src/a.py", "1\n2\n3\n4\n5\n6\n")
    result = desk.result("edit", path="src/a.py", old_string="5\n", new_string="five\n")
    assert isinstance(result.details, dict)
    assert result.details["diff"] == (
        "--- a/src/a.py\n+++ b/src/a.py\n@@ -2,5 +2,5 @@\n 2\n 3\n 4\n-5\n+five\n 6\n"
    )


def test_changes_far_apart_are_shown_apart(desk: Desk) -> None:
    desk.file("a.txt", "x\n" + "same\n" * 20 + "x")
    result = desk.result(
        "edit", path="a.txt", old_string="x", new_string="y\ny", replace_all=True
    )
    assert isinstance(result.details, dict)
    assert result.details["diff"] == (
        "--- a/a.txt\n+++ b/a.txt\n"
        "@@ -1,4 +1,5 @@\n-x\n+y\n+y\n same\n same\n same\n"
        "@@ -19,4 +20,5 @@\n same\n same\n same\n"
        "-x\n\\ No newline at end of file\n+y\n+y\n\\ No newline at end of file\n"
    )


def test_two_places_are_refused_with_their_lines(desk: Desk) -> None:
    path = desk.file("a.txt", "x\ny\nx\n")
    with pytest.raises(ToolError, match=r"stands 2 times in 'a\.txt' \(lines 1, 3\)"):
        desk.call("edit", path="a.txt", old_string="x", new_string="z")
    assert path.read_text() == "x\ny\nx\n"


def test_places_that_overlap_are_two_as_well(desk: Desk) -> None:
    desk.file("a.txt", "aaa")
    with pytest.raises(ToolError, match="stands 2 times"):
        desk.call("edit", path="a.txt", old_string="aa", new_string="b")


def test_all_places_are_replaced_where_that_is_asked(desk: Desk) -> None:
    path = desk.file("a.txt", "x\ny\nx\n")
    said = desk.call(
        "edit", path="a.txt", old_string="x", new_string="zz", replace_all=True
    )
    assert said == "Replaced 2 passages in 'a.txt' (lines 1, 3)"
    assert path.read_text() == "zz\ny\nzz\n"


def test_a_passage_that_is_not_there_is_refused_with_a_hint(desk: Desk) -> None:
    desk.file("a.py", "if a:\n        go()\n")
    with pytest.raises(ToolError, match="but for white space, stands at line 2"):
        desk.call("edit", path="a.py", old_string="  go()\n  stay()", new_string="x")
    with pytest.raises(ToolError, match="copy the text from there"):
        desk.call("edit", path="a.py", old_string="nothing like it", new_string="x")


@pytest.mark.parametrize(("old", "new"), [("", "x"), ("one", "one")])
def test_an_edit_that_means_nothing_is_refused(desk: Desk, old: str, new: str) -> None:
    desk.file("a.txt", "one")
    with pytest.raises(ToolError, match="old_string"):
        desk.call("edit", path="a.txt", old_string=old, new_string=new)


def test_line_ends_stay_as_they_are_and_new_lines_take_them_on(desk: Desk) -> None:
    content = b"one\r\ntwo\r\nthree\n"
    assert edited(desk, content, "one\ntwo", "1\n2") == b"1\r\n2\r\nthree\n"
    assert edited(desk, content, "two", "2\n2") == b"one\r\n2\r\n2\r\nthree\n"
    assert edited(desk, content, "three\n", "3\n4\n") == b"one\r\ntwo\r\n3\n4\n"
    assert edited(desk, b"a\nb\n", "a\r\nb", "c\r\nd") == b"c\nd\n"


def test_a_byte_order_mark_stays(desk: Desk) -> None:
    assert edited(desk, b"\xef\xbb\xbfone", "one", "two") == b"\xef\xbb\xbftwo"


def test_a_file_in_latin_1_stays_in_it(desk: Desk) -> None:
    assert edited(desk, b"caf\xe9 1 \xff", "é 1", "é 2") == b"caf\xe9 2 \xff"


def test_a_letter_that_latin_1_lacks_is_refused_there(desk: Desk) -> None:
    path = desk.file("a.txt", b"caf\xe9")
    with pytest.raises(ToolError, match="Latin-1 has no '€'"):
        desk.call("edit", path="a.txt", old_string="caf", new_string="€")
    assert path.read_bytes() == b"caf\xe9"


def test_a_binary_file_and_one_too_large_are_refused(desk: Desk) -> None:
    desk.file("a.bin", b"a\0")
    with pytest.raises(ToolError, match="Binary file"):
        desk.call("edit", path="a.bin", old_string="a", new_string="b")
    os.truncate(desk.file("big.txt"), EDIT_BYTES + 1)
    with pytest.raises(ToolError, match=f"edit takes {EDIT_BYTES}"):
        desk.call("edit", path="big.txt", old_string="a", new_string="b")


def test_more_places_than_one_call_replaces_are_refused(desk: Desk) -> None:
    desk.file("a.txt", "a" * (EDIT_PASSAGES + 1))
    with pytest.raises(ToolError, match=f"over {EDIT_PASSAGES} times"):
        desk.call("edit", path="a.txt", old_string="a", new_string="b")


def test_a_long_diff_is_cut_and_says_how_much(desk: Desk) -> None:
    desk.file("a.txt", "line\n" * 20_000)
    result = desk.result(
        "edit", path="a.txt", old_string="line", new_string="LINE", replace_all=True
    )
    assert isinstance(result.details, dict)
    diff = result.details["diff"]
    assert isinstance(diff, str)
    assert len(diff) < DIFF_CHARS + 50
    assert diff.endswith(" characters more")


def apply_diff(text: str, diff: str) -> str:
    """Apply a unified diff as ``patch`` would, without any leniency."""
    old = re.findall(r"[^\n]*\n|[^\n]+", text)
    new: list[str] = []
    at = 0
    rows = re.findall(r"[^\n]*\n", diff)[2:]
    for number, row in enumerate(rows):
        if row.startswith("@@"):
            numbers = re.match(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", row)
            assert numbers is not None
            start, count = int(numbers[1]), int(numbers[2] or 1)
            begin = start - 1 if count else start
            new += old[at:begin]
            at = begin
            assert len(new) == int(numbers[3]) - (1 if int(numbers[4] or 1) else 0)
        elif not row.startswith("\\"):
            is_bare = rows[number + 1 : number + 2] == [
                "\\ No newline at end of file\n"
            ]
            line = row[1:-1] if is_bare else row[1:]
            if row[0] in " -":
                assert old[at] == line
                at += 1
            if row[0] in " +":
                new.append(line)
    return "".join(new + old[at:])


TEXTS = st.text(alphabet="ab\n\r", max_size=40)


@settings(deadline=None)
@given(TEXTS, st.text(alphabet="ab\n", min_size=1, max_size=4), TEXTS)
def test_the_diff_turns_the_old_text_into_the_new(
    text: str, old: str, new: str
) -> None:
    passages = list(find_passages(text, old, new))
    changed = replace_passages(text, passages)
    diff = unified_diff("a", text, passages)
    assert (diff == "") == (changed == text)
    assert apply_diff(text, diff) == changed


@settings(deadline=None)
@given(st.text("ab\n", max_size=40), st.text("ab\n", min_size=1, max_size=4), TEXTS)
def test_replacing_is_what_str_replace_does_whatever_the_line_ends(
    text: str, old: str, new: str
) -> None:
    assume("\r" not in new)
    wanted = text.replace(old, new)
    assert replace_passages(text, list(find_passages(text, old, new))) == wanted
    # Without a line end of its own, a text cannot say which a new one shall be.
    assume("\n" in text or "\n" not in new)
    dos = text.replace("\n", "\r\n")
    passages = list(find_passages(dos, old, new))
    assert replace_passages(dos, passages) == wanted.replace("\n", "\r\n")


@settings(deadline=None)
@given(TEXTS, st.text(alphabet="ab\n", min_size=1, max_size=3))
def test_places_are_counted_with_those_that_overlap(text: str, old: str) -> None:
    plain = text.replace("\r\n", "\n")
    wanted = sum(plain.startswith(old, i) for i in range(len(plain)))
    assert len(list(find_passages(text, old, "", may_overlap=True))) == wanted
