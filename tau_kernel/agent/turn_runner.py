"""One admitted turn: its settings, its prompt, its loop, and what is kept of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tau_kernel.messages import (
    AbortSignal,
    Message,
    UserMessage,
    message_text,
    user_message,
)
from tau_kernel.submissions import AgentEvent, Submission
from tau_kernel.tree import BranchView, SessionLog

from .agent_loop import run_agent_loop
from .compactor import Compactor
from .event_hub import BranchHub, EventHub
from .limits import Account, Budget, Limits, spent_in
from .loop_types import DeliveredMessage, Emit, LoopPorts, LoopSpec, StreamFunction
from .retry import RetryNotice
from .steering import OpenedSteering, Steering
from .turn_record import TurnRecord, lost_results
from .turn_settings import TurnSettings, apply_settings
from .turn_tasks import TurnTasks
from .usage_ledger import SideAccount, UsageLedger

__all__ = ["RunnerSetup", "TurnRequest", "TurnRunner"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRequest:
    """An admitted submission and what goes with it.

    Args:
        submission: What was asked.
        settings: For this turn only.
        context: The conversation to use in place of the session's.
        on_admitted: Called once, when nothing can keep the turn from running.
    """

    submission: Submission
    settings: TurnSettings
    context: Sequence[Message] | None = None
    on_admitted: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerSetup:
    """What holds for every turn of a session.

    Args:
        stream: Gives the events of one completion.
        api_keys: From a provider to its key, which no other provider gets.
        cwd: Where the tools' relative paths begin.
        limits: What the session may spend.
    """

    stream: StreamFunction
    cwd: Path
    api_keys: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)


class TurnRunner:
    """Runs turns on one log, one at a time; who may start one is admission's."""

    def __init__(
        self,
        log: SessionLog,
        spec: LoopSpec,
        setup: RunnerSetup,
        hub: EventHub,
        *,
        ledger: UsageLedger | None = None,
    ) -> None:
        """Run `spec` over `log`.

        Args:
            log: Where everything is kept.
            spec: What a turn runs unless its settings say otherwise.
            setup: What holds for every turn.
            hub: Who hears of it.
            ledger: Where the session's spending is added up; by default a new one
                that begins with what the log tells.
        """
        self.log = log
        self.spec = spec
        self.setup = setup
        self.hub = hub
        self.ledger = ledger or UsageLedger(spent_in(log.view()))
        self.account: Account = self.ledger
        self.tasks = TurnTasks()
        self.steering = Steering()
        self.signal = AbortSignal()
        self.record = TurnRecord(log, setup.cwd)
        self.compactor: Compactor | None = None

    def for_branch(self, view: BranchView) -> TurnRunner:
        """Make what runs a turn on a branch; what that spends counts here."""
        hub = BranchHub(self.hub.bus, view)
        branch = TurnRunner(view, self.spec, self.setup, hub, ledger=self.ledger)
        branch.account = SideAccount(self.ledger)
        branch.record = TurnRecord(view, self.setup.cwd, durable=self.log)
        return branch

    def set_spec(self, spec: LoopSpec) -> None:
        """Run `spec` from the next turn on."""
        self.record.note_model(spec)
        self.spec = spec

    def context(self) -> list[Message]:
        """Give the conversation at the cursor, empty before the root; not copied."""
        cursor = self.log.cursor
        return [] if cursor is None else list(self.log.view().context_for(cursor))

    def renew_signal(self) -> None:
        """Give the turn that begins a signal of its own."""
        self.signal = AbortSignal()

    def abort(self) -> None:
        """End the running turn at once, and drop what waits to join it."""
        self.signal.abort()
        self.steering.clear()

    async def run(self, request: TurnRequest) -> list[Message]:
        """Run one turn and give what it added after the prompt.

        Raises:
            CompactionPolicyViolation: The policy allows no further turn.
            Exception: What the loop raised; what was produced until then is stored.
        """
        submission, settings = request.submission, request.settings
        spec = self._spec_of(submission, settings)
        if self.compactor is not None and submission.store_history:
            self.compactor.admit_turn()
        if settings.place is not None:
            start = settings.place(self.log)
            if start is not None:
                self.log.append_navigate(start.entry_id)
        if request.on_admitted is not None:
            request.on_admitted()
        spent_before = self.ledger.side
        await self.hub.bus.emit_channel(
            "submission_start",
            submission=submission,
            text=submission.text,
            images=submission.images,
        )
        try:
            messages = await self._converse(request, spec)
            await self._compact_after(submission)
        finally:
            await self.hub.bus.emit_channel(
                "submission_end",
                submission=submission,
                side_usage=self.ledger.side_since(spent_before),
            )
        return messages

    async def _compact_after(self, submission: Submission) -> None:
        is_over = self.signal.is_aborted() or not submission.store_history
        if self.compactor is None or is_over:
            return
        result = await self.compactor.maybe_compact(self.signal)
        if result is not None:
            await self.hub.bus.emit_channel(
                "compaction", submission=submission, result=result
            )

    async def go_on(self) -> list[Message]:
        """Run the loop from the cursor without a prompt; its events bear no stamp."""
        spec = self.spec_for(TurnSettings())
        context = self.context()
        emit = self.hub.emitter(None)
        with_answers = [*context, *self.record.answer_lost_calls(context)]
        ports = self._ports(emit, spec, None, is_kept=True)
        return await self._loop(with_answers, spec, ports, is_kept=True)

    async def _converse(self, request: TurnRequest, spec: LoopSpec) -> list[Message]:
        submission = request.submission
        prompt = user_message(submission.text, submission.images)
        emit = self.hub.emitter(submission)
        context = self._context_of(request)
        try:
            if submission.store_history:
                # The log's own calls: a context that was given may hold others.
                self.record.answer_lost_calls(self.context())
                provenance = request.settings.provenance
                self.record.open_turn(submission, spec, self.spec, provenance)
                self.record.prompt(prompt)
        except Exception as error:
            await _report_unstarted(emit, error)
            raise
        is_kept = submission.store_history
        return await self._loop(
            [*context, *lost_results(context), prompt],
            spec,
            self._ports(emit, spec, submission, is_kept=is_kept),
            is_kept=is_kept,
        )

    def _ports(
        self,
        emit: Emit,
        spec: LoopSpec,
        submission: Submission | None,
        *,
        is_kept: bool,
    ) -> LoopPorts:
        async def announce(notice: RetryNotice) -> None:
            await self.hub.bus.emit_channel(
                "retry", submission=submission, notice=notice
            )

        own = Limits(max_tokens=spec.options.max_tokens, max_cost=spec.max_cost)
        return LoopPorts(
            emit=emit,
            record=self.record.message if is_kept else _keep_nothing,
            signal=self.signal,
            stream=self.setup.stream,
            steer=OpenedSteering(waiting=self.steering, store=self._store_steered),
            tasks=self.tasks,
            budget=Budget(own=own, session=self.setup.limits, account=self.account),
            announce=announce,
        )

    async def _loop(
        self,
        context: Sequence[Message],
        spec: LoopSpec,
        ports: LoopPorts,
        *,
        is_kept: bool,
    ) -> list[Message]:
        try:
            outcome = await run_agent_loop(context, spec, ports)
        finally:
            if is_kept:
                self.record.sync()
        return list(outcome.messages)

    def _spec_of(self, submission: Submission, settings: TurnSettings) -> LoopSpec:
        spec = self.spec_for(settings)
        context = replace(spec.tool_context, submission_id=submission.submission_id)
        return replace(spec, tool_context=context)

    def spec_for(self, settings: TurnSettings) -> LoopSpec:
        """Give what a turn with `settings` runs.

        Raises:
            CallerError: They name a tool that the session does not have.
        """
        return apply_settings(self.spec, settings, api_keys=self.setup.api_keys)

    def _context_of(self, request: TurnRequest) -> list[Message]:
        if request.context is None:
            return self.context()
        given = list(request.context)
        # A head that keeps its own list has often added the prompt to it already.
        last = given[-1] if given else None
        if last is not None and last["role"] == "user":
            text = message_text(last)
            return given[:-1] if text == request.submission.text else given
        return given

    def _store_steered(self, submission: Submission) -> DeliveredMessage:
        message: UserMessage = user_message(submission.text, submission.images)
        entry_id = None
        if submission.store_history:
            self.record.open_turn(submission, self.spec, self.spec, {})
            entry_id = self.record.prompt(message)
        return DeliveredMessage(message=message, entry_id=entry_id)


def _keep_nothing(message: Message) -> None:
    del message


async def _report_unstarted(emit: Emit, error: Exception) -> None:
    await emit(AgentEvent(type="agent_start"))
    words = f"{type(error).__name__}: {error}"
    await emit(
        AgentEvent(
            type="agent_end",
            messages=(),
            end_reason="error",
            is_error=True,
            error=words,
        )
    )
