"""One display of an answer: what it shows and how much of that was sent."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias
from uuid import uuid4

from tau_kernel.messages import clean_text

from .markdown_safety import safe_markdown
from .render_folded import Thinking, ToolCall

if TYPE_CHECKING:
    from tau_kernel.messages import JsonObject

__all__ = ["AnswerPart", "PartContent", "Shown", "message_size"]

#: Bytes that a display has around its forms and metadata: two headers, the signature,
#: the topic, the frames, and what a server adds on a websocket.
_ENVELOPE: Final = 800

PartContent: TypeAlias = str | Thinking | ToolCall
Shown: TypeAlias = dict[str, str]


@dataclass(slots=True, kw_only=True)
class AnswerPart:
    """A piece of an answer with a display of its own.

    Args:
        content: Markdown as the model wrote it, or what is shown folded.
        metadata: What `metadata.tau` holds on its messages.
        display_id: Names the display for updates.
        closed: Whether the content is complete.
        shown: Whether any message was sent.
        stale: Whether the content holds something that no message carried.
        complete: Whether the message with every form was sent.
    """

    content: PartContent
    metadata: JsonObject
    display_id: str = field(default_factory=lambda: uuid4().hex)
    closed: bool = False
    shown: bool = False
    stale: bool = True
    complete: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to see."""
        match self.content:
            case str() as text:
                return not text.strip()
            case Thinking(text=text):
                return not text.strip()
            case ToolCall():
                return False

    @property
    def least_size(self) -> int:
        """Bytes below which the message with every form cannot be."""
        return 2 * len(self.content) if isinstance(self.content, str) else 0

    def forms(self, *, every: bool, remote_images: bool) -> Shown:
        """Give what to send: the main form alone, or every form."""
        content = self.content
        if isinstance(content, str):
            markdown = safe_markdown(content, remote_images=remote_images)
            shown = {"text/markdown": markdown}
            plain = clean_text(content)
        else:
            shown = {"text/html": content.html}
            plain = content.plain
        if every:
            shown["text/plain"] = plain
        return shown


def message_size(shown: Shown, metadata: JsonObject) -> int:
    """Give about how many bytes a display with this content takes on the wire."""
    content = json.dumps([shown, metadata], ensure_ascii=False)
    return len(content.encode("utf-8", "replace")) + _ENVELOPE
