"""Questions to the person at a client, over the stdin channel, without blocking.

A question is sent only for a cell that allows it and is still unanswered; every other
dialog raises at once.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal

import zmq

from tau_kernel.errors import HeadlessDialogError
from tau_kernel.extensions import FormField, form_headless_value, validate_form_spec
from tau_kernel.messages import JsonObject, JsonValue, clean_text

from .cell_request import CURRENT_REQUEST, CellRequest
from .main_thread import MainThread

if TYPE_CHECKING:
    from jupyter_client.session import Session

__all__ = ["StdinDialogs", "StdinExchange"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Question:
    request: CellRequest
    prompt: str
    password: bool
    answer: concurrent.futures.Future[str] = field(
        default_factory=concurrent.futures.Future
    )


class StdinExchange:
    """Sends questions and finds the reply to each; one is open per client at a time.

    The socket belongs to the main thread, which `main` reaches even while a Python
    cell blocks it.
    """

    def __init__(
        self, main: MainThread, session: Session, socket: zmq.Socket[bytes]
    ) -> None:
        """Use the kernel's stdin socket, read only while a question is open."""
        self._main = main
        self._session = session
        self._socket = socket
        self._open: dict[str, _Question] = {}
        self._unsent: list[_Question] = []
        self._waiting: deque[_Question] = deque()

    async def ask(self, request: CellRequest, prompt: str, *, password: bool) -> str:
        """Ask one question and wait for its answer, on any loop.

        Cancelling withdraws it.

        Raises:
            HeadlessDialogError: The cell does not allow questions, or not any more.
        """
        question = _Question(request=request, prompt=prompt, password=password)
        self._main.call(partial(self._begin, question))
        try:
            return await asyncio.wrap_future(question.answer)
        finally:
            self._main.call(partial(self._end, question))

    def withdraw_all(self) -> None:
        """Cancel every question; on the main thread."""
        for question in [*self._open.values(), *self._unsent, *self._waiting]:
            question.answer.cancel()

    def _begin(self, question: _Question) -> None:
        if question.answer.done():
            return
        if not question.request.may_ask:
            msg = (
                f"the question {question.prompt!r} cannot be asked: "
                "the cell allows no input\n"
                "run it in a notebook or console, or configure the answer (ui_defaults)"
            )
            question.answer.set_exception(HeadlessDialogError(msg))
            return
        client = list(question.request.identity)
        begun = [*self._open.values(), *self._unsent]
        if any(client == list(other.request.identity) for other in begun):
            self._waiting.append(question)
            return
        if not self._open:
            # Replies to questions that were withdrawn.
            self._received()
        self._unsent.append(question)
        self._send_all()
        if not begun:
            self._main.look(self._look)

    def _send_all(self) -> None:
        unsent, self._unsent = self._unsent, []
        for question in unsent:
            sent = self._sent(question)
            if sent is None:
                self._unsent.append(question)
            else:
                self._open[sent] = question

    def _sent(self, question: _Question) -> str | None:
        """Send a question and give its id; None if its client is not connected yet.

        The socket would drop such a message without a word, unless it is told not to,
        and a cell may ask sooner than its client's channel is there.
        """
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        try:
            sent = self._session.send(
                self._socket,
                "input_request",
                {"prompt": clean_text(question.prompt), "password": question.password},
                parent=dict(question.request.parent),
                ident=list(question.request.identity),
            )
        except zmq.ZMQError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise
            return None
        finally:
            self._socket.setsockopt(zmq.ROUTER_MANDATORY, 0)
        assert sent is not None
        return str(sent["header"]["msg_id"])

    def _end(self, question: _Question) -> None:
        self._open = {k: q for k, q in self._open.items() if q is not question}
        self._unsent = [other for other in self._unsent if other is not question]
        with contextlib.suppress(ValueError):
            self._waiting.remove(question)
        waiting, self._waiting = self._waiting, deque()
        for one in waiting:
            self._begin(one)

    def _look(self) -> bool:
        """Read what came, and say whether to look again: ZeroMQ signals edges only."""
        for identity, reply in self._received() if self._open else ():
            question = self._question_of(identity, reply)
            if question is not None and not question.answer.done():
                content = reply.get("content")
                value = content.get("value", "") if isinstance(content, dict) else ""
                question.answer.set_result(str(value))
        self._send_all()
        return bool(self._open or self._unsent)

    def _question_of(
        self, identity: Sequence[bytes], reply: Mapping[str, object]
    ) -> _Question | None:
        """Find whose reply it is; blocking clients do not name the question."""
        parent = reply.get("parent_header") or {}
        named = parent.get("msg_id") if isinstance(parent, dict) else None
        if named in self._open:
            found = self._open[named]
            is_theirs = list(found.request.identity) == list(identity)
            return found if is_theirs else None
        if named is not None:
            return None
        mine = [
            question
            for question in self._open.values()
            if list(question.request.identity) == list(identity)
        ]
        return mine[0] if mine else None

    def _received(self) -> list[tuple[list[bytes], Mapping[str, object]]]:
        found: list[tuple[list[bytes], Mapping[str, object]]] = []
        while True:
            try:
                identity, reply = self._session.recv(self._socket)
            except ValueError:
                # Not signed with the kernel's key, or sent twice: nobody's answer.
                continue
            if reply is None:
                return found
            found.append((identity or [], reply))


