from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tau_kernel.agent import AgentSession, RetryNotice, RetryPolicy
from tau_kernel.errors import CallerError, ModelError
from tau_kernel.messages import message_text
from tau_kernel.models import (
    ErrorEvent,
    Model,
    ModelContext,
    StreamEvent,
    StreamOptions,
)
from tau_kernel.submissions import Submission

if TYPE_CHECKING:
    from .conftest import Kit

AT_ONCE = RetryPolicy(first_wait=0, longest_wait=5, jitter=0)
BUSY = ErrorEvent(message="rate limit\nwait", retryable=True)


@dataclass
class Heard:
    notices: list[tuple[Submission, RetryNotice]] = field(default_factory=list)

    def take(self, *, submission: Submission, notice: RetryNotice) -> None:
        self.notices.append((submission, notice))


def session_of(
    kit: Kit, script: list[list[StreamEvent]], policy: RetryPolicy = AT_ONCE
) -> tuple[AgentSession, Heard, Callable[[], int]]:
    stream = kit.stream(script)
    session = kit.bench.session(stream, retry=policy)
    heard = Heard()
    session.subscribe_channel("retry", heard.take)
    return session, heard, lambda: len(stream.requests)


def ask(kit: Kit, session: AgentSession) -> Any:  # noqa: ANN401
    return asyncio.run(session.submit(kit.bench.submission("hi")))


def test_a_failure_that_passes_is_asked_again_and_told(kit: Kit) -> None:
    session, heard, requests = session_of(kit, [[BUSY], [BUSY], kit.say("hello")])
    result = ask(kit, session)
    assert [message_text(message) for message in result.messages] == ["hello"]
    assert requests() == 3
    assert [notice.attempt for _, notice in heard.notices] == [1, 2]
    submission, notice = heard.notices[0]
    assert (submission.submission_id, notice.reason) == ("hi", "rate limit")


def test_the_last_failure_ends_the_turn(kit: Kit) -> None:
    policy = RetryPolicy(attempts=3, first_wait=0, jitter=0)
    session, heard, requests = session_of(kit, [[BUSY]] * 3, policy)
    with pytest.raises(ModelError, match="rate limit"):
        ask(kit, session)
    assert (requests(), len(heard.notices)) == (3, 2)


def test_a_failure_that_stays_is_not_asked_again(kit: Kit) -> None:
    wrong_key = ErrorEvent(message="no such key")
    session, heard, requests = session_of(kit, [[wrong_key]])
    with pytest.raises(ModelError, match="no such key"):
        ask(kit, session)
    assert (requests(), heard.notices) == (1, [])


def test_nothing_is_asked_again_after_a_token_was_shown(kit: Kit) -> None:
    session, heard, requests = session_of(kit, [[kit.say("Hel")[0], BUSY]])
    with pytest.raises(ModelError, match="rate limit"):
        ask(kit, session)
    assert (requests(), heard.notices) == (1, [])
    assert message_text(session.messages[-1]) == "Hel"


def test_a_server_that_says_when_is_asked_no_earlier(kit: Kit) -> None:
    later = ErrorEvent(message="busy", retryable=True, retry_after=0.01)
    session, heard, _ = session_of(kit, [[later], kit.say("hello")])
    ask(kit, session)
    assert [notice.wait for _, notice in heard.notices] == [0.01]


def test_a_server_that_wants_too_long_a_wait_is_not_waited_for(kit: Kit) -> None:
    much_later = ErrorEvent(message="tomorrow", retryable=True, retry_after=86_400)
    session, heard, requests = session_of(kit, [[much_later]])
    with pytest.raises(ModelError, match="tomorrow"):
        ask(kit, session)
    assert (requests(), heard.notices) == (1, [])


def test_waits_double_up_to_the_longest(kit: Kit) -> None:
    policy = RetryPolicy(attempts=5, first_wait=0.001, longest_wait=0.003, jitter=0)
    session, heard, _ = session_of(kit, [[BUSY]] * 5, policy)
    with pytest.raises(ModelError):
        ask(kit, session)
    waits = [notice.wait for _, notice in heard.notices]
    assert waits == [0.001, 0.002, 0.003, 0.003]


def test_an_abort_ends_the_wait_for_another_request(kit: Kit) -> None:
    policy = RetryPolicy(first_wait=1000, longest_wait=1000, jitter=0)
    session, heard, requests = session_of(kit, [[BUSY]], policy)

    async def scenario() -> None:
        waits = asyncio.Event()
        session.subscribe_channel("retry", lambda **_: waits.set())
        turn = asyncio.ensure_future(session.submit(kit.bench.submission("hi")))
        await asyncio.wait_for(waits.wait(), 5)
        await asyncio.sleep(0)
        session.abort()
        await asyncio.wait_for(turn, 5)

    asyncio.run(scenario())
    assert (requests(), len(heard.notices)) == (1, 1)
    assert kit.bench.events[-1].end_reason == "aborted"


@pytest.mark.parametrize(
    "wrong", [{"attempts": 0}, {"first_wait": -1}, {"longest_wait": -1}]
)
def test_a_policy_that_never_asks_or_waits_backwards_is_refused(
    wrong: dict[str, Any],
) -> None:
    with pytest.raises(CallerError):
        RetryPolicy(**wrong)


def test_a_stream_that_breaks_off_before_its_first_token_is_asked_again(
    kit: Kit,
) -> None:
    asked: list[StreamOptions] = []

    def stream(
        model: Model, context: ModelContext, options: StreamOptions
    ) -> AsyncIterator[StreamEvent]:
        del model, context
        asked.append(options)
        return play([] if len(asked) == 1 else kit.say("hello"))

    async def play(events: list[StreamEvent]) -> AsyncIterator[StreamEvent]:
        for event in events:
            yield event

    session = AgentSession(
        kit.bench.log,
        kit.bench.spec().model,
        stream=stream,
        cwd=Path("/"),
        retry=AT_ONCE,
    )
    assert message_text(ask(kit, session).messages[0]) == "hello"
