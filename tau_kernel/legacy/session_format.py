"""Which program's session a file holds, told by its header.

Three families of files begin with an object of type ``session``. Each has a rule:

- *older* τ: no ``version``, and a ``parent_id`` or a time that is a number;
- *v1* of τ: the key ``parent``, which every header of it has. One that lost it passes
  by version 1, if it has no key of pi's and its first entry has a ``parentId``: pi's
  version 1 has neither ids nor parents;
- *pi*: every other header.
"""

from __future__ import annotations

from enum import StrEnum
from itertools import islice
from typing import Final

from tau_kernel.messages import JsonObject, load_line

__all__ = ["SessionFormat", "format_of", "format_of_lines"]

_PI_KEYS: Final = frozenset({"parentSession", "provider", "modelId", "thinkingLevel"})


class SessionFormat(StrEnum):
    """A family of session files."""

    OLDER = "tau-older"
    V1 = "tau-v1"
    PI = "pi"


def format_of(header: JsonObject, first: JsonObject | None) -> SessionFormat:
    """Tell the format of a session.

    Args:
        header: The first record, of type ``session``.
        first: The record after it, or None where there is none.
    """
    if _is_older(header):
        return SessionFormat.OLDER
    return SessionFormat.V1 if _is_v1(header, first) else SessionFormat.PI


def _is_older(header: JsonObject) -> bool:
    has_number = isinstance(header.get("timestamp"), int | float)
    return "version" not in header and ("parent_id" in header or has_number)


def _is_v1(header: JsonObject, first: JsonObject | None) -> bool:
    if "parent" in header:
        return True
    if header.get("version") != 1 or _PI_KEYS & header.keys():
        return False
    return first is None or "parentId" in first


def format_of_lines(lines: list[bytes]) -> SessionFormat:
    """Tell the format from the first lines that are not blank, of which two count.

    Raises:
        ValueError: The first begins no session; the message says why.
    """
    if not lines:
        msg = "it is empty"
        raise ValueError(msg)
    header = load_line(lines[0])
    if header.get("type") != "session":
        msg = f"its type is {header.get('type')!r}, not 'session'"
        raise ValueError(msg)
    first: JsonObject | None = None
    for line in islice(lines, 1, 2):
        try:
            first = load_line(line)
        except ValueError:
            # Whoever reads the entries says what is wrong with it.
            first = None
    return format_of(header, first)
