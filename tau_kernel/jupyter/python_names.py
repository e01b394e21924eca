"""The name `tau` in Python cells."""

from __future__ import annotations

import concurrent.futures
import copy
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, cast

from tau_kernel.agent import AgentSession, TurnSettings
from tau_kernel.errors import CallerError, ModelError
from tau_kernel.messages import (
    AssistantMessage,
    JsonObject,
    Message,
    UsageDict,
    message_text,
)
from tau_kernel.submissions import Submission, SubmissionResult

from .cell_options import CellOptions
from .cell_request import CURRENT_REQUEST, CellRequest
from .conversation import Conversation
from .interrupts import Interrupts
from .main_thread import MainThread

__all__ = ["Answer", "SessionView", "TauNames"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer of a model.

    Args:
        text: The answer's text, stripped.
        model: Who answered.
        usage: Tokens it took; None if the provider did not say.
        stop_reason: Why it ended.
    """

    text: str
    model: str
    usage: UsageDict | None
    stop_reason: str

    def _repr_markdown_(self) -> str:
        return self.text


class SessionView:
    """The conversation as it is, safe to use from Python cells: all are copies."""

    def __init__(self, conversation: Conversation) -> None:
        """Look at `conversation`."""
        self._conversation = conversation

    @property
    def id(self) -> str | None:
        """The session's id; None before the first prompt."""
        return self._read(lambda session: session.session_log.id)

    @property
    def cursor(self) -> str | None:
        """The entry that the next turn hangs from."""
        return self._read(lambda session: session.session_log.cursor)

    @property
    def messages(self) -> list[Message]:
        """The messages at the cursor, oldest first."""
        return self._read(lambda session: session.messages) or []

    @property
    def path(self) -> str | None:
        """The file that the conversation is kept in."""
        return self._read(lambda s: str(getattr(s.session_log, "path", "")) or None)

    def _read(self, reader: Callable[[AgentSession], T]) -> T | None:
        session = self._conversation.session
        if session is None:
            return None
        if self._conversation.thread.is_current:
            return reader(session)
        return self._conversation.thread.call(lambda: reader(session)).result()


class TauNames:
    """What Python cells find under ``tau``."""

    def __init__(
        self, conversation: Conversation, main: MainThread, interrupts: Interrupts
    ) -> None:
        """Work on `conversation`, for cells that run on `main`."""
        self._conversation = conversation
        self._main = main
        self._interrupts = interrupts
        self.session = SessionView(conversation)

    @property
    def last(self) -> Answer:
        """The newest answer.

        Raises:
            CallerError: Nothing was answered yet.
        """
        for message in reversed(self.session.messages):
            if message["role"] == "assistant" and message["content"]:
                return _answer(message)
        msg = "there is no answer yet; run a prompt first"
        raise CallerError(msg)

    def submit(
        self,
        text: str,
        *,
        model: str | None = None,
        temperature: float | None = None,
        seed: int | None = None,
        max_tokens: int | None = None,
        system: str | None = None,
    ) -> concurrent.futures.Future[SubmissionResult]:
        """Submit a prompt behind what is running, and do not wait.

        It may not ask a person: it may outlive the cell.
        """
        options = CellOptions(
            model=model,
            temperature=temperature,
            seed=seed,
            max_tokens=max_tokens,
            system=system,
        )
        return self._conversation.thread.run(self._submit(text, options, None))

    def ask(
        self,
        text: str,
        *,
        model: str | None = None,
        temperature: float | None = None,
        seed: int | None = None,
        max_tokens: int | None = None,
        system: str | None = None,
    ) -> Answer:
        """Submit a prompt and wait for its answer; an interrupt aborts it.

        A tool may ask the person at the cell, if the cell allows input.

        Raises:
            ModelError: The turn ended without an answer.
            CallerError: A tool or a hook called it on the conversation's own thread.
        """
        if self._conversation.thread.is_current:
            msg = (
                "tau.ask was called on the conversation's own thread, which cannot "
                "wait for itself\n"
                "call it with asyncio.to_thread, or take tau.submit"
            )
            raise CallerError(msg)
        options = CellOptions(
            model=model,
            temperature=temperature,
            seed=seed,
            max_tokens=max_tokens,
            system=system,
        )
        work = self._submit(text, options, CURRENT_REQUEST.get())
        future = self._conversation.thread.run(work)

        def give_up() -> None:
            future.cancel()
            session = self._conversation.session
            if session is not None:
                session.abort()

        if self._main.is_current:
            result = self._main.wait(future, self._interrupts, give_up)
        else:
            result = future.result()
        for message in reversed(result.messages):
            if message["role"] == "assistant":
                return _answer(copy.deepcopy(message))
        msg = f"the prompt {text!r} ended without an answer"
        raise ModelError(msg)

    async def _submit(
        self, text: str, options: CellOptions, asker: CellRequest | None
    ) -> SubmissionResult:
        config = self._conversation.config()
        model = self._conversation.model(options.model, config)
        session = await self._conversation.open(model, config)
        settings = TurnSettings(
            model=model,
            temperature=options.temperature,
            seed=options.seed,
            max_tokens=options.max_tokens,
            system_prompt=options.system,
        )
        submission = self._submission(text, asker)
        return await session.submit(submission, settings=settings)

    def _submission(self, text: str, asker: CellRequest | None) -> Submission:
        request = CURRENT_REQUEST.get()
        correlation: JsonObject = {} if request is None else request.correlation
        # A cell id here would make this turn the cell's own when it is run again.
        correlation.pop("cell_id", None)
        return Submission(
            text=text,
            source="interactive",
            submitter="human",
            submission_id=uuid.uuid4().hex,
            multitask_strategy="enqueue",
            allow_user_input=asker is not None and asker.allow_stdin,
            correlation=correlation,
        )

    def __repr__(self) -> str:
        return "<tau: ask(text), submit(text), session, last>"


def _answer(message: AssistantMessage) -> Answer:
    return Answer(
        text=message_text(cast("Message", message)).strip(),
        model=message["model"],
        usage=message["usage"],
        stop_reason=message["stop_reason"],
    )
