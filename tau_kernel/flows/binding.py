"""From what a person typed to the value that a mutation takes."""

from __future__ import annotations

import math
import re
from typing import Final

from tau_kernel.errors import CallerError
from tau_kernel.messages import JsonValue

from .spec import Argument, Domain

__all__ = ["bind_value"]

#: Python reads no integers of more than 4300 digits.
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,4000}")


def bind_value(argument: Argument, domain: Domain, text: str) -> JsonValue:
    """Turn typed text into a value of `domain`; see `bind_text`."""
    if argument.cardinality == "one":
        return _bind_one(argument.name, domain, text)
    return [_bind_one(argument.name, domain, word) for word in text.split()]


def _bind_one(name: str, domain: Domain, text: str) -> JsonValue:
    if domain.values is not None:
        return _one_of(name, domain, text)
    match domain.name:
        case "integer":
            return _whole(name, text)
        case "number":
            return _number(name, text)
        case _:
            return text


def _one_of(name: str, domain: Domain, text: str) -> JsonValue:
    word = text.strip().casefold()
    for value in domain.values or ():
        if value.casefold() == word:
            return value == "true" if domain.name == "boolean" else value
    msg = f"{name!r} takes one of {', '.join(domain.values or ())} — got {text!r}"
    raise CallerError(msg)


def _whole(name: str, text: str) -> int:
    if not _WHOLE.fullmatch(text.strip()):
        msg = f"{name!r} takes a whole number — got {text!r}"
        raise CallerError(msg)
    return int(text)


def _number(name: str, text: str) -> int | float:
    word = text.strip()
    if _WHOLE.fullmatch(word):
        return int(word)
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    # JSON has neither infinity nor NaN.
    if "_" in word or not math.isfinite(value):
        msg = f"{name!r} takes a number — got {text!r}"
        raise CallerError(msg)
    return value
