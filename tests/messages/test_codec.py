"""JSON that leaves is JSON that every reader accepts, and says the same to each."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_kernel.errors import CallerError
from tau_kernel.messages import clean_json, clean_text, dump_line, load_line

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()), inner),
    max_leaves=12,
)


@given(anything)
def test_what_is_clean_survives_the_line(value: object) -> None:
    cleaned = clean_json(value)
    assert load_line(dump_line({"v": cleaned})) == {"v": cleaned}
    assert json.loads(json.dumps(cleaned)) == cleaned


def test_a_lone_surrogate_becomes_the_replacement_character() -> None:
    assert clean_text("a\ud800b") == "a\ufffdb"
    assert load_line(dump_line({"\udfff": ["\ud800"]})) == {"\ufffd": ["\ufffd"]}


def test_an_escaped_lone_surrogate_of_another_writer_is_read() -> None:
    assert load_line(rb'{"a": "x\uD83D"}') == {"a": "x\ufffd"}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -(2**63) - 1, 2**64])
def test_a_number_that_readers_would_change_is_refused(value: float) -> None:
    with pytest.raises(CallerError, match=r"cell\['n'\]\[0\]"):
        clean_json({"n": [value]}, "cell")


@pytest.mark.parametrize("value", [{1: 2}, {"k": object()}, {"k": b"x"}])
def test_what_is_no_json_is_refused_with_its_place(value: Any) -> None:  # noqa: ANN401 - no JSON on purpose
    with pytest.raises(CallerError, match="record"):
        dump_line({"record": value})


@pytest.mark.parametrize("line", [b"", b"{", b"[1]", b"\xff{}"])
def test_a_line_that_holds_no_object_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"(?i)object|empty|invalid|unexpected|str"):
        load_line(line)
