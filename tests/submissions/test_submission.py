from __future__ import annotations

import asyncio
import contextvars
import uuid
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, fields
from typing import Any, TypeVar, cast

import pytest

from tau_kernel.errors import CallerError
from tau_kernel.messages import JsonObject, dump_line, load_line
from tau_kernel.submissions import (
    DRIVING_SUBMISSION_DEPTH,
    MAX_SUBMISSION_DEPTH,
    SUBMISSION_ALLOWS_USER_INPUT,
    Submission,
    SubmissionResult,
    next_submission_depth,
    user_input_permitted,
)

Result = TypeVar("Result")
#: One that sets each field to something other than its default.
FULL = Submission(
    text="hi",
    source="bus",
    submitter="cron",
    submission_id="s-1",
    images=[{"type": "image", "data": "AA==", "mime_type": "image/png"}],
    multitask_strategy="steer",
    expand_commands=True,
    allow_user_input=True,
    store_history=False,
    silent=True,
    correlation={"bus": {"subject": "x", "ids": [1, 2.5, None, True]}},
    depth=3,
)


def elsewhere(work: Callable[[], Result]) -> Result:
    """Run in a context of its own, so that no variable leaks into other tests."""
    return contextvars.copy_context().run(work)


def with_correlation(correlation: object) -> Submission:
    return Submission(
        text="hi",
        source="rpc",
        submitter="human",
        submission_id="s",
        correlation=cast("JsonObject", correlation),
    )


def test_a_submission_is_careful_unless_told_otherwise() -> None:
    made = Submission("hi", "rpc", "human", uuid.UUID(int=0).hex)
    assert asdict(made) == {
        "text": "hi",
        "source": "rpc",
        "submitter": "human",
        "submission_id": "0" * 32,
        "images": None,
        "multitask_strategy": "reject",
        "expand_commands": False,
        "allow_user_input": False,
        "store_history": True,
        "silent": False,
        "correlation": {},
        "depth": 0,
    }


def test_a_submission_cannot_be_changed() -> None:
    name = "text"
    with pytest.raises(FrozenInstanceError):
        setattr(FULL, name, "other")


def test_silence_implies_that_nothing_is_kept() -> None:
    made = Submission("hi", "rpc", "human", "s", silent=True, store_history=True)
    assert not made.store_history


def test_a_submission_survives_the_way_through_json() -> None:
    defaults = {
        spec.name: spec.default for spec in fields(Submission) if spec.name != "text"
    }
    assert all(getattr(FULL, name) != value for name, value in defaults.items())
    record = load_line(dump_line(asdict(FULL)))
    build = cast("Callable[..., Submission]", Submission)
    assert build(**record) == FULL


@pytest.mark.parametrize(
    ("correlation", "fault"),
    [
        ({"bus": {"msg": (1, 2)}}, r"correlation\['bus'\]\['msg'\] is a tuple"),
        ({"ids": [1, {2}]}, r"correlation\['ids'\]\[1\] is a set"),
        ({"raw": b"x"}, r"correlation\['raw'\] is a bytes"),
        ({"who": object()}, r"correlation\['who'\] is a object"),
        ({1: "x"}, r"correlation has the key 1"),
        ({"a": [{2: "x"}]}, r"correlation\['a'\]\[0\] has the key 2"),
        ((), r"correlation is a tuple"),
    ],
)
def test_a_correlation_that_is_no_json_is_refused_with_its_place(
    correlation: object, fault: str
) -> None:
    with pytest.raises(CallerError, match=fault):
        with_correlation(correlation)


@pytest.mark.parametrize("value", [None, True, 0, 1.5, "x", [], {}, [[{"a": None}]]])
def test_a_correlation_of_plain_json_is_taken_as_it_is(value: object) -> None:
    assert with_correlation({"k": value}).correlation == {"k": value}


def test_results_do_not_share_their_messages() -> None:
    first = SubmissionResult(accepted=True, submission_id="a")
    second = SubmissionResult(accepted=True, submission_id="b")
    assert (first.messages, first.rejection_reason) == ([], None)
    assert first.messages is not second.messages


def test_outside_of_turns_a_submission_is_as_deep_as_it_says() -> None:
    assert [next_submission_depth(), next_submission_depth(4)] == [0, 4]


@pytest.mark.parametrize(
    ("driving", "declared", "depth"), [(0, 0, 1), (3, 0, 4), (3, 9, 9), (10, 0, 11)]
)
def test_within_a_turn_a_submission_is_deeper_than_the_one_that_drives_it(
    driving: int, declared: int, depth: int
) -> None:
    def derive() -> int:
        DRIVING_SUBMISSION_DEPTH.set(driving)
        return next_submission_depth(declared)

    assert elsewhere(derive) == depth


def test_the_limit_of_depth_is_ten() -> None:
    assert MAX_SUBMISSION_DEPTH == 10


@pytest.mark.parametrize(
    ("allowed", "permitted"), [(None, True), (True, True), (False, False)]
)
def test_a_person_may_be_asked_unless_the_submission_forbids_it(
    allowed: bool | None, permitted: bool
) -> None:
    def look() -> bool:
        SUBMISSION_ALLOWS_USER_INPUT.set(allowed)
        return user_input_permitted()

    assert elsewhere(look) == permitted


def test_a_task_inherits_the_turn_that_started_it() -> None:
    async def look() -> tuple[int, bool]:
        return next_submission_depth(), user_input_permitted()

    async def turn() -> Any:  # noqa: ANN401 - what the task gives
        depth = DRIVING_SUBMISSION_DEPTH.set(2)
        asks = SUBMISSION_ALLOWS_USER_INPUT.set(False)
        task = asyncio.create_task(look())
        SUBMISSION_ALLOWS_USER_INPUT.reset(asks)
        DRIVING_SUBMISSION_DEPTH.reset(depth)
        return await task, await look()

    assert asyncio.run(turn()) == ((3, False), (0, True))
