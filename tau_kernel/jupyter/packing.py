"""Messages as bytes, whatever text a program put into them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from jupyter_client.jsonutil import json_clean

from tau_kernel.messages import clean_json

if TYPE_CHECKING:
    from jupyter_client.session import Session

__all__ = ["pack_any_text"]


def pack_any_text(session: Session) -> None:
    """Have `session` replace lone surrogates, which no message can carry.

    A reply with one in it would otherwise be lost, and its cell never end.
    """
    session.pack = partial(_pack, session.pack)


def _pack(pack: Callable[[object], bytes], message: object) -> bytes:
    try:
        return pack(message)
    except UnicodeEncodeError:
        return pack(clean_json(json_clean(message)))
