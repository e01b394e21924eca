"""Older session files with snake_case keys: read, listed, grown, and converted to v1.

`session` and `session_manager` each have a `SessionInfo` and a `SessionState`, so the
door gives the two modules. The newer format belongs to `tau_kernel.sessions`.
"""

from __future__ import annotations

from . import session, session_manager
from .convert import ConvertedSession, convert_session
from .describe import (
    clone_result,
    describe_branch,
    describe_session,
    describe_state,
    fork_result,
)
from .reading import is_older_file, read_older_file
from .records import LegacyRecord
from .session_manager import SessionManager
from .shelf import NoSessionFileError

__all__ = [
    "ConvertedSession",
    "LegacyRecord",
    "NoSessionFileError",
    "SessionManager",
    "clone_result",
    "convert_session",
    "describe_branch",
    "describe_session",
    "describe_state",
    "fork_result",
    "is_older_file",
    "read_older_file",
    "session",
    "session_manager",
]
