from __future__ import annotations

import pytest
from conversations import say

from tau_kernel.agent import (
    CompactionSettings,
    estimate_context_tokens,
    estimate_path_tokens,
    should_compact,
)
from tau_kernel.errors import CallerError
from tau_kernel.messages import (
    AssistantMessage,
    Message,
    Usage,
    system_message,
    user_message,
    zero_usage,
)
from tau_kernel.tree import InMemorySessionLog, copy_of


def _stopped(reason: str) -> AssistantMessage:
    message = say("half", total=900)
    message["stop_reason"] = reason  # type: ignore[typeddict-item] # one of its values
    return message


def _log_of(*messages: Message) -> InMemorySessionLog:
    log = InMemorySessionLog()
    for message in messages:
        log.append_message(message)
    return log


def _path_tokens(log: InMemorySessionLog) -> int:
    return estimate_path_tokens(log.view().context_entries(log.cursor)).tokens


def test_the_newest_count_and_an_estimate_of_the_rest_make_the_size() -> None:
    messages: list[Message] = [
        user_message("q"),
        say("a", total=100),
        user_message("q"),
        say("a", total=500),
        user_message("12345678"),
    ]
    estimate = estimate_context_tokens(messages)
    assert (estimate.tokens, estimate.usage_tokens) == (502, 500)
    assert (estimate.trailing_tokens, estimate.last_usage_index) == (2, 3)


def test_the_parts_are_added_up_where_a_provider_gives_no_sum() -> None:
    message = say("a")
    message["usage"] = Usage(
        input_tokens=1, output_tokens=2, cache_read_tokens=3, cache_write_tokens=4
    ).to_dict()
    assert estimate_context_tokens([message]).tokens == 10


@pytest.mark.parametrize(
    "unusable",
    [say("half"), say("half", total=0), _stopped("error"), _stopped("aborted")],
)
def test_an_answer_that_counted_nothing_is_no_anchor(unusable: Message) -> None:
    messages = [user_message("q"), say("a", total=100), unusable]
    estimate = estimate_context_tokens(messages)
    assert (estimate.usage_tokens, estimate.last_usage_index) == (100, 1)
    assert estimate.tokens == 101


def test_without_a_count_everything_is_estimated() -> None:
    estimate = estimate_context_tokens([system_message("1234"), user_message("1234")])
    assert estimate.tokens == estimate.trailing_tokens == 2
    assert estimate.last_usage_index is None
    assert say("a")["usage"] != zero_usage()


@pytest.mark.parametrize("kind", ["compaction", "elide"])
def test_a_count_from_before_an_anchor_is_not_used(kind: str) -> None:
    log = _log_of(user_message("q1"))
    kept = log.append_message(say("12345678", total=90_000))
    assert _path_tokens(log) == 90_000
    if kind == "compaction":
        log.append_compaction(
            "S",
            kept,
            1,
            summarizer_model_id="m",
            summary_usage={},
            covered_entries=1,
            covered_tokens=1,
            agent_spec_id=None,
        )
    else:
        log.append_elide(kept, covered_entries=1, covered_tokens=1, agent_spec_id=None)
    assert _path_tokens(log) < 20
    log.append_message(user_message("q2"))
    log.append_message(say("a2", total=50))
    assert _path_tokens(log) == 50


def test_a_copys_count_is_of_another_context() -> None:
    log = _log_of(user_message("q1"), say("a1", total=90_000))
    root, source = log.view()
    copied = log.append_at(root["id"], *copy_of(source))
    log.append_navigate(copied)
    assert _path_tokens(log) < 20


def test_what_is_sent_first_counts_unless_a_provider_counted_it() -> None:
    log = _log_of(user_message("1234"))
    entries = log.view().context_entries(log.cursor)
    preamble = [system_message("12345678")]
    assert estimate_path_tokens(entries, preamble=preamble).tokens == 3
    log.append_message(say("a", total=50))
    entries = log.view().context_entries(log.cursor)
    assert estimate_path_tokens(entries, preamble=preamble).tokens == 50


@pytest.mark.parametrize(
    ("tokens", "enabled", "expected"),
    [(900, True, False), (901, True, True), (901, False, False)],
)
def test_a_context_is_compacted_when_it_reaches_into_the_reserve(
    tokens: int, enabled: bool, expected: bool
) -> None:
    settings = CompactionSettings(enabled=enabled, reserve_tokens=100)
    assert should_compact(tokens, 1000, settings) is expected


def test_the_settings_are_the_documented_ones() -> None:
    settings = CompactionSettings()
    assert settings.enabled
    assert (settings.reserve_tokens, settings.keep_recent_tokens) == (16384, 20000)


@pytest.mark.parametrize("name", ["reserve_tokens", "keep_recent_tokens"])
def test_negative_settings_are_refused(name: str) -> None:
    with pytest.raises(CallerError, match=f"{name} is -1"):
        CompactionSettings(**{name: -1})  # type: ignore[arg-type] # an int either way


@pytest.mark.parametrize(
    ("window", "kept"), [(128_000, 20_000), (26_384, 5000), (8192, 2048)]
)
def test_what_is_kept_leaves_room_in_the_window(window: int, kept: int) -> None:
    assert CompactionSettings().fitted_to(window).keep_recent_tokens == kept


@pytest.mark.parametrize(
    ("window", "reserved", "kept"),
    [(128_000, 16_384, 20_000), (32_768, 16_384, 8192), (8192, 2048, 3072)],
)
def test_a_small_window_has_a_smaller_reserve_unless_told(
    window: int, reserved: int, kept: int
) -> None:
    settings = CompactionSettings.for_window(window)
    assert (settings.reserve_tokens, settings.keep_recent_tokens) == (reserved, kept)
