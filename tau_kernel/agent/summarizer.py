"""Writing the summary of a conversation that is to be compacted.

What is too long for the model's window is read in parts, each of which brings the
summary so far up to date.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias, TypeVar

from tau_kernel.errors import ConfigError, ModelError
from tau_kernel.messages import (
    AbortSignal,
    AssistantMessage,
    Message,
    UsageDict,
    estimated_tokens,
    message_text,
    sum_usage,
    system_message,
    text_pieces,
    user_message,
)
from tau_kernel.models import Model, ModelContext, StreamOptions, complete_simple

from .compaction_values import CompactionError, CompactionPreparation
from .retry import RetryNotice, RetryPolicy, ask_again
from .summary_prompts import SummaryPrompts
from .summary_text import harmless, transcript
from .turn_tasks import TurnTasks

__all__ = ["CompleteFunction", "Summarizer", "WrittenSummary", "generate_summary"]

CompleteFunction: TypeAlias = Callable[
    [Model, ModelContext, StreamOptions], Awaitable[AssistantMessage]
]
_Result = TypeVar("_Result")

#: More parts than these cost more than the middle of the conversation is worth.
_MOST_PARTS: Final = 8
#: Tokens below which a part says too little to be summarised.
_LEAST_ROOM: Final = 64
#: Seconds that a request has, after an abort, to end by itself; a wait does not.
_PATIENCE: Final = 0.02
#: How much of the reserve a summary may take, in tenths: of whole turns, of a part.
_HISTORY_TENTHS: Final = 8
_PREFIX_TENTHS: Final = 5

_CUT_NOTE: Final = "[The summary ends here because it reached its limit of length.]"
_JOINT: Final = "\n\n---\n\n**Turn Context (split turn):**\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenSummary:
    """A summary and what writing it cost."""

    text: str
    usage: UsageDict


def _bank_nothing(usage: UsageDict, model: Model) -> None:
    del usage, model


@dataclass(frozen=True, slots=True, kw_only=True)
class Summarizer:
    """Who writes summaries, and how it is asked.

    Args:
        model: Who writes.
        prompts: What it is told.
        api_key: Wins over the model's own key.
        retry: How a request that failed is made again.
        signal: Its rise ends the work within 100 ms.
        bank: Told what each request cost, as soon as it is answered.
        complete: Asks the model.
    """

    model: Model
    prompts: SummaryPrompts
    api_key: str | None = field(default=None, repr=False)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    signal: AbortSignal = field(default_factory=AbortSignal)
    bank: Callable[[UsageDict, Model], None] = _bank_nothing
    complete: CompleteFunction = complete_simple

    def answer_tokens(self, reserve_tokens: int, tenths: int) -> int:
        """Give the tokens that a summary may have: so many tenths of the reserve."""
        most = min(reserve_tokens * tenths // 10, self.model.max_tokens)
        # Most of the window must be left for what is summarised.
        return max(min(most, self.model.context_window // 4), 1)

    async def write(self, request: str, *, max_tokens: int) -> WrittenSummary:
        """Ask for one summary.

        Raises:
            CompactionError: The model was aborted, failed or said nothing.
        """
        context: ModelContext = {
            "messages": [system_message(self.prompts.system), user_message(request)],
            "tools": [],
        }
        options = StreamOptions(
            api_key=self.api_key, max_tokens=max_tokens, abort_signal=self.signal
        )

        async def ask() -> AssistantMessage:
            return await self.complete(self.model, context, options)

        try:
            answer = await ask_again(ask, self.retry, _tell_nobody)
        except (ModelError, ConfigError) as error:
            raise _failed(self.model, str(error)) from error
        usage = sum_usage([answer["usage"]])
        self.bank(usage, self.model)
        return WrittenSummary(text=_text_of(answer, self.model), usage=usage)


async def generate_summary(
    preparation: CompactionPreparation,
    summarizer: Summarizer,
    *,
    custom_instructions: str | None = None,
) -> WrittenSummary:
    """Have the summary of a prepared compaction written, without its file lists.

    Where the cut divides a turn, the start of that turn is summarised by a second
    request at the same time, and stands below the rest.

    Raises:
        CompactionError: It was aborted, or a model failed or said nothing.
    """
    if summarizer.signal.is_aborted():
        raise _aborted()
    return await _unless_aborted(
        _generated(preparation, summarizer, custom_instructions), summarizer.signal
    )


async def _generated(
    preparation: CompactionPreparation, summarizer: Summarizer, focus: str | None
) -> WrittenSummary:
    reserve = preparation.settings.reserve_tokens
    history = _written(
        preparation.messages_to_summarize,
        summarizer,
        _History(
            prompts=summarizer.prompts,
            most_tokens=summarizer.answer_tokens(reserve, _HISTORY_TENTHS),
            focus=focus,
        ),
        preparation.previous_summary,
    )
    if not preparation.is_split_turn:
        return await history
    prefix = _written(
        preparation.turn_prefix_messages,
        summarizer,
        _TurnPrefix(
            prompts=summarizer.prompts,
            most_tokens=summarizer.answer_tokens(reserve, _PREFIX_TENTHS),
            focus=focus,
        ),
        None,
    )
    before, start = await _both(history, prefix)
    text = f"{before.text}{_JOINT}{start.text}" if before.text else start.text
    return WrittenSummary(text=text, usage=sum_usage([before.usage, start.usage]))


@dataclass(frozen=True, slots=True, kw_only=True)
class _History:
    """The requests for a checkpoint."""

    prompts: SummaryPrompts
    most_tokens: int
    focus: str | None

    def asking(self, previous: str | None) -> str:
        """Give what follows the conversation in a request."""
        if previous is None:
            return _focused(self.prompts.initial, self.focus)
        return _told(previous) + _focused(self.prompts.update, self.focus)


@dataclass(frozen=True, slots=True, kw_only=True)
class _TurnPrefix:
    """The requests for the start of a turn."""

    prompts: SummaryPrompts
    most_tokens: int
    focus: str | None

    def asking(self, previous: str | None) -> str:
        """Give what follows the conversation in a request."""
        wanted = _focused(self.prompts.turn_prefix, self.focus)
        if previous is None:
            return wanted
        return (
            f"{_told(previous)}{wanted}\n\n"
            "The turn is given in parts. <previous-summary> tells the parts before "
            "this one: write one note that covers both."
        )


def _told(previous: str) -> str:
    return f"<previous-summary>\n{harmless(previous)}\n</previous-summary>\n\n"


def _focused(prompt: str, focus: str | None) -> str:
    return f"{prompt}\n\nAdditional focus: {focus}" if focus else prompt


async def _written(
    messages: Sequence[Message],
    summarizer: Summarizer,
    requests: _History | _TurnPrefix,
    previous: str | None,
) -> WrittenSummary:
    """Have messages summarised, in as many parts as the model's window demands."""
    text = transcript(messages)
    if not text:
        return WrittenSummary(text=previous or "", usage=sum_usage([]))
    told = previous
    spent: list[UsageDict] = []
    parts = _parts(text, summarizer, requests, previous)
    for n, part in enumerate(parts, start=1):
        mark = f' part="{n} of {len(parts)}"' if len(parts) > 1 else ""
        written = await summarizer.write(
            f"<conversation{mark}>\n{part}\n</conversation>\n\n{requests.asking(told)}",
            max_tokens=requests.most_tokens,
        )
        told = written.text
        spent.append(written.usage)
    assert told is not None, "a text has a part"
    return WrittenSummary(text=told, usage=sum_usage(spent))


