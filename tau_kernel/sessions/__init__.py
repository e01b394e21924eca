"""Sessions on disk: one JSONL file for each, one writer, one catalog.

What an entry is and how a log grows belongs to `tau_kernel.tree`.
"""

from __future__ import annotations

from .conversation_log import ConversationLog
from .file_catalog import FileSessionCatalog
from .session_catalog import (
    ConversationSession,
    SessionCatalog,
    SessionInfo,
    SessionRefError,
)
from .session_store import EphemeralSession, FileSession

__all__ = [
    "ConversationLog",
    "ConversationSession",
    "EphemeralSession",
    "FileSession",
    "FileSessionCatalog",
    "SessionCatalog",
    "SessionInfo",
    "SessionRefError",
]
