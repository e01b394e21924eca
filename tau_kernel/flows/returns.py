"""What each built-in capability gives back, as JSON Schema.

Only ``type``, ``properties``, ``required``, ``items`` and ``enum`` are used.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tau_kernel.messages import JsonObject, JsonValue

__all__ = ["COMMAND_OUTPUT", "RETURNS"]


def _a(*types: str) -> JsonObject:
    """Say a value of one of some JSON types."""
    return {"type": types[0] if len(types) == 1 else list(types)}


def _one_of(*values: JsonValue) -> JsonObject:
    return {"enum": list(values)}


def _list(items: JsonObject) -> JsonObject:
    return {"type": "array", "items": items}


def _object(
    optional: Mapping[str, JsonObject] | None = None, /, **required: JsonObject
) -> JsonObject:
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
    }


def _or_null(schema: JsonObject) -> JsonObject:
    return {**schema, "type": ["object", "null"]}


_TEXT: Final = _a("string")
_TEXT_OR_NULL: Final = _a("string", "null")
_WHOLE: Final = _a("integer")
_FLAG: Final = _a("boolean")
_OBJECT: Final = _a("object")
_OBJECT_OR_NULL: Final = _a("object", "null")
_TEXTS: Final = _list(_TEXT)

#: An entry's id, or null before the first entry.
_CURSOR: Final = _TEXT_OR_NULL

_SESSION: Final = _object(
    store=_TEXT_OR_NULL,
    session_id=_TEXT,
    lane=_one_of("primary"),
    cursor=_CURSOR,
    addressable=_FLAG,
)
#: After a change of sessions; a cancelled one leaves the old session in place.
_SWAP: Final = _object({"session": _SESSION, "cursor": _CURSOR}, cancelled=_FLAG)
#: After a move in the tree: the context at the new cursor.
_MOVED: Final = _object(messages=_list(_OBJECT), cursor=_CURSOR)
_EXTENSION_ACTION: Final = _object(
    action=_one_of("enable", "disable", "reload", "configure"),
    path=_TEXT,
    ok=_FLAG,
    message=_TEXT,
    cursor=_CURSOR,
)

#: What a command of an extension gives back.
COMMAND_OUTPUT: Final = _object(output=_TEXT_OR_NULL)

RETURNS: Final[Mapping[str, JsonObject]] = MappingProxyType(
    {
        "get_state": _object(
            session_id=_TEXT,
            status=_one_of("idle", "running"),
            is_streaming=_FLAG,
            model=_object(id=_TEXT, provider=_TEXT, context_window=_WHOLE),
            usage=_OBJECT_OR_NULL,
            message_count=_WHOLE,
            cursor=_CURSOR,
            addressable=_FLAG,
        ),
        "get_messages": _object(
            messages=_list(
                _object(
                    {"timestamp": _WHOLE, "usage": _OBJECT_OR_NULL},
                    role=_TEXT,
                    content=_a("string", "array"),
                )
            )
        ),
        "get_last_assistant_text": _object(text=_TEXT_OR_NULL),
        "get_session_stats": _object(
            context=_object(
                tokens=_WHOLE,
                usage_tokens=_WHOLE,
                trailing_tokens=_WHOLE,
                last_usage_index=_a("integer", "null"),
            ),
            context_window=_WHOLE,
            context_headroom=_WHOLE,
            compaction_settings=_object(
                enabled=_FLAG, reserve_tokens=_WHOLE, keep_recent_tokens=_WHOLE
            ),
            last_compaction=_OBJECT_OR_NULL,
            usage=_OBJECT_OR_NULL,
        ),
        "get_session_name": _object(name=_TEXT_OR_NULL),
        "get_tools": _object(
            tools=_list(_object(name=_TEXT, description=_TEXT, parameters=_OBJECT))
        ),
        "get_commands": _object(
            commands=_list(
                _object({"flow": _FLAG}, name=_TEXT, description=_TEXT, origin=_TEXT)
            )
        ),
        "get_models": _object(models=_list(_object(name=_TEXT, model=_TEXT))),
        "list_sessions": _object(
            sessions=_list(
                _object(
                    session_id=_TEXT,
                    ref=_TEXT,
                    name=_TEXT_OR_NULL,
                    title=_TEXT,
                    message_count=_WHOLE,
                    created=_TEXT,
                    modified=_TEXT,
                    parent=_TEXT_OR_NULL,
                    error=_TEXT_OR_NULL,
                )
            ),
            scope=_object(store=_TEXT_OR_NULL, cwd=_TEXT_OR_NULL),
        ),
        "complete_path": _object(
            completion=_or_null(
                _object(
                    start=_WHOLE,
                    end=_WHOLE,
                    token=_TEXT,
                    matches=_list(_object(name=_TEXT, detail=_TEXT, is_dir=_FLAG)),
                    total=_WHOLE,
                )
            )
        ),
        "complete_message_id": _object(
            matches=_list(_object(entry_id=_TEXT, preview=_TEXT)), total=_WHOLE
        ),
        "list_managed_extensions": _object(
            extensions=_list(_object(path=_TEXT, enabled=_FLAG))
        ),
        "get_extension_state": _object(
            extensions=_list(
                _object(
                    name=_TEXT,
                    path=_TEXT,
                    tools=_TEXTS,
                    commands=_TEXTS,
                    shortcuts=_a("array"),
                    hooks=_TEXTS,
                    content_hash=_TEXT,
                    subjects=_a("array"),
                )
            ),
            errors=_list(_object(path=_TEXT, error=_TEXT)),
        ),
        "get_extension_config": _object(
            path=_TEXT, schema=_OBJECT_OR_NULL, values=_OBJECT
        ),
        "submit": _object(
            {
                "command": _object(name=_TEXT, output=_TEXT_OR_NULL),
                "view": _object(
                    name=_TEXT,
                    state=_OBJECT_OR_NULL,
                    unavailable_because=_TEXT_OR_NULL,
                ),
                "attachments": _object(
                    expanded=_a("array"),
                    images=_a("array"),
                    unresolved=_a("array"),
                    failures=_a("array"),
                ),
            },
            accepted=_FLAG,
            submission_id=_TEXT,
            rejection_reason=_a("null"),
        ),
        "abort": _object(status=_one_of("aborted"), compaction_id=_TEXT_OR_NULL),
        "compact": _object(accepted={"enum": [True]}, compaction_id=_TEXT),
        "set_auto_compaction": _object(enabled=_FLAG, cursor=_CURSOR),
        "new_session": _SWAP,
        "switch_session": _SWAP,
        "fork": _SWAP,
        "set_model": _object(model=_TEXT, cursor=_CURSOR),
        "set_session_name": _object(name=_TEXT, cursor=_CURSOR),
        "enable_extension": _EXTENSION_ACTION,
        "disable_extension": _EXTENSION_ACTION,
        "reload_extension": _EXTENSION_ACTION,
        "set_extension_config": _EXTENSION_ACTION,
        "navigate": _MOVED,
        "summarize_and_navigate": _MOVED,
        "elide_span": _MOVED,
        "commit_branch": _MOVED,
        "paste_subtree": _object(minted_ids=_TEXTS, cursor=_CURSOR),
    }
)
