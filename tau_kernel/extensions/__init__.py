"""What tools and extensions are written against.

`extension_types` holds the types of a tool and the dialogs it may open, `form_spec`
what a form may ask. Running a tool is the affair of `tau_kernel.agent`.
"""

from __future__ import annotations

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
from .form_spec import (
    FORM_FIELD_KINDS,
    FormField,
    form_headless_value,
    validate_form_spec,
    validate_form_values,
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
