from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from tau_kernel.agent import (
    CompactionPolicy,
    CompactionPolicyError,
    CompactionPolicyViolation,
    CompactionSettings,
)
from tau_kernel.errors import ConfigError, LimitError
from tau_kernel.models import ApiKey, Model

MODEL = Model(id="m", name="mine", api="echo", provider="p", context_window=20_000)
SMALL = CompactionSettings(reserve_tokens=10_000, keep_recent_tokens=1000)


def _cap(turns: int, tokens: int) -> CompactionPolicy:
    return CompactionPolicy.turn_cap(
        max_turns=turns, max_tokens_per_turn=tokens, settings=SMALL
    )


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: CompactionPolicy(mode="disabled"), "needs max_turns"),
        (lambda: CompactionPolicy(mode="local_summarizer"), "needs model"),
        (
            lambda: CompactionPolicy(mode="turn_cap", max_turns=1),
            "needs max_tokens_per_turn",
        ),
        (
            lambda: CompactionPolicy(mode="disabled", max_turns=1, model=MODEL),
            "takes no model",
        ),
        (
            lambda: CompactionPolicy(mode="disabled", max_turns=1, api_key="k"),
            "takes no api_key",
        ),
        (
            lambda: CompactionPolicy(mode="local_summarizer", model=MODEL, max_turns=1),
            "takes no max_turns",
        ),
        (
            lambda: CompactionPolicy(
                mode="local_summarizer", model=MODEL, max_tokens_per_turn=1
            ),
            "takes no max_tokens_per_turn",
        ),
        (lambda: CompactionPolicy.disabled(max_turns=0), "max_turns .* is 0"),
        (lambda: _cap(1, -5), "max_tokens_per_turn .* is -5"),
        (
            lambda: CompactionPolicy(mode="never"),  # type: ignore[arg-type] # refused
            "'never' is no compaction mode",
        ),
    ],
)
def test_a_policy_takes_the_fields_of_its_mode_and_no_other(
    make: Callable[[], CompactionPolicy], named: str
) -> None:
    with pytest.raises(CompactionPolicyError, match=named):
        make()


@pytest.mark.parametrize(
    ("policy", "enabled"),
    [
        (CompactionPolicy.disabled(max_turns=3), False),
        (_cap(3, 3), False),
        (CompactionPolicy.local_summarizer(model=MODEL), True),
    ],
)
def test_the_mode_decides_whether_contexts_are_compacted(
    policy: CompactionPolicy, enabled: bool
) -> None:
    assert policy.settings.enabled is enabled


def test_a_window_must_exceed_the_reserve() -> None:
    policy = CompactionPolicy.disabled(max_turns=3, settings=SMALL)
    assert policy.bind_to(MODEL).context_window == 20_000
    with pytest.raises(CompactionPolicyError, match="10,000 tokens, all of it"):
        policy.bind_to(replace(MODEL, context_window=10_000))


def test_a_summariser_must_be_able_to_read_what_it_summarises() -> None:
    policy = CompactionPolicy.local_summarizer(model=MODEL, settings=SMALL)
    policy.bind_to(MODEL)
    with pytest.raises(CompactionPolicyError, match="less than the 20,001"):
        policy.bind_to(replace(MODEL, context_window=20_001))


def test_turns_times_tokens_must_fit() -> None:
    _cap(10, 1000).bind_to(MODEL)
    with pytest.raises(CompactionPolicyError, match="are 11,000"):
        _cap(11, 1000).bind_to(MODEL)


@pytest.mark.parametrize(
    "policy", [CompactionPolicy.disabled(max_turns=2), _cap(2, 10)]
)
def test_the_last_turn_is_admitted_and_no_other(policy: CompactionPolicy) -> None:
    policy.admit_turn(0)
    policy.admit_turn(1)
    with pytest.raises(CompactionPolicyViolation, match="has 2 turns") as refusal:
        policy.admit_turn(2)
    assert (refusal.value.limit, refusal.value.scope) == ("max_turns", "session")


def test_a_summariser_sets_no_limit_to_turns_or_context() -> None:
    policy = CompactionPolicy.local_summarizer(model=MODEL, settings=SMALL)
    policy.admit_turn(10_000)
    policy.bind_to(MODEL).observe_context(1_000_000)


def test_a_context_beyond_its_room_breaks_the_promise() -> None:
    policy = CompactionPolicy.disabled(max_turns=2, settings=SMALL).bind_to(MODEL)
    policy.observe_context(10_000)
    with pytest.raises(CompactionPolicyViolation, match="takes 10,001 tokens"):
        policy.observe_context(10_001)


def test_a_turn_that_grows_too_much_breaks_the_promise() -> None:
    policy = _cap(10, 1000).bind_to(MODEL)
    policy.observe_context(1500, before=500)
    policy.observe_context(1500)
    with pytest.raises(CompactionPolicyViolation, match="by 1,001 tokens"):
        policy.observe_context(1501, before=500)


def test_an_unbound_policy_cannot_judge_a_context() -> None:
    with pytest.raises(CompactionPolicyError, match="not bound"):
        _cap(1, 1).observe_context(0)


def test_the_manifest_tells_all_but_the_key() -> None:
    model = replace(MODEL, api_key=ApiKey("secret-of-model"))
    policy = CompactionPolicy.local_summarizer(
        model=model, api_key="secret", settings=SMALL
    ).bind_to(MODEL)
    manifest = policy.to_manifest()
    assert manifest == {
        "mode": "local_summarizer",
        "max_turns": None,
        "max_tokens_per_turn": None,
        "summarizer": {"id": "m", "provider": "p", "context_window": 20_000},
        "reserve_tokens": 10_000,
        "keep_recent_tokens": 1000,
        "context_window": 20_000,
    }
    assert "secret" not in json.dumps(manifest) + repr(policy)
    assert _cap(1, 2).to_manifest()["summarizer"] is None


def test_misuse_is_of_the_configuration_and_a_violation_is_a_limit() -> None:
    assert issubclass(CompactionPolicyError, ConfigError)
    assert issubclass(CompactionPolicyViolation, LimitError)
