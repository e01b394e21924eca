"""From a flow that is ready to what it did."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from tau_kernel.errors import UnsupportedCommandError
from tau_kernel.messages import JsonObject, JsonValue

from .commands import unsupported_command_message
from .flows import completed
from .outcome import Performed, Ready
from .vocabulary import BUILTINS, Vocabulary

__all__ = ["Mutation", "perform"]

#: Carries out a mutation with its arguments, and gives what it says it returns,
#: without the cursor.
Mutation: TypeAlias = Callable[[Mapping[str, JsonValue]], Awaitable[JsonObject]]


async def perform(
    ready: Ready,
    mutations: Mapping[str, Mutation],
    *,
    cursor: Callable[[], str | None],
    frontend: str,
    vocabulary: Vocabulary = BUILTINS,
) -> Performed:
    """Carry out the mutation of a flow that is ready.

    Args:
        ready: What to carry out.
        mutations: What this head can do, by the name of the capability.
        cursor: Reads the log's cursor; called once, when the mutation is done.
        frontend: What the head calls itself in errors.
        vocabulary: Where the flow is declared.

    Raises:
        UnsupportedCommandError: The head has no such mutation; nothing was done.
        Exception: What the mutation raises.
    """
    mutation = mutations.get(ready.mutation)
    if mutation is None:
        raise UnsupportedCommandError(unsupported_command_message(ready.flow, frontend))
    data = await mutation(ready.arguments)
    return completed(
        ready.mutation,
        data,
        cursor=cursor(),
        flow=ready.flow,
        vocabulary=vocabulary,
    )
