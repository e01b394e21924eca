"""How much of a model's window a context takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tau_kernel.messages import Message, estimate_tokens
from tau_kernel.tree import ANCHOR_KINDS, EntryDict, entries_to_messages

from .folded_path import FoldedPath

__all__ = [
    "ContextUsageEstimate",
    "estimate_context_tokens",
    "estimate_path_tokens",
    "reported_tokens",
]

_PARTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextUsageEstimate:
    """The size of a context: what a provider counted, and an estimate of the rest.

    Args:
        tokens: The whole.
        usage_tokens: What the provider counted up to and with its newest answer.
        trailing_tokens: The estimate of the messages after that answer; of all, if
            no count can be used.
        last_usage_index: The place of that answer among the messages, if there is one.
    """

    tokens: int
    usage_tokens: int
    trailing_tokens: int
    last_usage_index: int | None


def estimate_context_tokens(
    messages: Sequence[Message], *, counted_from: int = 0
) -> ContextUsageEstimate:
    """Estimate a context from the newest count of a provider.

    Counts of nothing, and those of answers that failed or were aborted, are not used.

    Args:
        messages: The context, in order.
        counted_from: The first message whose count is of this context: an answer
            from before a compaction counted what has gone since.
    """
    trailing = 0
    for at in range(len(messages) - 1, -1, -1):
        counted = reported_tokens(messages[at]) if at >= counted_from else None
        if counted is not None:
            return ContextUsageEstimate(
                tokens=counted + trailing,
                usage_tokens=counted,
                trailing_tokens=trailing,
                last_usage_index=at,
            )
        trailing += estimate_tokens(messages[at])
    return ContextUsageEstimate(
        tokens=trailing, usage_tokens=0, trailing_tokens=trailing, last_usage_index=None
    )


def estimate_path_tokens(
    entries: Sequence[EntryDict], *, preamble: Sequence[Message] = ()
) -> ContextUsageEstimate:
    """Estimate a context from its entries, which tell what providers counted of it.

    Not used are counts from before the anchor, and those of copies, which were counted
    in another context.

    Args:
        entries: As `LogView.context_entries` gives them.
        preamble: Messages that are sent before those of the entries.
    """
    path = FoldedPath.from_entries(entries)
    start = _counted_from(path)
    before = [*preamble, *entries_to_messages(entries[:start])]
    after = entries_to_messages(entries[start:])
    return estimate_context_tokens([*before, *after], counted_from=len(before))


def reported_tokens(message: Message) -> int | None:
    """Give the size of the context that ends with an answer, as its provider says.

    None for other messages, where nothing was counted, and where the answer failed or
    was aborted, whose count is of a part.
    """
    if message["role"] != "assistant" or message["stop_reason"] in {"aborted", "error"}:
        return None
    usage = message.get("usage")
    if not usage:
        return None
    total = usage.get("total_tokens")
    counted = total or sum(_count(usage.get(part)) for part in _PARTS)
    return _count(counted) or None


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0


def _counted_from(path: FoldedPath) -> int:
    for at in range(len(path.entries) - 1, path.fresh - 1, -1):
        entry = path.entries[at]
        if entry["type"] in ANCHOR_KINDS or "copiedFrom" in entry:
            return at + 1
    return path.fresh
