"""What the core declares: domains, capabilities, flows and views.

The tables are data. Reading the values of a domain belongs to `domains`, walking a
flow to `flows`, the words that a person types to `commands`; a capability is carried
out by the session that a head has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, Protocol, TypeVar, get_args

from tau_kernel.tree import MessageIdScope

from .registry import check_registry
from .returns import RETURNS
from .spec import Argument, Capability, CapabilityKind, Cardinality, Domain, Flow

__all__ = [
    "CAPABILITIES",
    "DOMAINS",
    "FLOWS",
    "VIEW_COMMANDS",
    "Argument",
    "Capability",
    "CapabilityKind",
    "Cardinality",
    "Domain",
    "Flow",
    "MessageIdScope",
    "slash_vocabulary",
]


class _HasName(Protocol):
    @property
    def name(self) -> str: ...


_NamedSpec = TypeVar("_NamedSpec", bound=_HasName)


def _by_name(specs: Iterable[_NamedSpec]) -> Mapping[str, _NamedSpec]:
    return MappingProxyType({spec.name: spec for spec in specs})


def _read(name: str, description: str, *arguments: Argument) -> Capability:
    returns = RETURNS[name]
    return Capability(name, "read", description, True, arguments, returns)  # noqa: FBT003 - its documented place


def _mutation(name: str, description: str, *arguments: Argument) -> Capability:
    returns = RETURNS[name]
    return Capability(name, "mutation", description, True, arguments, returns)  # noqa: FBT003 - as above


def _unsayable(name: str, description: str) -> Capability:
    """Declare a mutation with arguments that no domain describes."""
    returns = RETURNS[name]
    return Capability(name, "mutation", description, True, None, returns)  # noqa: FBT003 - as above


DOMAINS: Final[Mapping[str, Domain]] = _by_name(
    (
        Domain("text", "Any text.", free=True),
        Domain("number", "A number.", free=True, field_kind="number"),
        Domain("integer", "A whole number.", free=True, field_kind="number"),
        Domain("boolean", "Yes or no.", values=("true", "false"), field_kind="confirm"),
        Domain(
            "model_name",
            "A model, by the name that the configuration gives it.",
            enumerator="get_models",
            field_kind="select",
        ),
        Domain(
            "session_id",
            "A stored conversation, by its id.",
            enumerator="list_sessions",
        ),
        Domain(
            "path",
            "A file or directory, relative to the session's working directory.",
            enumerator="complete_path",
        ),
        Domain(
            "message_id",
            "An entry of the conversation, by its id.",
            enumerator="complete_message_id",
        ),
        Domain(
            "extension_name",
            "A loaded extension, by its path.",
            enumerator="list_managed_extensions",
            field_kind="select",
        ),
        Domain(
            "message_id_scope",
            "Which entries count.",
            values=get_args(MessageIdScope),
            field_kind="select",
        ),
    )
)

_EXTENSION: Final = Argument("path", "extension_name", "Which extension?")
_INSTRUCTIONS: Final = Argument(
    "custom_instructions",
    "text",
    "What should the summary heed?",
    required=False,
)

CAPABILITIES: Final[Mapping[str, Capability]] = _by_name(
    (
        _read("get_state", "Tells where the session stands."),
        _read("get_messages", "Gives the messages on the active path."),
        _read("get_last_assistant_text", "Gives the text of the newest answer."),
        _read("get_session_stats", "Tells how full the context is and what was used."),
        _read("get_session_name", "Gives the conversation's name."),
        _read("get_tools", "Lists the tools that the model may call."),
        _read("get_commands", "Lists the slash commands."),
        _read("get_models", "Lists the models that the configuration names."),
        _read("list_sessions", "Lists the stored conversations."),
        _read(
            "complete_path",
            "Completes the path that the cursor stands in.",
            Argument("text", "text", "The text to complete in."),
            Argument("cursor", "integer", "The cursor in the text, in code points."),
        ),
        _read(
            "complete_message_id",
            "Finds entries by the start of an id or by words.",
            Argument("scope", "message_id_scope", "Among which?", required=False),
            Argument(
                "cursor", "message_id", "Relative to which entry?", required=False
            ),
            Argument("query", "text", "The start of an id, or words.", required=False),
            Argument("limit", "integer", "How many at most?", required=False),
        ),
        _read("list_managed_extensions", "Lists the loaded extensions."),
        _read("get_extension_state", "Tells what each extension registered."),
        _read(
            "get_extension_config",
            "Gives an extension's settings and the form to change them.",
            _EXTENSION,
        ),
        _unsayable("submit", "Hands a submission to the session."),
        _mutation("abort", "Stops the running turn."),
        _mutation(
            "compact", "Replaces the older messages by a summary.", _INSTRUCTIONS
        ),
        _mutation(
            "set_auto_compaction",
            "Switches compaction by itself on or off.",
            Argument("enabled", "boolean", "Compact without being asked?"),
        ),
        _mutation(
            "new_session",
            "Begins a new conversation.",
            Argument("persist", "boolean", "Keep it in a file?", required=False),
        ),
        _mutation(
            "switch_session",
            "Goes on with a stored conversation.",
            Argument("session_id", "session_id", "Which conversation?"),
        ),
        _mutation(
            "set_model",
            "Chooses the model for the turns that follow.",
            Argument("name", "model_name", "Which model?"),
        ),
        _mutation(
            "set_session_name",
            "Gives the conversation a name.",
            Argument("name", "text", "What should it be called?"),
        ),
        _mutation("fork", "Goes on in a copy of the conversation."),
        _mutation("enable_extension", "Switches an extension on.", _EXTENSION),
        _mutation("disable_extension", "Switches an extension off.", _EXTENSION),
        _mutation("reload_extension", "Loads an extension's file again.", _EXTENSION),
        _unsayable("set_extension_config", "Changes an extension's settings."),
        _mutation(
            "navigate",
            "Moves the cursor to an entry.",
            Argument("target_id", "message_id", "To which entry?", scope="in_session"),
        ),
        _mutation(
            "summarize_and_navigate",
            "Moves the cursor to an entry and leaves a summary of what is below it.",
            Argument("target_id", "message_id", "To which entry?", scope="in_session"),
            _INSTRUCTIONS,
        ),
        _mutation(
            "elide_span",
            "Hides the start of a path from the model.",
            Argument(
                "anchor_id", "message_id", "Where does it end?", scope="in_session"
            ),
            Argument(
                "first_kept_id", "message_id", "What is kept from?", scope="in_session"
            ),
        ),
        _mutation(
            "commit_branch",
            "Makes a branch of chosen entries.",
            Argument("ids", "message_id", "Which entries?", "many", scope="in_session"),
            Argument("drop_context", "boolean", "Hide all the others?"),
        ),
        _mutation(
            "paste_subtree",
            "Copies an entry and all below it to another place.",
            Argument("source_id", "message_id", "Which entry?", scope="in_session"),
            Argument("target_id", "message_id", "Below which one?", scope="in_session"),
        ),
    )
)

FLOWS: Final[Mapping[str, Flow]] = _by_name(
    (
        Flow(
            "compact",
            "Replaces the older messages by a summary, made as you say.",
            "compact",
            (_INSTRUCTIONS,),
        ),
        Flow("fork", "Goes on in a copy of the conversation.", "fork"),
        Flow(
            "model",
            "Chooses the model for the turns that follow.",
            "set_model",
            (Argument("name", "model_name", "Which model?"),),
        ),
        Flow(
            "resume",
            "Goes on with a stored conversation.",
            "switch_session",
            (Argument("session_id", "session_id", "Which conversation?"),),
        ),
        Flow(
            "name",
            "Gives the conversation a name.",
            "set_session_name",
            (Argument("name", "text", "What should it be called?"),),
        ),
        Flow(
            "autocompact",
            "Switches compaction by itself on or off.",
            "set_auto_compaction",
            (Argument("enabled", "boolean", "Compact without being asked?"),),
        ),
        Flow(
            "enable_extension",
            "Switches an extension on.",
            "enable_extension",
            (_EXTENSION,),
        ),
        Flow(
            "disable_extension",
            "Switches an extension off.",
            "disable_extension",
            (_EXTENSION,),
        ),
        Flow(
            "reload_extension",
            "Loads an extension's file again.",
            "reload_extension",
            (_EXTENSION,),
        ),
    )
)

#: What only a head can show, with a line on each.
VIEW_COMMANDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "tree": "Shows the conversation as a tree.",
        "extensions": "Shows the loaded extensions, and switches them.",
    }
)


def slash_vocabulary() -> dict[str, str]:
    """Give the built-in slash commands with a line on each, a fresh dict.

    Compaction comes first, then the views, then the other flows.
    """
    flows = {name: flow.description for name, flow in FLOWS.items()}
    return {"compact": flows["compact"], **VIEW_COMMANDS, **flows}


def _check_registry() -> None:
    """Check the tables as a whole; importing this module does."""
    check_registry(DOMAINS, CAPABILITIES, FLOWS, VIEW_COMMANDS)


_check_registry()
