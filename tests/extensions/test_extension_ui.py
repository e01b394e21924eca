from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import pytest

from tau_kernel.errors import CallerError, HeadlessDialogError
from tau_kernel.extensions import HEADLESS_DIALOG_ANSWERS, ExtensionUI, NotifyLevel
from tau_kernel.messages import JsonObject
from tau_kernel.submissions import SUBMISSION_ALLOWS_USER_INPUT

Result = TypeVar("Result")

FORM: JsonObject = {
    "title": "Order",
    "fields": [
        {"name": "size", "kind": "select", "options": ["S", "L"]},
        {"name": "count", "kind": "number", "default": 2},
    ],
}
FILLED: JsonObject = {"size": "L", "count": 9}


@dataclass(slots=True)
class Person:
    """A head whose person answers as told, and who notes what was asked."""

    agrees: bool = True
    chooses: str | None = "b"
    types: str = "typed"
    fills: JsonObject | None = field(default_factory=lambda: dict(FILLED))
    seen: list[object] = field(default_factory=list)

    def notify(self, message: str, level: NotifyLevel, source: str | None) -> None:
        self.seen.append((message, level, source))

    async def confirm(self, title: str, message: str) -> bool:
        self.seen.append((title, message))
        return self.agrees

    async def select(self, title: str, items: Sequence[str]) -> str | None:
        self.seen.append((title, items))
        return self.chooses

    async def input(self, title: str, default: str) -> str:
        self.seen.append((title, default))
        return self.types

    async def form(self, spec: JsonObject) -> JsonObject | None:
        self.seen.append(spec)
        return self.fills


Ask = Callable[[ExtensionUI], Awaitable[object]]
DIALOGS: dict[str, Ask] = {
    "confirm": lambda ui: ui.confirm("Sure?", "It is gone then."),
    "select": lambda ui: ui.select("Which?", ["a", "b"]),
    "input": lambda ui: ui.input("Name?", "nobody"),
    "form": lambda ui: ui.form(FORM),
}

each_dialog = pytest.mark.parametrize("dialog", list(DIALOGS))


def ui_of(person: Person | None = None, **policy: str) -> ExtensionUI:
    ui = ExtensionUI()
    ui.set_delegate(person)
    ui.set_headless_defaults(policy)
    return ui


def ask(ui: ExtensionUI, dialog: str, *, allowed: bool | None = None) -> object:
    """Open a dialog in a submission that allows questions, forbids them, or neither."""

    async def scenario() -> object:
        SUBMISSION_ALLOWS_USER_INPUT.set(allowed)
        return await DIALOGS[dialog](ui)

    return contextvars.copy_context().run(asyncio.run, scenario())


@each_dialog
@pytest.mark.parametrize("allowed", [None, True])
def test_a_person_who_may_be_asked_answers(dialog: str, allowed: bool | None) -> None:
    answers = {
        "confirm": True,
        "select": "b",
        "input": "typed",
        "form": {"size": "L", "count": 9},
    }
    asked = {
        "confirm": ("Sure?", "It is gone then."),
        "select": ("Which?", ["a", "b"]),
        "input": ("Name?", "nobody"),
        "form": FORM,
    }
    person = Person()
    assert ask(ui_of(person), dialog, allowed=allowed) == answers[dialog]
    assert person.seen == [asked[dialog]]


@each_dialog
def test_a_person_is_asked_although_an_answer_is_configured(dialog: str) -> None:
    person = Person()
    ask(ui_of(person, **{dialog: min(HEADLESS_DIALOG_ANSWERS[dialog])}), dialog)
    assert len(person.seen) == 1


@each_dialog
def test_a_person_is_not_disturbed_where_the_submission_forbids_it(
    dialog: str,
) -> None:
    person = Person()
    with pytest.raises(HeadlessDialogError, match="may not ask a person"):
        ask(ui_of(person), dialog, allowed=False)
    assert person.seen == []


@each_dialog
def test_where_nobody_is_there_the_error_says_how_to_configure_an_answer(
    dialog: str,
) -> None:
    with pytest.raises(HeadlessDialogError) as caught:
        ask(ui_of(), dialog)
    told = str(caught.value)
    assert told.startswith(f"{dialog} dialog ")
    assert "no head is attached" in told
    assert f"--ui-defaults {dialog}=" in told
    assert told.count("\n") < 3


