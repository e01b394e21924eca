"""What a head can be asked to do, as data.

A capability is a read or a mutation of a session; a domain is a kind of value that it
takes; a flow asks for such values and ends in one mutation; a view is what only a head
can show. `capabilities` declares the built-in ones and `vocabulary` adds those of
others, `flows` walks a flow, `commands` reads what a person types, `domains` finds
values, and `form_spec` says what a form may ask. What carries mutations out belongs to
the head and to `tau_kernel.agent`.
"""

from __future__ import annotations

from .capabilities import (
    CAPABILITIES,
    DOMAINS,
    FLOWS,
    VIEW_COMMANDS,
    slash_vocabulary,
)
from .commands import (
    FRONTEND_COMMANDS,
    ArgumentSlot,
    CommandCompletions,
    CommandInvocation,
    complete_command,
    complete_command_argument,
    dispatch_builtin,
    enumerate_slot,
    extension_performed,
    parse_command,
    resolve_command,
    unsupported_command_message,
)
from .domains import (
    CatalogPort,
    DomainQuery,
    DomainReader,
    DomainValue,
    DomainValues,
    ModelNames,
    RuntimePort,
    SessionPort,
    SessionRow,
    select_values,
)
from .flows import (
    UnknownFlowError,
    UnknownSpecError,
    bind_command_args,
    bind_text,
    completed,
    enumerate_domain,
    flow_arguments,
    flow_form_spec,
    next_step,
)
from .form_spec import (
    FORM_FIELD_KINDS,
    FormField,
    form_headless_value,
    validate_form_spec,
    validate_form_values,
)
from .mutation import Mutation, perform
from .outcome import Dispatched, FlowStep, Performed, Ready, View
from .registry import check_flow_matches_mutation, check_registry
from .returns import COMMAND_OUTPUT
from .spec import Argument, Capability, CapabilityKind, Cardinality, Domain, Flow
from .vocabulary import (
    BUILTINS,
    EXTENSION_VIEW_VERBS,
    CommandOrigin,
    CommandSpec,
    Declarations,
    DeclaredCommand,
    TextCommand,
    ViewCommand,
    Vocabulary,
)

__all__ = [
    "BUILTINS",
    "CAPABILITIES",
    "COMMAND_OUTPUT",
    "DOMAINS",
    "EXTENSION_VIEW_VERBS",
    "FLOWS",
    "FORM_FIELD_KINDS",
    "FRONTEND_COMMANDS",
    "VIEW_COMMANDS",
    "Argument",
    "ArgumentSlot",
    "Capability",
    "CapabilityKind",
    "Cardinality",
    "CatalogPort",
    "CommandCompletions",
    "CommandInvocation",
    "CommandOrigin",
    "CommandSpec",
    "Declarations",
    "DeclaredCommand",
    "Dispatched",
    "Domain",
    "DomainQuery",
    "DomainReader",
    "DomainValue",
    "DomainValues",
    "Flow",
    "FlowStep",
    "FormField",
    "ModelNames",
    "Mutation",
    "Performed",
    "Ready",
    "RuntimePort",
    "SessionPort",
    "SessionRow",
    "TextCommand",
    "UnknownFlowError",
    "UnknownSpecError",
    "View",
    "ViewCommand",
    "Vocabulary",
    "bind_command_args",
    "bind_text",
    "check_flow_matches_mutation",
    "check_registry",
    "complete_command",
    "complete_command_argument",
    "completed",
    "dispatch_builtin",
    "enumerate_domain",
    "enumerate_slot",
    "extension_performed",
    "flow_arguments",
    "flow_form_spec",
    "form_headless_value",
    "next_step",
    "parse_command",
    "perform",
    "resolve_command",
    "select_values",
    "slash_vocabulary",
    "unsupported_command_message",
    "validate_form_spec",
    "validate_form_values",
]
