"""Models: what they are asked, how they answer, and how their names are resolved.

`stream_simple` yields typed events and `complete_simple` collapses them. Each provider
is one file; nothing that talks to a service is imported before it is used.
"""

from __future__ import annotations

from .draft import Draft, estimated_usage
from .local_install import check_gguf, install_local, local_model_path
from .model import (
    ApiKey,
    DoneEvent,
    ErrorEvent,
    Model,
    ModelContext,
    Provider,
    ReasoningLevel,
    StreamEvent,
    StreamOptions,
    TextDeltaEvent,
    ThinkingDeltaEvent,
    ToolCallDeltaEvent,
    ToolSpec,
)
from .prompt_file import read_prompt
from .resolve import ModelSettings, default_model_name, resolve_model
from .stream import PROVIDERS, complete_simple, stream_simple, warm

__all__ = [
    "PROVIDERS",
    "ApiKey",
    "DoneEvent",
    "Draft",
    "ErrorEvent",
    "Model",
    "ModelContext",
    "ModelSettings",
    "Provider",
    "ReasoningLevel",
    "StreamEvent",
    "StreamOptions",
    "TextDeltaEvent",
    "ThinkingDeltaEvent",
    "ToolCallDeltaEvent",
    "ToolSpec",
    "check_gguf",
    "complete_simple",
    "default_model_name",
    "estimated_usage",
    "install_local",
    "local_model_path",
    "read_prompt",
    "resolve_model",
    "stream_simple",
    "warm",
]
