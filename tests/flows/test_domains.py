from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
from flow_ports import Catalog, Names, Row, Runtime, Session

from tau_kernel.errors import CallerError
from tau_kernel.flows import DOMAINS, DomainValue, UnknownSpecError, enumerate_domain
from tau_kernel.messages import user_message
from tau_kernel.tree import InMemorySessionLog, MessageIdScope, UnknownEntryError

MODELS = Session(Names(("gpt-5", "claude", "Claude-old")))


def values(domain: str, **asked: object) -> list[str]:
    found = enumerate_domain(domain, **asked)  # type: ignore[arg-type] # by name
    return [one.value for one in found.values]


@pytest.mark.parametrize("domain", ["text", "number", "integer"])
def test_where_every_value_is_legal_there_is_no_list(domain: str) -> None:
    found = enumerate_domain(domain)
    assert (found.domain, found.values, found.total) == (domain, (), 0)


@pytest.mark.parametrize(
    ("domain", "expected"),
    [
        ("boolean", ["true", "false"]),
        ("message_id_scope", list(get_args(MessageIdScope))),
    ],
)
def test_fixed_values_are_given_as_they_are(domain: str, expected: list[str]) -> None:
    assert values(domain, query="no such") == expected


def test_a_limit_cuts_and_the_total_tells() -> None:
    found = enumerate_domain("model_name", session=MODELS, limit=1)
    assert found.values == (DomainValue("gpt-5", "gpt-5"),)
    assert found.total == 3
    fixed = enumerate_domain("boolean", limit=1)
    assert (len(fixed.values), fixed.total) == (1, 2)


def test_at_most_fifty_are_given_unless_more_are_asked_for() -> None:
    many = Session(Names(tuple(f"m{i}" for i in range(60))))
    found = enumerate_domain("model_name", session=many)
    assert (len(found.values), found.total) == (50, 60)
    assert len(values("model_name", session=many, limit=60)) == 60


def test_a_negative_limit_is_refused() -> None:
    with pytest.raises(CallerError, match="limit -1 is negative"):
        enumerate_domain("boolean", limit=-1)


def test_an_unknown_domain_is_refused_and_the_nearest_is_named() -> None:
    told = r"^no domain named 'model_nam' .* did you mean 'model_name'\?$"
    with pytest.raises(UnknownSpecError, match=told) as caught:
        enumerate_domain("model_nam")
    assert isinstance(caught.value, KeyError)


@pytest.mark.parametrize("domain", ["model_name", "extension_name", "message_id"])
def test_without_a_session_there_is_an_error_and_no_empty_list(domain: str) -> None:
    with pytest.raises(ValueError, match=f"'{domain}' needs a session"):
        enumerate_domain(domain, runtime=Runtime())


@pytest.mark.parametrize("domain", ["session_id", "path"])
def test_without_a_runtime_there_is_an_error_and_no_empty_list(domain: str) -> None:
    with pytest.raises(ValueError, match=f"'{domain}' needs a runtime"):
        enumerate_domain(domain, session=Session())


def test_every_domain_with_a_reader_reads() -> None:
    session, runtime = Session(Names(())), Runtime()
    for name, domain in DOMAINS.items():
        if domain.enumerator:
            found = enumerate_domain(
                name, session=session, runtime=runtime, query="no such thing"
            )
            assert (found.domain, found.values, found.total) == (name, (), 0)


def test_models_need_a_resolver() -> None:
    with pytest.raises(ValueError, match="needs a model resolver"):
        enumerate_domain("model_name", session=Session())


def test_models_need_a_resolver_that_says_its_names() -> None:
    with pytest.raises(ValueError, match=r"does not declare model_names\(\)"):
        enumerate_domain("model_name", session=Session(str.upper))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["gpt-5", "claude", "Claude-old"]),
        ("gpt", ["gpt-5"]),
        ("CLAUDE", ["claude", "Claude-old"]),
        ("old", ["Claude-old"]),
        ("4", []),
    ],
)
def test_values_are_found_by_their_start_or_by_words_of_their_label(
    query: str, expected: list[str]
) -> None:
    assert values("model_name", session=MODELS, query=query) == expected


def test_the_start_of_a_value_has_its_case() -> None:
    session = Session(extensions=(("/a/B.py", True),))
    runtime = Runtime(catalog=Catalog({"/": [Row("aB", name="x"), Row("ab", "y")]}))
    assert values("session_id", runtime=runtime, query="aB") == ["aB"]
    assert values("extension_name", session=session, query="b.PY") == ["/a/B.py"]


def test_extensions_tell_whether_they_are_enabled() -> None:
    session = Session(extensions=(("a.py", True), ("b.py", False)))
    found = enumerate_domain("extension_name", session=session)
    assert found.values == (
        DomainValue("a.py", "a.py (enabled)"),
        DomainValue("b.py", "b.py (disabled)"),
    )


def test_sessions_are_those_of_the_directory_by_what_people_know_them_by() -> None:
    rows = [Row("1", "Named", "hi"), Row("2", None, "first\n  words"), Row("3")]
    runtime = Runtime("/here", Catalog({"/here": rows, None: [Row("elsewhere")]}))
    found = enumerate_domain("session_id", runtime=runtime)
    assert found.values == (
        DomainValue("1", "Named"),
        DomainValue("2", "first words"),
        DomainValue("3", "3"),
    )


def logged() -> tuple[Session, list[str]]:
    """A root with two children; the cursor is on the second."""
    log = InMemorySessionLog()
    root = log.append_message(user_message("root"))
    log.append_message(user_message("left"))
    log.append_navigate(root)
    right = log.append_message(user_message("right"))
    return Session(session_log=log), [root, right]


def test_entries_are_found_by_their_words_and_shown_by_them() -> None:
    session, (_, right) = logged()
    found = enumerate_domain("message_id", session=session, query="RIGHT")
    assert [one.value for one in found.values] == [right]
    assert "right" in found.values[0].label


def test_entries_can_be_those_above_the_cursor() -> None:
    session, path = logged()
    scope: MessageIdScope = "ancestors_of_cursor"
    above = set(values("message_id", session=session, scope=scope))
    assert set(path) <= above
    assert values("message_id", session=session, scope=scope, cursor=path[0]) == [
        path[0]
    ]


def test_a_cursor_that_is_no_entry_is_refused() -> None:
    session, _ = logged()
    with pytest.raises(UnknownEntryError, match="'gone'"):
        enumerate_domain(
            "message_id", session=session, scope="ancestors_of_cursor", cursor="gone"
        )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.txt", "A.txt", ".hidden", "sub/deep.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    (tmp_path / "loop").symlink_to("loop")
    return tmp_path


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["A.txt", "b.txt", "loop", "sub/"]),
        ("a", ["A.txt"]),
        (".h", [".hidden"]),
        ("sub/", ["sub/deep.txt"]),
        ("./s", ["./sub/"]),
        ("gone/", []),
        ("b.txt/", []),
        ("nul\0/", []),
    ],
)
def test_paths_go_on_from_the_working_directory(
    folder: Path, query: str, expected: list[str]
) -> None:
    assert values("path", runtime=Runtime(str(folder)), query=query) == expected


def test_paths_may_be_absolute_and_their_number_is_told(folder: Path) -> None:
    found = enumerate_domain("path", runtime=Runtime(), query=f"{folder}/", limit=1)
    assert [one.value for one in found.values] == [f"{folder}/A.txt"]
    assert found.total == 4
