"""An answer while it is written: the one place where events are built.

Each event carries a snapshot that later ones do not change. `estimated_usage` counts
tokens for providers that have no tokenizer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tau_kernel.messages import (
    AssistantBlock,
    AssistantMessage,
    JsonObject,
    Message,
    StopReason,
    ToolCallBlock,
    Usage,
    UsageDict,
    assistant_message,
    estimate_tokens,
    estimated_tokens,
)

from .model import (
    DoneEvent,
    Model,
    TextDeltaEvent,
    ThinkingDeltaEvent,
    ToolCallDeltaEvent,
)

__all__ = ["Draft", "estimated_usage", "tool_call_block"]


class Draft:
    """The blocks of one answer, growing at the end."""

    def __init__(self, model: Model) -> None:
        """Start with no blocks."""
        self._blocks: list[AssistantBlock] = []
        self._frame = assistant_message(
            [], model=model.id, provider=model.provider, api=model.api
        )

    def add_text(self, delta: str) -> TextDeltaEvent:
        """Append prose, in a block of its own after anything else."""
        last = self._blocks[-1] if self._blocks else None
        if last is not None and last["type"] == "text":
            self._blocks[-1] = {"type": "text", "text": last["text"] + delta}
        else:
            self._blocks.append({"type": "text", "text": delta})
        return TextDeltaEvent(delta=delta, partial=self.partial())

    def add_thinking(self, delta: str) -> ThinkingDeltaEvent:
        """Append thinking, in a block of its own after anything else."""
        last = self._blocks[-1] if self._blocks else None
        if last is not None and last["type"] == "thinking":
            self._blocks[-1] = {**last, "thinking": last["thinking"] + delta}
        else:
            self._blocks.append({"type": "thinking", "thinking": delta})
        return ThinkingDeltaEvent(delta=delta, partial=self.partial())

    def add_tool_call(self, call: ToolCallBlock) -> ToolCallDeltaEvent:
        """Append a tool call, or replace the one that has its id."""
        for at, block in enumerate(self._blocks):
            if block["type"] == "toolCall" and block["id"] == call["id"]:
                self._blocks[at] = call
                break
        else:
            self._blocks.append(call)
        return ToolCallDeltaEvent(partial=self.partial())

    def has_text(self) -> bool:
        """Whether any prose or thinking was written."""
        return any(block["type"] != "toolCall" for block in self._blocks)

    def blocks(self) -> list[AssistantBlock]:
        """Give the blocks so far, in a list of the caller's own."""
        return list(self._blocks)

    def partial(self) -> AssistantMessage:
        """Give the answer so far; it does not change afterwards."""
        # A copy of the frame, not `{**frame}`: mypy knows `copy` of a TypedDict.
        message = self._frame.copy()
        message["content"] = self.blocks()
        return message

    def done(
        self,
        stop_reason: StopReason,
        usage: UsageDict,
        *,
        content: Sequence[AssistantBlock] | None = None,
        response_id: str | None = None,
    ) -> DoneEvent:
        """Give the last event of a complete answer.

        Args:
            stop_reason: Why the answer ended.
            usage: What it cost.
            content: Blocks in place of those drafted, where the provider knows more.
            response_id: The provider's name of the answer.
        """
        final = self.partial()
        if content is not None:
            final["content"] = list(content)
        final["stop_reason"] = stop_reason
        final["usage"] = usage
        final["response_id"] = response_id
        return DoneEvent(final=final, usage=usage)


def tool_call_block(call_id: str, name: str, arguments: JsonObject) -> ToolCallBlock:
    """Make the block that asks for one run of a tool."""
    return {"type": "toolCall", "id": call_id, "name": name, "arguments": arguments}


def estimated_usage(messages: Iterable[Message], answer: str) -> UsageDict:
    """Estimate the usage of a request and its answer; the record says so."""
    asked = sum(estimate_tokens(message) for message in messages)
    answered = estimated_tokens(answer)
    return Usage(
        input_tokens=asked,
        output_tokens=answered,
        total_tokens=asked + answered,
        extra={"estimated": True},
    ).to_dict()
