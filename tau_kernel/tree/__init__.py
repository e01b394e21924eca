"""The conversation as an append-only tree.

`entry` says what an entry is, `session_log` how entries are added, `log_view` what a
model sees of them, `conversation_tree` how people walk them. Files on disk belong to
`tau_kernel.sessions`.
"""

from __future__ import annotations

from .conversation_tree import (
    ConversationTree,
    MessageIdCompletion,
    MessageIdMatch,
    MessageIdScope,
    TreeNode,
)
from .entry import (
    ANCHOR_KINDS,
    BranchSummaryEntryDict,
    CompactionEntryDict,
    CustomEntryDict,
    CustomMessageEntryDict,
    ElideEntryDict,
    EntryDict,
    MessageEntryDict,
    ModelChangeEntryDict,
    NavigateEntryDict,
    SessionInfoEntryDict,
    ThinkingChangeEntryDict,
    UnknownEntryError,
    copy_of_json,
    entry_fault,
    entry_timestamp,
)
from .log_view import LogView, entries_to_messages, fold_path, is_system_entry
from .preview import entry_preview, flat_text
from .session_log import (
    BranchView,
    EntryAppender,
    EntryLog,
    InMemorySessionLog,
    SessionLog,
    agent_spec_in_force,
    open_branch,
    resolve_cursor,
    session_log_is_addressable,
)

__all__ = [
    "ANCHOR_KINDS",
    "BranchSummaryEntryDict",
    "BranchView",
    "CompactionEntryDict",
    "ConversationTree",
    "CustomEntryDict",
    "CustomMessageEntryDict",
    "ElideEntryDict",
    "EntryAppender",
    "EntryDict",
    "EntryLog",
    "InMemorySessionLog",
    "LogView",
    "MessageEntryDict",
    "MessageIdCompletion",
    "MessageIdMatch",
    "MessageIdScope",
    "ModelChangeEntryDict",
    "NavigateEntryDict",
    "SessionInfoEntryDict",
    "SessionLog",
    "ThinkingChangeEntryDict",
    "TreeNode",
    "UnknownEntryError",
    "agent_spec_in_force",
    "copy_of_json",
    "entries_to_messages",
    "entry_fault",
    "entry_preview",
    "entry_timestamp",
    "flat_text",
    "fold_path",
    "is_system_entry",
    "open_branch",
    "resolve_cursor",
    "session_log_is_addressable",
]
