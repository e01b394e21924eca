"""Which parts of a prompt are code."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_kernel.jupyter.code_ranges import code_ranges, has_open_fence

MARKED = st.lists(
    st.sampled_from(["`", "``", "```", "~~~", "````", "\n", " ", "@x", "py", "🦊"]),
    max_size=20,
).map("".join)


def code(text: str) -> list[str]:
    return [text[start:end] for start, end in code_ranges(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no code", []),
        ("", []),
        ("a `b` c", ["`b`"]),
        ("`a` and `b`", ["`a`", "`b`"]),
        ("``a ` b`` c", ["``a ` b``"]),
        ("one ` alone", []),
        ("`` a ` b", []),
        ("`a\nb`", []),
        ("🦊 `🦊`", ["`🦊`"]),
        ("```\nx\n```\ny", ["```\nx\n```"]),
        ("```py\nx\n```", ["```py\nx\n```"]),
        ("~~~ `a`\nx\n~~~", ["~~~ `a`\nx\n~~~"]),
        ("  - a\n    ```\n    x\n    ```\nb", ["    ```\n    x\n    ```"]),
        ("````\n```\n````", ["````\n```\n````"]),
        ("```\n~~~\n```\n`a`", ["```\n~~~\n```", "`a`"]),
        ("```\nx\n```py\ny", ["```\nx\n```py\ny"]),
        ("a\n```\nx", ["```\nx"]),
        ("```a`b\nx", []),
        ("```x``` y", ["```x```"]),
        ("a ```\nb", []),
    ],
)
def test_fences_and_backticks_mark_code(text: str, expected: list[str]) -> None:
    assert code(text) == expected


@pytest.mark.parametrize(
    ("text", "is_open"),
    [
        ("", False),
        ("prose", False),
        ("```", True),
        ("```py\nx", True),
        ("```\nx\n```", False),
        ("```\nx\n~~~", True),
        ("````\nx\n```", True),
        ("`x", False),
        ("```\n```\n~~~", True),
    ],
)
def test_a_fence_is_open_until_its_own_mark(text: str, is_open: bool) -> None:
    assert has_open_fence(text) is is_open


@given(MARKED)
def test_ranges_ascend_within_the_text(text: str) -> None:
    at = 0
    for start, end in code_ranges(text):
        assert at <= start < end <= len(text)
        at = end


@given(MARKED)
def test_an_open_fence_reaches_the_end(text: str) -> None:
    if has_open_fence(text):
        assert code_ranges(text)[-1][1] == len(text)


@given(MARKED)
def test_what_follows_on_new_lines_changes_no_closed_range(text: str) -> None:
    if not has_open_fence(text):
        longer = f"{text}\n\nprose `a`"
        assert code_ranges(longer)[:-1] == code_ranges(text)
