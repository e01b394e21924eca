"""What a turn writes into the log, entry by entry."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from tau_kernel.messages import (
    JsonObject,
    JsonValue,
    Message,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
    tool_result_message,
)
from tau_kernel.submissions import Submission
from tau_kernel.tree import SessionLog

from .loop_types import LoopSpec
from .turn_settings import settings_digest

__all__ = ["TurnRecord", "unanswered_calls"]

_LOST: str = "Interrupted: no result of this call was stored"


@runtime_checkable
class _DurableLog(Protocol):
    def sync(self) -> None:
        """Force what was appended onto the disk."""


class TurnRecord:
    """Writes provenance, prompts, answers and results below the log's cursor."""

    def __init__(
        self, log: SessionLog, cwd: Path, *, durable: SessionLog | None = None
    ) -> None:
        """Write to `log`; nothing is written before the first turn.

        Args:
            log: A log, or a branch of one.
            cwd: The directory to record.
            durable: The log that `log` is a branch of.
        """
        self._log = log
        self._durable = durable or log
        self._cwd = cwd
        self._written_spec: JsonObject | None = None

    def note_model(self, spec: LoopSpec) -> None:
        """Record a changed agent, if a turn was recorded before."""
        if self._written_spec is not None:
            self._note_spec(spec)

    def open_turn(
        self,
        submission: Submission,
        spec: LoopSpec,
        session_spec: LoopSpec,
        provenance: Mapping[str, JsonValue],
    ) -> None:
        """Record who asks whom, before the prompt itself.

        Args:
            submission: Who asks.
            spec: What this turn runs.
            session_spec: What the session runs by default.
            provenance: More to say about the origin; it cannot replace a fact.
        """
        self._note_spec(session_spec)
        self._log.append_custom_entry(
            "submission",
            {
                **provenance,
                "submission_id": submission.submission_id,
                "source": submission.source,
                "submitter": submission.submitter,
                "strategy": submission.multitask_strategy,
                "correlation": submission.correlation,
                "model": {"id": spec.model.id, "provider": spec.model.provider},
                "settings_digest": settings_digest(spec),
            },
        )

    def answer_lost_calls(self, context: Sequence[Message]) -> list[ToolResultMessage]:
        """Record an error for each call whose result a crash or a full disk lost."""
        answers = lost_results(context)
        for answer in answers:
            self.message(answer)
        return answers

    def prompt(self, message: UserMessage) -> str:
        """Store a user's message and give its entry's id."""
        return self.message(message)

    def message(self, message: Message) -> str:
        """Store a finished message and give its entry's id."""
        return self._log.append_message(message)

    def sync(self) -> None:
        """Force the turn onto the disk, where the log has one."""
        if isinstance(self._durable, _DurableLog):
            self._durable.sync()

    def _note_spec(self, spec: LoopSpec) -> None:
        prompt = spec.system_prompt.encode("utf-8", "surrogatepass")
        record: JsonObject = {
            "model": {
                "id": spec.model.id,
                "provider": spec.model.provider,
                "context_window": spec.model.context_window,
            },
            "system_prompt_digest": hashlib.sha256(prompt).hexdigest(),
            "tools": [tool.name for tool in spec.tools],
            "extensions": [],
            "cwd": str(self._cwd),
        }
        if record != self._written_spec:
            self._log.append_custom_entry("agent_spec", record)
            self._written_spec = record


def lost_results(context: Sequence[Message]) -> list[ToolResultMessage]:
    """Make an error result for each call of `context` that has none."""
    return [
        tool_result_message(call, [{"type": "text", "text": _LOST}], is_error=True)
        for call in unanswered_calls(context)
    ]


def unanswered_calls(context: Sequence[Message]) -> list[ToolCallBlock]:
    """Give the calls of the newest answer that no result in `context` answers."""
    answered: set[str] = set()
    # From the end: a conversation may be long, and only its last answer matters.
    for message in reversed(context):
        if message["role"] == "toolResult":
            answered.add(message["tool_call_id"])
        elif message["role"] == "assistant":
            calls = (b for b in message["content"] if b["type"] == "toolCall")
            return [call for call in calls if call["id"] not in answered]
    return []
