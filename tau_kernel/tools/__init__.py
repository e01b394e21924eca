"""The tools that ship with the kernel: files, searches and the shell.

`builtin_tools` makes them for a session, confined by a `PathPolicy`. What a tool is
belongs to `tau_kernel.extensions`, running one to `tau_kernel.agent`, and whether a
call is allowed to approvals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .builtin_tools import BUILTIN_TOOL_NAMES, TOOL_SETS, builtin_tools
from .path_policy import PathPolicy

if TYPE_CHECKING:
    from tau_kernel.extensions import AgentTool

__all__ = [
    "BUILTIN_TOOLS",
    "BUILTIN_TOOL_NAMES",
    "TOOL_SETS",
    "PathPolicy",
    "builtin_tools",
]

BUILTIN_TOOLS: Final[tuple[AgentTool, ...]] = ()
"""What a session has that was given no policy: no tool can be made without one."""
