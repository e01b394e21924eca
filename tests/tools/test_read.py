"""Reading files: windows of lines, encodings, images, and what is refused."""

from __future__ import annotations

import base64
import os
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tau_kernel.errors import ToolError
from tau_kernel.tools.read import IMAGE_BYTES, READ_BYTES, READ_LINES

if TYPE_CHECKING:
    from .conftest import Desk

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


def test_a_file_is_given_as_its_text(desk: Desk) -> None:
    desk.file("a.txt", "one\ntwo\n")
    assert desk.call("read", path="a.txt") == "one\ntwo"


def test_an_empty_file_is_called_so(desk: Desk) -> None:
    desk.file("a.txt")
    assert desk.call("read", path="a.txt") == "(empty file)"


def test_a_window_says_where_to_continue(desk: Desk) -> None:
    desk.file("a.txt", "1\n2\n3\n4\n")
    assert desk.call("read", path="a.txt", offset=2, limit=2) == (
        "2\n3\n[the file goes on, 8 bytes in all; continue with offset=4]"
    )
    assert desk.call("read", path="a.txt", offset=4) == "4"


def test_following_the_offsets_gives_the_whole_file(desk: Desk) -> None:
    lines = [f"line {i} {'x' * (i % 300)}" for i in range(6000)]
    desk.file("long.txt", "\n".join(lines) + "\n")
    seen: list[str] = []
    while len(seen) < len(lines):
        result = desk.result("read", path="long.txt", offset=len(seen) + 1)
        assert isinstance(result.content, str)
        assert isinstance(result.details, dict)
        count = result.details["lines"]
        assert isinstance(count, int)
        assert 0 < count <= READ_LINES
        assert len(result.content) <= READ_BYTES + 200
        seen += result.content.split("\n")[:count]
    assert seen == lines


def test_a_line_that_does_not_fit_is_cut_between_characters(desk: Desk) -> None:
    desk.file("a.txt", "ä" * READ_BYTES + "\nlast\n")
    text = desk.call("read", path="a.txt")
    assert set(text.split("\n")[0]) == {"ä"}
    assert "line 1 is too long" in text
    assert text.endswith("continue with offset=2]")
    assert desk.call("read", path="a.txt", offset=2) == "last"


def test_an_offset_beyond_the_end_tells_how_many_lines_there_are(desk: Desk) -> None:
    desk.file("a.txt", "1\n2\n3")
    with pytest.raises(ToolError, match="has 3 lines"):
        desk.call("read", path="a.txt", offset=4)
    desk.file("b.txt", "1\n2\n")
    with pytest.raises(ToolError, match="has 2 lines"):
        desk.call("read", path="b.txt", offset=3)


def test_the_largest_numbers_are_no_trouble(desk: Desk) -> None:
    desk.file("a.txt", "1\n")
    assert desk.call("read", path="a.txt", limit=10**30) == "1"
    with pytest.raises(ToolError, match="beyond the end"):
        desk.call("read", path="a.txt", offset=10**30)


def test_what_is_not_utf_8_is_read_as_latin_1(desk: Desk) -> None:
    desk.file("a.txt", "caf\xe9\n".encode("latin-1"))
    assert desk.call("read", path="a.txt") == "café\n[not UTF-8; read as Latin-1]"


def test_a_byte_order_mark_and_carriage_returns_are_not_shown(desk: Desk) -> None:
    desk.file("a.txt", b"\xef\xbb\xbfone\r\ntwo\r\n")
    assert desk.call("read", path="a.txt") == "one\ntwo"


@pytest.mark.parametrize("content", [b"\0", b"x\n" * 90_000 + b"\0\n"])
def test_a_nul_makes_a_file_binary(desk: Desk, content: bytes) -> None:
    desk.file("a.bin", content)
    with pytest.raises(ToolError, match=r"Binary file 'a\.bin'"):
        desk.call("read", path="a.bin", offset=content.count(b"\n") or 1)


@pytest.mark.parametrize(
    ("start", "mime_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a\1", "image/gif"),
        (b"RIFF\1\1\1\1WEBPVP8 ", "image/webp"),
    ],
)
def test_an_image_is_known_by_its_content_and_given_whole(
    desk: Desk, start: bytes, mime_type: str
) -> None:
    data = start + bytes(range(256)) * 100
    desk.file("no-extension", data)
    result = desk.result("read", path="no-extension")
    assert list(result.content) == [
        {
            "type": "image",
            "data": base64.b64encode(data).decode(),
            "mime_type": mime_type,
        }
    ]


def test_an_image_that_models_do_not_take_is_refused(desk: Desk) -> None:
    desk.file("big.png", PNG.ljust(IMAGE_BYTES + 1))
    with pytest.raises(ToolError, match=f"{IMAGE_BYTES + 1} bytes"):
        desk.call("read", path="big.png")


def test_text_that_is_called_an_image_is_text(desk: Desk) -> None:
    desk.file("a.png", "words")
    assert desk.call("read", path="a.png") == "words"


def test_a_missing_file_suggests_the_nearest_name(desk: Desk) -> None:
    desk.file("src/settings.py")
    with pytest.raises(ToolError, match=r"did you mean 'src/settings\.py'"):
        desk.call("read", path="src/setings.py")


def test_a_folder_is_refused_and_ls_is_named(desk: Desk) -> None:
    with pytest.raises(ToolError, match="is a folder; ls"):
        desk.call("read", path=".")


def test_a_fifo_is_refused_without_waiting_for_a_writer(desk: Desk) -> None:
    os.mkfifo(desk.root / "pipe")
    with pytest.raises(ToolError, match="device, pipe or socket"):
        desk.call("read", path="pipe")


@pytest.mark.slow
def test_a_huge_file_is_not_loaded_into_memory(desk: Desk) -> None:
    path: Path = desk.file("huge.txt", "text\n" * 10_000)
    os.truncate(path, 1_000_000_000)
    with path.open("r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(b"\nend")
    tracemalloc.start()
    try:
        assert desk.call("read", path="huge.txt", limit=2).startswith("text\ntext\n[")
        assert desk.call("read", path="huge.txt", offset=10_002) == "end"
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20_000_000


@settings(deadline=None)
@given(
    st.lists(st.text(st.characters(exclude_characters="\0\n\r\ufeff")), min_size=1),
    st.integers(1, 12),
    st.integers(1, 12),
)
def test_a_window_is_what_slicing_the_lines_gives(
    tmp_path_factory: pytest.TempPathFactory,
    make_desk: type[Desk],
    lines: list[str],
    offset: int,
    limit: int,
) -> None:
    root = tmp_path_factory.mktemp("work")
    desk = make_desk(root=root, outside=root)
    content = "".join(f"{line}\n" for line in lines)
    desk.file("a.txt", content.encode("utf-8", "replace"))
    shown = [line.encode("utf-8", "replace").decode() for line in lines]
    wanted = shown[offset - 1 :][:limit]
    if not wanted:
        with pytest.raises(ToolError, match=f"has {len(lines)} lines"):
            desk.call("read", path="a.txt", offset=offset, limit=limit)
        return
    result = desk.result("read", path="a.txt", offset=offset, limit=limit)
    assert isinstance(result.content, str)
    assert result.content.split("\n")[: len(wanted)] == wanted
    assert isinstance(result.details, dict)
    assert result.details["lines"] == len(wanted)
    assert result.details["has_more"] == (len(shown) > offset - 1 + limit)
