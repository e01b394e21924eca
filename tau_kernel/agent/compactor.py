"""The part of a session that keeps its context within the model's window."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, TypeVar

from tau_kernel.errors import CallerError
from tau_kernel.messages import AbortSignal, Message, UsageDict, system_message
from tau_kernel.models import Model, complete_simple
from tau_kernel.submissions import AgentEvent
from tau_kernel.tree import (
    EntryDict,
    SessionLog,
    agent_spec_in_force,
    summarize_and_navigate,
)

from .compaction import compact, compact_messages, prepare_compaction
from .compaction_policy import CompactionPolicy, CompactionPolicyError
from .compaction_values import (
    CompactionError,
    CompactionPreparation,
    CompactionRecord,
    CompactionResult,
    CompactionSettings,
    SessionStats,
    should_compact,
)
from .context_usage import ContextUsageEstimate, estimate_path_tokens
from .loop_types import Emit, LoopSpec
from .summarizer import CompleteFunction, Summarizer
from .summary_prompts import SummaryPrompts, load_prompts

__all__ = ["CompactedSession", "Compactor", "CompactorPorts"]

_Result = TypeVar("_Result")


class CompactedSession(Protocol):
    """What is compacted; the log and the spec may be others at the next call."""

    @property
    def log(self) -> SessionLog:
        """Where the conversation is kept."""

    @property
    def spec(self) -> LoopSpec:
        """Who answers, and what it is told first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactorPorts:
    """What a compactor reports to and draws from.

    Args:
        emit: Delivers an event; the compaction waits for it.
        bank: Told what each request for a summary cost, as soon as it is answered.
        api_key_of: Gives the key for a model; None for the model's own.
        sync: Forces what was appended onto the disk.
        complete: Asks a model.
    """

    emit: Emit
    bank: Callable[[UsageDict, Model], None]
    api_key_of: Callable[[Model], str | None]
    sync: Callable[[], None]
    complete: CompleteFunction = complete_simple


