"""The session as its users see it: one class of short methods over the parts.

Admission decides who may start a turn, the runner what a turn does, the hub who hears
of it, the ledger what it cost. The log is given; where it is stored is its own affair.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import copy
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict

from tau_kernel.errors import CallerError
from tau_kernel.extensions import (
    AgentTool,
    ExtensionUI,
    ToolContext,
    ToolExecutionMode,
    UiDelegate,
)
from tau_kernel.flows import (
    CommandInvocation,
    Performed,
    completed,
    resolve_command,
)
from tau_kernel.messages import (
    AbortSignal,
    ImageBlock,
    JsonObject,
    Message,
    UsageDict,
    last_assistant_text,
)
from tau_kernel.models import Model, ReasoningLevel, StreamOptions, stream_simple
from tau_kernel.submissions import AgentEvent, Submission, SubmissionResult
from tau_kernel.tree import (
    EntryDict,
    SessionLog,
    session_log_is_addressable,
)

from .admission import Admission
from .branches import Branches, BranchResult
from .compaction_policy import CompactionPolicy
from .compaction_values import (
    CompactionRecord,
    CompactionResult,
    CompactionSettings,
    SessionStats,
)
from .compactor import Compactor, CompactorPorts
from .event_hub import EventHub
from .limits import Limits, Spending
from .loop_types import LoopSpec, StreamFunction
from .retry import RetryPolicy
from .summary_prompts import SummaryPrompts
from .turn_runner import RunnerSetup, TurnRequest, TurnRunner
from .turn_settings import TurnSettings

__all__ = [
    "AgentSession",
    "CompactionRecord",
    "ModelSummary",
    "SessionState",
    "SessionStats",
]


class ModelSummary(TypedDict):
    """What is told of the model in use; the window is in tokens."""

    id: str
    provider: str
    context_window: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionState:
    """A session at one moment; its identity is the log's id, never a path."""

    entries: tuple[EntryDict, ...]
    session_path: str
    active_entry_id: str | None
    model: str
    model_name: str
    cwd: str
    system_prompt: str
    session_name: str | None


