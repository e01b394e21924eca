"""The composition root: turns a configuration into a working session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tau_kernel.agent import AgentSession, CompactionSettings, Limits, RetryPolicy
from tau_kernel.extensions import AgentTool, ToolExecutionMode
from tau_kernel.models import Model, ReasoningLevel
from tau_kernel.tools import BUILTIN_TOOLS
from tau_kernel.tree import SessionLog

__all__ = ["SessionConfig", "create_agent_session"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionConfig:
    """What a session is made of.

    Args:
        model: Who answers.
        log: Where the conversation is kept.
        system_prompt: What the model is told first.
        tools: What the model may call; the built-in ones unless given.
        max_turns: Completions of one submission at most, from 1.
        api_key: For the provider of `model`.
        cwd: Where the tools' relative paths begin; the process's where None.
        reasoning: How hard the model thinks, a level's name.
        model_resolver: Turns a name into a model, for ``set_model``.
        tool_execution_mode: ``"sequential"`` runs every tool call by itself.
        limits: What the session may spend; None for no limit.
        retry: How a request that failed is made again; None for the usual way.
        compaction: When the context is compacted, and how much stays; None to go by
            the model's window.
    """

    model: Model
    log: SessionLog
    system_prompt: str = ""
    tools: tuple[AgentTool, ...] = BUILTIN_TOOLS
    max_turns: int | None = None
    api_key: str | None = field(default=None, repr=False)
    cwd: Path | None = None
    reasoning: ReasoningLevel | None = None
    model_resolver: Callable[[str], Model] | None = None
    tool_execution_mode: ToolExecutionMode = "parallel"
    limits: Limits | None = None
    retry: RetryPolicy | None = None
    compaction: CompactionSettings | None = None


def create_agent_session(config: SessionConfig) -> AgentSession:
    """Wire a session as `config` says; nothing is written before its first turn.

    Raises:
        CallerError: A limit in `config` allows no turn.
    """
    return AgentSession(
        config.log,
        config.model,
        config.system_prompt,
        config.tools,
        api_key=config.api_key,
        reasoning=config.reasoning,
        model_resolver=config.model_resolver,
        max_turns=config.max_turns,
        tool_execution_mode=config.tool_execution_mode,
        cwd=config.cwd,
        limits=config.limits,
        retry=config.retry,
        compaction_settings=config.compaction,
    )
