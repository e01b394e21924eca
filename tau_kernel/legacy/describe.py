"""What is reported of an older session, read off its entries."""

from __future__ import annotations

from typing import cast

from tau_kernel.errors import CallerError

from . import session, session_manager
from .records import LegacyRecord, id_of, kind_of, newest_time, parent_of, text_of

__all__ = [
    "clone_result",
    "describe_branch",
    "describe_session",
    "describe_state",
    "fork_result",
]


def describe_session(loaded: session_manager.SessionState) -> session.SessionInfo:
    """Give what a list shows of a loaded session.

    Raises:
        CallerError: It has no entries.
    """
    root = _root_of(loaded)
    return session.SessionInfo(
        id=id_of(root),
        name=text_of(root, "session_name"),
        session_path=loaded.session_path,
        cwd=text_of(root, "cwd"),
        model=text_of(root, "model"),
        model_name=text_of(root, "model_name"),
        message_count=_count(loaded, "message"),
        turn_count=_turns_of(loaded),
        tool_count=_count(loaded, "toolResult"),
        created_at=_time_of(root),
        updated_at=newest_time(loaded.entries),
    )


def describe_state(loaded: session_manager.SessionState) -> session.SessionState:
    """Give where a loaded session is in its life; nothing runs in one.

    Raises:
        CallerError: It has no entries.
    """
    root = _root_of(loaded)
    return session.SessionState(
        session_id=id_of(root),
        message_count=_count(loaded, "message"),
        turn_count=_turns_of(loaded),
        is_compacted=_count(loaded, "compaction") > 0,
        created_at=_time_of(root),
        updated_at=newest_time(loaded.entries),
    )


def describe_branch(loaded: session_manager.SessionState) -> session.BranchSummary:
    """Give what a tree of sessions shows of a loaded one.

    Raises:
        CallerError: It has no entries.
    """
    root = _root_of(loaded)
    return session.BranchSummary(
        branch_id=id_of(root),
        parent_id=parent_of(root),
        session_path=loaded.session_path,
        message_count=_count(loaded, "message"),
        is_compacted=_count(loaded, "compaction") > 0,
        created_at=_time_of(root),
        updated_at=newest_time(loaded.entries),
    )


def fork_result(
    original: session_manager.SessionState, made: session_manager.SessionState
) -> session.ForkResult:
    """Give what `SessionManager.fork` made, once both sessions are loaded.

    Raises:
        CallerError: `made` is no copy of `original`.
    """
    root = _copied_root(original, made)
    return session.ForkResult(
        original_session_id=id_of(_root_of(original)),
        new_session_id=id_of(root),
        new_session_path=made.session_path,
        forked_at=_time_of(root),
        branches=[describe_branch(original), describe_branch(made)],
    )


def clone_result(
    original: session_manager.SessionState, made: session_manager.SessionState
) -> session.CloneResult:
    """Give what `SessionManager.clone` made, once both sessions are loaded.

    Raises:
        CallerError: `made` is no copy of `original`.
    """
    root = _copied_root(original, made)
    ids = {id_of(record) for record in original.entries}
    return session.CloneResult(
        original_session_id=id_of(_root_of(original)),
        cloned_session_id=id_of(root),
        cloned_session_path=made.session_path,
        entry_count=sum(id_of(record) in ids for record in made.entries),
        cloned_at=_time_of(root),
    )


def _root_of(loaded: session_manager.SessionState) -> LegacyRecord:
    if not loaded.entries:
        msg = "the session has no entries; give one that SessionManager.load gave"
        raise CallerError(msg)
    return loaded.entries[0]


def _copied_root(
    original: session_manager.SessionState, made: session_manager.SessionState
) -> LegacyRecord:
    root, source = _root_of(made), id_of(_root_of(original))
    if parent_of(root) != source:
        msg = (
            f"session {root['id']!r} names {root.get('parent_id')!r} as the one it was "
            f"copied from, not {source!r}; give the session that it was made from"
        )
        raise CallerError(msg)
    return root


def _time_of(record: LegacyRecord) -> int:
    return cast("int", record["timestamp"])


def _count(loaded: session_manager.SessionState, kind: str) -> int:
    return sum(kind_of(record) == kind for record in loaded.entries)


def _turns_of(loaded: session_manager.SessionState) -> int:
    messages = (record.get("message") for record in loaded.entries)
    return sum(isinstance(m, dict) and m.get("role") == "user" for m in messages)
