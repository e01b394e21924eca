"""What Tab and Shift-Tab say."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tau_kernel.jupyter.attachments import attach, find_mentions
from tau_kernel.jupyter.cell_options import OPTIONS, UNAVAILABLE, parse_options
from tau_kernel.jupyter.cells import KnownNames
from tau_kernel.jupyter.completion import (
    MOST_MATCHES,
    Completions,
    CompletionSources,
    Delegated,
    Match,
    complete,
    inspect,
)

NAMES: Final = KnownNames(
    commands=frozenset({"help", "model", "models"}),
    line_magics=frozenset({"time", "pip"}),
    cell_magics=frozenset({"time", "bash", "python"}),
    is_bound=frozenset({"data"}).__contains__,
)

#: File names that a cell can write, ordinary and odd.
FILE_NAMES = (
    st.text(
        st.one_of(
            st.sampled_from("ab .,;:()[]{}'`@\\-_~$%&|<>*?!=#éß🦊漢\u202f"),
            st.characters(categories=["L", "N", "P", "S", "Zs"], codec="utf-8"),
        ),
        min_size=1,
        max_size=12,
    )
    .filter(lambda name: "/" not in name and name not in {".", ".."})
    .filter(lambda name: len(name.encode()) < 100)
    .filter(lambda name: name.strip() and not name.startswith("~"))
)


def sources(cwd: Path) -> CompletionSources:
    return CompletionSources(
        names=NAMES,
        command_help={"model": "Shows the model.\nOr chooses one."},
        models=("echo", "local:my model.gguf", "openai:gpt"),
        tools=("bash", "read"),
        cwd=cwd,
    )


def at_bar(text: str, cwd: Path) -> Completions:
    """Complete at the bar in `text`; the bar is no part of the cell."""
    cursor = text.index("|")
    found = complete(text.replace("|", "", 1), cursor, sources(cwd))
    assert isinstance(found, Completions)
    return found


def texts(text: str, cwd: Path) -> list[str]:
    return [match.text for match in at_bar(text, cwd).matches]


def results(text: str, cwd: Path) -> list[str]:
    """Give the cell as each suggestion would leave it."""
    found = at_bar(text, cwd)
    code = text.replace("|", "", 1)
    return [
        code[: found.start] + match.text + code[found.end :] for match in found.matches
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("notes.md", "my notes.md", ".hidden", "READ,ME", "plot.png"):
        (tmp_path / name).touch()
    for name in ("docs", "my docs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a b.txt").touch()
    return tmp_path


# Commands and magics


def test_a_slash_at_the_start_completes_commands(folder: Path) -> None:
    found = at_bar("/mo|", folder)
    expected = (
        Match(text="/model", type="command", signature="Shows the model."),
        Match(text="/models", type="command"),
    )
    assert found == Completions(matches=expected, start=0, end=3)


def test_blank_lines_before_a_command_count_in_its_place(folder: Path) -> None:
    assert results("\n\n/he|", folder) == ["\n\n/help"]


@pytest.mark.parametrize(
    "text", [" /mo|", "prose /mo|", "prose\n/mo|", "/model mo|", "/|model", "|/model"]
)
def test_a_slash_elsewhere_completes_no_command(text: str, folder: Path) -> None:
    expected = ["/help", "/model", "/models"] if text == "/|model" else []
    assert texts(text, folder) == expected


def test_positions_are_in_code_points(folder: Path) -> None:
    found = at_bar("🦊🦊 @not|", folder)
    assert (found.start, found.end) == (3, 7)
    found = at_bar("🦊🦊 /mo|", folder)
    assert (found.start, found.end) == (3, 6)
    assert found.matches == ()


def test_a_percent_sign_completes_markers_and_magics(folder: Path) -> None:
    expected = ["%%tau", "%%python", "%%py", "%%bash", "%%time", "%pip", "%time"]
    assert texts("%|", folder) == expected
    assert texts("%%t|", folder) == ["%%tau", "%%time"]
    assert texts("%%tau|", folder) == ["%%tau"]


@pytest.mark.parametrize("cursor", [-5, 0, 3, 99])
def test_a_cursor_outside_the_cell_counts_as_its_end(cursor: int, folder: Path) -> None:
    found = complete("/he", cursor, sources(folder))
    assert isinstance(found, Completions)
    assert found.end == min(max(cursor, 0), 3)


# The options of %%tau


def test_a_space_after_tau_offers_every_option(folder: Path) -> None:
    expected = [f"{s.name}=" for s in OPTIONS if s.name not in UNAVAILABLE]
    assert texts("%%tau |", folder) == expected


def test_options_that_are_set_are_not_offered_again(folder: Path) -> None:
    assert results("%%tau model=echo mod|", folder) == []
    assert results("%%tau mo| seed=1", folder) == ["%%tau model= seed=1"]
    assert texts("%%tau model=echo m|", folder) == [
        "max_tokens=",
        "max_turns=",
        "max_cost=",
    ]


def test_closed_sets_models_and_tools_are_offered_as_values(folder: Path) -> None:
    assert results("%%tau strategy=en|", folder) == ["%%tau strategy=enqueue"]
    assert texts("%%tau history=|", folder) == ["on", "off"]
    assert texts("%%tau model=e|", folder) == ["echo"]
    assert texts("%%tau tools=|", folder) == ["none", "bash", "read"]
    assert results("%%tau tools=bash,r|", folder) == ["%%tau tools=bash,read"]
    assert texts("%%tau seed=|", folder) == []
    assert texts("%%tau nope=|", folder) == []


def test_a_value_that_needs_quotes_gets_them(folder: Path) -> None:
    expected = ['%%tau model="local:my model.gguf"']
    assert results("%%tau model=lo|", folder) == expected
    assert results('%%tau model="lo|', folder) == expected
    assert results('%%tau model="lo|"', folder) == expected
    assert results("%%tau model='lo|'", folder) == expected


def test_a_quote_around_a_plain_value_is_replaced(folder: Path) -> None:
    assert results('%%tau strategy="en|"', folder) == ["%%tau strategy=enqueue"]


def test_paths_of_options_are_read_back(folder: Path) -> None:
    assert results("%%tau image=pl|", folder) == ["%%tau image=plot.png"]
    assert results("%%tau image=plot.png,my|", folder) == [
        '%%tau image=plot.png,"my docs/',
        '%%tau image=plot.png,"my notes.md"',
    ]
    assert results('%%tau image="my docs/|', folder) == [
        '%%tau image="my docs/a b.txt"'
    ]
    assert results("%%tau image=RE|", folder) == ['%%tau image="READ,ME"']


def test_the_prompt_beneath_options_completes_mentions(folder: Path) -> None:
    assert results("%%tau seed=1\nsee @not|", folder) == ["%%tau seed=1\nsee @notes.md"]
    assert texts("%%tau seed=1\n/he|", folder) == []
    assert texts("%%tau seed=1\nmo|", folder) == []


# Mentions


def test_an_at_sign_offers_what_is_not_hidden(folder: Path) -> None:
    assert texts("see @|", folder) == [
        "@docs/",
        '@"my docs/',
        '@"my notes.md"',
        "@notes.md",
        "@plot.png",
        '@"READ,ME"',
    ]


def test_hidden_files_are_offered_when_their_dot_is_typed(folder: Path) -> None:
    assert texts("@.|", folder) == ["@.hidden"]
    assert texts("@hid|", folder) == []


def test_files_and_directories_are_told_apart(folder: Path) -> None:
    kinds = {match.text: match.type for match in at_bar("@|", folder).matches}
    assert kinds["@docs/"] == kinds['@"my docs/'] == "directory"
    assert kinds["@notes.md"] == kinds['@"my notes.md"'] == "file"


def test_case_does_not_matter_to_what_is_offered(folder: Path) -> None:
    assert texts("@NOT|", folder) == ["@notes.md"]
    assert texts("@read|", folder) == ['@"READ,ME"']


def test_a_directory_goes_on_to_its_files(folder: Path) -> None:
    assert results("@docs/|", folder) == ['@"docs/a b.txt"']
    assert results('@"my docs/|', folder) == ['@"my docs/a b.txt"']
    assert results('@"my docs/|" is', folder) == ['@"my docs/a b.txt" is']
    assert texts("@nowhere/|", folder) == []
    assert texts("@notes.md/|", folder) == []


def test_absolute_and_home_paths_keep_their_beginning(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(folder))
    assert texts("@~/not|", Path("/")) == ["@~/notes.md"]
    assert texts(f"@{folder}/not|", Path("/")) == [f"@{folder}/notes.md"]
    assert texts("@../|", folder / "docs")[0] == "@../docs/"


def test_only_the_part_before_the_cursor_is_replaced(folder: Path) -> None:
    assert results("(@not|) and more", folder) == ["(@notes.md) and more"]


@pytest.mark.parametrize(
    "text",
    [
        "ada@no|",
        r"\@no|",
        "`@no|`",
        "```\n@no|",
        "```\n@no|\n```",
        "@notes.md\n|",
        "@notes.md |",
        '@"notes.md" |',
        "|@notes.md",
        "no|",
        "|",
    ],
)
def test_what_is_no_mention_offers_no_files(text: str, folder: Path) -> None:
    found = at_bar(text, folder)
    assert found.matches == ()
    assert found.start <= found.end == text.index("|")


def test_a_link_to_itself_hides_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "lot.txt").touch()
    assert texts("@lo|", tmp_path) == ["@loop", "@lot.txt"]


def test_names_that_no_message_can_carry_are_left_out(tmp_path: Path) -> None:
    for name in (b"a\xff.txt", b"a\n.txt", b"a\x1b.txt", b"ab.txt"):
        (tmp_path / os.fsdecode(name)).touch()
    (tmp_path / 'a".txt').touch()
    assert texts("@a|", tmp_path) == ["@ab.txt"]
    assert texts("%%tau image=a|", tmp_path) == [r'"a\".txt"', "ab.txt"]


@pytest.mark.parametrize("name", ["~", "~root", " ", "\u3000"])
def test_a_name_that_would_be_read_as_another_is_not_offered(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / name).touch()
    assert texts("@|", tmp_path) == []
    assert texts('@"|', tmp_path) == []
    assert texts("%%tau image=|", tmp_path) == []


def test_suggestions_are_bounded_and_come_in_order(tmp_path: Path) -> None:
    for number in range(MOST_MATCHES + 50):
        (tmp_path / f"f{number:04}").touch()
    expected = [f"@f{number:04}" for number in range(MOST_MATCHES)]
    assert texts("@f|", tmp_path) == expected
    assert len(texts("%%tau image=|", tmp_path)) == MOST_MATCHES
    many = KnownNames(
        commands=frozenset(f"c{number}" for number in range(1000)),
        line_magics=frozenset(),
        cell_magics=frozenset(),
        is_bound=frozenset[str]().__contains__,
    )
    models = tuple(f"m{number}" for number in range(1000))
    given = CompletionSources(names=many, models=models, cwd=tmp_path)
    for code in ("/", "%%tau model="):
        found = complete(code, len(code), given)
        assert isinstance(found, Completions)
        assert len(found.matches) == MOST_MATCHES


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=FILE_NAMES, typed=st.integers(0, 3), quote=st.sampled_from(["", '"']))
def test_what_is_offered_is_read_back_as_that_file(
    name: str, typed: int, quote: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    cwd = tmp_path_factory.mktemp("one")
    (cwd / name).write_text("content", encoding="utf-8")
    prefix = name[: max(typed, 1)] if name.startswith(".") else name[:typed]
    code = f"🦊 @{quote}{prefix}"
    found = complete(code, len(code), sources(cwd))
    assert isinstance(found, Completions)
    for match in found.matches:
        text = f"{code[: found.start]}{match.text}{code[found.end :]} and more"
        assert [mention.path for mention in find_mentions(text)] == [name]
        assert attach(text, cwd).files == (cwd / name,)
    is_typed_whole = find_mentions(f"@{prefix}x") != ()
    if quote and '"' not in name and is_typed_whole:
        assert len(found.matches) == 1
    header = f"%%tau image={quote}"
    found = complete(header, len(header), sources(cwd))
    assert isinstance(found, Completions)
    for match in found.matches:
        line = header[: found.start] + match.text
        assert parse_options(line.removeprefix("%%tau")).image == (name,)
    assert len(found.matches) == (not name.startswith("."))


@given(
    st.lists(
        st.sampled_from(
            [
                *("%%tau", "%%python", "%time", "/help", "@", '@"', '"', "'", ","),
                *(
                    "\n",
                    " ",
                    "image=",
                    "model=",
                    "x",
                    "🦊",
                    "`",
                    "```",
                    "\\",
                    "\0",
                    "/",
                ),
            ]
        ),
        max_size=10,
    ).map("".join),
    st.integers(-1, 30),
)
def test_any_cursor_in_any_cell_gets_an_answer(code: str, cursor: int) -> None:
    given = sources(Path("/nowhere"))
    at = min(max(cursor, 0), len(code))
    found = complete(code, cursor, given)
    inspect(code, cursor, given)
    match found:
        case Completions(start=start, end=end):
            assert 0 <= start <= at <= end <= min(at + 1, len(code))
        case Delegated(code=python, cursor_pos=inner, offset=offset):
            assert 0 <= inner <= len(python)
            assert inner + offset == at
            assert code[offset:] == python


# Python


@pytest.mark.parametrize(
    ("text", "code", "cursor", "offset"),
    [
        ("%%python\nda|", "da", 2, 9),
        ("\n%%py 🦊.x|y", "🦊.xy", 3, 6),
        ("%time da|", "%time da", 8, 0),
        ("%%bash\nls @|", "%%bash\nls @", 11, 0),
        ("!ls @|", "!ls @", 5, 0),
        ("%%py\n@prop|", "@prop", 5, 5),
    ],
)
def test_python_is_left_to_pythons_completer(
    text: str, code: str, cursor: int, offset: int, tmp_path: Path
) -> None:
    expected = Delegated(code=code, cursor_pos=cursor, offset=offset)
    at = text.index("|")
    plain = text.replace("|", "", 1)
    assert complete(plain, at, sources(tmp_path)) == expected
    assert inspect(plain, at, sources(tmp_path)) == expected


def test_a_cursor_before_the_code_asks_python_nothing(folder: Path) -> None:
    assert texts("%%python |\nx", folder) == []
    assert inspect("%%python \nx", 9, sources(folder)) is None


# Inspection


def test_a_command_is_explained_in_its_own_word(folder: Path) -> None:
    known = sources(folder)
    expected = "**`/model`**\n\nShows the model.\nOr chooses one."
    assert inspect("/model echo", 3, known) == expected
    assert inspect("/model echo", 8, known) is None
    assert inspect("/help", 0, known) == "**`/help`**"
    assert inspect("/unknown", 3, known) is None


def test_the_options_are_explained_together_and_each(folder: Path) -> None:
    known = sources(folder)
    table = inspect("%%tau seed=7", 2, known)
    assert isinstance(table, str)
    offered = [spec for spec in OPTIONS if spec.name not in UNAVAILABLE]
    assert all(f"`{spec.name}=`" in table for spec in offered)
    about_seed = inspect("%%tau seed=7", 8, known)
    assert isinstance(about_seed, str)
    assert about_seed.startswith("**`seed=`**")
    assert inspect("%%tau seed", 8, known) == about_seed
    assert inspect("%%tau nope=7", 8, known) is None
    assert inspect("%%tau seed=7\nprose", 15, known) is None


@pytest.mark.parametrize("code", ["", "\n", "prose", "@notes.md"])
def test_prose_is_not_explained(code: str, folder: Path) -> None:
    assert inspect(code, 1, sources(folder)) is None
