"""What is shown folded: a model's thinking and its tool calls.

Each is an HTML ``details`` element, which opens without scripts or widgets, and the
same in plain text. The element is ours; what stands in it is escaped.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from tau_kernel.messages import clean_json, clean_text

if TYPE_CHECKING:
    from tau_kernel.messages import JsonObject, JsonValue

__all__ = ["RESULT_LIMIT", "Thinking", "ToolCall", "ToolStatus", "call_line"]

RESULT_LIMIT: Final = 4096
"""Characters of a tool's arguments or result that are shown."""
_LINE_LIMIT: Final = 120

ToolStatus: TypeAlias = Literal["running", "done", "failed", "blocked", "interrupted"]
_ICONS: Final[dict[ToolStatus, str]] = {
    "running": "⏳",
    "done": "✓",
    "failed": "✗",
    "blocked": "⛔",
    "interrupted": "⏹",
}
_PRE: Final = '<pre style="white-space: pre-wrap; overflow-wrap: anywhere">'


@dataclass(frozen=True, slots=True, kw_only=True)
class Thinking:
    """A piece of what a model thought."""

    text: str

    @property
    def html(self) -> str:
        """The folded element."""
        return _details("Thinking…", escape(clean_text(self.text)))

    @property
    def plain(self) -> str:
        """The same in plain text."""
        return f"[thinking]\n{clean_text(self.text)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call of a tool and what came of it so far."""

    name: str
    arguments: JsonObject
    result: JsonValue = None
    status: ToolStatus = "running"

    @property
    def html(self) -> str:
        """The folded element."""
        summary = (
            f"{_ICONS[self.status]} <code>{escape(clean_text(self.name))}</code> "
            f"<small>{self.status}</small>"
        )
        return _details(summary, escape(self._body()))

    @property
    def plain(self) -> str:
        """The same in plain text."""
        return f"[tool] {clean_text(self.name)} {self.status}\n{self._body()}"

    def _body(self) -> str:
        arguments = _capped(_json(self.arguments, indent=2))
        result = _capped(_result_text(self.result))
        return f"{arguments}\n\n{result}" if result else arguments


def call_line(call: ToolCall) -> str:
    """Give a call as one short line, ``name(key=value, …)``."""
    shown = ", ".join(f"{key}={_json(value)}" for key, value in call.arguments.items())
    line = " ".join(clean_text(f"{call.name}({shown})").split())
    return line if len(line) <= _LINE_LIMIT else f"{line[: _LINE_LIMIT - 1]}…"


def _details(summary: str, body: str) -> str:
    return f"<details><summary>{summary}</summary>{_PRE}{body}</pre></details>"


def _json(value: JsonValue, indent: int | None = None) -> str:
    return json.dumps(clean_json(value), ensure_ascii=False, indent=indent)


def _result_text(result: JsonValue) -> str:
    """Give what a tool gave back as text: its text blocks, or else its JSON."""
    if result is None:
        return ""
    if isinstance(result, str):
        return clean_text(result)
    blocks = result.get("content", result) if isinstance(result, dict) else result
    if isinstance(blocks, list):
        return "\n".join(map(_block_text, blocks))
    return _json(blocks)


def _block_text(block: JsonValue) -> str:
    if isinstance(block, dict):
        text = block.get("text")
        if isinstance(text, str):
            return clean_text(text)
        if block.get("type") == "image":
            return f"[image {_json(block.get('mime_type'))}]"
    return _json(block)


def _capped(text: str) -> str:
    if len(text) <= RESULT_LIMIT:
        return text
    return f"{text[:RESULT_LIMIT]}\n… {len(text) - RESULT_LIMIT} characters more"
