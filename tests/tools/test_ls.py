"""Listing a folder."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tau_kernel.tools.ls import LS_CHARS, LS_ENTRIES

if TYPE_CHECKING:
    from .conftest import Desk


def test_names_come_in_order_with_folders_marked(desk: Desk) -> None:
    desk.file("b.txt")
    desk.file("a/x.txt")
    desk.file(".hidden")
    assert desk.call("ls") == "a/\nb.txt"
    assert desk.call("ls", all=True) == ".hidden\na/\nb.txt"
    assert desk.call("ls", path="a") == "x.txt"


def test_an_empty_folder_is_called_so(desk: Desk) -> None:
    assert desk.call("ls") == "(empty folder)"


def test_a_long_listing_has_mode_size_time_and_where_links_lead(desk: Desk) -> None:
    path = desk.file("a.txt", "12345")
    path.chmod(0o640)
    os.utime(path, (0, 86_400))
    (desk.root / "link").symlink_to("a.txt")
    first, second = desk.call("ls", long=True).split("\n")
    assert first.split() == ["-rw-r-----", "5", "1970-01-02T00:00:00Z", "a.txt"]
    assert second.startswith("l")
    assert second.endswith("link -> a.txt")


def test_a_file_is_listed_alone_and_need_not_be_readable(desk: Desk) -> None:
    os.mkfifo(desk.root / "pipe")
    assert desk.call("ls", path="pipe", long=True).startswith("p")


def test_what_does_not_fit_is_counted(desk: Desk) -> None:
    for number in range(LS_ENTRIES + 7):
        (desk.root / f"{number:05}").touch()
    *names, note = desk.call("ls").split("\n")
    assert names == [f"{number:05}" for number in range(LS_ENTRIES)]
    assert note.startswith("[7 more names;")


def test_names_that_are_few_but_long_are_cut_as_well(desk: Desk) -> None:
    for number in range(40):
        (desk.root / f"{number:02}").symlink_to("x/" * 2000)
    *lines, note = desk.call("ls", long=True).split("\n")
    assert sum(map(len, lines)) <= LS_CHARS
    assert note.startswith(f"[{40 - len(lines)} more names;")
