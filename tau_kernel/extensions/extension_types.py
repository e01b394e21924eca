"""The types of a tool, and the dialogs that tools and extensions may open."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

from tau_kernel.errors import CallerError, HeadlessDialogError
from tau_kernel.flows import (
    form_headless_value,
    validate_form_spec,
    validate_form_values,
)
from tau_kernel.messages import (
    AbortSignal,
    ImageBlock,
    JsonObject,
    JsonValue,
    TextBlock,
)
from tau_kernel.submissions import user_input_permitted

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "HEADLESS_DIALOG_ANSWERS",
    "AgentTool",
    "AgentToolResult",
    "ExtensionUI",
    "NotifyLevel",
    "ToolContext",
    "ToolExecutionMode",
    "UiDelegate",
]

NotifyLevel: TypeAlias = Literal["info", "warning", "error"]
ToolExecutionMode: TypeAlias = Literal["sequential", "parallel"]

#: For each dialog, the answers that may be configured for when nobody is asked.
HEADLESS_DIALOG_ANSWERS: Final[Mapping[str, frozenset[str]]] = {
    "confirm": frozenset({"yes", "no", "true", "false"}),
    "select": frozenset({"first"}),
    "input": frozenset({"default"}),
    "form": frozenset({"defaults"}),
}


class UiDelegate(Protocol):
    """The head that shows dialogs to a person."""

    def notify(self, message: str, level: NotifyLevel, source: str | None) -> None:
        """Show a line; never waits."""

    async def confirm(self, title: str, message: str) -> bool:
        """Ask yes or no."""

    async def select(self, title: str, items: Sequence[str]) -> str | None:
        """Ask for one of `items`; None if the person declines to choose."""

    async def input(self, title: str, default: str) -> str:
        """Ask for a line of text."""

    async def form(self, spec: JsonObject) -> JsonObject | None:
        """Ask all fields of a valid form; None if the person declines."""


class ExtensionUI:
    """Asks the person at the head, where the submission at work allows it.

    A dialog goes to the delegate while there is one and the submission of this context
    permits questions. Otherwise the configured answer is given, or none and an error.
    Cancelling a dialog withdraws the question.
    """

    def __init__(self) -> None:
        """Start without a head and without configured answers."""
        self._delegate: UiDelegate | None = None
        self._policy: dict[str, str] = {}

    def set_delegate(self, delegate: UiDelegate | None) -> None:
        """Show dialogs through `delegate` from here on; None for nobody."""
        self._delegate = delegate

    def set_headless_defaults(self, policy: Mapping[str, str]) -> None:
        """Replace the answers given where nobody is asked.

        Args:
            policy: From dialog to answer, as in `HEADLESS_DIALOG_ANSWERS`; the case of
                letters does not matter.

        Raises:
            CallerError: A dialog or an answer is unknown; the old policy stays.
        """
        checked: dict[str, str] = {}
        for raw_method, raw_token in policy.items():
            method, token = raw_method.lower(), raw_token.lower()
            if method not in HEADLESS_DIALOG_ANSWERS:
                msg = (
                    f"ui-defaults: no dialog is named {raw_method!r}; "
                    f"there are {sorted(HEADLESS_DIALOG_ANSWERS)}"
                )
                raise CallerError(msg)
            if token not in HEADLESS_DIALOG_ANSWERS[method]:
                msg = (
                    f"ui-defaults: {method} cannot answer {raw_token!r}; "
                    f"it can answer {sorted(HEADLESS_DIALOG_ANSWERS[method])}"
                )
                raise CallerError(msg)
            checked[method] = token
        self._policy = checked

    async def confirm(self, title: str, message: str) -> bool:
        """Ask yes or no.

        Raises:
            HeadlessDialogError: Nobody may be asked and no answer is configured.
        """
        if (delegate := self._reachable()) is not None:
            return await delegate.confirm(title, message)
        return self._configured("confirm", title) in {"yes", "true"}

    async def select(self, title: str, items: Sequence[str]) -> str | None:
        """Ask for one of `items`; None if the person declines or there are none.

        Raises:
            HeadlessDialogError: Nobody may be asked and no answer is configured.
        """
        if (delegate := self._reachable()) is not None:
            return await delegate.select(title, items)
        self._configured("select", title)
        return items[0] if items else None

    async def input(self, title: str, default: str = "") -> str:
        """Ask for a line of text.

        Raises:
            HeadlessDialogError: Nobody may be asked and no answer is configured.
        """
        if (delegate := self._reachable()) is not None:
            return await delegate.input(title, default)
        self._configured("input", title)
        return default

    async def form(self, spec: JsonObject) -> JsonObject | None:
        """Ask all fields of a form; None if the person declines.

        Raises:
            CallerError: `spec` is no form, or the answers do not fit it.
            HeadlessDialogError: Nobody may be asked and no answer is configured.
        """
        title, fields = validate_form_spec(spec)
        if (delegate := self._reachable()) is None:
            self._configured("form", title)
            return {field["name"]: form_headless_value(field) for field in fields}
        answers = await delegate.form(spec)
        if answers is not None:
            validate_form_values(fields, answers)
        return answers

    def notify(
        self, message: str, level: NotifyLevel = "info", *, source: str | None = None
    ) -> None:
        """Show a line at the head, or on stderr where there is none."""
        if self._delegate is not None:
            self._delegate.notify(message, level, source)
        else:
            sys.stderr.write(f"[τ] {level}: {message}\n")

    def _reachable(self) -> UiDelegate | None:
        return self._delegate if user_input_permitted() else None

    def _configured(self, method: str, title: str) -> str:
        if method in self._policy:
            return self._policy[method]
        cause = (
            "no head is attached that could ask"
            if self._delegate is None
            else "this submission may not ask a person"
        )
        msg = (
            f"{method} dialog {title!r} cannot be shown: {cause}\n"
            f"configure its answer (ui_defaults in config.json, or --ui-defaults "
            f"{method}={min(HEADLESS_DIALOG_ANSWERS[method])}), or allow user input"
        )
        raise HeadlessDialogError(msg)


@dataclass(frozen=True, slots=True)
class AgentToolResult:
    """What a tool gives back.

    Args:
        content: What the model reads: text, or blocks of text and images.
        is_error: Whether the model shall read it as a failure.
        details: What only people see; plain JSON.
        terminate: Whether the run ends after this batch of calls.
    """

    content: str | Sequence[TextBlock | ImageBlock]
    _: KW_ONLY
    is_error: bool = False
    details: JsonValue = None
    terminate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """What a running tool may use of the session.

    Args:
        ui: Dialogs; they reach a person only where the submission allows it.
        signal: Raised when the turn is aborted; the tool's task is cancelled as well.
        submission_id: The submission it works for; None if none drives the turn.
        cwd: Where relative paths begin.
    """

    ui: ExtensionUI
    signal: AbortSignal
    submission_id: str | None
    cwd: Path


class AgentTool(Protocol):
    """Something a model may call."""

    @property
    def name(self) -> str:
        """The name that the model calls it by."""

    @property
    def description(self) -> str:
        """What the model is told about it."""

    @property
    def parameters(self) -> JsonObject:
        """The JSON schema of its arguments."""

    @property
    def execution_mode(self) -> ToolExecutionMode:
        """Whether it may run beside the other calls of one message."""

    async def execute(
        self,
        tool_call_id: str,
        params: JsonObject,
        signal: AbortSignal,
        on_update: Callable[[JsonValue], None],
        ctx: ToolContext,
    ) -> AgentToolResult | JsonValue:
        """Run one call whose arguments fit the schema.

        Args:
            tool_call_id: The id of the call.
            params: Its arguments.
            signal: Raised on abort, when this task is cancelled as well.
            on_update: Takes what is there so far; from any thread, never waits.
            ctx: What it may use of the session.

        Raises:
            ToolError: It failed in a way that the model should read.
        """
