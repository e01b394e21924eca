"""What a cell is."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tau_kernel.errors import CallerError
from tau_kernel.jupyter.cell_options import CellOptions
from tau_kernel.jupyter.cells import (
    CommandCell,
    EmptyCell,
    IPythonCell,
    KnownNames,
    PromptCell,
    PythonCell,
    first_line,
    parse,
)

NAMES = KnownNames(
    commands=frozenset({"help", "model"}),
    line_magics=frozenset({"time", "matplotlib", "pip"}),
    cell_magics=frozenset({"time", "bash", "python"}),
    is_bound=frozenset({"data", "tau"}).__contains__,
)

#: Pieces that decide what a cell is, mixed with anything.
CELLS = st.one_of(
    st.text(st.characters()),
    st.lists(
        st.sampled_from(
            [
                *("/help", "/nope", "%%tau", "%%python", "%%py", "%time", "%%bash"),
                *("!ls", "data", "?", "\n", "\r\n", "\r", " ", "\t", "\u2028", "\\"),
                *("model=", "seed=", "strategy=", "tools=", "image=", "temperature="),
                *('"', "'", ",", "=", "7", "off", "enqueue", "🦊", "\ud800", "\0"),
                *("```", "`", "@", "@a.txt", "/help", "prose"),
            ]
        ),
        max_size=12,
    ).map("".join),
)


def prompt(text: str) -> PromptCell:
    return PromptCell(text=text)


@pytest.mark.parametrize("text", ["", " ", "\n", " \n\t\r\n ", "\u2003"])
def test_a_cell_of_white_space_is_empty(text: str) -> None:
    assert parse(text, NAMES) == EmptyCell()


@pytest.mark.parametrize(
    "text",
    [
        "Why is the sky blue?",
        "\n\n  indented prose\n",
        "/nope is no command",
        "/helpful",
        "/help, please",
        "/etc/passwd is a file",
        " /help",
        " %%python\n1",
        "%%pyton\n1",
        "%%Python\n1",
        "%nothing here",
        "%",
        "%%",
        "100% sure",
        "%timeless",
        "!",
        "!!",
        "!important\nis a word of CSS",
        "unbound?",
        "data? is it there?",
        "data?\nmore",
        "what is data?",
        "data.?",
        "?data",
        "data???",
        "%%matplotlib\ninline",
        "%bash",
        "%%tauten",
    ],
)
def test_what_no_rule_claims_is_a_prompt_as_it_stands(text: str) -> None:
    assert parse(text, NAMES) == prompt(text)


@pytest.mark.parametrize(
    ("text", "name", "args"),
    [
        ("/help", "help", ""),
        ("\n\n/help\n", "help", ""),
        ("/model  echo ", "model", "echo"),
        ("/model echo\nand more\n", "model", "echo\nand more"),
        ("/model\necho", "model", "echo"),
        ("/model\u00a0echo", "model", "echo"),
        ("/help\r\n", "help", ""),
    ],
)
def test_a_known_word_after_a_slash_is_a_command(
    text: str, name: str, args: str
) -> None:
    assert parse(text, NAMES) == CommandCell(name=name, args=args)


@pytest.mark.parametrize(
    ("text", "code", "offset"),
    [
        ("%%python\nprint(1)", "print(1)", 9),
        ("%%py\nprint(1)", "print(1)", 5),
        ("\n\n%%py\n\n  x", "\n  x", 7),
        ("%%py print(1)\nx", "print(1)\nx", 5),
        ("%%py \t print(1)", "print(1)", 7),
        ("%%py  \n'🦊'", "'🦊'", 7),
        ("%%py\r\nx", "x", 6),
        ("%%py", "", 4),
        ("%%py  ", "", 6),
        ("%%py\n", "", 5),
    ],
)
def test_python_begins_behind_its_marker(text: str, code: str, offset: int) -> None:
    assert parse(text, NAMES) == PythonCell(code=code, offset=offset)


@pytest.mark.parametrize(
    "text",
    [
        "%time 1 + 1",
        "%matplotlib inline\nplot()",
        "\n%%bash\nls",
        "%%time\n1",
        "%time?",
        "%time??",
        "%%bash?",
        "%%bash??\n",
        "!ls",
        "! ls",
        "!!ls\n",
        "\n!ls\n\n",
        "data?",
        "data??",
        "data.shape?",
        "data?\n",
    ],
)
def test_what_ipython_knows_is_ipythons_as_it_stands(text: str) -> None:
    assert parse(text, NAMES) == IPythonCell(code=text)


def test_a_question_mark_after_a_magic_counts_in_a_cell_of_its_own_alone() -> None:
    assert parse("%time? I wonder", NAMES) == prompt("%time? I wonder")
    assert parse("%time?\nmore", NAMES) == prompt("%time?\nmore")


def test_our_python_marker_wins_over_the_magic_of_that_name() -> None:
    assert isinstance(parse("%%python\n1", NAMES), PythonCell)


def test_options_come_off_and_the_rest_is_the_prompt() -> None:
    cell = parse("\n%%tau seed=7 model=echo\n\n/help me\n", NAMES)
    options = CellOptions(seed=7, model="echo")
    assert cell == PromptCell(text="\n/help me\n", options=options)


def test_a_tau_line_needs_no_option() -> None:
    assert parse("%%tau\n%%python is a marker", NAMES) == prompt("%%python is a marker")


def test_windows_line_ends_leave_the_options_whole() -> None:
    cell = parse("%%tau model=echo\r\nhello", NAMES)
    assert cell == PromptCell(text="hello", options=CellOptions(model="echo"))


@pytest.mark.parametrize("text", ["%%tau", "%%tau seed=7", "%%tau\n\n  \n"])
def test_a_tau_line_without_a_prompt_is_refused(text: str) -> None:
    with pytest.raises(CallerError, match="without a prompt"):
        parse(text, NAMES)


def test_a_prompt_beside_the_options_is_refused_with_the_way_out() -> None:
    with pytest.raises(CallerError, match="on the lines beneath"):
        parse("%%tau seed=7 hello\nworld", NAMES)


@given(CELLS)
@example("%%tau seed=" + "9" * 5000 + "\nx")
@example("%%tau temperature=." + "9" * 5000 + "\nx")
def test_no_text_raises_but_a_tau_line(text: str) -> None:
    try:
        cell = parse(text, NAMES)
    except CallerError as error:
        line = first_line(text)
        assert line is not None
        assert line.word == "%%tau"
        lines = str(error).split("\n")
        assert len(lines) <= 3
        assert all(line.isprintable() for line in lines)
        return
    match cell:
        case PythonCell(code=code, offset=offset):
            assert text[offset:] == code
            assert text[:offset].split() in (["%%python"], ["%%py"])
        case IPythonCell(code=code):
            assert code == text
        case PromptCell(text=body):
            assert text.endswith(body)
            assert body.strip()
        case CommandCell(name=name, args=args):
            assert name in NAMES.commands
            assert text.split(maxsplit=1)[0] == f"/{name}"
            assert args in text
        case EmptyCell():
            assert not text.strip()


@given(st.text(st.characters()))
def test_any_prompt_passes_through_a_tau_line_unchanged(text: str) -> None:
    if not text.strip():
        return
    assert parse(f"%%tau\n{text}", NAMES) == prompt(text)


@given(st.text(st.characters()))
def test_any_code_passes_through_a_python_line_unchanged(code: str) -> None:
    assert parse(f"%%python\n{code}", NAMES) == PythonCell(code=code, offset=9)


@given(CELLS)
def test_the_first_line_is_a_line_of_the_text(text: str) -> None:
    line = first_line(text)
    if line is None:
        assert not text.strip()
        return
    assert not text[: line.start].strip()
    assert "\n" not in text[line.start : line.end]
    assert text[line.start : line.word_end] == line.word
    assert line.body is None or text[line.end : line.body] == "\n"
