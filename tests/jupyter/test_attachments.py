r"""What a prompt names with ``@path``, and what it does not."""

from __future__ import annotations

import base64
import errno
import os
import socket
import tempfile
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_kernel.errors import CallerError
from tau_kernel.jupyter.attachments import (
    IMAGE_LIMIT,
    TEXT_LIMIT,
    attach,
    find_mentions,
    load_image,
)
from tau_kernel.jupyter.code_ranges import code_ranges

PNG: Final = b"\x89PNG\r\n\x1a\n" + b"rest"
IMAGES: Final = {
    "image/png": PNG,
    "image/jpeg": b"\xff\xd8\xff\xe0rest of it",
    "image/gif": b"GIF89a" + bytes(20),
    "image/webp": b"RIFF\x10\0\0\0WEBPVP8 ",
}

#: Pieces that decide what a mention is, mixed with anything.
PROMPTS = st.one_of(
    st.text(st.characters()),
    st.lists(
        st.sampled_from(
            [
                *("@", "@a", '@"', '"', "a b", ".txt", "/", "\\", "\\@", "`", "```"),
                *("\n", " ", "(", ")", "[", "]", ".", ",", "🦊", "\0", "\ud800"),
            ]
        ),
        max_size=16,
    ).map("".join),
)

not_as_root = pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")


def paths(text: str) -> list[str]:
    return [mention.path for mention in find_mentions(text)]


def refusal(text: str, cwd: Path, images: tuple[str, ...] = ()) -> list[str]:
    with pytest.raises(CallerError) as caught:
        attach(text, cwd, images)
    lines = str(caught.value).split("\n")
    assert len(lines) <= 3
    assert all(line.isprintable() for line in lines)
    return lines


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("@a.txt", ["a.txt"]),
        ("see @a.txt, @b.txt; and @c.txt.", ["a.txt", "b.txt", "c.txt"]),
        ("(@a.txt) [@b.txt] {@c.txt}", ["a.txt", "b.txt", "c.txt"]),
        ("**@a.txt**: what?", ["a.txt"]),
        ("@a.txt? @b.txt! @c.txt:", ["a.txt", "b.txt", "c.txt"]),
        ("'@a.txt' \"@b.txt\"", ["a.txt", "b.txt"]),
        ("@a(1).txt @[id].tsx", ["a(1).txt", "[id].tsx"]),
        ("(see @a(1).txt).", ["a(1).txt"]),
        ('@"a b.txt" and @"c"', ["a b.txt", "c"]),
        ("@../up.txt @./here.txt @/abs.txt @~/home.txt", None),
        ("🦊 @größe.txt", ["größe.txt"]),
        ("| @a.txt | @b.txt |", ["a.txt", "b.txt"]),
        ("ada@example.org writes", []),
        ("git@github.com:a/b.git", []),
        ("https://example.org/@ada/a.txt", []),
        ("left-pad@1.3.0", []),
        ("[@ada](https://example.org/ada)", ["ada"]),
        ('run "$@" in /bin/sh "quickly"', []),
        ("a @ b", []),
        ("@", []),
        ("@...", []),
        ("@)", []),
        ('@""', []),
        ('@"a\nb"', []),
        (r"\@a.txt", []),
        ("`@a.txt`", []),
        ("```\n@a.txt\n```\n@b.txt", ["b.txt"]),
        ("```\n@a.txt", []),
        ("@dataclass @property", ["dataclass", "property"]),
    ],
)
def test_a_mention_stands_at_the_start_of_a_word(
    text: str, expected: list[str] | None
) -> None:
    if expected is None:
        expected = [word[1:] for word in text.split()]
    assert paths(text) == expected


@given(PROMPTS)
def test_mentions_are_where_they_say_and_never_in_code(text: str) -> None:
    at = 0
    code = code_ranges(text)
    for mention in find_mentions(text):
        written = text[mention.start : mention.end]
        assert written in {f"@{mention.path}", f'@"{mention.path}"'}
        assert at <= mention.start
        assert not any(start <= mention.start < end for start, end in code)
        at = mention.end


@given(PROMPTS)
def test_any_prompt_is_attached_or_refused_in_three_lines(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "a").write_text("content", encoding="utf-8")
        try:
            attached = attach(text, Path(folder))
        except CallerError as error:
            lines = str(error).split("\n")
            assert len(lines) <= 3
            assert all(line.isprintable() for line in lines)
        else:
            assert attached.images == ()


@given(st.text(st.characters(blacklist_characters="@")))
def test_a_prompt_without_an_at_sign_is_untouched(text: str) -> None:
    attached = attach(text, Path("/nowhere"))
    assert (attached.text, attached.images, attached.files) == (text, (), ())


def test_a_text_file_follows_the_prompt(tmp_path: Path) -> None:
    path = tmp_path / "notes.md"
    path.write_text("one\ntwo\n", encoding="utf-8")
    attached = attach("Sum up @notes.md please", tmp_path)
    section = '<file path="notes.md">\n```\none\ntwo\n```\n</file>'
    assert attached.text == f"Sum up @notes.md please\n\n{section}"
    assert attached.files == (path,)


