"""Every exception of the project, told apart by whose fault it is.

::

    TauError
    ├── CallerError (ValueError)            what was asked for cannot be
    │   ├── UnsupportedCommandError         a command that this place cannot run
    │   ├── UnknownEntryError (KeyError)    an entry that the log does not hold; tree
    │   ├── UnknownSpecError (KeyError)     no capability, flow or domain of that name;
    │   │                                   flows
    │   ├── SessionRefError (LookupError)   a reference to no session, or to several;
    │   │                                   sessions
    │   └── NoSessionFileError (FileNotFoundError)  no file of an older session; legacy
    ├── ConfigError (ValueError)            a file, variable or option is wrong
    │   └── CompactionPolicyError           a policy contradicts itself or its model;
    │                                       agent
    │   └── CompactionPolicyError           a policy contradicts itself or its model;
    │                                       agent
    ├── ModelError (RuntimeError)           the provider failed or refused
    │   └── BranchSummaryError (ValueError) a branch could not be summarised; tree
    ├── ToolError (RuntimeError)            a tool's own failure, told to the model
    ├── ExtensionFailure (RuntimeError)     an extension failed, by name
    ├── HeadlessDialogError (RuntimeError)  a question where nobody may be asked
    ├── LimitError (RuntimeError)           a limit of the cell or session was met
    │   └── CompactionPolicyViolation       a compaction policy was broken; agent
    ├── CompactionError (RuntimeError)      a context was not compacted; agent
    │   └── CompactionPolicyViolation       a compaction policy was broken; agent
    ├── CompactionError (RuntimeError)      a context was not compacted; agent
    ├── SessionLockedError (RuntimeError)   another process writes this session
    ├── SessionDamagedError (ValueError)    a session file cannot be read
    └── StorageError (OSError)              the disk refused a write

Plain ``TypeError`` and ``ValueError`` stand for misuse in Python itself.
"""

from __future__ import annotations

__all__ = [
    "CallerError",
    "ConfigError",
    "ExtensionFailure",
    "HeadlessDialogError",
    "LimitError",
    "ModelError",
    "SessionDamagedError",
    "SessionLockedError",
    "StorageError",
    "TauError",
    "ToolError",
    "UnsupportedCommandError",
]


class TauError(Exception):
    """The root of every error that the project raises on purpose."""


class CallerError(TauError, ValueError):
    """The caller asked for something that cannot be; nothing was done."""


class UnsupportedCommandError(CallerError):
    """A command was named in a place that cannot run it."""


class ConfigError(TauError, ValueError):
    """A configuration file, environment variable or option is wrong."""


class ModelError(TauError, RuntimeError):
    """The model's provider failed or refused.

    Attributes:
        retry_after: Seconds that the provider asked to wait, if it said so.
        retryable: Whether the same request may succeed later.
    """

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        retryable: bool = False,
    ) -> None:
        """Keep the provider's words and what it said of trying again."""
        super().__init__(message)
        self.retry_after = retry_after
        self.retryable = retryable


class ToolError(TauError, RuntimeError):
    """A tool failed in a way that the model should read and act on."""


class ExtensionFailure(TauError, RuntimeError):  # noqa: N818 - the name says whose
    """An extension failed; the message names it."""


class HeadlessDialogError(TauError, RuntimeError):
    """A dialog was opened where no person may be asked."""


class LimitError(TauError, RuntimeError):
    """A limit of a submission or of its session ended the turn.

    Attributes:
        limit: The limit's name, such as ``max_tokens``; None if it has no setting.
        scope: Whose limit it is: ``"submission"`` or ``"session"``.
    """

    def __init__(
        self, message: str, *, limit: str | None = None, scope: str | None = None
    ) -> None:
        """Keep which limit it was, so that a head can say how to raise it."""
        super().__init__(message)
        self.limit = limit
        self.scope = scope


class SessionLockedError(TauError, RuntimeError):
    """Another process holds the writer's lock of this session."""


class SessionDamagedError(TauError, ValueError):
    """A session file cannot be read as one; the message names file and line."""


class StorageError(TauError, OSError):
    """The disk refused a write; what was stored before is unchanged."""
