r"""Markdown that a model or a tool wrote, made safe to hand to a front end.

Model text is data. Outside code, raw HTML is shown instead of obeyed, links lead to
http, https or mail alone, remote images become links (fetching one tells its server
who reads), and ``$`` is typeset only where mathematics is meant. Code stays as it is.

Outside code the rules are lists of what may pass, matched on the very letters, so
that no spelling by entities, escapes or control characters gets round them. Deciding
what *is* code needs a Markdown parser; wherever code holds something that would be
dangerous outside it, the result is parsed once more, and if the parser sees anything
live there, all of the text is treated as prose. The front end's sanitizer is a
second fence behind this one.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cache
from typing import TYPE_CHECKING, Final

from tau_kernel.messages import clean_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from markdown_it import MarkdownIt
    from markdown_it.token import Token

__all__ = ["safe_markdown"]

_AUTOLINK: Final = re.compile(
    r"<(?:https?://|mailto:)[^\s<>\"'`\\\x00-\x1f]+>", re.IGNORECASE
)
_DESTINATION: Final = re.compile(
    rf"[ \t]*(?:(?:https?://|mailto:)[^\s<]|{_AUTOLINK.pattern})", re.IGNORECASE
)
_SPECIAL: Final = re.compile(
    r"[\\`<$]|!(?=\[)|(?<=\])[(:]|(?<=ftp):(?=//)", re.IGNORECASE
)
_MAY_HOLD_CODE: Final = re.compile(r"`|~~~|^(?: {4}| {0,3}\t)", re.MULTILINE)
_TAG_START: Final = re.compile(r"[A-Za-z/!?]")
_BACKTICKS: Final = re.compile(r"`+")
_BLANK_LINE: Final = re.compile(r"\n[ \t]*\n")
_PUNCTUATION: Final = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_LIVE_OUTSIDE_CODE: Final = re.compile(r"<[A-Za-z/!?]|!\[|\][(:]")
# Space means nothing to TeX, and it takes a tag, link or image apart.
_LIVE_IN_MATHS: Final = re.compile(r"<(?=[A-Za-z/!?])|!(?=\[)|\](?=[(:])")
_ALLOWED: Final = ("http://", "https://", "mailto:")


def safe_markdown(text: str, *, remote_images: bool = False) -> str:
    """Give `text` as Markdown that shows the same and does nothing else.

    It may be called on any beginning of a text that is still arriving.

    Args:
        text: Markdown by a model or a tool.
        remote_images: Whether images at http and https addresses stay images. All
            other images, those in ``data:`` addresses included, never do.
    """
    text = clean_text(text).replace("\r\n", "\n").replace("\r", "\n")
    text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    if _SPECIAL.search(text) is None:
        return text
    if _MAY_HOLD_CODE.search(text) is None:
        return _Prose(text, remote_images=remote_images).rewrite(())
    pieces, risky = _rewrite(text, remote_images=remote_images)
    result = "".join(pieces)
    if risky and not _is_inert(result, remote_images=remote_images):
        return _Prose(text, remote_images=remote_images).rewrite(())
    return result


def _rewrite(text: str, *, remote_images: bool) -> tuple[list[str], bool]:
    lines = text.split("\n")
    last = len(lines) - 1
    ended = [f"{line}\n" if n < last else line for n, line in enumerate(lines)]
    code, cuts = _layout(text, len(lines))
    pieces: list[str] = []
    risky = False
    start = 0
    while start < len(ended):
        end = start
        while end < len(ended) and code[end] == code[start]:
            end += 1
        region = ended[start:end]
        if code[start]:
            pieces += region
            risky = risky or any(map(_LIVE_OUTSIDE_CODE.search, region))
        else:
            prose = _Prose("".join(region), remote_images=remote_images)
            pieces.append(prose.rewrite(_bounds(region, cuts, start)))
            risky = risky or prose.has_risky_code
        start = end
    return pieces, risky


def _layout(text: str, count: int) -> tuple[list[bool], dict[int, bool]]:
    """Tell which lines are code, and at which lines an inline run begins or ends.

    Returns:
        For each line whether it is code; and by line number the cuts between inline
        runs, true where the line is a table's, whose cells are runs of their own.
    """
    code = [False] * count
    cuts: dict[int, bool] = {}
    tables: list[tuple[int, int]] = []
    for token in _block_parser().parse(text):
        if token.map is None:
            continue
        first, end = token.map
        if token.type in {"fence", "code_block"}:
            code[first:end] = [True] * (min(end, count) - first)
        elif token.type == "inline":
            cuts.setdefault(first, False)
            cuts.setdefault(end, False)
        elif token.type == "table_open":
            tables.append((first, end))
    for first, end in tables:
        cuts.update(dict.fromkeys(range(first, end), True))
    return code, cuts


def _bounds(region: Sequence[str], cuts: dict[int, bool], start: int) -> list[int]:
    """Give the offsets in `region` that no code span may cross."""
    bounds: list[int] = []
    offset = 0
    for number, line in enumerate(region, start):
        if number in cuts:
            bounds.append(offset)
        if cuts.get(number, False):
            bounds += [offset + n for n, char in enumerate(line) if char == "|"]
        offset += len(line)
    return bounds


class _Prose:
    """One run of text outside code blocks, rewritten from left to right."""

    def __init__(self, text: str, *, remote_images: bool) -> None:
        self._text = text
        self._remote_images = remote_images
        self._out: list[str] = []
        self._bounds: Sequence[int] = ()
        self._spans = False
        self.has_risky_code = False

    def rewrite(self, bounds: Iterable[int]) -> str:
        """Give the safe text.

        Args:
            bounds: Offsets that code spans may not cross; if there is none, nothing
                counts as code.
        """
        self._bounds = sorted(bounds)
        self._spans = bool(self._bounds)
        self._out = []
        text = self._text
        position = 0
        while (found := _SPECIAL.search(text, position)) is not None:
            self._out.append(text[position : found.start()])
            position = self._special(found.start(), text[found.start()])
        self._out.append(text[position:])
        return "".join(self._out)

    def _special(self, at: int, char: str) -> int:
        """Write what stands at `at` and give where to go on."""
        match char:
            case "\\":
                return self._escape(at)
            case "`":
                return self._backticks(at)
            case "<":
                return self._angle(at)
            case "$":
                return self._dollar(at)
            case "!":
                return self._image(at)
            case _:
                return self._destination(at, char)

    def _escape(self, at: int) -> int:
        following = self._text[at + 1 : at + 2]
        if following == "<":
            return self._angle(at + 1)
        if following in _PUNCTUATION:
            self._out.append(self._text[at : at + 2])
            return at + 2
        self._out.append("\\")
        return at + 1

    def _backticks(self, at: int) -> int:
        text = self._text
        opening = _BACKTICKS.match(text, at)
        assert opening is not None, "called where a backtick stands"
        end = opening.end()
        if self._spans:
            following = bisect_right(self._bounds, at)
            bound = [*self._bounds[following : following + 1], len(text)][0]
            for closing in _BACKTICKS.finditer(text, end, bound):
                if closing.group() == opening.group():
                    end = closing.end()
                    break
        span = text[at:end]
        if _LIVE_OUTSIDE_CODE.search(span) is not None:
            self.has_risky_code = True
        self._out.append(span)
        return end

    def _angle(self, at: int) -> int:
        link = _AUTOLINK.match(self._text, at)
        if link is not None and self._text[at - 1 : at] != "\\":
            self._out.append(link.group())
            return link.end()
        is_tag = _TAG_START.match(self._text, at + 1) is not None
        self._out.append("&lt;" if is_tag else "<")
        return at + 1

    def _dollar(self, at: int) -> int:
        end = _end_of_maths(self._text, at)
        if end is None:
            self._out.append("\\$")
            return at + 1
        formula = self._text[at:end]
        self._out.append(_LIVE_IN_MATHS.sub(lambda m: f"{m.group()} ", formula))
        return end

    def _image(self, at: int) -> int:
        if self._remote_images:
            self._out.append("!")
        elif self._text[at - 1 : at] == "!":
            self._out.append("\\!")
        if self._text.startswith("![]", at) and not self._remote_images:
            self._out.append("[image]")
            return at + 3
        return at + 1

    def _destination(self, at: int, char: str) -> int:
        after_bracket = self._text[at - 1] == "]"
        if after_bracket and _DESTINATION.match(self._text, at + 1) is not None:
            self._out.append(char)
        else:
            self._out.append(f"\\{char}")
        return at + 1


def _end_of_maths(text: str, at: int) -> int | None:
    """Give where the formula that opens at `at` ends; None if the sign is a dollar."""
    if text.startswith("$$", at):
        end = text.find("$$", at + 2)
        inner = text[at + 2 : end]
        if end < 0 or not inner.strip() or "`" in inner or _BLANK_LINE.search(inner):
            return None
        return end + 2
    end = at + 1
    while end < len(text) and text[end] not in "$\n`":
        end += 2 if text[end] == "\\" else 1
    inner = text[at + 1 : end]
    if not text.startswith("$", end) or not inner or "\n" in inner:
        return None
    if inner != inner.strip() or text[end + 1 : end + 2].isdigit():
        return None
    return end + 1


@cache
def _block_parser() -> MarkdownIt:
    # Imported at the first answer with code: it takes longer than a kernel's budget
    # for starting allows, and many answers need no parser.
    from markdown_it import MarkdownIt  # noqa: PLC0415

    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.core.ruler.disable(["inline"])
    return parser


def _any_link(url: str) -> bool:
    del url
    return True


@cache
def _full_parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # noqa: PLC0415 - as in `_block_parser`

    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    # Its own judgement of links would hide from us the ones that it refuses.
    parser.validateLink = _any_link  # type: ignore[method-assign]
    return parser


def _is_inert(text: str, *, remote_images: bool) -> bool:
    """Tell whether a parser that obeys HTML finds nothing but harmless links."""
    return all(
        _is_harmless(token, remote_images=remote_images)
        for token in _flat(_full_parser().parse(text))
    )


def _flat(tokens: Iterable[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from _flat(token.children or ())


def _is_harmless(token: Token, *, remote_images: bool) -> bool:
    match token.type:
        case "html_block" | "html_inline":
            return False
        case "image":
            source = str(token.attrs.get("src", "")).lower()
            return remote_images and source.startswith(_ALLOWED)
        case "link_open":
            return str(token.attrs.get("href", "")).lower().startswith(_ALLOWED)
        case _:
            return True
