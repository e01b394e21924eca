"""What a command or a flow has come to.

One that still asks is a `FlowStep`, one that has everything is `Ready`, one that was
carried out is `Performed`, and what only a head can show is a `View`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tau_kernel.errors import CallerError
from tau_kernel.messages import JsonObject, JsonValue

from .spec import Argument, Domain

__all__ = ["Dispatched", "FlowStep", "Performed", "Ready", "View"]


# The documented callers construct these by position.
@dataclass(frozen=True, slots=True)
class FlowStep:
    """An argument that a flow still needs, with everything it takes to ask for it.

    Args:
        flow: The flow's name.
        argument: What is asked for.
        domain: The argument's domain.
        cursor: What the scope of a ``message_id`` is relative to, as it was given.
        bound: The arguments that are known already.
    """

    flow: str
    argument: Argument
    domain: Domain
    cursor: str | None
    bound: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Ready:
    """A mutation, and everything that it is to be called with.

    Nothing asks again: a head that wants to be sure asks before it carries this out.

    Args:
        flow: The flow's name.
        mutation: The capability to carry out.
        arguments: All that was bound, by the mutation's own names.
    """

    flow: str
    mutation: str
    arguments: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Performed:
    """What a mutation gave back.

    Args:
        flow: The flow that led to it; None where the mutation was named itself.
        mutation: The capability that ran.
        data: What it gave, by the names of its schema.
        cursor: The log's cursor afterwards; None before the first entry.

    Raises:
        CallerError: `data` has another cursor.
    """

    flow: str | None
    mutation: str
    data: JsonObject
    cursor: str | None = None

    def __post_init__(self) -> None:
        """Check that there is one answer to where the cursor is."""
        if "cursor" in self.data and self.data["cursor"] != self.cursor:
            msg = (
                f"the data of {self.mutation!r} has cursor {self.data['cursor']!r}, "
                f"but the cursor is {self.cursor!r}; pass the same one twice"
            )
            raise CallerError(msg)

    def summary(self) -> str:
        """Give one line on it; never empty.

        It is the mutation's own message if there is one, else its name with what it
        gave, without the cursor.
        """
        message = self.data.get("message")
        if isinstance(message, str) and message:
            return message
        shown = (item for item in self.data.items() if item[0] != "cursor")
        told = [f"{key}={value!r}" for key, value in shown]
        return f"{self.mutation}: {', '.join(told)}" if told else self.mutation


@dataclass(frozen=True, slots=True)
class View:
    """Something that only a head can show.

    Args:
        name: Which view.
        state: What to draw it from.
        unavailable_because: Why there is no state, a sentence. A head that draws the
            view from what it knows itself does not need it; one that cannot draw it
            shows it instead.

    Raises:
        CallerError: Not exactly one of `state` and `unavailable_because` is given.
    """

    name: str
    state: JsonObject | None = None
    unavailable_because: str | None = None

    def __post_init__(self) -> None:
        """Check that there is a state, or a reason why there is none."""
        if (self.state is None) == (self.unavailable_because is None):
            given = "neither" if self.state is None else "both"
            msg = (
                f"view {self.name!r} takes exactly one of state and "
                f"unavailable_because, got {given}"
            )
            raise CallerError(msg)


Dispatched: TypeAlias = FlowStep | Ready | Performed | View
