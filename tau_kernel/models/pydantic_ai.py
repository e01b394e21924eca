"""The provider for services on the network, through pydantic-ai's models.

This file is light: it finds the key and refuses to ask without one. What talks to a
service is `pydantic_ai_client`, imported at the first request, and its messages are
mapped by `pydantic_ai_parts`. Trying again is the caller's: one request is one attempt.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

from tau_kernel.errors import ConfigError

from .model import Model, ModelContext, StreamEvent, StreamOptions

if TYPE_CHECKING:
    from .pydantic_ai_client import Connection

__all__ = ["stream", "warm"]


async def stream(
    model: Model, context: ModelContext, options: StreamOptions
) -> AsyncGenerator[StreamEvent, None]:
    """Give the answer of a service as it comes.

    Leaving it early closes the connection without waiting for the service.

    Raises:
        ConfigError: There is no key, or no such service; nothing was asked.
    """
    key = _key(model, options)
    # In a thread: importing and reading certificates takes seconds, in which an
    # abort must be heard.
    connection = await asyncio.to_thread(_connect, model, key)
    async with aclosing(connection.stream(context, options)) as events:
        async for event in events:
            yield event


def warm() -> None:
    """Import what talks to services, in a thread, before the first request."""
    from . import pydantic_ai_client  # noqa: F401, PLC0415 - see `_connect`


def _connect(model: Model, key: str | None) -> Connection:
    # Half a second and 60 MB, which a kernel with another model never pays.
    from .pydantic_ai_client import connect  # noqa: PLC0415

    return connect(model, key)


def _key(model: Model, options: StreamOptions) -> str | None:
    if options.api_key:
        return options.api_key
    if model.api_key is not None:
        return model.api_key.reveal()
    if model.api_key_env is None:
        return None
    key = os.environ.get(model.api_key_env)
    if not key:
        msg = (
            f"model {model.name!r} needs a key, and the environment variable "
            f"{model.api_key_env} of the kernel is not set\n"
            f"Set {model.api_key_env} and restart the kernel, or give the model an "
            '"api_key" or another "api_key_env" in config.json.'
        )
        raise ConfigError(msg)
    return key
