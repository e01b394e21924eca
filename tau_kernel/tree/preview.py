"""One line of text for an entry, for rows and completions.

Full bodies come from `flat_text`; how rows are drawn is the heads' concern.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from tau_kernel.messages import JsonObject, JsonValue, Message, dump_line

from .entry import (
    CompactionEntryDict,
    CustomEntryDict,
    ElideEntryDict,
    EntryDict,
)
from .log_view import LogView, is_system_entry

__all__ = ["entry_preview", "flat_text"]

_NAMED_TOOLS: Final = 4
#: Kinds whose preview is text that somebody wrote, which may be empty.
_BY_TEXT: Final = frozenset({"message", "customMessage", "branch_summary"})


def flat_text(message: Message) -> str:
    """Give a whole message as plain text, blocks that are no text in brackets."""
    content = message["content"]
    if isinstance(content, str):
        return content
    return "".join(_block_text(cast("JsonObject", block)) for block in content)


def _block_text(block: JsonObject) -> str:
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "thinking", "thinking": str(text)}:
            return f"[thinking: {text}]"
        case {"type": "toolCall", "name": str(name), "arguments": dict(arguments)}:
            return f"[tool_call: {name}({dump_line(arguments).decode().strip()})]"
        case _:
            return f"[{block['type']}]"


def entry_preview(view: LogView, entry: EntryDict) -> str:
    """Give the first line that tells an entry from others.

    A kind that is unknown here, as a newer program may have written, gives its name.
    """
    kind: str = entry["type"]
    return _known_preview(view, entry) or ("" if kind in _BY_TEXT else kind)


def _known_preview(view: LogView, entry: EntryDict) -> str:
    match entry["type"]:
        case "message" | "customMessage":
            return _first_line(flat_text(entry["message"]))
        case "compaction" | "elide":
            return _anchor_preview(view, entry)
        case "branch_summary":
            return _first_line(entry["summary"])
        case "customEntry" if entry["customType"] == "agent_spec":
            return _spec_preview(view, entry)
        case "customEntry":
            return f"customEntry: {entry['customType']}"
        case "navigate":
            return f"navigate → {entry['targetId']}"
        case "model_change":
            return f"model_change: {entry['model']}"
        case "thinking_change":
            return f"thinking_change: {entry.get('level')}"
        case "session_info":
            return f"session_info: {entry['name']}"


def _first_line(text: str) -> str:
    stripped = text.strip()
    return stripped.splitlines()[0] if stripped else ""


def _anchor_preview(view: LogView, anchor: CompactionEntryDict | ElideEntryDict) -> str:
    verb = "folds" if anchor["type"] == "compaction" else "hides"
    boundary = anchor["firstKeptId"]
    above = view.path(anchor["id"])[:-1]
    ids = [entry["id"] for entry in above]
    if boundary in ids:
        covered = above[: ids.index(boundary)]
    elif _is_below(view, boundary, anchor["id"]):
        covered = view.context_entries(anchor["parentId"])
    else:
        return (
            f"{anchor['type']} → {boundary}: "
            f"resume point is not on this path ({verb} everything)"
        )
    count = sum(not is_system_entry(entry) for entry in covered)
    unit = "entry" if count == 1 else "entries"
    phrase = f"{verb} {count} {unit}, resumes at {boundary}"
    if anchor["type"] == "elide":
        return phrase
    return f"{phrase} — {_first_line(anchor['summary'])}"


def _is_below(view: LogView, entry_id: str | None, ancestor_id: str) -> bool:
    if entry_id is None or not view.contains(entry_id):
        return False
    return any(entry["id"] == ancestor_id for entry in view.path(entry_id)[:-1])


def _spec_preview(view: LogView, entry: CustomEntryDict) -> str:
    spec = entry["data"]
    earlier = _spec_above(view, entry)
    if earlier is None:
        told = f"{_model_of(spec)} · {_tools_phrase(_names(spec, 'tools'))}"
    else:
        told = "; ".join(_spec_changes(earlier, spec)) or "(unchanged)"
    return f"agent_spec: {told}"


def _spec_above(view: LogView, entry: CustomEntryDict) -> JsonObject | None:
    for above in reversed(view.path(entry["id"])[:-1]):
        if above["type"] == "customEntry" and above["customType"] == "agent_spec":
            return above["data"]
    return None


def _spec_changes(old: JsonObject, new: JsonObject) -> list[str]:
    changes: list[str] = []
    if _model_of(old) != _model_of(new):
        changes.append(f"model {_model_of(old)} → {_model_of(new)}")
    had, has = _names(old, "tools"), _names(new, "tools")
    moved = [f"+{name}" for name in has if name not in had]
    moved += [f"-{name}" for name in had if name not in has]
    if moved:
        changes.append(f"tools {' '.join(moved)}")
    if old.get("system_prompt_digest") != new.get("system_prompt_digest"):
        changes.append("new system prompt")
    if old.get("extensions") != new.get("extensions"):
        counts = [len(_items(spec, "extensions")) for spec in (old, new)]
        changes.append(f"extensions {counts[0]} → {counts[1]}")
    if old.get("cwd") != new.get("cwd"):
        changes.append(f"cwd {new.get('cwd')}")
    return changes


def _model_of(spec: Mapping[str, JsonValue]) -> str:
    model = spec.get("model")
    return str(model.get("id")) if isinstance(model, dict) else str(model)


def _items(spec: Mapping[str, JsonValue], key: str) -> list[JsonValue]:
    items = spec.get(key)
    return items if isinstance(items, list) else []


def _names(spec: Mapping[str, JsonValue], key: str) -> list[str]:
    return [str(item) for item in _items(spec, key)]


def _tools_phrase(tools: list[str]) -> str:
    if not tools:
        return "no tools"
    unit = "tool" if len(tools) == 1 else "tools"
    rest = len(tools) - _NAMED_TOOLS
    more = f" +{rest} more" if rest > 0 else ""
    return f"{len(tools)} {unit}: {', '.join(tools[:_NAMED_TOOLS])}{more}"
