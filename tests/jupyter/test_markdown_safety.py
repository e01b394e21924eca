"""What reaches a front end of a text that a model wrote."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tau_kernel.jupyter.markdown_safety import safe_markdown

_OPENED = re.compile(r"<([a-z][a-z0-9]*)((?:\s[^>]*)?)>", re.IGNORECASE)
_TAGS = frozenset(
    [
        "p",
        "em",
        "strong",
        "a",
        "code",
        "pre",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "ul",
        "ol",
        "li",
        "blockquote",
        "hr",
        "br",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
    ]
)

_FRAGMENTS = st.sampled_from(
    [
        "<script>alert(1)</script>",
        "<img src=http://evil/x.png onerror=x>",
        "<div onclick=x>",
        "<!-- a -->",
        "<?php",
        "<![CDATA[",
        "</p>",
        "![alt](http://evil/x.png)",
        "![](data:image/png;base64,AAAA)",
        "![alt][ref]",
        "[a](javascript:alert(1))",
        "[a](java&#115;cript:alert(1))",
        "[a](<javascript:x>)",
        "[a]( \njavascript:x)",
        "[ref]: javascript:x",
        "[ref]: http://ok/x",
        "[ref]",
        "[a](https://ok)",
        "<https://ok/a>",
        "<javascript:x>",
        "[a]",
        "(",
        ")",
        "](",
        "!",
        "[",
        "]",
        ":",
        "\\",
        "`",
        "``",
        "```",
        "````",
        "~~~",
        "```html\n",
        "$",
        "$$",
        "|",
        "\n| a | b |\n|---|---|\n",
        "> ",
        "- ",
        "1. ",
        "2. ",
        "    ",
        "  ",
        " ",
        "\t",
        "\n",
        "\n\n",
        "# ",
        "===",
        "---",
        "a",
        "word",
        "<",
        ">",
        "&lt;",
        "\ud800",
        "\x0b",
        "\x1c",
        "\u2028",
        "ftp://x",
    ]
)


def _any_link(url: str) -> bool:
    del url
    return True


def _html(markdown: str) -> str:
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    parser.validateLink = _any_link  # type: ignore[method-assign]
    return str(parser.render(markdown))


def _assert_inert(markdown: str) -> None:
    markdown.encode()
    html = _html(markdown)
    assert "<!" not in html
    assert "<?" not in html
    for name, attributes in _OPENED.findall(html):
        assert name in _TAGS, html
        assert not re.search(r"\son\w+=", re.sub(r'"[^"]*"', '""', attributes)), html
        for href in re.findall(r'href="([^"]*)"', attributes):
            assert href.lower().startswith(("http://", "https://", "mailto:")), html


@pytest.mark.slow
@settings(max_examples=1500, deadline=None)
@given(st.lists(_FRAGMENTS, max_size=25).map("".join))
def test_no_mix_of_markdown_becomes_live(text: str) -> None:
    _assert_inert(safe_markdown(text))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(_FRAGMENTS, max_size=12).map("".join))
def test_no_beginning_of_a_text_is_less_safe_than_the_whole(text: str) -> None:
    for end in range(len(text)):
        _assert_inert(safe_markdown(text[:end]))


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.text())
def test_any_text_at_all_is_inert(text: str) -> None:
    _assert_inert(safe_markdown(text))


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.lists(_FRAGMENTS, max_size=25).map("".join))
def test_with_images_allowed_only_web_addresses_are_fetched(text: str) -> None:
    html = _html(safe_markdown(text, remote_images=True))
    for name, attributes in _OPENED.findall(html):
        assert name in _TAGS | {"img"}, html
        for source in re.findall(r'src="([^"]*)"', attributes):
            assert source.startswith(("http://", "https://")), html


@pytest.mark.parametrize(
    "text",
    [
        "a < b and c > d, x<3",
        "`<script>` and ``a ` <b>``",
        "```html\n<script>alert(1)</script>\n![x](http://y)\n```\n",
        "1. one\n\n   ```html\n   <b>x</b>\n   ```\n\n2. two `<i>`\n",
        "    <b>indented</b>\n",
        "[text](https://example.org/a_(b)) and <https://example.org>",
        "[mail](mailto:a@example.org)",
        "[a][1]\n\n[1]: https://example.org 'title'\n",
        "the sum $a+b$ and $$\nx = y\n- z\n$$\n",
        "| a | b |\n|---|---|\n| `x<y` | $p$ |\n",
        "\\$5 is \\*not\\* emphasised",
        "~~~\ncost $5 <b>\n~~~\n",
        "```sh\necho $HOME $PATH\n",
        "[ ] task, list[0], call(x)",
    ],
)
def test_harmless_markdown_stays_as_it_was(text: str) -> None:
    assert safe_markdown(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<b>x</b>", "&lt;b>x&lt;/b>"),
        ("x <!-- y -->", "x &lt;!-- y -->"),
        ("![alt](https://x/y.png)", "[alt](https://x/y.png)"),
        ("![](https://x/y.png)", "[image](https://x/y.png)"),
        ("!![alt](https://x)", "!\\![alt](https://x)"),
        ("[a](javascript:x)", "[a]\\(javascript:x)"),
        ("[a](file:///etc/passwd)", "[a]\\(file:///etc/passwd)"),
        ("[a](/local)", "[a]\\(/local)"),
        ("[a]: javascript:x", "[a]\\: javascript:x"),
        ("costs $5 and $10", "costs \\$5 and \\$10"),
        ("$5/$6", "\\$5/\\$6"),
        ("from $5 to $x$", "from \\$5 to $x$"),
        ("$ a$", "\\$ a\\$"),
        ("$a<b$", "$a< b$"),
        ("$[a](x)$", "$[a] (x)$"),
        ("$$", "\\$\\$"),
        ("a\ud800b", "a\N{REPLACEMENT CHARACTER}b"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("`unclosed <b>", "`unclosed &lt;b>"),
    ],
)
def test_live_markdown_is_shown_instead_of_obeyed(text: str, expected: str) -> None:
    assert safe_markdown(text) == expected


def test_images_stay_where_they_are_allowed_but_never_from_data() -> None:
    text = "![a](https://x/y.png) ![b](data:image/png;base64,AA)"
    assert safe_markdown(text, remote_images=True) == (
        "![a](https://x/y.png) ![b]\\(data:image/png;base64,AA)"
    )


def test_code_that_is_none_to_the_parser_is_treated_as_prose() -> None:
    text = "[a]: http://x\n2. x\n   ```\n<script>alert(1)</script>"
    _assert_inert(safe_markdown(text))
    assert "<script" not in safe_markdown(text)
