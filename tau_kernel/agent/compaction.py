"""Compaction: the older part of a conversation gives way to a summary of it.

Values and functions alone. `cut_point` says where a context is cut, `summarizer` has
the summary written, and nothing here touches a log: that is the `Compactor`'s part.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tau_kernel.messages import Message, UsageDict, estimate_tokens
from tau_kernel.tree import (
    EntryDict,
    compaction_note,
    entries_to_messages,
    estimate_span_tokens,
    is_system_entry,
    noted_compaction,
)

from .compaction_values import (
    CompactionDetails,
    CompactionError,
    CompactionPreparation,
    CompactionResult,
    CompactionSettings,
    should_compact,
)
from .context_usage import (
    ContextUsageEstimate,
    estimate_context_tokens,
    estimate_path_tokens,
)
from .cut_point import CutPoint, find_cut_point, find_valid_cut_points, last_turn_cut
from .folded_path import FoldedPath
from .summarizer import Summarizer, generate_summary
from .summary_text import files_of, join_files, with_files, without_files

__all__ = [
    "DEFAULT_COMPACTION_SETTINGS",
    "CompactionDetails",
    "CompactionError",
    "CompactionPreparation",
    "CompactionResult",
    "CompactionSettings",
    "ContextUsageEstimate",
    "CutPoint",
    "compact",
    "compact_messages",
    "estimate_context_tokens",
    "estimate_span_tokens",
    "estimate_tokens",
    "find_cut_point",
    "find_valid_cut_points",
    "generate_summary",
    "prepare_compaction",
    "should_compact",
]

DEFAULT_COMPACTION_SETTINGS: Final = CompactionSettings()


def prepare_compaction(
    entries: Sequence[EntryDict], settings: CompactionSettings
) -> CompactionPreparation | None:
    """Decide what of a context goes and what stays.

    What stays is about `CompactionSettings.keep_recent_tokens`, never less than the
    last message. Where all of it would stay, the last turn alone does.

    Args:
        entries: A context's entries, as `LogView.context_entries` gives them.
        settings: How much is to stay.

    Returns:
        The plan; None where nothing would go: no messages, none after the last
        compaction, or none before the last turn.
    """
    path = FoldedPath.from_entries(entries)
    cut = _best_cut(path, settings)
    if cut is None:
        return None
    gone = [entry for entry in entries[: cut.first_kept] if not is_system_entry(entry)]
    start = 0 if path.anchor is None else path.anchor + 1
    turn_start = cut.first_kept if cut.turn_start is None else cut.turn_start
    whole_turns = _told(entries[start:turn_start])
    turn_prefix = _told(entries[turn_start : cut.first_kept])
    previous, listed = _previous_of(path)
    return CompactionPreparation(
        first_kept_entry_id=entries[cut.first_kept]["id"],
        messages_to_summarize=tuple(whole_turns),
        turn_prefix_messages=tuple(turn_prefix),
        previous_summary=previous,
        details=join_files(listed, files_of([*whole_turns, *turn_prefix])),
        tokens_before=estimate_path_tokens(entries).tokens,
        compacted_entry_ids=tuple(entry["id"] for entry in gone),
        covered_tokens=estimate_span_tokens(gone),
        settings=settings,
    )


async def compact(
    preparation: CompactionPreparation,
    summarizer: Summarizer,
    *,
    custom_instructions: str | None = None,
) -> CompactionResult:
    """Have the summary of a prepared compaction written; no log is touched.

    Args:
        preparation: What goes and what stays.
        summarizer: Who writes the summary.
        custom_instructions: What the summary should look at besides.

    Raises:
        CompactionError: It was aborted, or the model failed or said nothing.
    """
    written = await generate_summary(
        preparation, summarizer, custom_instructions=custom_instructions
    )
    summary = with_files(written.text, preparation.details)
    return CompactionResult(
        summary=summary,
        first_kept_entry_id=preparation.first_kept_entry_id,
        tokens_before=preparation.tokens_before,
        details=preparation.details,
        compacted_entry_ids=preparation.compacted_entry_ids,
        tokens_saved=preparation.covered_tokens
        - estimate_tokens(compaction_note(summary)),
        usage=written.usage,
    )


async def compact_messages(
    messages: Sequence[Message],
    summarizer: Summarizer,
    settings: CompactionSettings,
    *,
    custom_instructions: str | None = None,
) -> tuple[list[Message], UsageDict] | None:
    """Compact a list of messages that a head keeps for itself.

    System messages stay, and the last user's message with all after it; between them
    stands a summary of the rest.

    Args:
        messages: The conversation, in order; it is not changed.
        summarizer: Who writes the summary.
        settings: Their reserve bounds the summary's length.
        custom_instructions: What the summary should look at besides.

    Returns:
        The shorter list and what the summary cost; None where there are fewer than
        two turns. A summary of an earlier compaction is no turn.

    Raises:
        CompactionError: It was aborted, or the model failed or said nothing.
    """
    older, last_turn = _before_last_turn(messages)
    if not older:
        return None
    previous, listed = _split_summary(_newest_note(older))
    told = tuple(message for message in older if noted_compaction(message) is None)
    preparation = CompactionPreparation(
        first_kept_entry_id="",
        messages_to_summarize=told,
        turn_prefix_messages=(),
        previous_summary=previous,
        details=join_files(listed, files_of(told)),
        tokens_before=estimate_context_tokens(messages).tokens,
        compacted_entry_ids=(),
        covered_tokens=sum(estimate_tokens(message) for message in older),
        settings=settings,
    )
    result = await compact(
        preparation, summarizer, custom_instructions=custom_instructions
    )
    systems = [message for message in messages if message["role"] == "system"]
    return [*systems, compaction_note(result.summary), *last_turn], result.usage


def _best_cut(path: FoldedPath, settings: CompactionSettings) -> CutPoint | None:
    """Give the cut that keeps enough, or else the last turn, if anything goes then."""
    span = path.first_cut, len(path.entries)
    start = 0 if path.anchor is None else path.anchor + 1
    for cut in (
        find_cut_point(path.entries, *span, settings.keep_recent_tokens),
        last_turn_cut(path.entries, *span),
    ):
        if cut is None:
            continue
        gone = _told(path.entries[start : cut.first_kept])
        if any(estimate_tokens(message) for message in gone):
            return cut
    return None


def _told(entries: Sequence[EntryDict]) -> list[Message]:
    """Give what a summary is written from.

    System messages stay, and a compaction's summary is told apart from the rest.
    """
    return entries_to_messages(
        entry
        for entry in entries
        if entry["type"] != "compaction" and not is_system_entry(entry)
    )


def _previous_of(path: FoldedPath) -> tuple[str | None, CompactionDetails]:
    newest = path.newest_compaction
    if newest is None:
        return None, CompactionDetails()
    entry = path.entries[newest]
    assert entry["type"] == "compaction", "it was found by its type"
    return _split_summary(entry["summary"])


def _split_summary(summary: str | None) -> tuple[str | None, CompactionDetails]:
    if summary is None:
        return None, CompactionDetails()
    text, files = without_files(summary)
    return text or None, files


def _before_last_turn(
    messages: Sequence[Message],
) -> tuple[list[Message], list[Message]]:
    """Divide messages other than the system's; the first part empty for one turn."""
    spoken: list[Message] = [m for m in messages if m["role"] != "system"]
    turns = [
        at
        for at, message in enumerate(spoken)
        if message["role"] == "user" and noted_compaction(message) is None
    ]
    if len(turns) < 2:  # noqa: PLR2004 - an older turn and the last
        return [], spoken
    return spoken[: turns[-1]], spoken[turns[-1] :]


def _newest_note(messages: Sequence[Message]) -> str | None:
    notes = (noted_compaction(message) for message in reversed(messages))
    return next((note for note in notes if note is not None), None)
