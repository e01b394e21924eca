r"""Files and images that a prompt names with ``@path``.

A mention is ``@path`` or ``@"a path.txt"`` at the start of a word, outside code.
``\@`` is an at sign and no mention. What a mention names is read here, once; how the
model is shown text and images is decided by the message they are put into.
"""

from __future__ import annotations

import base64
import codecs
import errno
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from html import escape
from itertools import islice
from pathlib import Path
from typing import Final

from tau_kernel.errors import CallerError
from tau_kernel.messages import ImageBlock

from .code_ranges import code_ranges

__all__ = [
    "IMAGE_LIMIT",
    "TEXT_LIMIT",
    "Attached",
    "Mention",
    "attach",
    "find_mentions",
    "load_image",
]

TEXT_LIMIT: Final = 256 * 1024
"""Bytes of a text file that are attached; the rest is cut, and the cut is stated."""
IMAGE_LIMIT: Final = 10 * 1024 * 1024
"""Bytes that an image may have."""
MENTION_START: Final = r"(?<![\w.+\-%/@\\$])@"
"""Where a mention may begin: not in an address, a link or a shell's ``$@``."""
BARE_PATH_CHARACTER: Final = r"""[^\s"'`<>|*,;]"""
"""What a path without quotes may consist of."""

_MENTION: Final = re.compile(
    rf"""{MENTION_START}(?:"(?P<quoted>[^"\n]+)"|(?P<bare>{BARE_PATH_CHARACTER}+))"""
)
_ESCAPE: Final = re.compile(r"\\@")
_TRAILING: Final = ".:!?…。、，！？：；’”»"  # noqa: RUF001 - marks that end Chinese and Japanese words
_OPENING: Final = {")": "(", "]": "[", "}": "{"}
_EXTENSION: Final = re.compile(r"[^./\\]\.(?=[0-9]*[A-Za-z])[A-Za-z0-9]{1,10}\Z")
_TICKS: Final = re.compile(r"`+")
_NAMES_LOOKED_AT: Final = 2000
_SHOWN: Final = 120

#: What the operating system says where there is nothing of that name.
_NOTHING_THERE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})

