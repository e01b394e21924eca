"""A promise about a session's context, for runs that must not be steered by chance.

A policy says in advance how the context stays within the model's window: by a limit of
turns, by a summariser that is named, or by limits whose product fits. It is checked
when it is bound to a model and held to while turns run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias, get_args

from tau_kernel.errors import ConfigError, LimitError
from tau_kernel.messages import JsonObject
from tau_kernel.models import Model

from .compaction_values import CompactionSettings

__all__ = [
    "CompactionMode",
    "CompactionPolicy",
    "CompactionPolicyError",
    "CompactionPolicyViolation",
]

CompactionMode: TypeAlias = Literal["disabled", "local_summarizer", "turn_cap"]

#: The fields that each mode demands, and those that it takes; others are refused.
_DEMANDED: Final[Mapping[str, frozenset[str]]] = {
    "disabled": frozenset({"max_turns"}),
    "local_summarizer": frozenset({"model"}),
    "turn_cap": frozenset({"max_turns", "max_tokens_per_turn"}),
}
_TAKEN: Final[Mapping[str, frozenset[str]]] = {
    "disabled": _DEMANDED["disabled"],
    "local_summarizer": _DEMANDED["local_summarizer"] | {"api_key"},
    "turn_cap": _DEMANDED["turn_cap"],
}
_FIELDS: Final = ("max_turns", "max_tokens_per_turn", "model", "api_key")


class CompactionPolicyError(ConfigError):
    """A policy contradicts itself, or the model that it is bound to."""


class CompactionPolicyViolation(LimitError):  # noqa: N818 - the name callers know
    """A turn would break, or broke, what the policy promises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPolicy:
    """How a session's context stays within its window; see the three factories.

    Args:
        mode: ``disabled``: never compacted, and ended by a number of turns.
            ``local_summarizer``: compacted by a model of its own. ``turn_cap``: never
            compacted, and turns times tokens fit the window.
        max_turns: Turns of the conversation at most, from 1.
        max_tokens_per_turn: Tokens by which one turn may grow the context, from 1.
        model: Writes the summaries.
        api_key: Of that model's provider; it shows nowhere.
        settings: How much is reserved and kept. Its `enabled` follows from the mode.
        context_window: Of the model that the policy is bound to, in tokens; set by
            `bind_to`.
    """

    mode: CompactionMode
    max_turns: int | None = None
    max_tokens_per_turn: int | None = None
    model: Model | None = None
    api_key: str | None = field(default=None, repr=False)
    settings: CompactionSettings = field(default_factory=CompactionSettings)
    context_window: int | None = None

    def __post_init__(self) -> None:
        """Refuse a mode that is unknown, or fields that it does not go with.

        Raises:
            CompactionPolicyError: The message names the mode and the field.
        """
        if self.mode not in _DEMANDED:
            modes = ", ".join(get_args(CompactionMode))
            msg = f"{self.mode!r} is no compaction mode; take one of {modes}"
            raise CompactionPolicyError(msg)
        for name in _FIELDS:
            _check_field(self.mode, name, getattr(self, name))
        enabled = self.mode == "local_summarizer"
        # The one field that the mode decides, whatever the settings that were given.
        settings = replace(self.settings, enabled=enabled)
        object.__setattr__(self, "settings", settings)

    @classmethod
    def disabled(
        cls, *, max_turns: int, settings: CompactionSettings | None = None
    ) -> CompactionPolicy:
        """Never compact; a conversation ends after so many turns."""
        return cls(
            mode="disabled",
            max_turns=max_turns,
            settings=settings or CompactionSettings(),
        )

    @classmethod
    def local_summarizer(
        cls,
        *,
        model: Model,
        api_key: str | None = None,
        settings: CompactionSettings | None = None,
    ) -> CompactionPolicy:
        """Compact by itself, with summaries that `model` writes."""
        return cls(
            mode="local_summarizer",
            model=model,
            api_key=api_key,
            settings=settings or CompactionSettings(),
        )

    @classmethod
    def turn_cap(
        cls,
        *,
        max_turns: int,
        max_tokens_per_turn: int,
        settings: CompactionSettings | None = None,
    ) -> CompactionPolicy:
        """Never compact; so many turns of so many tokens fit the window."""
        return cls(
            mode="turn_cap",
            max_turns=max_turns,
            max_tokens_per_turn=max_tokens_per_turn,
            settings=settings or CompactionSettings(),
        )

    def bind_to(self, model: Model) -> CompactionPolicy:
        """Check the policy against the session's model and give it bound.

        Raises:
            CompactionPolicyError: The window is no larger than the reserve, the
                summariser's is smaller than the session's, or the turns that the
                policy allows do not fit.
        """
        window, reserve = model.context_window, self.settings.reserve_tokens
        room = window - reserve
        if room <= 0:
            msg = (
                f"model {model.name!r} has a window of {window:,} tokens, all of it in "
                f"the reserve of {reserve:,}\n"
                "Take a model with a larger window, or a smaller reserve_tokens."
            )
            raise CompactionPolicyError(msg)
        if self.model is not None and self.model.context_window < window:
            msg = (
                f"the summariser {self.model.name!r} has a window of "
                f"{self.model.context_window:,} tokens, less than the {window:,} of "
                f"{model.name!r}\nTake a summariser that can read what it summarises."
            )
            raise CompactionPolicyError(msg)
        if self.mode == "turn_cap":
            self._check_product(model, room)
        return replace(self, context_window=window)

    def admit_turn(self, turns: int) -> None:
        """Refuse another turn where the policy allows no more.

        Args:
            turns: How many the conversation has.

        Raises:
            CompactionPolicyViolation: It has as many as it may have.
        """
        if self.max_turns is None or turns < self.max_turns:
            return
        msg = (
            f"the conversation has {turns} turns, and its compaction policy "
            f"{self.mode!r} allows {self.max_turns}\nBegin another conversation, or "
            "branch from an earlier turn of this one."
        )
        raise CompactionPolicyViolation(msg, limit="max_turns", scope="session")

    def observe_context(self, tokens: int, *, before: int | None = None) -> None:
        """Hold a turn that ended to what the policy promises.

        Args:
            tokens: The size of the context after the turn.
            before: Its size before, if the growth is to be checked.

        Raises:
            CompactionPolicyError: The policy is not bound to a model.
            CompactionPolicyViolation: Nothing compacts the context, and it takes more
                than the window has room for, or grew by more than a turn may.
        """
        if self.context_window is None:
            msg = f"the policy {self.mode!r} is not bound; call bind_to(model) first"
            raise CompactionPolicyError(msg)
        if self.mode == "local_summarizer":
            return
        room = self.context_window - self.settings.reserve_tokens
        if tokens > room:
            msg = (
                f"the context takes {tokens:,} tokens, and the window has room for "
                f"{room:,}; the policy {self.mode!r} does not compact it"
            )
            raise CompactionPolicyViolation(msg, scope="session")
        most = self.max_tokens_per_turn
        if most is not None and before is not None and tokens - before > most:
            msg = (
                f"the turn grew the context by {tokens - before:,} tokens, and the "
                f"policy {self.mode!r} allows {most:,}"
            )
            raise CompactionPolicyViolation(
                msg, limit="max_tokens_per_turn", scope="session"
            )

    def to_manifest(self) -> JsonObject:
        """Give the policy as JSON for the record of a run; no key is in it."""
        model = self.model
        return {
            "mode": self.mode,
            "max_turns": self.max_turns,
            "max_tokens_per_turn": self.max_tokens_per_turn,
            "summarizer": None
            if model is None
            else {
                "id": model.id,
                "provider": model.provider,
                "context_window": model.context_window,
            },
            "reserve_tokens": self.settings.reserve_tokens,
            "keep_recent_tokens": self.settings.keep_recent_tokens,
            "context_window": self.context_window,
        }

    def _check_product(self, model: Model, room: int) -> None:
        assert self.max_turns is not None, "the mode demands it"
        assert self.max_tokens_per_turn is not None, "the mode demands it"
        product = self.max_turns * self.max_tokens_per_turn
        if product <= room:
            return
        msg = (
            f"{self.max_turns} turns of {self.max_tokens_per_turn:,} tokens are "
            f"{product:,}, and model {model.name!r} has room for {room:,} beside its "
            "reserve\nLower max_turns or max_tokens_per_turn."
        )
        raise CompactionPolicyError(msg)


def _check_field(mode: CompactionMode, name: str, value: object) -> None:
    if value is None:
        if name in _DEMANDED[mode]:
            msg = f"the policy {mode!r} needs {name}; give it to its factory"
            raise CompactionPolicyError(msg)
        return
    if name not in _TAKEN[mode]:
        msg = f"the policy {mode!r} takes no {name}; leave it out"
        raise CompactionPolicyError(msg)
    if isinstance(value, int) and value < 1:
        msg = f"{name} of the policy {mode!r} is {value!r}; give 1 or more"
        raise CompactionPolicyError(msg)
