"""Conversations as text for a summariser, and the files that they touched."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, assert_never, cast

from tau_kernel.messages import JsonObject, Message, dump_line

from .compaction_values import CompactionDetails

__all__ = [
    "files_of",
    "harmless",
    "join_files",
    "transcript",
    "with_files",
    "without_files",
]

#: Characters of a tool's arguments or result that a summary is written from.
_MOST_CHARACTERS: Final = 2000
#: A list of files that grew without end would fill the window it is to save.
_MOST_FILES: Final = 200
_READING: Final = frozenset({"read"})
_WRITING: Final = frozenset({"write", "edit"})
_OWN_TAG: Final = re.compile(r"</(conversation|previous-summary)", re.IGNORECASE)
_FILES: Final = re.compile(
    r"\n*<(read-files|modified-files)>\n(.*?)\n?</\1>\s*", re.DOTALL
)


def transcript(messages: Iterable[Message]) -> str:
    """Give messages as text, each part under the role that said it.

    Results and arguments of tools are cut at 2000 characters, and the cut says so.
    System messages, and custom ones that models do not see, are left out. Tags that
    could end the transcript's own are made harmless.
    """
    text = "\n\n".join(part for message in messages for part in _parts(message))
    return harmless(text)


def harmless(text: str) -> str:
    """Give a text that cannot end the tags that a request puts around it."""
    return _OWN_TAG.sub(r"<\\/\1", text)


def _parts(message: Message) -> Iterator[str]:
    match message["role"]:
        case "system":
            return
        case "user":
            yield f"[user]: {_flat(message)}"
        case "custom":
            if message.get("visibleToModel", True) is not False:
                yield f"[note from {message['customType']}]: {_flat(message)}"
        case "toolResult":
            said = "error" if message["is_error"] else "result"
            result = _shortened(_flat(message))
            yield f"[{said} of tool {message['tool_name']}]: {result}"
        case "assistant":
            for block in message["content"]:
                yield from _said(cast("JsonObject", block))
        case unknown:
            assert_never(unknown)


def _said(block: JsonObject) -> Iterator[str]:
    match block:
        case {"type": "text", "text": str(text)}:
            yield f"[assistant]: {text}"
        case {"type": "thinking", "thinking": str(text)}:
            yield f"[assistant, thinking]: {text}"
        case {"type": "toolCall", "name": str(name), "arguments": dict(arguments)}:
            given = _shortened(dump_line(arguments).decode().strip())
            yield f"[assistant calls tool {name}]: {given}"
        case _:
            pass


def _flat(message: Message) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    blocks = (cast("JsonObject", block) for block in content)
    return "".join(
        str(b.get("text", "")) if b["type"] == "text" else f"[{b['type']}]"
        for b in blocks
    )


def _shortened(text: str) -> str:
    left_out = len(text) - _MOST_CHARACTERS
    if left_out <= 0:
        return text
    return f"{text[:_MOST_CHARACTERS]}\n[… {left_out:,} more characters left out …]"


def files_of(messages: Sequence[Message]) -> CompactionDetails:
    """Give the files that calls of read, write and edit touched without an error."""
    failed = {
        message["tool_call_id"]
        for message in messages
        if message["role"] == "toolResult" and message["is_error"]
    }
    read: set[str] = set()
    modified: set[str] = set()
    for message in messages:
        if message["role"] != "assistant":
            continue
        for block in message["content"]:
            if block["type"] != "toolCall" or block["id"] in failed:
                continue
            path = block["arguments"].get("path")
            if not isinstance(path, str) or len(path.splitlines()) != 1:
                continue
            if block["name"] in _READING:
                read.add(path)
            elif block["name"] in _WRITING:
                modified.add(path)
    return _details(read, modified)


def join_files(
    first: CompactionDetails, second: CompactionDetails
) -> CompactionDetails:
    """Give the files of both; one that was modified counts as that."""
    return _details(
        {*first.read_files, *second.read_files},
        {*first.modified_files, *second.modified_files},
    )


def with_files(summary: str, files: CompactionDetails) -> str:
    """Give the summary with the lists of files below it, at most 200 paths each."""
    listed = (
        ("read-files", files.read_files),
        ("modified-files", files.modified_files),
    )
    blocks = [f"<{tag}>\n{_lines(paths)}\n</{tag}>" for tag, paths in listed if paths]
    return "\n\n".join([summary, *blocks])


def without_files(summary: str) -> tuple[str, CompactionDetails]:
    """Give a summary without its lists of files, and those files."""
    found: dict[str, set[str]] = {"read-files": set(), "modified-files": set()}
    for tag, lines in _FILES.findall(summary):
        found[tag] |= {line for line in lines.splitlines() if not line.startswith("[")}
    text = _FILES.sub("\n", summary).strip()
    return text, _details(found["read-files"], found["modified-files"])


def _details(read: set[str], modified: set[str]) -> CompactionDetails:
    return CompactionDetails(
        read_files=tuple(sorted(read - modified)),
        modified_files=tuple(sorted(modified)),
    )


def _lines(paths: Sequence[str]) -> str:
    more = len(paths) - _MOST_FILES
    rest = [f"[and {more:,} more]"] if more > 0 else []
    return "\n".join([*paths[:_MOST_FILES], *rest])
