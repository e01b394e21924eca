"""One request to a session, its answer, and what work inside a turn inherits."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from tau_kernel.errors import CallerError
from tau_kernel.messages import ImageBlock, JsonObject, Message

__all__ = [
    "DRIVING_SUBMISSION_DEPTH",
    "MAX_SUBMISSION_DEPTH",
    "SUBMISSION_ALLOWS_USER_INPUT",
    "MultitaskStrategy",
    "Submission",
    "SubmissionResult",
    "SubmissionSource",
    "next_submission_depth",
    "user_input_permitted",
]

SubmissionSource: TypeAlias = Literal[
    "interactive", "rpc", "extension", "bus", "timer", "webhook", "voice", "agent"
]
MultitaskStrategy: TypeAlias = Literal["reject", "enqueue", "steer", "rollback", "fork"]

#: How deep submissions may cause submissions before one is refused.
MAX_SUBMISSION_DEPTH: Final = 10

#: The depth of the submission whose turn runs in this context; None outside turns.
DRIVING_SUBMISSION_DEPTH: Final[ContextVar[int | None]] = ContextVar(
    "tau_driving_submission_depth", default=None
)

#: Whether the submission of this context may ask a person; None outside turns.
SUBMISSION_ALLOWS_USER_INPUT: Final[ContextVar[bool | None]] = ContextVar(
    "tau_submission_allows_user_input", default=None
)


# Positional construction in this order is what the reference's callers write.
@dataclass(frozen=True, slots=True)
class Submission:
    """One request to a session, whoever makes it.

    Args:
        text: What the model shall read, or a command.
        source: Which kind of door it came through.
        submitter: Who made it: ``"human"``, an extension's stem, a channel's id.
        submission_id: A name for it that occurs once; every event carries it.
        images: Pictures that go with the text.
        multitask_strategy: What to do if a turn is running.
        expand_commands: Whether ``/name`` may run a command.
        allow_user_input: Whether work it causes may ask a person.
        store_history: Whether its messages are kept.
        silent: Whether heads show nothing of it; it is not kept then either.
        correlation: Details of its origin, plain JSON, never interpreted here.
        depth: A lower bound for how many submissions led to this one.

    Raises:
        CallerError: `correlation` holds what is no JSON; the path is named.
    """

    text: str
    source: SubmissionSource
    submitter: str
    submission_id: str
    images: list[ImageBlock] | None = None
    multitask_strategy: MultitaskStrategy = "reject"
    expand_commands: bool = False
    allow_user_input: bool = False
    store_history: bool = True
    silent: bool = False
    correlation: JsonObject = field(default_factory=dict)
    depth: int = 0

    def __post_init__(self) -> None:
        """Let silence imply that nothing is kept, and check the correlation."""
        if self.silent:
            object.__setattr__(self, "store_history", False)
        _check_json(self.correlation, "correlation")


@dataclass(frozen=True, slots=True)
class SubmissionResult:
    """The answer to a submission; a refusal is a result and no exception.

    Args:
        accepted: Whether the submission was taken.
        submission_id: The id of the submission it answers.
        rejection_reason: Why not, where it was not.
        messages: What the turn added after the prompt, in order.
    """

    accepted: bool
    submission_id: str
    rejection_reason: str | None = None
    messages: list[Message] = field(default_factory=list)


def next_submission_depth(declared: int = 0) -> int:
    """Give the depth of a submission made here, at least `declared`."""
    driving = DRIVING_SUBMISSION_DEPTH.get()
    return declared if driving is None else max(declared, driving + 1)


def user_input_permitted() -> bool:
    """Whether a person may be asked here: yes, unless the submission forbids it."""
    return SUBMISSION_ALLOWS_USER_INPUT.get() is not False


def _check_json(value: object, path: str) -> None:
    if value is None or isinstance(value, bool | int | float | str):
        return
    if isinstance(value, list):
        for number, item in enumerate(value):
            _check_json(item, f"{path}[{number}]")
        return
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                msg = f"{path} has the key {key!r}; its keys must be strings"
                raise CallerError(msg)
            _check_json(item, f"{path}[{key!r}]")
        return
    msg = (
        f"{path} is a {type(value).__name__}, which is no plain JSON; "
        "give None, a bool, a number, a string, a list or a dict"
    )
    raise CallerError(msg)
