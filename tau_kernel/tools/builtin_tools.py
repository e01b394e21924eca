"""The built-in tools as a whole: their names, their sets, and how they are made."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Final

from tau_kernel.errors import CallerError
from tau_kernel.extensions import AgentTool

from .bash import bash_tool
from .edit import edit_tool
from .ls import ls_tool
from .path_policy import PathPolicy
from .read import read_tool
from .search import find_tool, grep_tool
from .spool import Spool
from .write import write_tool

__all__ = ["BUILTIN_TOOL_NAMES", "TOOL_SETS", "builtin_tools"]

BUILTIN_TOOL_NAMES: Final = ("read", "write", "edit", "bash", "grep", "find", "ls")
"""In the order they are offered to a model."""

TOOL_SETS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "all": BUILTIN_TOOL_NAMES,
        "coding": ("read", "write", "edit", "bash"),
        "read-only": ("read", "grep", "find", "ls"),
    }
)
"""Names for several at once."""


def builtin_tools(
    policy: PathPolicy,
    *,
    names: Collection[str] = BUILTIN_TOOL_NAMES,
    secret_variables: Collection[str] = (),
) -> tuple[AgentTool, ...]:
    """Make built-in tools for one session.

    Args:
        policy: What files they may reach; `bash` is not confined.
        names: Which of them, as `TOOL_SETS` or one by one.
        secret_variables: Environment variables that commands do not inherit, such as
            those that hold the keys of configured models; names that look like secrets
            are left out anyway.

    Returns:
        The tools in the order of `BUILTIN_TOOL_NAMES`. They share a folder for long
        outputs, which is removed with them.

    Raises:
        CallerError: There is no such tool.
    """
    spool = Spool()
    makers: dict[str, Callable[[], AgentTool]] = {
        "read": lambda: read_tool(policy, spool),
        "write": lambda: write_tool(policy),
        "edit": lambda: edit_tool(policy),
        "bash": lambda: bash_tool(spool, secret_variables),
        "grep": lambda: grep_tool(policy, spool),
        "find": lambda: find_tool(policy),
        "ls": lambda: ls_tool(policy),
    }
    for name in names:
        if name not in makers:
            near = difflib.get_close_matches(name, makers, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "leave it out"
            known = ", ".join(BUILTIN_TOOL_NAMES)
            msg = f"no built-in tool is named {name!r}; {hint}\nthere are {known}"
            raise CallerError(msg)
    return tuple(makers[name]() for name in BUILTIN_TOOL_NAMES if name in names)
