"""Which files the tools may reach, and how a path is opened without leaving them.

A path is resolved in full, symbolic links included, and must lead into an allowed
folder. It is then opened anew from that folder, part by part, refusing every link: so
a link that is put in place in between leads to an error and never outside. `bash` is
not confined by this; whether it may run is for approvals to say.
"""

from __future__ import annotations

import contextlib
import difflib
import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tau_kernel.errors import ToolError

__all__ = ["PathPolicy", "Place", "open_place", "open_regular", "parent_of", "told"]

# Not in every system: a folder opened so may be passed through without being readable.
_PASS: Final[int] = getattr(os, "O_PATH", os.O_RDONLY)
_THROUGH: Final = _PASS | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Not to wait: opening a FIFO for reading would, until somebody writes.
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

#: More than any system opens; what is longer would only fill a message.
_PATH_CHARS: Final = 8192

_WORDS: Final = {
    errno.EACCES: "may not be accessed; its permissions forbid it",
    errno.EPERM: "may not be accessed; the system forbids it",
    errno.ELOOP: "is a symbolic link in a circle, or became a link meanwhile",
    errno.ENAMETOOLONG: "is too long a name for this file system",
    errno.ENOTDIR: "passes through something that is not a folder",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a path leads: an allowed folder or file, and the parts below it.

    Args:
        written: The path as the model gave it.
        root: The allowed folder or file, without symbolic links.
        parts: What to open below `root`, in this order; none if it is `root`.
    """

    written: str
    root: Path
    parts: tuple[str, ...]

    @property
    def real(self) -> Path:
        """The absolute path without symbolic links."""
        return self.root.joinpath(*self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class PathPolicy:
    """What files the tools may reach.

    Args:
        root: The working directory; everything below it is allowed.
        allowed: Further folders and files.
    """

    root: Path
    allowed: tuple[Path, ...] = ()

    def place(self, written: str, cwd: Path) -> Place:
        """Say where a path leads.

        Args:
            written: Relative to `cwd`, absolute, or from ``~``; it need not exist.
            cwd: Where relative paths begin.

        Raises:
            ToolError: It is no path, or leads out of what is allowed.
        """
        if len(written) > _PATH_CHARS:
            msg = f"path of {len(written)} characters: that is too long; shorten it"
            raise ToolError(msg)
        try:
            # pathlib's expanduser raises where there is no such user, and its resolve
            # where links form a circle, which opening tells in better words.
            real = _resolved(cwd / os.path.expanduser(written))  # noqa: PTH111
        except ValueError as error:
            msg = f"path {written!r} cannot be: {error}; write it without that"
            raise ToolError(msg) from error
        for root in (self.root, *self.allowed):
            top = _resolved(root)
            if real.is_relative_to(top):
                parts = real.relative_to(top).parts
                return Place(written=written, root=top, parts=parts)
        msg = (
            f"path {written!r} leads to {str(real)!r}, outside of {str(self.root)!r}\n"
            "only the working directory and the paths allowed beside it are open to "
            "this tool\nuse a path inside, or ask the user to allow this one"
        )
        raise ToolError(msg)


@contextlib.contextmanager
def parent_of(place: Place, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """Open the folder that holds a place; give its descriptor and the name in it.

    Args:
        place: Comes from a policy.
        make: Whether folders that are missing are made.

    Raises:
        OSError: A part is missing, no folder, or became a symbolic link.
    """
    if place.parts:
        top, parts = place.root, place.parts
    else:
        top, parts = place.root.parent, (place.root.name or os.curdir,)
    folder = os.open(top, _THROUGH)
    try:
        for part in parts[:-1]:
            inner = _enter(folder, part, make=make)
            os.close(folder)
            folder = inner
        yield folder, parts[-1]
    finally:
        os.close(folder)


def open_place(place: Place) -> int:
    """Open a folder or regular file for reading; the caller closes it.

    Raises:
        OSError: It does not exist, may not be read, or became a symbolic link.
        ToolError: It is a device, pipe or socket, where reading may wait for ever.
    """
    with parent_of(place) as (folder, name):
        # Looked at first: merely opening a device may do something.
        refuse_special(place, os.lstat(name, dir_fd=folder))
        opened = os.open(name, _READ, dir_fd=folder)
    try:
        refuse_special(place, os.fstat(opened))
    except ToolError:
        os.close(opened)
        raise
    return opened


def open_regular(place: Place) -> int:
    """Open a regular file for reading; the caller closes it.

    Raises:
        OSError: It does not exist, may not be read, or became a symbolic link.
        ToolError: It is a folder, device, pipe or socket.
    """
    opened = open_place(place)
    if stat.S_ISDIR(os.fstat(opened).st_mode):
        os.close(opened)
        raise IsADirectoryError(errno.EISDIR, "is a folder")
    return opened


def refuse_special(place: Place, status: os.stat_result) -> None:
    """Refuse what is neither folder, regular file nor symbolic link.

    Raises:
        ToolError: It is a device, pipe or socket.
    """
    kind = stat.S_IFMT(status.st_mode)
    if kind not in {stat.S_IFDIR, stat.S_IFREG, stat.S_IFLNK}:
        msg = (
            f"path {place.written!r} is a device, pipe or socket\n"
            "the tools work on regular files; use bash for this one"
        )
        raise ToolError(msg)


@contextlib.contextmanager
def told(place: Place) -> Iterator[None]:
    """Tell the model of what the system refuses, in words it can act on.

    Raises:
        ToolError: In place of any `OSError`.
    """
    try:
        yield
    except FileNotFoundError as error:
        near = _nearest(place)
        hint = f"did you mean {near!r}?" if near else "ls or find show what there is"
        msg = f"path {place.written!r} does not exist; {hint}"
        raise ToolError(msg) from error
    except IsADirectoryError as error:
        msg = f"path {place.written!r} is a folder; ls shows what is in it"
        raise ToolError(msg) from error
    except OSError as error:
        words = _WORDS.get(error.errno or 0, f"failed: {error.strerror or error}")
        msg = f"path {place.written!r} {words}"
        raise ToolError(msg) from error


def _resolved(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _enter(folder: int, part: str, *, make: bool) -> int:
    try:
        return os.open(part, _THROUGH, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise
    # Another call may have made it meanwhile.
    with contextlib.suppress(FileExistsError):
        os.mkdir(part, dir_fd=folder)
    return os.open(part, _THROUGH, dir_fd=folder)


def _nearest(place: Place) -> str | None:
    if not place.parts:
        return None
    beside = Place(written="", root=place.root, parts=place.parts[:-1])
    try:
        folder = open_place(beside)
    except (OSError, ToolError):
        return None
    try:
        names = os.listdir(folder)  # noqa: PTH208 - of a descriptor
    except OSError:
        return None
    finally:
        os.close(folder)
    near = difflib.get_close_matches(place.parts[-1], names[:1000], n=1, cutoff=0.7)
    if not near:
        return None
    return str(Path(place.written).with_name(near[0]))
