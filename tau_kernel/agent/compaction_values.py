"""What compaction is told and what it gives: settings, results, records, its error."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from tau_kernel.errors import CallerError, TauError
from tau_kernel.messages import Message, UsageDict

from .context_usage import ContextUsageEstimate

__all__ = [
    "CompactionDetails",
    "CompactionError",
    "CompactionErrorCode",
    "CompactionPreparation",
    "CompactionRecord",
    "CompactionResult",
    "CompactionSettings",
    "SessionStats",
    "should_compact",
]

CompactionErrorCode: TypeAlias = Literal[
    "aborted", "summarization_failed", "invalid_session"
]

#: What is kept must leave room to grow, or each turn would end in a compaction.
_KEPT_SHARE: Final = 2


class CompactionError(TauError, RuntimeError):
    """A compaction did not come about; the conversation is as it was.

    Attributes:
        code: ``aborted``, ``summarization_failed`` (the model's fault) or
            ``invalid_session`` (the conversation cannot be cut, or moved meanwhile).
    """

    def __init__(self, message: str, *, code: CompactionErrorCode) -> None:
        """Keep which kind of failure it was."""
        super().__init__(message)
        self.code: CompactionErrorCode = code


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionSettings:
    """When a conversation is compacted, and how much of it stays as it is.

    Args:
        enabled: Whether it happens by itself when a turn ends.
        reserve_tokens: Tokens of the window that are kept free for what comes; the
            summary is written within them.
        keep_recent_tokens: Tokens at the end of the conversation that stay word for
            word, roughly.
    """

    enabled: bool = True
    reserve_tokens: int = 16_384
    keep_recent_tokens: int = 20_000

    def __post_init__(self) -> None:
        """Refuse negative numbers of tokens."""
        for name in ("reserve_tokens", "keep_recent_tokens"):
            value = getattr(self, name)
            if value < 0:
                msg = f"{name} is {value!r}; give a number of tokens from 0"
                raise CallerError(msg)

    @classmethod
    def for_window(cls, context_window: int) -> CompactionSettings:
        """Give the settings that a session has unless it is told others.

        A reserve that would take more than half of the window is a quarter of it.
        """
        settings = cls()
        if 2 * settings.reserve_tokens > context_window:
            settings = replace(settings, reserve_tokens=context_window // 4)
        return settings.fitted_to(context_window)

    def fitted_to(self, context_window: int) -> CompactionSettings:
        """Give these settings with at most half of what a window has room for kept.

        Otherwise what is kept could by itself be enough for the next compaction. A
        window that the reserve takes whole is halved for it.
        """
        room = max(context_window - self.reserve_tokens, 0) or context_window // 2
        most = room // _KEPT_SHARE
        return replace(self, keep_recent_tokens=min(self.keep_recent_tokens, most))


def should_compact(
    context_tokens: int, context_window: int, settings: CompactionSettings
) -> bool:
    """Whether a context of so many tokens leaves too little of its window free."""
    most = context_window - settings.reserve_tokens
    return settings.enabled and context_tokens > most


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionDetails:
    """The files that summarised tool calls touched, sorted.

    Args:
        read_files: Read and not modified.
        modified_files: Written or edited.
    """

    read_files: tuple[str, ...] = ()
    modified_files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPreparation:
    """What a compaction would do, before a model is asked.

    Args:
        first_kept_entry_id: Where the context will resume.
        messages_to_summarize: Whole turns that go, oldest first.
        turn_prefix_messages: The start of the turn that the cut divides.
        previous_summary: What an earlier compaction wrote, without its file lists.
        details: The files of all that goes, those of earlier compactions included.
        tokens_before: Size of the context, in tokens.
        compacted_entry_ids: The entries that leave the context.
        covered_tokens: Their size, in tokens.
        settings: What it was prepared with.
    """

    first_kept_entry_id: str
    messages_to_summarize: tuple[Message, ...]
    turn_prefix_messages: tuple[Message, ...]
    previous_summary: str | None
    details: CompactionDetails
    tokens_before: int
    compacted_entry_ids: tuple[str, ...]
    covered_tokens: int
    settings: CompactionSettings

    @property
    def is_split_turn(self) -> bool:
        """Whether the cut divides a turn."""
        return bool(self.turn_prefix_messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionResult:
    """What a compaction did.

    Args:
        summary: What stands for the entries that left the context.
        first_kept_entry_id: Where the context resumes.
        tokens_before: Size of the context before, in tokens.
        details: The files that the summary lists.
        compacted_entry_ids: The entries that left the context.
        tokens_saved: Estimated tokens by which the context shrank; below zero where
            the summary is longer than what it stands for.
        usage: What writing the summary cost.
    """

    summary: str
    first_kept_entry_id: str
    tokens_before: int
    details: CompactionDetails
    compacted_entry_ids: tuple[str, ...]
    tokens_saved: int
    usage: UsageDict


@dataclass(frozen=True, slots=True)
class CompactionRecord:
    """A compaction entry of the log, read back.

    Args:
        id: The entry's id.
        timestamp: When it was appended, ISO 8601.
        summary: What it says.
        first_kept_id: Where the context resumes.
        tokens_before: Size of the context that was compacted; None if not recorded.
    """

    id: str
    timestamp: str
    summary: str
    first_kept_id: str | None
    tokens_before: int | None


@dataclass(frozen=True, slots=True)
class SessionStats:
    """What one needs to decide whether and when to compact.

    Args:
        context: An estimate of the context that the next turn starts with.
        context_window: The model's window, in tokens.
        context_headroom: What of it is left; below zero where the context exceeds it.
        compaction_settings: The settings in force.
        last_compaction: The newest compaction in the log, on any branch.
        usage: What the provider reported for the newest completion.
    """

    context: ContextUsageEstimate
    context_window: int
    context_headroom: int
    compaction_settings: CompactionSettings
    last_compaction: CompactionRecord | None
    usage: UsageDict | None = field(hash=False)
