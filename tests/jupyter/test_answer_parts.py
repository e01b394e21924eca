"""Where a growing answer is cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tau_kernel.jupyter.answer_parts import MarkdownCutter


def _parts(text: str, *, soft: int, hard: int, chunk: int = 7) -> list[str]:
    cutter = MarkdownCutter(soft=soft, hard=hard)
    done: list[str] = []
    for start in range(0, len(text), chunk):
        done += cutter.feed(text[start : start + chunk])
    return [*done, cutter.tail]


def test_a_short_text_is_one_part() -> None:
    assert _parts("a\n\nb\n", soft=100, hard=400) == ["a\n\nb\n"]


def test_a_part_ends_at_the_last_boundary_before_the_limit() -> None:
    text = "one one\n\ntwo two\n\nthree three three\n\nfour"
    parts = _parts(text, soft=20, hard=400, chunk=100)
    assert parts[0] == "one one\n\ntwo two\n\n"


def test_a_heading_begins_a_part_without_a_blank_line() -> None:
    assert _parts("a" * 10 + "\n# b\nccccc", soft=12, hard=400)[0] == "a" * 10 + "\n"


def test_no_part_ends_within_a_list() -> None:
    items = "- item one\n\n- item two\n\n  more of two\n\n- item three\n\n"
    parts = _parts(f"{items}after\n", soft=15, hard=400)
    assert parts == [items, "after\n"]


def test_no_part_ends_within_a_table() -> None:
    table = "| a | b |\n|---|---|\n" + "| x | y |\n" * 10 + "\n"
    assert _parts(f"{table}after\n", soft=30, hard=400) == [table, "after\n"]


def test_no_part_ends_within_a_fence_below_the_hard_limit() -> None:
    fence = "```py\na = 1\n\n# no heading\n\nb = 2\n```\n"
    assert _parts(f"{fence}after\n", soft=10, hard=400) == [fence, "after\n"]


def test_a_huge_fence_is_closed_and_opened_again() -> None:
    code = "".join(f"line {n}\n" for n in range(60))
    parts = _parts(f"~~~py x\n{code}~~~\nafter", soft=50, hard=200)
    fenced = [part for part in parts if part.startswith("~~~")]
    assert len(fenced) > 1
    assert all(part.startswith("~~~py x\n") for part in fenced)
    assert all(part.endswith("~~~\n") for part in fenced[:-1])
    lines = [line for p in parts for line in p.splitlines() if line[:4] == "line"]
    assert lines == code.splitlines()


def test_an_endless_line_is_cut_between_words() -> None:
    text = "word " * 500
    parts = _parts(text, soft=50, hard=200)
    assert "".join(parts) == text
    assert all(part.endswith(" ") for part in parts if part)
    assert max(map(len, parts)) <= 200 + 7


def test_bytes_are_counted_and_not_characters() -> None:
    parts = _parts("日" * 400, soft=50, hard=200)
    assert max(len(part.encode()) for part in parts) <= 200 + 7 * 3


@given(
    st.lists(st.sampled_from(["a b ", "\n", "\n\n", "- x", "# h\n", "  ", "| "])),
    st.integers(1, 9),
)
def test_parts_joined_are_the_text(pieces: list[str], chunk: int) -> None:
    text = "".join(pieces)
    assert "".join(_parts(text, soft=8, hard=24, chunk=chunk)) == text


@given(st.lists(st.sampled_from(["ab", "\n", "```", "~~~x\n", "- ", " ", "`", "\n\n"])))
def test_cutting_fences_adds_to_the_text_and_takes_nothing_away(
    pieces: list[str],
) -> None:
    text = "".join(pieces)
    shown = "".join(_parts(text, soft=8, hard=24, chunk=3))
    kept = iter(shown)
    assert all(char in kept for char in text)
