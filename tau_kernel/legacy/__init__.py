"""Session files of other programs: older ones of τ, v1 ones, and those of pi.

Older files with snake_case keys are read, listed, grown, and converted to v1; a file of
any of the formats is read once by `read_session`, to go on with a copy of it.

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
from .finder import FoundSession, FoundSessions, find_sessions, session_folders
from .reading import IMPORT_RECORD, ImportedSession, read_session
from .records import LegacyRecord
from .session_format import SessionFormat
from .session_manager import SessionManager
from .shelf import NoSessionFileError

__all__ = [
    "IMPORT_RECORD",
    "ConvertedSession",
    "FoundSession",
    "FoundSessions",
    "ImportedSession",
    "LegacyRecord",
    "NoSessionFileError",
    "SessionFormat",
    "SessionManager",
    "clone_result",
    "convert_session",
    "describe_branch",
    "describe_session",
    "describe_state",
    "find_sessions",
    "fork_result",
    "read_session",
    "session",
    "session_folders",
    "session_manager",
]