class Compactor:
    """Compacts one session's context, when asked to and when it grew too large.

    It takes no lock: whoever runs turns on the log holds them off meanwhile.
    """

    def __init__(
        self,
        session: CompactedSession,
        ports: CompactorPorts,
        *,
        settings: CompactionSettings | None = None,
        policy: CompactionPolicy | None = None,
        prompts: SummaryPrompts | None = None,
    ) -> None:
        """Compact `session`.

        Args:
            session: Whose context it is.
            ports: What it reports to.
            settings: When, and how much stays; not together with `policy`. Without
                both, they follow from the window of the session's model.
            policy: A promise that decides the same.
            prompts: What summarisers are told; the shipped texts where None.

        Raises:
            CallerError: Both settings and a policy are given.
            CompactionPolicyError: The policy does not go with the session's model.
        """
        if settings is not None and policy is not None:
            msg = (
                "both compaction_settings and compaction_policy are given; a policy "
                "has settings of its own, so give one of them"
            )
            raise CallerError(msg)
        self._session = session
        self._ports = ports
        self._policy = policy and policy.bind_to(session.spec.model)
        self._given = settings if policy is None else policy.settings
        self._is_on = True if self._given is None else self._given.enabled
        self._prompts = prompts
        self._tokens_before: int | None = None

    @property
    def settings(self) -> CompactionSettings:
        """The settings in force."""
        window = self._session.spec.model.context_window
        settings = self._given or CompactionSettings.for_window(window)
        return replace(settings, enabled=self._is_on)

    @property
    def policy(self) -> CompactionPolicy | None:
        """The policy in force, bound to the model; None without one."""
        return self._policy

    @property
    def prompts(self) -> SummaryPrompts:
        """What summarisers are told."""
        if self._prompts is None:
            self._prompts = load_prompts()
        return self._prompts

    def set_auto(self, *, enabled: bool) -> bool:
        """Turn compaction at the end of turns on or off, and give what holds then.

        Raises:
            CompactionPolicyError: A policy decides that.
        """
        if self._policy is not None and enabled != self._is_on:
            msg = (
                f"auto-compaction cannot be set to {enabled!r}: the policy "
                f"{self._policy.mode!r} decides it; start a session without a policy"
            )
            raise CompactionPolicyError(msg)
        self._is_on = enabled
        return self.settings.enabled

    def rebind(self) -> None:
        """Check the policy against the session's model, after that has changed.

        Raises:
            CompactionPolicyError: It does not go with the model.
        """
        if self._policy is not None:
            self._policy = self._policy.bind_to(self._session.spec.model)

    def context_usage(self) -> ContextUsageEstimate:
        """Estimate what the next turn starts with: the conversation at the cursor.

        The system prompt counts as the first message, where the conversation has none
        of its own.
        """
        prompt = self._session.spec.system_prompt
        entries = self._entries()
        has_own = bool(entries) and _is_system(entries[0])
        preamble: list[Message] = []
        if prompt and not has_own:
            preamble.append(system_message(prompt))
        return estimate_path_tokens(entries, preamble=preamble)

    def last_compaction(self) -> CompactionRecord | None:
        """Give the newest compaction of the log, on any branch; None without one."""
        for entry in reversed(self._session.log.view()):
            if entry["type"] == "compaction":
                return CompactionRecord(
                    id=entry["id"],
                    timestamp=entry["timestamp"],
                    summary=entry["summary"],
                    first_kept_id=entry["firstKeptId"],
                    tokens_before=entry.get("tokensBefore"),
                )
        return None

    def stats(self, usage: UsageDict | None) -> SessionStats:
        """Give the accounts of the session; `usage` is its newest completion's."""
        context = self.context_usage()
        window = self._session.spec.model.context_window
        return SessionStats(
            context=context,
            context_window=window,
            context_headroom=window - context.tokens,
            compaction_settings=self.settings,
            last_compaction=self.last_compaction(),
            usage=usage,
        )

    def admit_turn(self) -> None:
        """Let a turn begin, if the policy allows one more.

        Raises:
            CompactionPolicyViolation: The conversation has as many as it may have.
        """
        if self._policy is None:
            return
        log = self._session.log
        path = log.view().path(log.cursor)
        self._policy.admit_turn(sum(_is_prompt(entry) for entry in path))
        self._tokens_before = self.context_usage().tokens

    async def compact(
        self,
        custom_instructions: str | None = None,
        signal: AbortSignal | None = None,
    ) -> CompactionResult | None:
        """Compact the conversation at the cursor and record it in the log.

        ``agent_start`` and ``agent_end``, which bear no stamp, stand around the work.
        Cancelled or aborted, the log is as it was.

        Args:
            custom_instructions: What the summary should look at besides.
            signal: Its rise ends the work within 100 ms.

        Returns:
            What was done; None, without an event, where there was nothing to do.

        Raises:
            CompactionError: No summary came about; the log is unchanged.
        """
        window = self._session.spec.model.context_window
        preparation = prepare_compaction(
            self._entries(), self.settings.fitted_to(window)
        )
        if preparation is None:
            return None
        return await self._between_events(
            partial(
                self._perform,
                preparation,
                custom_instructions,
                signal or AbortSignal(),
            )
        )

    async def maybe_compact(
        self, signal: AbortSignal | None = None
    ) -> CompactionResult | None:
        """Compact at the end of a turn, if too little of the window is free.

        A failure is reported by ``agent_end`` and not raised: the turn before it was
        answered, and the next one tries again.

        Returns:
            What was done; None where nothing was, or where it failed.

        Raises:
            CompactionPolicyViolation: The context is larger than the policy promises.
        """
        settings, window = self.settings, self._session.spec.model.context_window
        if self._policy is None and not settings.enabled:
            return None
        used = self.context_usage().tokens
        if self._policy is not None:
            self._policy.observe_context(used, before=self._tokens_before)
        if window <= settings.reserve_tokens:
            return None
        if not should_compact(used, window, settings):
            return None
        try:
            return await self.compact(signal=signal)
        except CompactionError:
            # The event of its end told it already.
            return None

    async def compact_messages(
        self,
        messages: Sequence[Message],
        custom_instructions: str | None = None,
        signal: AbortSignal | None = None,
    ) -> list[Message] | None:
        """Compact a list that a head keeps for itself; the log is not touched.

        Returns:
            The shorter list; None where there are fewer than two turns.

        Raises:
            CompactionError: No summary came about.
        """
        compacted = await compact_messages(
            messages,
            self._summarizer(signal or AbortSignal()),
            self.settings,
            custom_instructions=custom_instructions,
        )
        return None if compacted is None else compacted[0]

    async def leave_branch(
        self, target_id: str, custom_instructions: str | None, signal: AbortSignal
    ) -> list[Message]:
        """Leave what hangs from an entry with a summary, and give the context there.

        Args:
            target_id: The entry to go back to.
            custom_instructions: What the summary should heed besides.
            signal: Its rise ends the work and leaves the log as it was.

        Raises:
            CallerError: `target_id` names no entry, or nothing hangs from it.
            BranchSummaryError: The model gave no summary; the log is unchanged.
        """
        model = self._session.spec.model
        messages, usage = await summarize_and_navigate(
            self._session.log,
            target_id,
            model,
            api_key=self._ports.api_key_of(model),
            custom_instructions=custom_instructions,
            prompt=self.prompts.branch,
            signal=signal,
        )
        self._ports.bank(usage, model)
        return copy.deepcopy(messages)

    def _entries(self) -> list[EntryDict]:
        log = self._session.log
        return log.view().context_entries(log.cursor)

    def _summarizer(self, signal: AbortSignal) -> Summarizer:
        spec, ports, policy = self._session.spec, self._ports, self._policy
        model, api_key = spec.model, ports.api_key_of(spec.model)
        if policy is not None and policy.model is not None:
            model = policy.model
            api_key = policy.api_key or ports.api_key_of(model)
        return Summarizer(
            model=model,
            prompts=self.prompts,
            api_key=api_key,
            retry=spec.retry,
            signal=signal,
            bank=ports.bank,
            complete=ports.complete,
        )

    async def _perform(
        self,
        preparation: CompactionPreparation,
        custom_instructions: str | None,
        signal: AbortSignal,
    ) -> CompactionResult:
        log = self._session.log
        cursor = log.cursor
        summarizer = self._summarizer(signal)
        result = await compact(
            preparation, summarizer, custom_instructions=custom_instructions
        )
        if self._session.log is not log or log.cursor != cursor:
            msg = (
                "the conversation moved while its summary was written, which would not "
                "fit any more; nothing was recorded, compact it again"
            )
            raise CompactionError(msg, code="invalid_session")
        log.append_compaction(
            result.summary,
            result.first_kept_entry_id,
            result.tokens_before,
            summarizer_model_id=summarizer.model.id,
            summary_usage=result.usage,
            covered_entries=len(result.compacted_entry_ids),
            covered_tokens=preparation.covered_tokens,
            agent_spec_id=agent_spec_in_force(log.view(), cursor),
        )
        self._ports.sync()
        return result

    async def _between_events(self, work: Callable[[], Awaitable[_Result]]) -> _Result:
        emit = self._ports.emit
        await emit(AgentEvent(type="agent_start"))
        try:
            result = await work()
        except CompactionError as error:
            await emit(_ended(None if error.code == "aborted" else error))
            raise
        except asyncio.CancelledError:
            await emit(_ended(None))
            raise
        except Exception as error:
            await emit(_ended(error))
            raise
        await emit(AgentEvent(type="agent_end", messages=(), end_reason="done"))
        return result


def _ended(error: Exception | None) -> AgentEvent:
    """Make the last event of work that failed, or was aborted if there is no error."""
    return AgentEvent(
        type="agent_end",
        messages=(),
        end_reason="aborted" if error is None else "error",
        is_error=error is not None,
        error=None if error is None else f"{type(error).__name__}: {error}",
    )


def _is_system(entry: EntryDict) -> bool:
    return entry["type"] == "message" and entry["message"]["role"] == "system"


def _is_prompt(entry: EntryDict) -> bool:
    return entry["type"] == "message" and entry["message"]["role"] == "user"