class AgentSession:
    """A conversation with an agent: takes submissions, runs turns, keeps the log.

    It belongs to one event loop, the first that uses it; from other threads only
    `submit_threadsafe` and `abort` may be called.
    """

    def __init__(  # noqa: PLR0917 - the reference's signature
        self,
        session_log: SessionLog,
        model: Model,
        system_prompt: str = "",
        tools: Sequence[AgentTool] | None = None,
        api_key: str | None = None,
        reasoning: ReasoningLevel | None = None,
        compaction_settings: CompactionSettings | None = None,
        compaction_policy: CompactionPolicy | None = None,
        model_resolver: Callable[[str], Model] | None = None,
        max_turns: int | None = None,
        tool_execution_mode: ToolExecutionMode = "parallel",
        *,
        cwd: Path | None = None,
        stream: StreamFunction = stream_simple,
        limits: Limits | None = None,
        retry: RetryPolicy | None = None,
        prompts: SummaryPrompts | None = None,
    ) -> None:
        """Bind the parts to `session_log`; nothing is written before the first turn.

        Args:
            session_log: Where the conversation is kept.
            model: Who answers.
            system_prompt: What the model is told first.
            tools: What the model may call.
            api_key: For the provider of `model`.
            reasoning: How hard the model thinks, a level's name.
            compaction_settings: When the context is compacted, and how much stays.
            compaction_policy: A promise that decides the same; not both.
            model_resolver: Turns a name into a model, for `set_model`.
            max_turns: Completions of one submission at most, from 1.
            tool_execution_mode: ``"sequential"`` runs every call by itself.
            cwd: Where the tools' relative paths begin; the process's where None.
            stream: Gives the events of one completion.
            limits: What the session may spend, what its log tells included.
            retry: How a request that failed is made again.
            prompts: What summarisers are told; the shipped texts where None.

        Raises:
            CallerError: `max_turns` is less than 1, or both compaction settings and a
                policy are given.
            CompactionPolicyError: The policy does not go with the model.
        """
        Limits(max_turns=max_turns)
        self._cwd = Path.cwd() if cwd is None else cwd
        self._resolver = model_resolver
        self._ui = ExtensionUI()
        spec = LoopSpec(
            model=model,
            tool_context=_tool_context(self._ui, self._cwd),
            system_prompt=system_prompt,
            tools=tuple(tools or ()),
            options=StreamOptions(reasoning=reasoning),
            max_turns=max_turns,
            tool_execution_mode=tool_execution_mode,
            retry=retry or RetryPolicy(),
        )
        keys = {} if api_key is None else {model.provider: api_key}
        limits = limits or Limits()
        setup = RunnerSetup(stream=stream, cwd=self._cwd, api_keys=keys, limits=limits)
        self._runner = TurnRunner(session_log, spec, setup, EventHub())
        self._compactor = Compactor(
            self._runner,
            _compactor_ports(self._runner),
            settings=compaction_settings,
            policy=compaction_policy,
            prompts=prompts,
        )
        self._runner.compactor = self._compactor
        self._branches = Branches(self._runner)
        self._admission = Admission(self._runner, self._branches)

    @property
    def session_log(self) -> SessionLog:
        """The log that the conversation is kept in."""
        return self._runner.log

    @property
    def system_prompt(self) -> str:
        """What the model is told first, unless a submission says otherwise."""
        return self._runner.spec.system_prompt

    @property
    def messages(self) -> list[Message]:
        """A copy of the conversation at the cursor; empty before the root."""
        return copy.deepcopy(self._runner.context())

    @property
    def state(self) -> SessionState:
        """The session as it is, its entries copied."""
        log, model = self._runner.log, self._runner.spec.model
        return SessionState(
            entries=tuple(log.entries()),
            session_path=log.id,
            active_entry_id=log.cursor,
            model=model.id,
            model_name=model.name,
            cwd=str(self._cwd),
            system_prompt=self.system_prompt,
            session_name=getattr(log, "session_name", None),
        )

    @property
    def is_streaming(self) -> bool:
        """Whether a turn runs; true until an aborted one has unwound."""
        return self._admission.is_running

    @property
    def is_aborted(self) -> bool:
        """Whether the turn in flight was told to stop."""
        return self.is_streaming and self._runner.signal.is_aborted()

    @property
    def is_addressable(self) -> bool:
        """Whether the log can be opened again later."""
        return session_log_is_addressable(self._runner.log)

    @property
    def turn_lock(self) -> asyncio.Lock:
        """The lock that a turn holds; never take it from within a turn."""
        return self._admission.lock

    @property
    def side_usage(self) -> dict[str, int]:
        """Tokens spent outside the loop so far, a copy."""
        return self._runner.ledger.side

    @property
    def spending(self) -> Spending:
        """What the session spent, on every branch, side work included."""
        return self._runner.ledger.spending

    async def submit(
        self,
        sub: Submission,
        *,
        context: Sequence[Message] | None = None,
        on_admitted: Callable[[], None] | None = None,
        settings: TurnSettings | None = None,
    ) -> SubmissionResult:
        """Take a submission, run its turn, and give the result.

        Args:
            sub: What is asked, by whom, and what to do if a turn is running.
            context: The conversation to use in place of the session's.
            on_admitted: Called once when the turn is certain to run; must not raise.
            settings: For this turn only.

        Returns:
            The turn's messages, or why the submission was refused.

        Raises:
            RuntimeError: Called from a foreign loop, or from within the running turn.
            LimitError: Submissions caused submissions too deep.
            NotImplementedError: There is no such strategy.
            Exception: What ended the turn; what was produced until then is stored,
                and the session takes the next submission.
        """
        return await self._admission.submit(
            TurnRequest(
                submission=sub,
                settings=settings or TurnSettings(),
                context=context,
                on_admitted=on_admitted,
            )
        )

    def submit_threadsafe(
        self,
        sub: Submission,
        *,
        context: Sequence[Message] | None = None,
        settings: TurnSettings | None = None,
    ) -> concurrent.futures.Future[SubmissionResult]:
        """Submit from another thread; the arguments are those of `submit`.

        Cancelling the future keeps the turn from running until it is taken up.

        Raises:
            RuntimeError: The session has no live loop, or it is the calling one.
        """
        return self._admission.submit_threadsafe(
            TurnRequest(
                submission=sub, settings=settings or TurnSettings(), context=context
            )
        )

    async def prompt(
        self,
        text: str,
        images: list[ImageBlock] | None = None,
        context: Sequence[Message] | None = None,
    ) -> list[Message]:
        """Ask as a person at the keyboard would, and give the turn's messages."""
        submission = Submission(
            text=text,
            source="interactive",
            submitter="human",
            submission_id=uuid.uuid4().hex,
            images=images,
            multitask_strategy="enqueue",
            expand_commands=True,
            allow_user_input=True,
        )
        return (await self.submit(submission, context=context)).messages

    async def continue_conversation(self) -> list[Message]:
        """Run the loop again without a new message, and give what it added.

        Raises:
            RuntimeError: A turn is in flight.
        """
        return await self._admission.go_on()

    def abort(self) -> None:
        """End the turn in flight and all branches; from any thread.

        What was produced is kept.
        """
        self._runner.abort()
        self._branches.abort()

    def abort_branch(self, submission_id: str) -> None:
        """End the branch of one submission, if it runs; from any thread."""
        self._branches.abort(submission_id)

    def branch_finished(self, submission_id: str) -> Awaitable[BranchResult]:
        """Give the end of a branch that a submission with ``fork`` began, to wait for.

        Raises:
            CallerError: No branch of this submission runs.
        """
        return self._branches.finished(submission_id)

    def subscribe(self, handler: Callable[[AgentEvent], object]) -> Callable[[], None]:
        """Call `handler` with every event; gives the function that ends that."""
        return self._runner.hub.subscribe(handler)

    def subscribe_channel(
        self, channel: str, handler: Callable[..., object]
    ) -> Callable[[], None]:
        """Call `handler` for each call on a channel that carries no agent events.

        ``submission_start`` has the keywords submission, text and images,
        ``submission_end`` submission and side_usage.
        """
        return self._runner.hub.bus.on(channel, handler)

    def get_model(self) -> ModelSummary:
        """Give the id, provider and window of the model in use."""
        model = self._runner.spec.model
        return {
            "id": model.id,
            "provider": model.provider,
            "context_window": model.context_window,
        }

    def set_model(self, name: str) -> ModelSummary:
        """Answer by the model of this name from the next turn on.

        Raises:
            RuntimeError: No resolver is bound.
            CompactionPolicyError: The policy does not go with the model.
            Exception: What the resolver raises for an unknown name.
        """
        if self._resolver is None:
            msg = f"no resolver can find model {name!r}; call set_model_resolver first"
            raise RuntimeError(msg)
        model = self._resolver(name)
        before = self._runner.spec
        self._runner.spec = replace(before, model=model)
        try:
            self._compactor.rebind()
        finally:
            self._runner.spec, wanted = before, self._runner.spec
        self._runner.set_spec(wanted)
        return self.get_model()

    def set_model_resolver(self, resolver: Callable[[str], Model]) -> None:
        """Let `set_model` find models through `resolver`."""
        self._resolver = resolver

    def set_limits(self, limits: Limits) -> None:
        """Hold the session to `limits` from the next turn on."""
        self._runner.setup = replace(self._runner.setup, limits=limits)

    async def compact(
        self, custom_instructions: str | None = None
    ) -> CompactionResult | None:
        """Put a summary in the place of the conversation's older part.

        It waits for the turn in flight. An abort ends it and leaves all as it was.

        Args:
            custom_instructions: What the summary should look at besides.

        Returns:
            What was done; None where there is nothing to compact.

        Raises:
            CompactionError: No summary came about; the log is unchanged.
        """
        return await self._admission.alone(
            lambda: self._compactor.compact(custom_instructions, self._runner.signal)
        )

    async def compact_messages(
        self, messages: list[Message], custom_instructions: str | None = None
    ) -> list[Message] | None:
        """Put a summary before the newest turn of a list that a head keeps itself.

        Args:
            messages: The list; read, never changed, and the log is not touched.
            custom_instructions: What the summary should look at besides.

        Returns:
            System messages, the summary and the newest turn; None where there is
            nothing before that turn.

        Raises:
            CompactionError: No summary came about.
        """
        return await self._compactor.compact_messages(messages, custom_instructions)

    async def summarize_and_navigate(
        self, target_id: str, *, custom_instructions: str | None = None
    ) -> list[Message]:
        """Leave what hangs from an entry with a summary, and give the context there.

        Args:
            target_id: The entry to go back to.
            custom_instructions: What the summary should heed besides.

        Raises:
            CallerError: `target_id` names no entry, or nothing hangs from it.
            BranchSummaryError: The model gave no summary; the log is unchanged.
        """
        return await self._admission.alone(
            lambda: self._compactor.leave_branch(
                target_id, custom_instructions, self._runner.signal
            )
        )

    def set_auto_compaction(self, enabled: bool) -> bool:  # noqa: FBT001 - the reference's signature
        """Turn compaction after turns on or off, in this process, and give what holds.

        Raises:
            CompactionPolicyError: A policy decides that.
        """
        return self._compactor.set_auto(enabled=enabled)

    def get_last_compaction(self) -> CompactionRecord | None:
        """Give the log's newest compaction, on any branch; None without one."""
        return self._compactor.last_compaction()

    def get_session_stats(self) -> SessionStats:
        """Give the accounts of the session and the compaction settings in force."""
        return self._compactor.stats(self._runner.ledger.latest)

    def performed(
        self, mutation: str, data: JsonObject, *, flow: str | None = None
    ) -> Performed:
        """Give the outcome of a mutation with the cursor that it declares.

        Args:
            mutation: The capability that ran.
            data: What it gave, without the cursor.
            flow: The flow that named it, if one did.

        Raises:
            KeyError: There is no such capability.
            ValueError: It is a read, or `data` has a cursor already.
        """
        return completed(mutation, data, cursor=self._runner.log.cursor, flow=flow)

    def resolve_command(self, text: str) -> CommandInvocation | None:
        """Say which command a text is; None for prose. Nothing runs."""
        return resolve_command(text, {})

    def get_usage(self) -> UsageDict | None:
        """Give the newest completion's usage, a copy; None before the first."""
        return self._runner.ledger.latest

    def record_side_usage(self, usage: Mapping[str, int]) -> None:
        """Add the tokens of a completion outside the loop."""
        self._runner.ledger.record_side(usage)

    def get_last_assistant_text(self) -> str | None:
        """Give the newest answer's text, stripped, or None where there is none."""
        return last_assistant_text(self._runner.context())

    def get_session_name(self) -> str | None:
        """Give the session's stored name; None if it was never named.

        Raises:
            RuntimeError: The log has no place for a name.
        """
        log = self._runner.log
        if not hasattr(log, "session_name"):
            msg = f"the log of session {log.id} cannot keep a name; store it in a file"
            raise RuntimeError(msg)
        name: str | None = log.session_name
        return name

    def set_session_name(self, name: str) -> None:
        """Name the session; the name is stored and no model reads it.

        Raises:
            CallerError: The name is empty.
            RuntimeError: The log has no place for a name.
        """
        if not name:
            msg = f"session name {name!r} is empty; give at least one character"
            raise CallerError(msg)
        log = self._runner.log
        append = getattr(log, "append_session_info", None)
        if append is None:
            msg = f"the log of session {log.id} cannot keep a name; store it in a file"
            raise RuntimeError(msg)
        append(name)

    async def emit_session_start(self, reason: str = "startup") -> None:
        """Claim the running loop for the session, and announce its start."""
        self._admission.bind_loop()
        await self._emit_lifecycle("session_start", reason)

    async def emit_session_shutdown(self, reason: str = "quit") -> None:
        """End the turn and all that other threads submitted, and announce it."""
        await self._admission.close()
        await self._emit_lifecycle("session_shutdown", reason)

    def set_ui_delegate(self, delegate: UiDelegate | None) -> None:
        """Show dialogs through `delegate`; None for nobody."""
        self._ui.set_delegate(delegate)

    def set_headless_ui_defaults(self, policy: Mapping[str, str]) -> None:
        """Replace the answers that dialogs have where nobody is asked.

        Raises:
            CallerError: A dialog or an answer is unknown; the old policy stays.
        """
        self._ui.set_headless_defaults(policy)

    async def _emit_lifecycle(self, kind: str, reason: str) -> None:
        event = {"type": kind, "session": self, "reason": reason}
        await self._runner.hub.bus.emit_channel(kind, event)


def _tool_context(ui: ExtensionUI, cwd: Path) -> ToolContext:
    # The signal and the submission are those of each turn.
    return ToolContext(ui=ui, signal=AbortSignal(), submission_id=None, cwd=cwd)


def _compactor_ports(runner: TurnRunner) -> CompactorPorts:
    return CompactorPorts(
        emit=runner.hub.emitter(None),
        bank=runner.ledger.record_side,
        api_key_of=lambda model: runner.setup.api_keys.get(model.provider),
        sync=runner.record.sync,
    )
