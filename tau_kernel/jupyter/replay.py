"""An answer drawn again from the log, after its outputs were lost."""

from __future__ import annotations

from collections.abc import Iterator

from tau_kernel.errors import CallerError
from tau_kernel.messages import (
    AssistantMessage,
    JsonObject,
    ToolResultMessage,
    clean_json,
)
from tau_kernel.submissions import AgentEvent
from tau_kernel.tree import EntryDict, LogView, SessionLog

__all__ = ["answer_events", "find_submission"]


def find_submission(log: SessionLog, start: str) -> EntryDict:
    """Give the entry of the one submission whose id begins with `start`.

    Raises:
        CallerError: There is none, or more than one.
    """
    found = [
        entry
        for entry in log.view()
        if _submission_id(entry).startswith(start) and _submission_id(entry)
    ]
    if not found:
        msg = (
            f"no submission of this conversation begins with {start!r}\n"
            "give a submission_id, as it stands in an output's metadata.tau"
        )
        raise CallerError(msg)
    if len({_submission_id(entry) for entry in found}) > 1:
        ids = ", ".join(_submission_id(entry) for entry in found[:5])
        msg = f"{start!r} begins several submissions ({ids}); give more of the id"
        raise CallerError(msg)
    return found[0]


def answer_events(log: SessionLog, submission: EntryDict) -> Iterator[AgentEvent]:
    """Give the events that draw what followed from a submission."""
    view = log.view()
    calls: dict[str, JsonObject] = {}
    for entry in _turn(view, submission):
        if entry["type"] != "message":
            continue
        message = entry["message"]
        if message["role"] == "assistant":
            yield AgentEvent(type="message_start", message=message)
            yield AgentEvent(type="message_end", message=message, entry_id=entry["id"])
            calls |= _calls(message)
        elif message["role"] == "toolResult":
            yield _tool_end(message, calls)


def _turn(view: LogView, submission: EntryDict) -> Iterator[EntryDict]:
    """Give what hangs from a submission, up to the one that comes after it."""
    children = view.children_of(submission["id"])
    while children:
        # The first: what was begun again from within the turn hangs beside it.
        entry = view.entry(children[0])
        if _submission_id(entry):
            return
        yield entry
        children = view.children_of(entry["id"])


def _submission_id(entry: EntryDict) -> str:
    if entry["type"] != "customEntry" or entry["customType"] != "submission":
        return ""
    found = entry["data"].get("submission_id")
    return found if isinstance(found, str) else ""


def _calls(message: AssistantMessage) -> dict[str, JsonObject]:
    blocks = (block for block in message["content"] if block["type"] == "toolCall")
    return {block["id"]: block["arguments"] for block in blocks}


def _tool_end(message: ToolResultMessage, calls: dict[str, JsonObject]) -> AgentEvent:
    return AgentEvent(
        type="tool_execution_end",
        tool_call_id=message["tool_call_id"],
        tool_name=message["tool_name"],
        args=calls.get(message["tool_call_id"], {}),
        result=clean_json(message["content"]),
        is_error=message["is_error"],
    )
