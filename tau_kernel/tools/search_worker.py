"""The process that searches for `grep` and `find`; started by path, never imported.

A pattern may need for ever on one line, and while it runs no other thread of its
process does. So it runs here, where it can be killed. The request is the only argument,
the folder or file to search an inherited descriptor; everything below is opened from
there, and no symbolic link is followed. It writes a JSON line for each ``hit``, then
one ``end`` with its counts; or a ``fault`` in the pattern.
"""

from __future__ import annotations

import fnmatch
import itertools
import json
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

__all__: list[str] = []

Request: TypeAlias = dict[str, Any]

_SKIPPED = frozenset({".git", ".hg", ".svn"})
_DEPTH = 200
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_LINES_PER_LOOK = 64


class _OutOfTimeError(Exception):
    """The time of the search is over."""


class _Walked(NamedTuple):
    """Something in the tree: its path below the start, its kind and its folder."""

    path: str
    kind: str
    folder: int
    name: str


class _Search:
    """The state of one search: what was found, and what was left out."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.counts = {"hits": 0, "unread": 0, "large": 0, "files": 0}
        self._until = time.monotonic() + request["seconds"]

    def look(self) -> None:
        if time.monotonic() > self._until:
            raise _OutOfTimeError

    def hit(self, text: str) -> None:
        self.counts["hits"] += 1
        if self.counts["hits"] <= self.request["cap"]:
            _say({"hit": text})

    def walk(self, folder: int, path: str = "", depth: int = 0) -> Iterator[_Walked]:
        """Give what is below a folder, by name, each folder before what it holds."""
        self.look()
        try:
            with os.scandir(folder) as entries:
                found = sorted((one.name, _kind(one)) for one in entries)
        except OSError:
            self.counts["unread"] += 1
            return
        for name, kind in found:
            yield _Walked(path + name, kind, folder, name)
            if kind == "d" and name not in _SKIPPED:
                yield from self._enter(folder, name, f"{path}{name}/", depth + 1)

    def _enter(
        self, folder: int, name: str, path: str, depth: int
    ) -> Iterator[_Walked]:
        if depth > _DEPTH:
            self.counts["unread"] += 1
            return
        try:
            inner = os.open(name, _READ | os.O_DIRECTORY, dir_fd=folder)
        except OSError:
            self.counts["unread"] += 1
            return
        try:
            yield from self.walk(inner, path, depth)
        finally:
            os.close(inner)


def _kind(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return "l"
    if entry.is_dir(follow_symlinks=False):
        return "d"
    return "f" if entry.is_file(follow_symlinks=False) else "other"


def _find(search: _Search) -> None:
    request = search.request
    is_named = _glob(request["name"])
    pattern = re.compile(request["pattern"] or "")
    for one in search.walk(request["fd"]):
        search.look()
        is_wanted = request["type"] in {None, one.kind} and is_named(one.path)
        if is_wanted and pattern.search(one.path):
            mark = "/" if one.kind == "d" else ""
            search.hit(f"{request['shown']}{one.path}{mark}")


def _grep(search: _Search) -> None:
    request = search.request
    flags = re.IGNORECASE if request["ignore_case"] else re.NOFLAG
    pattern = re.compile(request["pattern"], flags)
    is_named = _glob(request["files"])
    if stat.S_ISREG(os.fstat(request["fd"]).st_mode):
        _grep_file(search, pattern, request["fd"], request["shown"])
        return
    for one in search.walk(request["fd"]):
        if one.kind != "f" or not is_named(one.path):
            continue
        try:
            opened = os.open(one.name, _READ, dir_fd=one.folder)
        except OSError:
            search.counts["unread"] += 1
            continue
        try:
            _grep_file(search, pattern, opened, f"{request['shown']}{one.path}")
        finally:
            os.close(opened)


def _grep_file(
    search: _Search, pattern: re.Pattern[str], opened: int, shown: str
) -> None:
    search.look()
    limit = search.request["file_bytes"]
    with os.fdopen(opened, "rb", closefd=False) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        search.counts["large"] += 1
        return
    if b"\0" in data:
        return
    search.counts["files"] += 1
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        if number % _LINES_PER_LOOK == 0:
            search.look()
        line = line.removesuffix("\r")  # noqa: PLW2901 - the line as it is meant
        if found := pattern.search(line):
            shortened = _around(line, found.start(), search.request["line_chars"])
            search.hit(f"{shown}:{number}:{shortened}")


def _around(line: str, place: int, limit: int) -> str:
    if len(line) <= limit:
        return line
    begin = max(0, min(place - limit // 4, len(line) - limit))
    end = begin + limit
    return f"{'…' * (begin > 0)}{line[begin:end]}{'…' * (end < len(line))}"


def _glob(wanted: str | None) -> Callable[[str], bool]:
    """Give a test of paths; a glob without a slash is for the last part alone."""
    if wanted is None:
        return lambda _path: True
    # `**/` may also stand for no folder at all.
    globs = [g for one in _braces(wanted) for g in {one, one.removeprefix("**/")}]
    patterns = [re.compile(fnmatch.translate(glob)) for glob in globs]
    if "/" in wanted:
        return lambda path: any(one.match(path) for one in patterns)
    return lambda path: any(one.match(path.rpartition("/")[2]) for one in patterns)


def _braces(glob: str) -> Iterator[str]:
    """Write out ``{a,b}``, as shells do; not within each other."""
    parts = re.split(r"\{([^{}]*)\}", glob)
    choices = [
        part.split(",") if number % 2 else [part] for number, part in enumerate(parts)
    ]
    return ("".join(one) for one in itertools.islice(itertools.product(*choices), 100))


def _say(line: dict[str, object]) -> None:
    print(json.dumps(line), flush=True)  # noqa: T201 - the answer to whoever asked


def _main(request: Request) -> None:
    search = _Search(request)
    is_complete = True
    try:
        (_grep if request["kind"] == "grep" else _find)(search)
    except re.error as error:
        _say({"fault": str(error)})
        return
    except _OutOfTimeError:
        is_complete = False
    _say({"end": search.counts, "is_complete": is_complete})


if __name__ == "__main__":
    _main(json.loads(sys.argv[1]))
