from __future__ import annotations

import pytest

from tau_kernel.errors import CallerError
from tau_kernel.flows import Performed, View
from tau_kernel.messages import JsonObject


@pytest.mark.parametrize(
    ("data", "line"),
    [
        ({"message": "done", "ok": True}, "done"),
        ({"message": "", "ok": True}, "run: message='', ok=True"),
        ({"message": 3}, "run: message=3"),
        ({"name": "x", "cursor": "e"}, "run: name='x'"),
        ({"cursor": "e"}, "run"),
        ({}, "run"),
    ],
)
def test_a_summary_is_the_message_or_the_fields(data: JsonObject, line: str) -> None:
    assert Performed(None, "run", data, "e").summary() == line


def test_there_is_one_answer_to_where_the_cursor_is() -> None:
    Performed(None, "run", {"cursor": None})
    with pytest.raises(CallerError, match="'run' has cursor 'a', but"):
        Performed(None, "run", {"cursor": "a"}, "b")


def test_a_view_has_a_state_or_a_reason() -> None:
    assert View("tree", state={}).state == {}
    assert View("tree", unavailable_because="Why.").unavailable_because == "Why."
    with pytest.raises(CallerError, match=r"'tree' takes exactly one.*got neither"):
        View("tree")
    with pytest.raises(CallerError, match=r"'tree' takes exactly one.*got both"):
        View("tree", {}, "Why.")
