"""What a submission and a session may spend, and the accounts that hold them to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, Protocol, TypeAlias, cast

from tau_kernel.errors import CallerError, LimitError
from tau_kernel.messages import UsageDict
from tau_kernel.models import Model
from tau_kernel.tree import EntryDict

__all__ = [
    "Account",
    "Budget",
    "LimitScope",
    "Limits",
    "OwnAccount",
    "Spending",
    "cost_of",
    "spent_in",
]

LimitScope: TypeAlias = Literal["submission", "session"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much may be spent; None for no limit.

    Args:
        max_turns: Completions, from 1.
        max_tokens: Tokens that models wrote, thinking included, from 1.
        max_cost: US dollars, above 0.
    """

    max_turns: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None

    def __post_init__(self) -> None:
        """Refuse a limit that lets nothing through."""
        for name in ("max_turns", "max_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                msg = f"{name} is {value!r}; give 1 or more, or None for no limit"
                raise CallerError(msg)
        if self.max_cost is not None and self.max_cost <= 0:
            msg = (
                f"max_cost is {self.max_cost!r}; give US dollars above 0, or None for "
                "no limit"
            )
            raise CallerError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """What completions took.

    Args:
        turns: How many there were.
        tokens: Tokens that they wrote.
        cost: US dollars, as far as known.
        unpriced: A model whose completions told no price, if there was one.
    """

    turns: int = 0
    tokens: int = 0
    cost: float = 0.0
    unpriced: str | None = None

    def plus(self, usage: Mapping[str, object], *, unpriced: str | None) -> Spending:
        """Give the sum with one more completion.

        Args:
            usage: Its record, as a message carries it.
            unpriced: The model's name, if its price should be there and is not.
        """
        tokens = usage.get("output_tokens")
        return replace(
            self,
            turns=self.turns + 1,
            tokens=self.tokens + (tokens if isinstance(tokens, int) else 0),
            cost=self.cost + (cost_of(usage) or 0.0),
            unpriced=self.unpriced or unpriced,
        )


def cost_of(usage: Mapping[str, object]) -> float | None:
    """Give what a completion cost in US dollars; None where nothing is known."""
    cost = usage.get("cost")
    if not isinstance(cost, Mapping) or not cost:
        return None
    total = cost.get("total")
    return float(sum(cost.values()) if total is None else total)


def spent_in(entries: Iterable[EntryDict]) -> Spending:
    """Add up what the completions of a stored conversation took, on every branch."""
    spent = Spending()
    for entry in entries:
        usage: object = None
        if entry["type"] == "message" and entry["message"]["role"] == "assistant":
            usage = entry["message"]["usage"]
        elif entry["type"] == "compaction":
            usage = entry.get("summaryUsage")
        if isinstance(usage, Mapping):
            spent = spent.plus(usage, unpriced=None)
    return spent


_SUBJECTS: Final[Mapping[LimitScope, str]] = {
    "submission": "this prompt",
    "session": "this conversation",
}


class Account(Protocol):
    """Where the spending of a whole session is added up."""

    @property
    def spending(self) -> Spending:
        """All of it so far."""

    def record(self, usage: UsageDict, model: Model) -> None:
        """Add a completion."""


class OwnAccount:
    """An account that one submission has to itself."""

    def __init__(self, spent: Spending | None = None) -> None:
        """Start with what was `spent` before."""
        self._spending = spent or Spending()

    @property
    def spending(self) -> Spending:
        """All of it so far."""
        return self._spending

    def record(self, usage: UsageDict, model: Model) -> None:
        """Add a completion."""
        self.add(usage, model)

    def add(self, usage: UsageDict | Mapping[str, int], model: Model | None) -> None:
        """Add a completion whose model may not matter."""
        # A TypedDict is a Mapping, which it cannot say.
        record = cast("Mapping[str, object]", usage)
        is_priced = model is None or model.is_free or cost_of(record) is not None
        unpriced = None if is_priced or model is None else model.name
        self._spending = self._spending.plus(record, unpriced=unpriced)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Holds one submission to its own limits and to those of its session.

    Args:
        own: Of the submission. Its `max_turns` is the loop's affair.
        session: Of the session.
        account: The session's.
    """

    own: Limits = field(default_factory=Limits)
    session: Limits = field(default_factory=Limits)
    account: Account = field(default_factory=OwnAccount)
    _own_account: OwnAccount = field(default_factory=OwnAccount)

    def record(self, usage: UsageDict, model: Model) -> None:
        """Add what a completion of the submission took."""
        self._own_account.record(usage, model)
        self.account.record(usage, model)

    def check(self) -> None:
        """Refuse another completion where a limit is met.

        Raises:
            LimitError: It is; the message names it, and what was spent.
        """
        _check("submission", self.own, self._own_account.spending)
        _check("session", self.session, self.account.spending)

    def answer_tokens(self) -> int | None:
        """Give the tokens that the next answer may have; None if no limit says."""
        left = [
            limits.max_tokens - spent.tokens
            for limits, spent in (
                (self.own, self._own_account.spending),
                (self.session, self.account.spending),
            )
            if limits.max_tokens is not None
        ]
        return max(min(left), 1) if left else None


def _check(scope: LimitScope, limits: Limits, spent: Spending) -> None:
    subject = _SUBJECTS[scope]
    if limits.max_cost is not None:
        if spent.unpriced is not None:
            msg = (
                f"{subject} has max_cost={limits.max_cost:g}, and model "
                f"{spent.unpriced!r} tells no price\n"
                "give its prices in the configuration, or take the limit away"
            )
            raise LimitError(msg, limit="max_cost", scope=scope)
        if spent.cost >= limits.max_cost:
            raise _met(scope, "max_cost", f"{spent.cost:.4f} US dollars", limits)
    if limits.max_tokens is not None and spent.tokens >= limits.max_tokens:
        raise _met(scope, "max_tokens", f"{spent.tokens:,} tokens", limits)
    if limits.max_turns is not None and spent.turns >= limits.max_turns:
        raise _met(scope, "max_turns", f"{spent.turns:,} completions", limits)


def _met(scope: LimitScope, name: str, used: str, limits: Limits) -> LimitError:
    return LimitError(
        f"{_SUBJECTS[scope]} took {used}, and its limit is "
        f"{name}={getattr(limits, name):g}; what was answered is kept",
        limit=name,
        scope=scope,
    )
