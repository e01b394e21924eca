"""Whether Enter in a console runs the cell."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_kernel.jupyter.cells import KnownNames
from tau_kernel.jupyter.is_complete import CompleteStatus, is_complete

NAMES = KnownNames(
    commands=frozenset({"help"}),
    line_magics=frozenset({"time"}),
    cell_magics=frozenset({"time"}),
    is_bound=frozenset({"data"}).__contains__,
)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("", "complete"),
        ("\n", "complete"),
        ("Hello", "complete"),
        ("Hello (", "complete"),
        ("/help", "complete"),
        ("/help \\", "complete"),
        ("/unknown \\", "incomplete"),
        ("one line \\", "incomplete"),
        ("one line \\  ", "incomplete"),
        ("a backslash \\\\", "complete"),
        ("three \\\\\\", "incomplete"),
        ("one \\\ntwo", "complete"),
        ("one \\\n", "complete"),
        ("```py\nx = 1", "incomplete"),
        ("```py\nx = 1\n```", "complete"),
        ("%%tau", "incomplete"),
        ("%%tau seed=7", "incomplete"),
        ("%%tau seed=7\n", "incomplete"),
        ("%%tau seed=7\nhello", "complete"),
        ("%%tau seed=7\n```", "incomplete"),
        ("%%tau sed=7", "invalid"),
        ("%%tau sed=7\nhello", "invalid"),
        ('%%tau system="open', "invalid"),
        ("%%python", "incomplete"),
        ("\n%%py  ", "incomplete"),
        ("%%python\n", "delegate"),
        ("%%python\nif x:", "delegate"),
        ("%%python if x:", "delegate"),
        ("%time 1", "delegate"),
        ("!ls", "delegate"),
        ("data?", "delegate"),
    ],
)
def test_a_cell_waits_only_for_what_visibly_is_missing(
    code: str, expected: CompleteStatus
) -> None:
    assert is_complete(code, NAMES) == expected


@given(st.text(st.characters()))
def test_any_text_has_a_status(code: str) -> None:
    status = is_complete(code, NAMES)
    assert status in {"complete", "incomplete", "invalid", "delegate"}