@pytest.mark.parametrize(
    ("dialog", "token", "answer"),
    [
        ("confirm", "yes", True),
        ("confirm", "TRUE", True),
        ("confirm", "no", False),
        ("confirm", "false", False),
        ("select", "first", "a"),
        ("input", "default", "nobody"),
        ("form", "Defaults", {"size": "S", "count": 2}),
    ],
)
@pytest.mark.parametrize("is_there", [True, False])
def test_a_configured_answer_is_given_where_nobody_may_be_asked(
    dialog: str, token: str, answer: object, is_there: bool
) -> None:
    person = Person() if is_there else None
    ui = ui_of(person, **{dialog.upper(): token})
    assert ask(ui, dialog, allowed=False) == answer


def test_an_answer_for_one_dialog_is_none_for_another() -> None:
    with pytest.raises(HeadlessDialogError):
        ask(ui_of(confirm="yes"), "input")


def test_there_is_no_first_of_nothing() -> None:
    assert asyncio.run(ui_of(select="first").select("Which?", [])) is None


@pytest.mark.parametrize(
    ("policy", "fault"),
    [
        ({"panel": "yes"}, "no dialog is named 'panel'"),
        ({"confirm": "maybe"}, "confirm cannot answer 'maybe'"),
        ({"select": "last"}, "select cannot answer 'last'"),
    ],
)
def test_an_unknown_answer_is_refused_and_the_old_ones_stay(
    policy: dict[str, str], fault: str
) -> None:
    ui = ui_of(confirm="yes")
    with pytest.raises(CallerError, match=f"^ui-defaults: {fault}"):
        ui.set_headless_defaults({"input": "default", **policy})
    assert ask(ui, "confirm") is True
    with pytest.raises(HeadlessDialogError):
        ask(ui, "input")


def test_configured_answers_are_replaced_as_a_whole() -> None:
    ui = ui_of(confirm="yes", input="default")
    ui.set_headless_defaults({"input": "default"})
    assert ask(ui, "input") == "nobody"
    with pytest.raises(HeadlessDialogError):
        ask(ui, "confirm")


def test_a_head_that_left_is_not_asked() -> None:
    person = Person()
    ui = ui_of(person, confirm="no")
    ui.set_delegate(None)
    assert ask(ui, "confirm") is False
    assert person.seen == []


def test_a_person_may_decline_to_choose_and_to_fill_in() -> None:
    person = Person(chooses=None, fills=None)
    assert [ask(ui_of(person), "select"), ask(ui_of(person), "form")] == [None, None]


def test_answers_that_do_not_fit_the_form_are_refused() -> None:
    person = Person(fills={"size": "M", "count": 1})
    with pytest.raises(CallerError, match="'M' of 'size' is not one of"):
        ask(ui_of(person), "form")


def test_what_is_no_form_is_shown_to_nobody() -> None:
    person = Person()
    with pytest.raises(CallerError, match=r"^ui\.form: "):
        asyncio.run(ui_of(person).form({"fields": []}))
    assert person.seen == []


def test_cancelling_a_dialog_withdraws_the_question() -> None:
    withdrawn: list[bool] = []

    class Silent(Person):
        async def confirm(self, title: str, message: str) -> bool:
            self.seen.append(title)
            try:
                return bool(await asyncio.Event().wait())
            finally:
                withdrawn.append(True)

    async def scenario() -> None:
        asking = asyncio.ensure_future(ui_of(Silent()).confirm("Sure?", ""))
        asyncio.get_running_loop().call_soon(asking.cancel)
        with pytest.raises(asyncio.CancelledError):
            await asking

    asyncio.run(scenario())
    assert withdrawn == [True]


@pytest.mark.parametrize("allowed", [True, False])
def test_a_notice_reaches_the_head_whatever_the_submission_allows(
    allowed: bool,
) -> None:
    person = Person()

    def notify() -> None:
        SUBMISSION_ALLOWS_USER_INPUT.set(allowed)
        ui_of(person).notify("done", "warning", source="x.py")

    contextvars.copy_context().run(notify)
    assert person.seen == [("done", "warning", "x.py")]


def test_a_notice_without_a_head_goes_to_stderr(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ui_of().notify("done")
    assert capsys.readouterr().err == "[τ] info: done\n"
