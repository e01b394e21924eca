"""A desk: a working directory, the tools confined to it, and calls of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tau_kernel.extensions import AgentTool, AgentToolResult, ExtensionUI, ToolContext
from tau_kernel.messages import AbortSignal, JsonValue
from tau_kernel.tools import PathPolicy, builtin_tools


def context(cwd: Path, signal: AbortSignal) -> ToolContext:
    return ToolContext(ui=ExtensionUI(), signal=signal, submission_id=None, cwd=cwd)


@dataclass(slots=True)
class Desk:
    """Calls tools in a folder; the folder beside it is out of bounds."""

    root: Path
    outside: Path
    allowed: tuple[Path, ...] = ()
    tools: dict[str, AgentTool] = field(init=False)
    signal: AbortSignal = field(default_factory=AbortSignal)
    updates: list[JsonValue] = field(default_factory=list)
    on_update: Callable[[JsonValue], None] = field(init=False)

    def __post_init__(self) -> None:
        policy = PathPolicy(root=self.root, allowed=self.allowed)
        self.tools = {tool.name: tool for tool in builtin_tools(policy)}
        self.on_update = self.updates.append

    async def start(self, name: str, /, **params: JsonValue) -> AgentToolResult:
        returned = await self.tools[name].execute(
            "c1", params, self.signal, self.on_update, context(self.root, self.signal)
        )
        assert isinstance(returned, AgentToolResult)
        return returned

    def result(self, name: str, /, **params: JsonValue) -> AgentToolResult:
        return asyncio.run(self.start(name, **params))

    def call(self, name: str, /, **params: JsonValue) -> str:
        """Give the text of a result that is no error."""
        result = self.result(name, **params)
        assert isinstance(result.content, str)
        assert not result.is_error, result.content
        return result.content

    def names(self) -> list[str]:
        """Give what is in the working directory, in order."""
        return sorted(path.name for path in self.root.iterdir())

    def file(self, name: str, content: str | bytes = "") -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    root, outside = tmp_path / "work", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    desk = Desk(root=root, outside=outside)
    yield desk
    desk.signal.abort()


@pytest.fixture(scope="session")
def make_desk() -> type[Desk]:
    return Desk
