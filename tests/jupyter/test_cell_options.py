"""The options of a ``%%tau`` line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_kernel.errors import CallerError
from tau_kernel.jupyter.cell_options import (
    OPTIONS,
    CellOptions,
    OptionSpec,
    check_available,
    option_named,
    parse_options,
    scan_header,
)

each_option = pytest.mark.parametrize("spec", OPTIONS, ids=lambda spec: spec.name)

#: A text that can stand on one line.
LINES = st.text(st.characters(blacklist_characters="\n"))


def quoted(value: str) -> str:
    inner = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{inner}"'


def refusal(line: str) -> list[str]:
    with pytest.raises(CallerError) as caught:
        parse_options(line)
    return str(caught.value).split("\n")


def test_an_empty_line_wants_nothing() -> None:
    assert parse_options("  ") == CellOptions()


def test_every_option_of_the_design_is_there() -> None:
    expected = (
        "strategy model history tools image from into format schema system reasoning "
        "temperature seed max_tokens max_turns max_cost expand wait"
    )
    assert expected.split() == [spec.name for spec in OPTIONS]


@each_option
def test_the_example_of_each_option_is_accepted(spec: OptionSpec) -> None:
    assert isinstance(parse_options(f"{spec.name}={spec.example}"), CellOptions)


@each_option
def test_each_listed_value_is_accepted(spec: OptionSpec) -> None:
    for value in spec.values:
        parse_options(f"{spec.name}={value}")


@each_option
def test_no_option_takes_an_empty_value(spec: OptionSpec) -> None:
    for value in ("", '""', "''", '" "'):
        lines = refusal(f"{spec.name}={value}")
        assert f"%%tau option {spec.name!r} cannot be" in lines[0]
        assert spec.rule in lines[1]
        assert f"%%tau {spec.name}={spec.example}" in lines[2]


def test_every_option_sets_its_own_field() -> None:
    options = parse_options(
        " strategy=fork model=openai:gpt history=off tools=read,grep image=a.png,b.png "
        "from=root into=answer format=json schema=s.json system='Be brief.' "
        "reasoning=low temperature=0.2 seed=7 max_tokens=500 expand=on wait=true"
    )
    assert options == CellOptions(
        strategy="fork",
        model="openai:gpt",
        history=False,
        tools=("read", "grep"),
        image=("a.png", "b.png"),
        from_="root",
        into="answer",
        format="json",
        schema="s.json",
        system="Be brief.",
        reasoning="low",
        temperature=0.2,
        seed=7,
        max_tokens=500,
        expand=True,
        wait=True,
    )


def test_no_tools_differ_from_the_sessions_tools() -> None:
    assert parse_options("tools=none").tools == ()
    assert parse_options("").tools is None


def test_a_list_of_tools_may_stand_in_quotes() -> None:
    assert parse_options('tools="read, grep"').tools == ("read", "grep")


def test_a_comma_in_quotes_belongs_to_a_path() -> None:
    options = parse_options("""image="a, b.png",'c d.png',e.png""")
    assert options.image == ("a, b.png", "c d.png", "e.png")


def test_spaces_in_quotes_belong_to_a_path() -> None:
    assert parse_options('image=" a.png"').image == (" a.png",)


def test_a_value_may_hold_an_equals_sign_and_a_quote_within() -> None:
    assert parse_options("system=it's=so").system == "it's=so"


def test_a_closing_quote_ends_the_word() -> None:
    options = parse_options('system="Be brief."model=echo')
    assert options == CellOptions(system="Be brief.", model="echo")
    assert "'x'" in refusal('system="Be brief."x')[0]


@pytest.mark.parametrize(
    "word",
    [
        *("seed=-1", "seed=1.5", "seed=٣", "seed=1e3", "seed=9223372036854775808"),
        *("max_tokens=0", "max_tokens=many"),
        *("temperature=2.1", "temperature=-0.1", "temperature=nan", "temperature=."),
        *("temperature=inf", "temperature=1e-1", "temperature=hot"),
        *("history=maybe", "history=On", "wait=2", "expand=y"),
        *("strategy=queue", "format=yaml", "reasoning=hard"),
        *("into=1st", "into=class", "into=a.b", "into=a,b"),
        *("tools=read,", "tools=,read", "image=a.png,,b.png"),
    ],
)
def test_a_value_against_its_rule_is_refused_with_the_rule(word: str) -> None:
    key, _, value = word.partition("=")
    spec = option_named(key)
    assert spec is not None
    assert refusal(word) == [
        refusal(word)[0],
        f"give {spec.rule}",
        f"for example: %%tau {key}={spec.example}",
    ]
    assert f"cannot be {value!r}" in refusal(word)[0]


@pytest.mark.parametrize(
    ("word", "field", "value"),
    [
        ("seed=0", "seed", 0),
        ("seed=9223372036854775807", "seed", 2**63 - 1),
        ("max_tokens=1", "max_tokens", 1),
        ("temperature=0", "temperature", 0.0),
        ("temperature=2.0", "temperature", 2.0),
        ("temperature=.5", "temperature", 0.5),
        ("history=0", "history", False),
        ("wait=false", "wait", False),
        ("into=größe", "into", "größe"),
    ],
)
def test_the_ends_of_a_range_are_in_it(word: str, field: str, value: object) -> None:
    assert getattr(parse_options(word), field) == value


def test_an_unknown_key_names_the_nearest_and_all() -> None:
    lines = refusal("modle=echo")
    assert lines[0] == "%%tau has no option 'modle'; did you mean 'model'?"
    assert all(spec.name in lines[1] for spec in OPTIONS)


def test_a_near_value_is_suggested() -> None:
    assert "did you mean 'enqueue'?" in refusal("strategy=enque")[0]


def test_a_key_given_twice_is_refused() -> None:
    assert "'seed' is given twice" in refusal("seed=1 seed=1")[0]


def test_an_open_quote_is_refused_with_what_it_swallowed() -> None:
    lines = refusal('system="Be brief seed=7')
    assert "opens a quote" in lines[0]
    assert "'Be brief seed=7'" in lines[1]


def test_a_long_value_is_shown_in_part() -> None:
    assert all(len(line) < 250 for line in refusal("seed=" + "x" * 10_000))


@given(LINES)
def test_any_line_gives_options_or_three_lines_of_refusal(line: str) -> None:
    try:
        parse_options(line)
    except CallerError as error:
        lines = str(error).split("\n")
        assert len(lines) <= 3
        assert all(line.isprintable() for line in lines)


@given(LINES)
def test_words_ascend_and_cover_all_that_is_no_space(line: str) -> None:
    words = scan_header(line)
    at = 0
    for word in words:
        assert not line[at : word.start].strip()
        assert word.start < word.end
        assert word.start <= word.item_start <= word.end
        at = word.end
    assert not line[at:].strip()


@given(LINES)
def test_a_quoted_text_is_read_back(text: str) -> None:
    (word,) = scan_header(f" system={quoted(text)} ")
    assert (word.key, word.value, word.is_closed) == ("system", text, True)


@given(st.lists(LINES, min_size=1, max_size=4))
def test_a_list_of_quoted_texts_is_read_back(texts: list[str]) -> None:
    (word,) = scan_header(f"image={','.join(map(quoted, texts))}")
    assert word.items == tuple(texts)


@pytest.mark.parametrize("line", ["format=json", "schema=a", "wait=on"])
def test_what_the_kernel_cannot_do_is_refused_with_a_way_out(line: str) -> None:
    with pytest.raises(CallerError, match=line.partition("=")[0]):
        check_available(parse_options(line))


def test_what_the_kernel_can_do_passes() -> None:
    check_available(parse_options("strategy=steer into=x seed=1 from=root"))
    check_available(parse_options("strategy=fork wait=on into=x"))
    check_available(parse_options("strategy=fork max_turns=2 max_cost=0.1"))


def test_a_fork_that_nobody_waits_for_cannot_fill_a_variable() -> None:
    with pytest.raises(CallerError, match="into=x needs wait=on"):
        check_available(parse_options("strategy=fork into=x"))


@pytest.mark.parametrize("line", ["max_cost=0", "max_cost=-1", "max_turns=0"])
def test_a_limit_that_lets_nothing_through_is_refused(line: str) -> None:
    assert "give" in refusal(line)[1]
