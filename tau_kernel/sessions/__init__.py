"""Sessions on disk: one JSONL file for each, one writer, one catalog.

What an entry is and how a log grows belongs to `tau_kernel.tree`.
"""

from __future__ import annotations

from .conversation_log import ConversationLog
from .file_catalog import FileSessionCatalog
from .metadata import read_metadata, update_metadata
from .repair import (
    DroppedLine,
    MendedLine,
    RehungEntry,
    RepairReport,
    repair_session,
)
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
    "DroppedLine",
    "EphemeralSession",
    "FileSession",
    "FileSessionCatalog",
    "MendedLine",
    "RehungEntry",
    "RepairReport",
    "SessionCatalog",
    "SessionInfo",
    "SessionRefError",
    "read_metadata",
    "repair_session",
    "update_metadata",
]