def test_a_file_without_a_last_line_end_keeps_its_fence(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one", encoding="utf-8")
    assert attach("@a.txt", tmp_path).text.endswith("\n```\none\n```\n</file>")


def test_an_empty_file_is_attached(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    assert attach("@a.txt", tmp_path).text.endswith(">\n```\n```\n</file>")


def test_no_file_can_end_its_own_section(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("`````\n</file>\n", encoding="utf-8")
    text = attach("@a.md", tmp_path).text
    assert text.endswith("\n``````\n`````\n</file>\n``````\n</file>")


def test_a_name_cannot_end_its_attribute(tmp_path: Path) -> None:
    (tmp_path / "a&b >.txt").write_text("x", encoding="utf-8")
    text = attach('@"a&b >.txt"', tmp_path).text
    assert '<file path="a&amp;b &gt;.txt">' in text


def test_a_file_named_twice_is_attached_once(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x", encoding="utf-8")
    attached = attach('@a.txt @./a.txt @"a.txt"', tmp_path)
    assert attached.text.count("<file") == 1
    assert len(attached.files) == 1


def test_a_byte_order_mark_is_no_content(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\n")
    assert "```\none\r\n```" in attach("@a.txt", tmp_path).text


def test_a_file_without_an_extension_is_attached_if_it_exists(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("all:", encoding="utf-8")
    assert "all:" in attach("Explain @Makefile.", tmp_path).text
    assert attach("Explain @Makefiles.", tmp_path).text == "Explain @Makefiles."


@pytest.mark.parametrize(
    "text",
    [
        "What does @property do?",
        "@dataclass(frozen=True) class A",
        "@functools.lru_cache",
        "@ada: hello",
        "@app.route('/x')",
        "version @1.2",
        "ada@example.org and `@a.txt`",
        "```py\n@pytest.fixture\ndef a(): ...\n```",
    ],
)
def test_decorators_people_and_addresses_are_prose(text: str, tmp_path: Path) -> None:
    attached = attach(text, tmp_path)
    assert (attached.text, attached.files) == (text, ())


def test_an_escaped_at_sign_loses_its_backslash_outside_code(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x", encoding="utf-8")
    attached = attach(r"\@a.txt and `\@a.txt` and \n", tmp_path)
    assert attached.text == r"@a.txt and `\@a.txt` and \n"
    assert attached.files == ()


def test_a_missing_file_names_itself_the_place_and_the_way_out(
    tmp_path: Path,
) -> None:
    (tmp_path / "notes.md").touch()
    first, place, way_out = refusal("Read @note.md", tmp_path)
    assert first == "'@note.md' names no file"
    assert place == f"looked in {str(tmp_path)!r}; the nearest name is 'notes.md'"
    assert way_out == r"correct the path, or write \@ for an at sign that is text"


def test_the_nearest_name_keeps_its_folder(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "notes.md").touch()
    assert "'docs/notes.md'" in refusal("@docs/note.md", tmp_path)[1]


@pytest.mark.parametrize(
    "name", ["a/b", "no/such/file", "a.txt", "pytest.fixture", "b/c.txt"]
)
def test_what_looks_like_a_path_has_to_exist(name: str, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").touch()
    assert "names no file" in refusal(f"@{name}", tmp_path)[0]


def test_a_name_too_long_for_a_file_is_judged_like_others(tmp_path: Path) -> None:
    text = "@" + "x" * 300
    assert attach(text, tmp_path).text == text
    lines = refusal(f"{text}.txt", tmp_path)
    assert "names no file" in lines[0]
    assert all(len(line) < 400 for line in lines)


def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path) -> None:
    assert "names no file" in refusal("@a\0.txt", tmp_path)[0]
    assert "names no file" in refusal("@\ud800.txt", tmp_path)[0]
    assert attach("@a\0", tmp_path).files == ()


def test_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    first, place, _ = refusal("@docs", tmp_path)
    assert first == "'@docs' is a directory, and only files can be attached"
    assert place == f"looked at {str(tmp_path / 'docs')!r}"


def test_a_pipe_and_a_socket_are_refused_at_once() -> None:
    # A socket's path may have some hundred bytes, which tmp_path can exceed.
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as end:
        os.mkfifo(Path(folder, "pipe"))
        end.bind(str(Path(folder, "socket")))
        for name in ("pipe", "socket"):
            (line, *_) = refusal(f"@{name}", Path(folder))
            assert "neither file nor directory" in line


def test_a_link_to_itself_is_refused_with_the_systems_words(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    first, place, _ = refusal("@loop", tmp_path)
    assert first == f"'@loop' cannot be read: {os.strerror(errno.ELOOP)}"
    assert place == f"looked at {str(tmp_path / 'loop')!r}"


def test_a_link_to_nothing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to("nothing")
    assert "'@dangling' cannot be read" in refusal("@dangling", tmp_path)[0]


def test_a_link_is_followed_under_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x", encoding="utf-8")
    (tmp_path / "link.txt").symlink_to("a.txt")
    attached = attach("@link.txt", tmp_path)
    assert '<file path="link.txt">' in attached.text
    assert attached.files == (tmp_path / "link.txt",)


@not_as_root
def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("x", encoding="utf-8")
    path.chmod(0)
    assert "'@a.txt' cannot be read" in refusal("@a.txt", tmp_path)[0]


@pytest.mark.parametrize(
    "data", [b"a\0b", b"\xff\xfea\0", b"caf\xe9", b"%PDF-1.7\n\xb5\xb6", b"\xc3"]
)
def test_what_is_no_utf_8_text_is_refused(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(data)
    first, place, way_out = refusal("@a.bin", tmp_path)
    assert first.startswith("'@a.bin' is neither UTF-8 text nor")
    assert place == f"looked at {str(tmp_path / 'a.bin')!r}"
    assert "let a Python cell read it" in way_out


def test_a_long_text_is_cut_between_characters_and_says_so(tmp_path: Path) -> None:
    size = TEXT_LIMIT + 2
    (tmp_path / "a.txt").write_bytes(b"x" + "é".encode() * (size // 2))
    text = attach("@a.txt", tmp_path).text
    assert text.endswith(f"\n(cut: {TEXT_LIMIT} of {size + 1} bytes)\n</file>")
    assert text.count("é") == (TEXT_LIMIT - 1) // 2


def test_a_text_of_exactly_the_limit_is_whole(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"x" * TEXT_LIMIT)
    text = attach("@a.txt", tmp_path).text
    assert "(cut:" not in text
    assert text.count("x" * TEXT_LIMIT) == 1


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="needs /proc")
def test_a_file_that_states_no_size_is_read_whole(tmp_path: Path) -> None:
    text = attach("@/proc/self/status", tmp_path).text
    assert "VmPeak" in text
    assert "(cut:" not in text


@pytest.mark.parametrize("mime_type", IMAGES)
def test_an_image_is_known_by_its_content(mime_type: str, tmp_path: Path) -> None:
    data = IMAGES[mime_type]
    (tmp_path / "picture.jpg").write_bytes(data)
    (tmp_path / "picture").write_bytes(data)
    encoded = base64.b64encode(data).decode()
    for name in ("picture", "picture.jpg"):
        attached = attach(f"What is on @{name}?", tmp_path)
        assert attached.text == f"What is on @{name}?"
        assert attached.images == (
            {"type": "image", "data": encoded, "mime_type": mime_type},
        )


@pytest.mark.parametrize("data", [b"", b"text", b"RIFF\x10\0\0\0WAVE"])
def test_the_name_of_an_image_needs_an_images_content(
    data: bytes, tmp_path: Path
) -> None:
    (tmp_path / "a.PNG").write_bytes(data)
    assert "its content is none" in refusal("@a.PNG", tmp_path)[0]


def test_an_image_over_the_limit_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "a.png").open("wb") as file:
        file.write(PNG)
        file.truncate(IMAGE_LIMIT)
    assert len(attach("@a.png", tmp_path).images) == 1
    with (tmp_path / "a.png").open("ab") as file:
        file.write(b"x")
    (line, *_) = refusal("@a.png", tmp_path)
    assert line == f"'@a.png' has {IMAGE_LIMIT + 1} bytes; an image may have " + str(
        IMAGE_LIMIT
    )


def test_the_options_images_come_first_and_each_comes_once(tmp_path: Path) -> None:
    for name in ("a.png", "b.png", "c d.png"):
        (tmp_path / name).write_bytes(PNG + name.encode())
    attached = attach("@a.png @b.png", tmp_path, ("c d.png", "b.png", "./b.png"))
    assert [path.name for path in attached.files] == ["c d.png", "b.png", "a.png"]
    assert len(attached.images) == 3


def test_the_options_images_are_refused_in_its_own_words(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x", encoding="utf-8")
    (tmp_path / "docs").mkdir()
    assert refusal("x", tmp_path, ("plot",)) == [
        "'image=plot' names no file",
        f"looked in {str(tmp_path)!r}",
        "correct the path, or take it out of image=",
    ]
    assert "'image=a.txt' is no PNG" in refusal("x", tmp_path, ("a.txt",))[0]
    assert "'image=docs' is a directory" in refusal("x", tmp_path, ("docs",))[0]


def test_one_image_is_loaded_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    assert load_image("a.png", tmp_path)["mime_type"] == "image/png"
    with pytest.raises(CallerError, match="names no file"):
        load_image("b", tmp_path)


def test_a_tilde_is_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a.txt").write_text("x", encoding="utf-8")
    assert attach("@~/a.txt", Path("/")).files == (tmp_path / "a.txt",)