def _parts(
    text: str,
    summarizer: Summarizer,
    requests: _History | _TurnPrefix,
    previous: str | None,
) -> list[str]:
    """Divide a conversation into what single requests have room for."""
    window = summarizer.model.context_window
    # The estimate may be too low; a quarter is kept for that.
    left = (window - requests.most_tokens) * 3 // 4
    left -= estimated_tokens(summarizer.prompts.system)
    room = left - estimated_tokens(requests.asking(previous))
    if estimated_tokens(text) <= room:
        return [text]
    # A part after the first is told what the parts before it came to.
    later = left - estimated_tokens(requests.asking("")) - requests.most_tokens
    if min(room, later) < _LEAST_ROOM:
        words = f"its window of {window:,} tokens has no room for this conversation"
        raise _failed(summarizer.model, words)
    return text_pieces(text, min(room, later), at_most=_MOST_PARTS)


async def _both(
    first: Coroutine[None, None, WrittenSummary],
    second: Coroutine[None, None, WrittenSummary],
) -> tuple[WrittenSummary, WrittenSummary]:
    """Run both at the same time; the first failure ends the other."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = group.create_task(first), group.create_task(second)
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return tasks[0].result(), tasks[1].result()


async def _unless_aborted(
    work: Coroutine[None, None, _Result], signal: AbortSignal
) -> _Result:
    """Wait for `work`, a wait before another attempt included, or for the abort."""
    tasks = TurnTasks()
    result = await tasks.finish(tasks.start(work), signal, patience=_PATIENCE)
    if result is None:
        raise _aborted()
    return result


def _text_of(answer: AssistantMessage, model: Model) -> str:
    if answer["stop_reason"] == "aborted":
        raise _aborted()
    text = message_text(answer).strip()
    if answer["stop_reason"] == "error" or not text:
        words = answer["error_message"] or "it said nothing"
        raise _failed(model, words)
    return f"{text}\n\n{_CUT_NOTE}" if answer["stop_reason"] == "length" else text


def _aborted() -> CompactionError:
    return CompactionError(
        "the compaction was aborted; the conversation is as it was", code="aborted"
    )


def _failed(model: Model, words: str) -> CompactionError:
    reason = " ".join(words.split())
    return CompactionError(
        f"model {model.name!r} wrote no summary: {reason}\n"
        "The conversation is as it was; compact it again, or with another model.",
        code="summarization_failed",
    )


async def _tell_nobody(notice: RetryNotice) -> None:
    del notice
