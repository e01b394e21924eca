"""Whose session a file is, from its first two lines."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_kernel.legacy import SessionFormat
from tau_kernel.legacy.session_format import format_of, format_of_lines
from tau_kernel.messages import JsonObject, JsonValue, dump_line

ISO: Final = "2025-11-30T10:00:00.000Z"
OLDER: Final[JsonObject] = {
    "type": "session",
    "id": "s",
    "timestamp": 1_700_000_000_000,
}
V1: Final[JsonObject] = {
    "type": "session",
    "version": 1,
    "id": "s",
    "timestamp": ISO,
    "cwd": "/w",
    "parent": None,
}
PI: Final[JsonObject] = {"type": "session", "id": "s", "timestamp": ISO, "cwd": "/w"}
NO_PARENT: Final[JsonObject] = {**PI, "version": 1}
TREE: Final[JsonObject] = {"type": "message", "id": "a", "parentId": None}
LIST: Final[JsonObject] = {"type": "message", "timestamp": ISO}
SNAKE: Final[JsonObject] = {"type": "message", "id": "a", "parent_id": "s"}


@pytest.mark.parametrize(
    ("header", "first", "expected"),
    [
        (OLDER, None, SessionFormat.OLDER),
        (OLDER, SNAKE, SessionFormat.OLDER),
        (OLDER | {"parent_id": None}, None, SessionFormat.OLDER),
        (PI | {"parent_id": "other"}, SNAKE, SessionFormat.OLDER),
        (V1, None, SessionFormat.V1),
        (V1, TREE, SessionFormat.V1),
        (V1 | {"parent": "other", "version": 2}, TREE, SessionFormat.V1),
        (NO_PARENT, None, SessionFormat.V1),
        (NO_PARENT, TREE, SessionFormat.V1),
        (NO_PARENT, LIST, SessionFormat.PI),
        (NO_PARENT | {"provider": "x", "modelId": "y"}, None, SessionFormat.PI),
        (NO_PARENT | {"parentSession": "/x"}, TREE, SessionFormat.PI),
        (PI, None, SessionFormat.PI),
        (PI, LIST, SessionFormat.PI),
        (PI, TREE, SessionFormat.PI),
        (PI | {"version": 2}, TREE, SessionFormat.PI),
        (PI | {"version": 3}, None, SessionFormat.PI),
        (PI | {"version": 3, "parentSession": "/x"}, TREE, SessionFormat.PI),
    ],
)
def test_each_format_is_told_by_its_rule(
    header: JsonObject, first: JsonObject | None, expected: SessionFormat
) -> None:
    assert format_of(header, first) is expected
    lines = [dump_line(one) for one in (header, first) if one is not None]
    assert format_of_lines(lines) is expected


MORE: Final = st.dictionaries(
    st.text(min_size=8), st.none() | st.booleans() | st.integers(0, 9) | st.text()
)


@given(more=MORE, parent=st.none() | st.text())
def test_other_keys_of_a_header_do_not_change_what_it_is(
    more: dict[str, JsonValue], parent: str | None
) -> None:
    assert format_of(more | OLDER, None) is SessionFormat.OLDER
    assert format_of(more | V1 | {"parent": parent}, None) is SessionFormat.V1
    assert format_of(more | PI | {"version": 3}, TREE) is SessionFormat.PI


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"", "unexpected end|no JSON|empty|input"),
        (b"[]\n", "expected a JSON object"),
        (b'{"type": "message"}\n', "its type is 'message', not 'session'"),
    ],
)
def test_a_line_that_begins_no_session_is_refused(line: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        format_of_lines([line])


def test_a_file_without_lines_is_refused() -> None:
    with pytest.raises(ValueError, match="it is empty"):
        format_of_lines([])


def test_a_damaged_second_line_is_left_to_the_reader() -> None:
    assert format_of_lines([dump_line(V1), b"{ torn"]) is SessionFormat.V1
