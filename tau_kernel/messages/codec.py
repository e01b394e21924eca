"""JSON in and out: the only place where text becomes values and values text.

Strings are made safe to send before they leave: a lone surrogate, which no encoder
accepts, becomes U+FFFD.
"""

from __future__ import annotations

import json
import math
import re
from typing import Final, cast

import orjson

from tau_kernel.errors import CallerError

from .usage import JsonObject, JsonValue

__all__ = ["clean_json", "clean_text", "dump_line", "load_line"]

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_ESCAPED_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_LEAST: Final = -(2**63)
_MOST: Final = 2**64 - 1
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"


def clean_text(text: str) -> str:
    """Give `text` with each lone surrogate replaced by U+FFFD."""
    if text.isascii():
        return text
    return _SURROGATE.sub(_REPLACEMENT, text)


def clean_json(value: object, where: str = "value") -> JsonValue:
    """Give a copy of `value` that any JSON encoder accepts.

    Args:
        value: Made of None, bool, int, float, str, list and dict with string keys;
            tuples become lists.
        where: How errors name `value`.

    Raises:
        CallerError: Something in it is no JSON; the message gives path and type.
            A number that is not finite, or an integer of more than 64 bits, is none.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return _clean_number(value, where)
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list | tuple):
        return [clean_json(item, f"{where}[{n}]") for n, item in enumerate(value)]
    if isinstance(value, dict):
        return {
            _clean_key(key, where): clean_json(item, f"{where}[{key!r}]")
            for key, item in value.items()
        }
    msg = (
        f"{where} is a {type(value).__name__}, which JSON cannot carry; "
        "give None, a bool, a number, a string, a list or a dict"
    )
    raise CallerError(msg)


def _clean_number(value: float, where: str) -> float:
    """Refuse what encoders turn into null, or not into the same number everywhere."""
    if isinstance(value, int):
        if _LEAST <= value <= _MOST:
            return value
        msg = f"{where} is an integer of more than 64 bits; give it as a string"
        raise CallerError(msg)
    if math.isfinite(value):
        return value
    msg = f"{where} is {value!r}, which JSON cannot carry; give None or a string"
    raise CallerError(msg)


def _clean_key(key: object, where: str) -> str:
    if isinstance(key, str):
        return clean_text(key)
    msg = f"{where} has the key {key!r}; keys of a JSON object are strings"
    raise CallerError(msg)


def dump_line(record: JsonObject) -> bytes:
    """Encode one record as one line of UTF-8 JSON, its newline included.

    Raises:
        CallerError: The record holds something that JSON cannot carry.
    """
    try:
        return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)
    except orjson.JSONEncodeError:
        # The slow way: it mends surrogates and names what cannot be encoded.
        cleaned = clean_json(record, "record")
        return orjson.dumps(cleaned, option=orjson.OPT_APPEND_NEWLINE)


def load_line(line: bytes) -> JsonObject:
    """Decode one line that must hold one JSON object.

    An escaped lone surrogate, which some writers leave in, is read as U+FFFD.

    Raises:
        ValueError: The line is no JSON, or no object.
    """
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError:
        if _ESCAPED_SURROGATE.search(line) is None:
            raise
        record = clean_json(json.loads(line), "line")
    if not isinstance(record, dict):
        msg = f"expected a JSON object, found {type(record).__name__}"
        raise ValueError(msg)  # noqa: TRY004 - one error type for a bad line
    return cast("JsonObject", record)
