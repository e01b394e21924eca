"""What is told of a branch that was left: a model reads it and writes a summary.

A branch that is longer than the model's window is read in parts, whose summaries are
made into one. Where the summary is kept is `tree_ops`' concern.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tau_kernel.errors import CallerError, ModelError
from tau_kernel.messages import (
    AbortSignal,
    UsageDict,
    cut_middle,
    estimated_tokens,
    message_text,
    sum_usage,
    system_message,
    text_pieces,
    user_message,
)
from tau_kernel.models import (
    Model,
    ModelContext,
    StreamOptions,
    complete_simple,
    read_prompt,
)

__all__ = ["BranchSummaryError", "branch_summary_prompt", "summarize_branch"]

_PROMPT: Final = "branch-summary.md"
#: More parts than these cost more than a branch that is left is worth.
_MOST_PARTS: Final = 8
#: Tokens below which a part says too little to be summarised.
_LEAST_ROOM: Final = 64


class BranchSummaryError(ModelError, ValueError):
    """A model was asked to summarise and gave nothing to use; no entry was made."""


def branch_summary_prompt(folder: Path | None = None) -> str:
    """Give the system prompt of branch summaries; a file of `folder` wins.

    Raises:
        ConfigError: The user's file cannot be read or is empty.
    """
    return read_prompt(__package__, _PROMPT, folder)


async def summarize_branch(
    branch_text: str,
    model: Model,
    *,
    api_key: str | None = None,
    custom_instructions: str | None = None,
    prompt: str | None = None,
    signal: AbortSignal | None = None,
) -> tuple[str, UsageDict]:
    """Have a model summarise a branch that is being left.

    A branch that does not fit the model's window is read in at most eight parts at
    the same time, and their summaries are summarised; the middle of a longer one is
    left out, which the model is told where it is.

    Args:
        branch_text: The branch, as `ConversationTree.subtree_text` gives it.
        model: Writes the summary.
        api_key: Wins over the model's own key.
        custom_instructions: What the summary should heed besides; the model is told
            in its system message.
        prompt: The system message, if not the one that ships.
        signal: Its rise ends the work.

    Returns:
        The summary, stripped, and what it cost; all zero where the provider does not
        say.

    Raises:
        CallerError: There is no text to summarise; no model was asked.
        BranchSummaryError: The model was aborted, failed or said nothing, or its
            window has no room for a branch.
        ModelError: The provider failed.
    """
    if not branch_text.strip():
        msg = "there is no text to summarise; choose an entry that messages hang from"
        raise CallerError(msg)
    task = branch_summary_prompt() if prompt is None else prompt
    if custom_instructions:
        task += f"\n\nHeed this as well: {custom_instructions}"
    reader = _Reader(
        model=model,
        task=task,
        options=StreamOptions(api_key=api_key, abort_signal=signal),
    )
    room = reader.room()
    # Whatever the branch holds, it shall not end its own tag.
    material = branch_text.replace("</branch", "<\\/branch")
    parts = text_pieces(material, room, at_most=_MOST_PARTS)
    if len(parts) == 1:
        return await reader.read(f"<branch>\n{material}\n</branch>")
    told = await _read_all(reader, parts, room // len(parts))
    joined = cut_middle("\n\n".join(_numbered([text for text, _ in told])), room)
    summary, spent = await reader.read(f"<branch>\n{joined}\n</branch>")
    return summary, sum_usage([*(usage for _, usage in told), spent])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    model: Model
    task: str
    options: StreamOptions

    def room(self) -> int:
        """Give the estimated tokens of a branch that one request has room for."""
        window = self.model.context_window
        left = window - min(self.model.max_tokens, window // 2)
        # The estimate may be too low; a quarter is kept for that.
        room = left * 3 // 4 - estimated_tokens(self.task)
        if room >= _LEAST_ROOM:
            return room
        msg = (
            f"the window of model {self.model.name!r}, {window:,} tokens, has no room "
            "for a branch and its summary\nLeave the branch without one, or take "
            "another model."
        )
        raise BranchSummaryError(msg)

    async def read(self, text: str) -> tuple[str, UsageDict]:
        """Have the model summarise `text`."""
        context: ModelContext = {
            "messages": [system_message(self.task), user_message(text)],
            "tools": [],
        }
        answer = await complete_simple(self.model, context, self.options)
        summary = message_text(answer).strip()
        if not summary or answer["stop_reason"] in {"aborted", "error"}:
            msg = (
                f"model {self.model.name!r} gave no summary (stop reason "
                f"{answer['stop_reason']!r}); try again, or go there without one"
            )
            raise BranchSummaryError(msg)
        return summary, sum_usage([answer["usage"]])


async def _read_all(
    reader: _Reader, parts: Sequence[str], most_tokens: int
) -> list[tuple[str, UsageDict]]:
    """Read the parts at the same time; the first failure ends the others."""
    most = min(most_tokens, reader.model.max_tokens)
    brief = replace(reader, options=replace(reader.options, max_tokens=most))
    count = len(parts)
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(
                    brief.read(f'<branch part="{n} of {count}">\n{part}\n</branch>')
                )
                for n, part in enumerate(parts, start=1)
            ]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


def _numbered(summaries: Sequence[str]) -> list[str]:
    count = len(summaries)
    return [
        f"[summary of part {n} of {count}]: {summary}"
        for n, summary in enumerate(summaries, start=1)
    ]
