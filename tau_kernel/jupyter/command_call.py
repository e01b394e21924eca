"""One call of a command, with what it may use."""

from __future__ import annotations

from dataclasses import dataclass

from .conversation import Conversation
from .history import CellHistory
from .outlet import CellOutlet
from .render import RenderMode

__all__ = ["CommandCall"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandCall:
    """A command as a cell wrote it.

    Args:
        args: What follows its name, stripped.
        conversation: The kernel's conversation; on its thread.
        outlet: Where the cell's outputs go.
        mode: How answers are shown.
        history: The cells that consoles step through.
    """

    args: str
    conversation: Conversation
    outlet: CellOutlet
    mode: RenderMode
    history: CellHistory
