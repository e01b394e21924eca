from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest

from tau_kernel.agent import load_prompts
from tau_kernel.errors import ConfigError


def test_every_prompt_ships_and_says_something() -> None:
    prompts = load_prompts()
    assert all(getattr(prompts, spec.name) for spec in fields(prompts))


@pytest.mark.parametrize("name", ["initial", "update"])
def test_checkpoints_have_the_sections_in_their_order(name: str) -> None:
    headings = [
        "## Goal",
        "## Constraints & Preferences",
        "## Progress",
        "### Done",
        "### In Progress",
        "### Blocked",
        "## Key Decisions",
        "## Next Steps",
        "## Critical Context",
    ]
    lines = getattr(load_prompts(), name).splitlines()
    assert [line for line in lines if line.startswith("#")] == headings


def test_the_note_on_a_divided_turn_has_its_sections() -> None:
    lines = load_prompts().turn_prefix.splitlines()
    assert [line for line in lines if line.startswith("#")] == [
        "## Original Request",
        "## Early Progress",
        "## Context for Suffix",
    ]


def test_a_users_file_wins_over_the_one_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "summary-update.md").write_text("Mine.\n")
    assert load_prompts(tmp_path) == replace(load_prompts(), update="Mine.")


def test_a_folder_that_is_not_there_has_no_prompts(tmp_path: Path) -> None:
    assert load_prompts(tmp_path / "none") == load_prompts()


def test_an_empty_file_is_no_prompt(tmp_path: Path) -> None:
    (tmp_path / "summary-system.md").write_text("\n")
    with pytest.raises(ConfigError, match="is empty"):
        load_prompts(tmp_path)


def test_the_digest_tells_prompts_apart() -> None:
    prompts = load_prompts()
    assert prompts.digest == load_prompts().digest
    digests = {
        replace(prompts, **{spec.name: "other"}).digest for spec in fields(prompts)
    }
    assert len(digests | {prompts.digest}) == len(fields(prompts)) + 1
