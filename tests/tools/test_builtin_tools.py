"""The tools as a whole, and in a session that calls them."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from jsonschema_rs import Draft202012Validator

from tau_kernel.errors import CallerError
from tau_kernel.messages import JsonObject, ToolResultMessage
from tau_kernel.models import resolve_model
from tau_kernel.sdk import SessionConfig, create_agent_session
from tau_kernel.tools import (
    BUILTIN_TOOL_NAMES,
    TOOL_SETS,
    PathPolicy,
    builtin_tools,
)
from tau_kernel.tree import InMemorySessionLog

if TYPE_CHECKING:
    from .conftest import Desk

PAGE: Final = Path(__file__).parents[2] / "docs" / "tools.md"


def test_the_tools_come_in_their_order_whatever_is_asked_for(tmp_path: Path) -> None:
    policy = PathPolicy(root=tmp_path)
    assert tuple(tool.name for tool in builtin_tools(policy)) == BUILTIN_TOOL_NAMES
    some = builtin_tools(policy, names=["ls", "read"])
    assert [tool.name for tool in some] == ["read", "ls"]


def test_what_changes_something_runs_alone(tmp_path: Path) -> None:
    alone = {
        tool.name
        for tool in builtin_tools(PathPolicy(root=tmp_path))
        if tool.execution_mode == "sequential"
    }
    assert alone == {"write", "edit", "bash"}
    assert not alone & set(TOOL_SETS["read-only"])


def test_an_unknown_tool_suggests_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(CallerError, match="did you mean 'grep'"):
        builtin_tools(PathPolicy(root=tmp_path), names=["gerp"])


@pytest.mark.parametrize(
    ("tool", "arguments", "fits"),
    [
        ("read", {"path": "a"}, True),
        ("read", {"path": "a", "offset": 0}, False),
        ("read", {}, False),
        ("bash", {"command": "ls", "timeout": 3_600_001}, False),
        ("find", {"type": "x"}, False),
        ("ls", {"all": True, "colour": True}, False),
        ("edit", {"path": "a", "old_string": "b", "new_string": ""}, True),
    ],
)
def test_arguments_that_cannot_be_are_refused_by_the_schema(
    desk: Desk, tool: str, arguments: JsonObject, fits: bool
) -> None:
    validator = Draft202012Validator(desk.tools[tool].parameters)
    assert validator.is_valid(arguments) == fits


def called(script: Path, desk: Desk, **calls: JsonObject) -> list[ToolResultMessage]:
    """Let a scripted model call tools; give what it read."""
    wanted = [{"name": name, "arguments": one} for name, one in calls.items()]
    lines = [{"tool_calls": wanted}, {"text": "done"}]
    script.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    log = InMemorySessionLog()
    session = create_agent_session(
        SessionConfig(
            model=resolve_model(f"scripted:{script}"),
            log=log,
            tools=builtin_tools(PathPolicy(root=desk.root)),
            cwd=desk.root,
        )
    )
    asyncio.run(session.prompt("go"))
    messages = [e["message"] for e in log.entries() if e["type"] == "message"]
    return [one for one in messages if one["role"] == "toolResult"]


def test_a_model_reads_what_the_tools_gave(desk: Desk, tmp_path: Path) -> None:
    desk.file("a.txt", "old\n")
    wrote, ran, refused = called(
        tmp_path / "script.jsonl",
        desk,
        edit={"path": "a.txt", "old_string": "old", "new_string": "new"},
        bash={"command": "cat a.txt; exit 2"},
        read={"path": "/etc/passwd"},
    )
    assert not wrote["is_error"]
    assert ran["is_error"]
    assert ran["content"] == [{"type": "text", "text": "new\n[exit code 2]"}]
    assert refused["is_error"]
    assert "outside of" in str(refused["content"])


def test_a_name_of_half_characters_reaches_the_model_mended(
    desk: Desk, tmp_path: Path
) -> None:
    desk.file("caf\udce9.txt", "x")
    [listed] = called(tmp_path / "script.jsonl", desk, ls={})
    assert listed["content"] == [{"type": "text", "text": "caf�.txt"}]


def test_the_example_of_the_page_runs() -> None:
    [example] = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    exec(compile(example, str(PAGE), "exec"), {})  # noqa: S102 - our own words


def test_the_page_names_each_tool_with_its_arguments(desk: Desk) -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| ([^|]*) \|", PAGE.read_text("utf-8"), re.MULTILINE
    )
    told = {name: set(re.findall(r"`(\w+)`", arguments)) for name, arguments in rows}
    assert told == {
        name: set(tool.parameters["properties"])  # type: ignore[arg-type] # an object
        for name, tool in desk.tools.items()
    }
