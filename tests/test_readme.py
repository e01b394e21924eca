"""The README tells the truth."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Final

from tau_kernel.config import load_config
from tau_kernel.jupyter.cell_options import OPTIONS, UNAVAILABLE
from tau_kernel.jupyter.commands import COMMANDS
from tau_kernel.models import ModelSettings, resolve_model

ROOT: Final = Path(__file__).parents[1]
README: Final = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def test_the_provider_is_configured_as_shown(tmp_path: Path) -> None:
    shown, _ = blocks("json")
    assert len(json.loads(shown)["models"]) == 1
    (tmp_path / "config.json").write_text(shown)
    config = load_config({"TAU_HOME": str(tmp_path)})
    assert config.default_model == "claude"
    settings = {name: ModelSettings(**model) for name, model in config.models.items()}
    assert resolve_model("claude", settings).provider == "anthropic"


def test_the_limits_are_configured_as_shown(tmp_path: Path) -> None:
    _, shown = blocks("json")
    (tmp_path / "config.json").write_text(shown)
    config = load_config({"TAU_HOME": str(tmp_path)})
    assert config.cell_limits == {"max_turns": 20, "max_tokens": 20_000}
    assert config.session_limits == {"max_cost": 5}


def test_the_commands_name_extras_that_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = re.findall(r"'\.\[(\w+)\]'", README)
    assert named == ["local", "test"]
    assert set(named) <= set(project["optional-dependencies"])
    assert "tau-kernel" in project["scripts"]


def test_every_option_that_a_cell_may_have_is_listed() -> None:
    offered = {spec.name for spec in OPTIONS} - set(UNAVAILABLE)
    assert {name for name in offered if f"`{name}=" not in README} == set()


def test_every_command_is_in_the_table() -> None:
    assert {name for name in COMMANDS if f"`/{name}" not in README} == set()


def test_links_to_files_lead_somewhere() -> None:
    targets = re.findall(r"\]\((?!https?:)([^)]+)\)", README)
    assert targets
    assert [target for target in targets if not (ROOT / target).exists()] == []