class StdinDialogs:
    """The dialogs of the session's tools and extensions, asked on stdin.

    Called on the session's thread.
    """

    def __init__(
        self,
        exchange: StdinExchange,
        notify: Callable[[str, str, str | None], None],
    ) -> None:
        """Ask through `exchange`, and show notices through `notify`."""
        self._exchange = exchange
        self._notify = notify

    def notify(
        self,
        message: str,
        level: Literal["info", "warning", "error"],
        source: str | None,
    ) -> None:
        """Show a line on the cell that caused it, or in the kernel's log."""
        self._notify(message, level, source)

    async def confirm(self, title: str, message: str) -> bool:
        """Ask yes or no, until the answer is one of them."""
        text = f"{title}: {message} [y/n] " if message else f"{title} [y/n] "
        while True:
            answer = (await self._ask(text)).strip().lower()
            if answer in {"y", "yes"}:
                return True
            if answer in {"n", "no", ""}:
                return False

    async def select(self, title: str, items: Sequence[str]) -> str | None:
        """Ask for one of `items` by number or text; an empty answer declines."""
        listed = "\n".join(f"  {n}. {item}" for n, item in enumerate(items, 1))
        while True:
            answer = (await self._ask(f"{title}\n{listed}\nnumber: ")).strip()
            if not answer:
                return None
            if answer in items:
                return answer
            if answer.isdecimal() and 1 <= int(answer) <= len(items):
                return items[int(answer) - 1]

    async def input(self, title: str, default: str) -> str:
        """Ask for a line of text; an empty answer takes the default."""
        shown = f"{title} [{default}]: " if default else f"{title}: "
        return await self._ask(shown) or default

    async def form(self, spec: JsonObject) -> JsonObject | None:
        """Ask the fields of a form one after another."""
        _, fields = validate_form_spec(spec)
        return {field["name"]: await self._ask_field(field) for field in fields}

    async def _ask_field(self, field: FormField) -> JsonValue:
        label, fallback = field["label"], form_headless_value(field)
        match field["kind"]:
            case "confirm":
                return await self.confirm(label, "")
            case "select":
                return await self.select(label, field["options"]) or fallback
            case "multiselect":
                answer = await self._ask(f"{label} (separate with commas): ")
                chosen = [item.strip() for item in answer.split(",")]
                return [item for item in chosen if item] or fallback
            case "number":
                return await self._ask_number(label, fallback)
            case _:
                return await self.input(label, str(fallback))

    async def _ask_number(self, label: str, fallback: JsonValue) -> JsonValue:
        while True:
            answer = (await self._ask(f"{label} [{fallback}]: ")).strip()
            if not answer:
                return fallback
            with contextlib.suppress(ValueError):
                return float(answer) if "." in answer else int(answer)

    async def _ask(self, prompt: str) -> str:
        request = CURRENT_REQUEST.get()
        if request is None:
            msg = f"the question {prompt!r} belongs to no cell; nobody can be asked"
            raise HeadlessDialogError(msg)
        return await self._exchange.ask(request, prompt, password=False)
