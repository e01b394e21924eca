"""A log with a header, a model and a name: what stored sessions have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tau_kernel.errors import CallerError
from tau_kernel.messages import JsonObject, Message, message_text, system_message
from tau_kernel.tree import (
    EntryDict,
    EntryLog,
    ModelChangeEntryDict,
    SessionInfoEntryDict,
    copy_of_json,
)

from .session_catalog import short_title

__all__ = ["ConversationLog"]


class ConversationLog(EntryLog):
    """An `EntryLog` that is a `ConversationSession`."""

    def __init__(
        self,
        header: JsonObject,
        entries: Sequence[EntryDict] = (),
        *,
        sink: Callable[[EntryDict], None] | None = None,
    ) -> None:
        """Start from what is stored; header and entries are this log's from here on."""
        super().__init__(str(header["id"]), entries, sink=sink)
        self._header = header
        self._read = 0
        self._model: ModelChangeEntryDict | None = None
        self._info: SessionInfoEntryDict | None = None
        self._first_prompt = ""

    @property
    def header(self) -> JsonObject:
        """The session's header, a copy each time."""
        return copy_of_json(self._header)

    @property
    def cwd(self) -> str:
        """The directory that the session was made in."""
        return str(self._header["cwd"])

    @property
    def messages(self) -> list[Message]:
        """Copies of all messages in load order, whatever branch they are on."""
        return [
            copy_of_json(entry["message"])
            for entry in self.view()
            if entry["type"] == "message"
        ]

    @property
    def context(self) -> list[Message]:
        """Copies of the messages that a model sees at the cursor."""
        return copy_of_json(self.view().context_for(self.cursor))

    @property
    def model(self) -> str:
        """The newest model on record; a ValueError where there is none."""
        return self._newest_model()["model"]

    @property
    def backend(self) -> str:
        """The newest model's backend; a ValueError where there is none."""
        return self._newest_model()["backend"]

    @property
    def session_name(self) -> str | None:
        """The newest name on record, or None."""
        self._read_on()
        return None if self._info is None else self._info["name"]

    def append_model_change(self, model: str, backend: str) -> str:
        """Record another model at the cursor and move there."""
        return self._append("model_change", {"model": model, "backend": backend})

    def append_session_info(self, name: str) -> str:
        """Record another name at the cursor and move there."""
        return self._append("session_info", {"name": name})

    def append_thinking_change(self, level: str) -> str:
        """Record another reasoning level at the cursor and move there."""
        return self._append("thinking_change", {"level": level})

    def display_title(self) -> str:
        """Give the name, else the start of the first user message, else the model."""
        self._read_on()
        model = self._model["model"] if self._model is not None else self.id
        return short_title(self.session_name, self._first_prompt, model)

    def begin(
        self, model: str, backend: str, system_prompt: str | None, name: str | None
    ) -> None:
        """Append what a new session starts with."""
        self.append_model_change(model, backend)
        if name is not None:
            self.append_session_info(name)
        if system_prompt is not None:
            self.append_message(system_message(system_prompt))

    def _newest_model(self) -> ModelChangeEntryDict:
        self._read_on()
        if self._model is None:
            msg = (
                f"session {self.id} has no model on record; "
                "set one with append_model_change"
            )
            raise CallerError(msg)
        return self._model

    def _read_on(self) -> None:
        view = self.view()
        for at in range(self._read, len(view)):
            entry = view[at]
            if entry["type"] == "model_change":
                self._model = entry
            elif entry["type"] == "session_info":
                self._info = entry
            elif entry["type"] == "message" and entry["message"]["role"] == "user":
                self._first_prompt = self._first_prompt or message_text(
                    entry["message"]
                )
        self._read = len(view)
