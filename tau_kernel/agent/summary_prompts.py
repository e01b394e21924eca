"""The texts that ask for summaries: shipped as files, which the user's replace."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from pathlib import Path

from tau_kernel.models import read_prompt
from tau_kernel.tree import branch_summary_prompt

__all__ = ["SummaryPrompts", "load_prompts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryPrompts:
    """What models are told that write summaries.

    Args:
        system: To summarise and do nothing else.
        initial: The form of a first checkpoint.
        update: How a checkpoint is brought up to date.
        turn_prefix: The form of a note on the start of a divided turn.
        branch: The system prompt of a branch's summary.
    """

    system: str
    initial: str
    update: str
    turn_prefix: str
    branch: str

    @property
    def digest(self) -> str:
        """The SHA-256 of the texts, in hex, to tell which ones were used."""
        texts = (f"{spec.name}\0{getattr(self, spec.name)}\0" for spec in fields(self))
        joined = "".join(texts).encode("utf-8", "surrogatepass")
        return hashlib.sha256(joined).hexdigest()


def load_prompts(folder: Path | None = None) -> SummaryPrompts:
    """Read the prompts; a file of the same name in `folder` wins over a shipped one.

    The names are ``summary-system.md``, ``summary-initial.md``, ``summary-update.md``,
    ``summary-turn-prefix.md`` and ``branch-summary.md``.

    Raises:
        ConfigError: A file of the user's cannot be read or is empty.
    """

    def prompt(name: str) -> str:
        return read_prompt(__package__, f"summary-{name}.md", folder)

    return SummaryPrompts(
        system=prompt("system"),
        initial=prompt("initial"),
        update=prompt("update"),
        turn_prefix=prompt("turn-prefix"),
        branch=branch_summary_prompt(folder),
    )
