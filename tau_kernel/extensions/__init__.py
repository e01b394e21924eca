"""What tools and extensions are written against.

`extension_types` holds the types of a tool and the dialogs it may open. What a form may
ask is said in `tau_kernel.flows` and given here as well, for those who write them.
Running a tool is the affair of `tau_kernel.agent`.
"""

from __future__ import annotations

from tau_kernel.flows import (
    FORM_FIELD_KINDS,
    FormField,
    form_headless_value,
    validate_form_spec,
    validate_form_values,
)

from .extension_types import (
    HEADLESS_DIALOG_ANSWERS,
    AgentTool,
    AgentToolResult,
    ExtensionUI,
    NotifyLevel,
    ToolContext,
    ToolExecutionMode,
    UiDelegate,
)

__all__ = [
    "FORM_FIELD_KINDS",
    "HEADLESS_DIALOG_ANSWERS",
    "AgentTool",
    "AgentToolResult",
    "ExtensionUI",
    "FormField",
    "NotifyLevel",
    "ToolContext",
    "ToolExecutionMode",
    "UiDelegate",
    "form_headless_value",
    "validate_form_spec",
    "validate_form_values",
]
