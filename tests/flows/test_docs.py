"""The page on flows tells the truth."""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from typing import Final

from tau_kernel.flows import BUILTINS, Flow

PAGE: Final = Path(__file__).parents[2] / "docs" / "flows.md"
ROW: Final = re.compile(r"^\| `(/\w+[^`]*)` \| (.*?) ?\| (.*) \|$", re.MULTILINE)


def test_the_examples_run_as_shown() -> None:
    found = doctest.testfile(
        str(PAGE),
        module_relative=False,
        encoding="utf-8",
    )
    assert found.attempted >= 12
    assert found.failed == 0


def test_the_table_lists_the_commands_of_the_core() -> None:
    rows = ROW.findall(PAGE.read_text(encoding="utf-8"))
    usages = [BUILTINS.usage(name) for name in BUILTINS.commands]
    assert [usage.replace("\\|", "|") for usage, _, _ in rows] == usages
    for spec, (_, asks, leads) in zip(BUILTINS.commands.values(), rows, strict=True):
        assert asks == ", ".join(one.domain for one in spec.arguments)
        if isinstance(spec.declared, Flow):
            assert leads == f"the mutation `{spec.declared.mutation}`"
        else:
            assert leads.startswith("a view")