_IMAGE_SUFFIXES: Final = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp"})
_MAGIC: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_RIFF: Final = b"RIFF"
_WEBP: Final = b"WEBP"
_HEAD: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """One ``@path`` of a text.

    Args:
        start: Where the at sign stands, in code points.
        end: Where the mention ends, its closing quote included.
        path: The path as written, without at sign and quotes.
    """

    start: int
    end: int
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """A prompt with what it names.

    Args:
        text: The prompt, its escapes resolved, and a section for each text file.
        images: The images, in the order in which they are named.
        files: Every file that was read, each once.
    """

    text: str
    images: tuple[ImageBlock, ...]
    files: tuple[Path, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Named:
    """A path that somebody wrote, and how errors speak of it.

    Args:
        name: The path as written.
        path: Where it leads.
        shown: The mention or option as it is shown in errors.
        way_out: What to do if no file is meant.
    """

    name: str
    path: Path
    shown: str
    way_out: str


def find_mentions(text: str) -> tuple[Mention, ...]:
    """Find each ``@path`` outside code, whether or not there is such a file."""
    code = code_ranges(text)
    return tuple(
        mention
        for found in _outside(code, _MENTION.finditer(text))
        if (mention := _mention(found)) is not None
    )


def _outside(
    ranges: tuple[tuple[int, int], ...], matches: Iterator[re.Match[str]]
) -> Iterator[re.Match[str]]:
    """Give the matches, which ascend, that begin in none of the ranges."""
    index = 0
    for found in matches:
        while index < len(ranges) and ranges[index][1] <= found.start():
            index += 1
        if index == len(ranges) or found.start() < ranges[index][0]:
            yield found


def _mention(found: re.Match[str]) -> Mention | None:
    if found["quoted"]:
        return Mention(start=found.start(), end=found.end(), path=found["quoted"])
    path = _up_to_stray_bracket(found["bare"]).rstrip(_TRAILING)
    if not path:
        return None
    return Mention(start=found.start(), end=found.start() + 1 + len(path), path=path)


def _up_to_stray_bracket(path: str) -> str:
    """Cut at the first closing bracket that belongs to the text around the path."""
    is_open = dict.fromkeys(_OPENING.values(), 0)
    for at, char in enumerate(path):
        if char in is_open:
            is_open[char] += 1
        elif char in _OPENING:
            if not is_open[_OPENING[char]]:
                return path[:at]
            is_open[_OPENING[char]] -= 1
    return path


def attach(text: str, cwd: Path, images: Sequence[str] = ()) -> Attached:
    r"""Read what `text` and `images` name and give it with the text.

    Mentions stay where they are. Each text file follows the prompt once, as a
    ``<file>`` section around a fence longer than any run of backticks in the file,
    so that no file can end its own section. A mention of nothing that exists is
    prose, unless it has a slash or an extension.

    Args:
        text: The prompt as written.
        cwd: Where relative paths begin.
        images: Paths of the option ``image=``; they come before those of `text`.

    Raises:
        CallerError: A mention names no file though it looks like one, a directory,
            a file that cannot be read, or one that is neither UTF-8 text nor a PNG,
            JPEG, GIF or WebP image of at most `IMAGE_LIMIT` bytes; or one of
            `images` is not such an image.
    """
    sections: list[str] = []
    blocks: list[ImageBlock] = []
    files: dict[Path, None] = {}
    for name in images:
        option = _option(name, cwd)
        if option.path not in files:
            blocks.append(_option_image(option))
            files[option.path] = None
    for mention in find_mentions(text):
        named = _mentioned(mention.path, cwd)
        if named.path in files or not _is_file(named):
            continue
        files[named.path] = None
        mime_type = _image_type(named)
        if mime_type is None:
            sections.append(_section(named))
        else:
            blocks.append(_image(named, mime_type))
    prompt = _unescape(text)
    return Attached(
        text="\n\n".join([prompt, *sections]),
        images=tuple(blocks),
        files=tuple(files),
    )


def load_image(name: str, cwd: Path) -> ImageBlock:
    """Read the image that an ``image=`` option names.

    Raises:
        CallerError: There is no such file, it is no PNG, JPEG, GIF or WebP image,
            or it is larger than `IMAGE_LIMIT`.
    """
    return _option_image(_option(name, cwd))


def _option_image(named: _Named) -> ImageBlock:
    if not _is_file(named):
        raise CallerError(_missing(named))
    mime_type = _image_type(named)
    if mime_type is None:
        msg = (
            f"{named.shown} is no PNG, JPEG, GIF or WebP image\n"
            f"looked at {_shown(str(named.path))}\n"
            "name an image, or attach a text file in the prompt: @path"
        )
        raise CallerError(msg)
    return _image(named, mime_type)


def _unescape(text: str) -> str:
    pieces: list[str] = []
    at = 0
    for found in _outside(code_ranges(text), _ESCAPE.finditer(text)):
        pieces.append(text[at : found.start()])
        at = found.start() + 1
    return "".join([*pieces, text[at:]])


def _mentioned(name: str, cwd: Path) -> _Named:
    return _Named(
        name=name,
        path=_resolve(name, cwd),
        shown=_shown(f"@{name}"),
        way_out="or write \\@ for an at sign that is text",
    )


def _option(name: str, cwd: Path) -> _Named:
    return _Named(
        name=name,
        path=_resolve(name, cwd),
        shown=_shown(f"image={name}"),
        way_out="or take it out of image=",
    )


def _shown(value: str) -> str:
    if len(value) > _SHOWN:
        # The end of a path tells more than its middle.
        half = _SHOWN // 2
        value = f"{value[:half]}…{value[-half:]}"
    return repr(value)


def _resolve(name: str, cwd: Path) -> Path:
    # normpath and no more: a link keeps the name that the author gave it.
    return Path(os.path.normpath(cwd / Path(os.path.expanduser(name))))  # noqa: PTH111 - Path.expanduser raises where there is no such user


def _is_file(named: _Named) -> bool:
    """Say whether there is such a file; False where the name is prose."""
    try:
        mode = named.path.stat().st_mode
    except ValueError as error:
        # A name that no file can have, with a NUL or half a surrogate pair.
        if _looks_like_path(named.name):
            raise CallerError(_missing(named)) from error
        return False
    except OSError as error:
        leads_nowhere = error.errno == errno.ENOENT and named.path.is_symlink()
        if error.errno not in _NOTHING_THERE or leads_nowhere:
            raise CallerError(_unreadable(named, error)) from error
        if _looks_like_path(named.name):
            raise CallerError(_missing(named)) from error
        return False
    if not stat.S_ISREG(mode):
        kind = "a directory" if stat.S_ISDIR(mode) else "neither file nor directory"
        msg = (
            f"{named.shown} is {kind}, and only files can be attached\n"
            f"looked at {_shown(str(named.path))}\n"
            f"name one file, {named.way_out}"
        )
        raise CallerError(msg)
    return True


def _looks_like_path(name: str) -> bool:
    return "/" in name or os.sep in name or _EXTENSION.search(name) is not None


def _missing(named: _Named) -> str:
    name, path = named.name, named.path
    near = _nearest(path)
    prefix = name[: len(name) - len(path.name)] if name.endswith(path.name) else ""
    hint = f"; the nearest name is {_shown(prefix + near)}" if near else ""
    return (
        f"{named.shown} names no file\n"
        f"looked in {_shown(str(path.parent))}{hint}\n"
        f"correct the path, {named.way_out}"
    )


def _nearest(path: Path) -> str | None:
    try:
        with os.scandir(path.parent) as found:
            names = [entry.name for entry in islice(found, _NAMES_LOOKED_AT)]
    except (OSError, ValueError):
        # A folder that cannot be listed has no name to suggest.
        return None
    near = get_close_matches(path.name, sorted(names), n=1)
    return near[0] if near else None


def _unreadable(named: _Named, error: OSError) -> str:
    return (
        f"{named.shown} cannot be read: {error.strerror or type(error).__name__}\n"
        f"looked at {_shown(str(named.path))}\n"
        f"make the file readable, {named.way_out}"
    )


def _read(named: _Named, limit: int) -> tuple[bytes, int]:
    """Give at most `limit` bytes of the file, and how many it has."""
    try:
        with named.path.open("rb") as file:
            data = file.read(limit + 1)
            if len(data) <= limit:
                # Files of /proc and /sys state sizes that are not theirs.
                return data, len(data)
            return data[:limit], max(len(data), os.fstat(file.fileno()).st_size)
    except OSError as error:
        raise CallerError(_unreadable(named, error)) from error


def _image_type(named: _Named) -> str | None:
    """Give the media type that the content shows; None if it is no image."""
    head, _ = _read(named, _HEAD)
    for magic, mime_type in _MAGIC:
        if head.startswith(magic):
            return mime_type
    if head.startswith(_RIFF) and head[8:] == _WEBP:
        return "image/webp"
    if named.path.suffix.lower() in _IMAGE_SUFFIXES:
        msg = (
            f"{named.shown} has the name of an image, but its content is none\n"
            f"looked at {_shown(str(named.path))}\n"
            "images are PNG, JPEG, GIF or WebP; export it again, or rename it"
        )
        raise CallerError(msg)
    return None


def _image(named: _Named, mime_type: str) -> ImageBlock:
    data, size = _read(named, IMAGE_LIMIT)
    if size > IMAGE_LIMIT:
        msg = (
            f"{named.shown} has {size} bytes; an image may have {IMAGE_LIMIT}\n"
            f"looked at {_shown(str(named.path))}\n"
            "attach a smaller version of it"
        )
        raise CallerError(msg)
    encoded = base64.b64encode(data).decode("ascii")
    return {"type": "image", "data": encoded, "mime_type": mime_type}


def _section(named: _Named) -> str:
    data, size = _read(named, TEXT_LIMIT)
    content = _decoded(named, data, is_whole=size == len(data))
    longest = max((len(run[0]) for run in _TICKS.finditer(content)), default=0)
    fence = "`" * max(3, longest + 1)
    ending = "" if content.endswith("\n") or not content else "\n"
    cut = f"(cut: {len(data)} of {size} bytes)\n" if size > len(data) else ""
    opening = f'<file path="{escape(named.name)}">'
    return f"{opening}\n{fence}\n{content}{ending}{fence}\n{cut}</file>"


def _decoded(named: _Named, data: bytes, *, is_whole: bool) -> str:
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    try:
        # A character that the cut divides is left out with the rest.
        content = decoder.decode(data, final=is_whole)
    except UnicodeDecodeError:
        content = "\0"
    if "\0" in content:
        msg = (
            f"{named.shown} is neither UTF-8 text nor a PNG, JPEG, GIF or WebP image\n"
            f"looked at {_shown(str(named.path))}\n"
            "convert it to one of these, or let a Python cell read it"
        )
        raise CallerError(msg)
    return content
