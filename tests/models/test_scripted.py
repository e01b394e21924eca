from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from asking import ask, ask_and_abort, done, failed, prose

from tau_kernel.errors import ConfigError
from tau_kernel.messages import JsonValue
from tau_kernel.models import (
    Model,
    TextDeltaEvent,
    ThinkingDeltaEvent,
    resolve_model,
)

Script: TypeAlias = Callable[..., Model]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Give what writes completions, one a line, and the model that plays them."""

    def write(*completions: dict[str, JsonValue]) -> Model:
        path = tmp_path / "script.jsonl"
        path.write_text("\n\n".join(json.dumps(line) for line in completions))
        return resolve_model(f"scripted:{path}")

    return write


def test_each_request_plays_the_next_line(script: Script) -> None:
    model = script({"text": "one"}, {"text": "two"})
    assert prose(ask(model, "a")) == "one"
    assert prose(ask(model, "b")) == "two"


def test_a_script_that_was_played_says_so(script: Script) -> None:
    model = script({"text": "one"})
    ask(model, "a")
    error = failed(ask(model, "b"))
    assert "exhausted" in error.message
    assert model.source in error.message
    assert not error.retryable


def test_a_changed_script_begins_again(script: Script) -> None:
    model = script({"text": "one"})
    ask(model, "a")
    Path(model.source).write_text('{"text": "changed"}')
    os.utime(model.source, ns=(1, 1))
    assert prose(ask(model, "b")) == "changed"


def test_thinking_comes_before_text_in_chunks_of_the_size_given(script: Script) -> None:
    model = script({"thinking": "hmm", "text": "abcde", "chunk_chars": 2})
    events = ask(model, "a")
    thought = [event.delta for event in events if isinstance(event, ThinkingDeltaEvent)]
    said = [event.delta for event in events if isinstance(event, TextDeltaEvent)]
    assert thought == ["hm", "m"]
    assert said == ["ab", "cd", "e"]


def test_tool_calls_get_ids_of_their_line_and_number(script: Script) -> None:
    model = script({"text": "x"}, {"tool_calls": [{"name": "a"}, {"name": "b"}]})
    ask(model, "go")
    final = done(ask(model, "go")).final
    assert final["stop_reason"] == "toolUse"
    assert [b["id"] for b in final["content"] if b["type"] == "toolCall"] == [
        "call-3-1",
        "call-3-2",
    ]


def test_an_id_that_the_conversation_has_is_not_given_again(script: Script) -> None:
    line: dict[str, JsonValue] = {"tool_calls": [{"name": "a", "arguments": {"n": 1}}]}
    model = script(line)
    first = done(ask(model, "go")).final
    os.utime(model.source, ns=(1, 1))
    second = done(ask(model, "go", first)).final
    ids = [m["content"][0].get("id") for m in (first, second)]
    assert ids == ["call-1-1", "call-1-1-2"]


def test_usage_is_as_scripted_with_its_total(script: Script) -> None:
    model = script({"text": "x", "usage": {"input_tokens": 3, "output_tokens": 4}})
    assert done(ask(model, "a")).usage["total_tokens"] == 7


def test_an_error_follows_the_text_and_tells_whether_to_retry(script: Script) -> None:
    error: dict[str, JsonValue] = {"message": "busy", "status": 503, "retry_after": 2}
    model = script({"text": "Hel", "error": error}, {"error": "refused"})
    events = ask(model, "a")
    assert isinstance(events[0], TextDeltaEvent)
    last = failed(events)
    assert (last.message, last.status, last.retry_after) == ("busy", 503, 2)
    assert last.retryable
    assert not failed(ask(model, "a")).retryable


def test_a_stalled_line_waits_for_the_abort(script: Script) -> None:
    model = script({"text": "Hel", "stall": True})
    events, seconds = ask_and_abort(model, "a", when=threading.Event.wait)
    assert seconds < 0.05
    assert prose(events) == "Hel"
    assert done(events).final["stop_reason"] == "aborted"


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("not json", "no JSON object"),
        ("[1]", "no JSON object"),
        ('{"txet": "a"}', "did you mean 'text'"),
        ('{"text": 1}', "'text'"),
        ('{"tool_calls": [{"arguments": {}}]}', "without a name"),
        ('{"chunk_chars": 0}', "at least 1"),
        ('{"usage": {"input_tokens": "many"}}', "'input_tokens'"),
        ('{"error": {"status": 500}}', "without a message"),
    ],
)
def test_a_bad_line_is_refused_with_file_and_line(
    tmp_path: Path, line: str, part: str
) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(f'{{"text": "good"}}\n{line}\n')
    with pytest.raises(ConfigError) as refusal:
        resolve_model(f"scripted:{path}")
    assert f"{path}:2" in str(refusal.value)
    assert part in str(refusal.value)


def test_a_missing_script_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.jsonl"):
        resolve_model(f"scripted:{tmp_path / 'none.jsonl'}")
