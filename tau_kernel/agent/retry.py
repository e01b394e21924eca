"""Asking a provider again after a failure that may pass."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from tenacity import AsyncRetrying, RetryCallState, stop_after_attempt
from tenacity.wait import wait_exponential, wait_random

from tau_kernel.errors import CallerError, ModelError

__all__ = ["Announce", "RetryNotice", "RetryPolicy", "ask_again"]

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often a request is made again, and how long it waits before that.

    Args:
        attempts: Requests in all, from 1; 1 never tries again.
        first_wait: Seconds before the second request; each later wait is twice the
            one before, with up to `jitter` seconds on top.
        longest_wait: Seconds that no wait exceeds. A provider that asks for more is
            not waited for: its failure ends the turn at once.
        jitter: Seconds; many kernels that failed together shall not come back so.
    """

    attempts: int = 5
    first_wait: float = 1.0
    longest_wait: float = 60.0
    jitter: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what would never ask, or wait backwards."""
        if self.attempts < 1:
            msg = f"attempts is {self.attempts!r}; give 1 or more"
            raise CallerError(msg)
        if min(self.first_wait, self.longest_wait, self.jitter) < 0:
            msg = f"a wait of {self!r} is negative; give seconds from 0"
            raise CallerError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryNotice:
    """That a request failed and will be made again.

    Args:
        attempt: The request that failed, from 1.
        attempts: How many there are at most.
        wait: Seconds until the next one.
        reason: What the provider said, on one line.
    """

    attempt: int
    attempts: int
    wait: float
    reason: str


Announce = Callable[[RetryNotice], Awaitable[None]]


async def ask_again(
    ask: Callable[[], Awaitable[_Result]],
    policy: RetryPolicy,
    announce: Announce,
    *,
    is_untouched: Callable[[], bool] = lambda: True,
) -> _Result:
    """Make a request, and make it again while its failure may pass.

    Cancelling this call ends a wait as well as a request.

    Args:
        ask: Makes the request.
        policy: How often, and how long to wait.
        announce: Told before each wait, and waited for.
        is_untouched: Whether nothing of a failed answer was shown; what was shown
            cannot be taken back, so that its request is not made again.

    Raises:
        ModelError: The last request failed, or one in a way that does not pass.
    """

    def may_pass(state: RetryCallState) -> bool:
        error = _failure(state)
        return (
            isinstance(error, ModelError)
            and error.retryable
            and (error.retry_after or 0) <= policy.longest_wait
            and is_untouched()
        )

    async def tell(state: RetryCallState) -> None:
        assert state.next_action is not None, "tenacity waits before an attempt"
        await announce(
            RetryNotice(
                attempt=state.attempt_number,
                attempts=policy.attempts,
                wait=state.next_action.sleep,
                reason=str(_failure(state)).partition("\n")[0],
            )
        )

    backoff = wait_exponential(multiplier=policy.first_wait) + wait_random(
        0, policy.jitter
    )

    def wait(state: RetryCallState) -> float:
        error = _failure(state)
        told = error.retry_after if isinstance(error, ModelError) else None
        # A server that says when is believed, and never asked earlier.
        return min(backoff(state), policy.longest_wait) if told is None else told

    retrying = AsyncRetrying(
        stop=stop_after_attempt(policy.attempts),
        retry=may_pass,
        wait=wait,
        before_sleep=tell,
        reraise=True,
    )
    result: _Result = await retrying(ask)
    return result


def _failure(state: RetryCallState) -> BaseException | None:
    return None if state.outcome is None else state.outcome.exception()
