"""What one submission may set for its own turn."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tau_kernel.errors import CallerError
from tau_kernel.extensions import AgentTool
from tau_kernel.messages import JsonObject, JsonValue, dump_line
from tau_kernel.models import Model, ReasoningLevel
from tau_kernel.tree import SessionLog

from .limits import Limits
from .loop_types import LoopSpec

__all__ = ["Start", "TurnSettings", "apply_settings", "settings_digest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """An entry that a turn hangs from; None is the place before the root."""

    entry_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSettings:
    """Settings of one turn; None leaves what the session has.

    Args:
        model: Who answers.
        system_prompt: What the model is told first.
        tools: Names of the session's tools that it may call; empty for none.
        temperature: As the provider takes it.
        seed: For providers that sample reproducibly.
        max_tokens: That the model may write, in all completions of the turn.
        reasoning: How hard the model thinks, a level's name.
        max_turns: Completions at most, from 1.
        max_cost: US dollars at most, above 0.
        place: Called with the log once the turn is admitted and before anything is
            written; gives where the turn begins, or None for the cursor.
        provenance: What else the stored ``submission`` entry shall say.
    """

    model: Model | None = None
    system_prompt: str | None = None
    tools: tuple[str, ...] | None = None
    temperature: float | None = None
    seed: int | None = None
    max_tokens: int | None = None
    reasoning: ReasoningLevel | None = None
    max_turns: int | None = None
    max_cost: float | None = None
    place: Callable[[SessionLog], Start | None] | None = None
    provenance: Mapping[str, JsonValue] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a limit that allows no turn."""
        self.limits()

    def limits(self) -> Limits:
        """Give the turn's own limits.

        Raises:
            CallerError: One of them lets nothing through.
        """
        return Limits(
            max_turns=self.max_turns,
            max_tokens=self.max_tokens,
            max_cost=self.max_cost,
        )


def apply_settings(
    spec: LoopSpec, settings: TurnSettings, *, api_keys: Mapping[str, str]
) -> LoopSpec:
    """Give `spec` with what `settings` sets.

    Args:
        spec: What the session would run.
        settings: The turn's own.
        api_keys: From a provider to its key, which no other provider gets.

    Raises:
        CallerError: `settings` names a tool that the session does not have.
    """
    model = settings.model or spec.model
    options = spec.options
    for name in ("temperature", "seed", "max_tokens", "reasoning"):
        if (value := getattr(settings, name)) is not None:
            options = replace(options, **{name: value})
    options = replace(options, api_key=api_keys.get(model.provider))
    prompt = settings.system_prompt
    return replace(
        spec,
        model=model,
        options=options,
        system_prompt=spec.system_prompt if prompt is None else prompt,
        tools=_chosen(spec.tools, settings.tools),
        max_turns=settings.max_turns or spec.max_turns,
        max_cost=settings.max_cost or spec.max_cost,
    )


def settings_digest(spec: LoopSpec) -> str:
    """Give the SHA-256, in hex, of what decides a turn beside its messages."""
    options = spec.options
    record: JsonObject = {
        "max_tokens": options.max_tokens,
        "max_turns": spec.max_turns,
        "model": spec.model.id,
        "provider": spec.model.provider,
        "reasoning": options.reasoning,
        "seed": options.seed,
        "system_prompt": spec.system_prompt,
        "temperature": options.temperature,
        "tools": [
            {"description": tool.description, "name": tool.name} for tool in spec.tools
        ],
    }
    return hashlib.sha256(dump_line(record)).hexdigest()


def _chosen(
    tools: Sequence[AgentTool], names: tuple[str, ...] | None
) -> tuple[AgentTool, ...]:
    if names is None:
        return tuple(tools)
    known = {tool.name: tool for tool in tools}
    for name in names:
        if name not in known:
            msg = f"no tool is named {name!r}; this session has {sorted(known)}"
            raise CallerError(msg)
    return tuple(known[name] for name in names)
