"""The tools that ship with the kernel, in the order they are offered to a model.

What a tool is belongs to `tau_kernel.extensions`, running one to `tau_kernel.agent`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tau_kernel.extensions import AgentTool

__all__ = ["BUILTIN_TOOLS"]

BUILTIN_TOOLS: Final[tuple[AgentTool, ...]] = ()
