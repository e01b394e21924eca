"""What an execute_request is answered with."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import Any, TypeAlias

from tau_kernel.errors import TauError

from .cell_request import CellRequest

__all__ = [
    "CellFailure",
    "Reply",
    "error_reply",
    "failure_of",
    "interrupted",
    "ok_reply",
    "skipped_reply",
]

Reply: TypeAlias = dict[str, Any]
"""The content of a message; ipykernel passes them about as plain dicts."""


class CellFailure(Exception):  # noqa: N818 - it is the failure that a cell shows
    """What a cell shows as its error."""

    def __init__(self, ename: str, evalue: str, traceback: Sequence[str]) -> None:
        """Name the error, say what is wrong, and give the lines to show."""
        super().__init__(ename, evalue)
        self.ename = ename
        self.evalue = evalue
        self.traceback = list(traceback)


def interrupted() -> CellFailure:
    """Give what an interrupted prompt shows."""
    line = "KeyboardInterrupt: interrupted; what was produced is kept"
    return CellFailure("KeyboardInterrupt", "interrupted", [line])


def failure_of(error: BaseException) -> CellFailure:
    """Give what a cell shows of an exception: our own errors without a traceback."""
    if isinstance(error, CellFailure):
        return error
    name = type(error).__name__
    text = str(error) or name
    lines = [f"{name}: {text}"]
    if not isinstance(error, TauError):
        lines = "".join(traceback.format_exception(error)).splitlines()
    return CellFailure(name, text, lines)


def ok_reply(request: CellRequest) -> Reply:
    """Answer a cell that did what it was to do."""
    return {"status": "ok", **_common(request)}


def error_reply(request: CellRequest, failure: CellFailure) -> Reply:
    """Answer a cell that failed."""
    return {
        "status": "error",
        **_common(request),
        "ename": failure.ename,
        "evalue": failure.evalue,
        "traceback": failure.traceback,
    }


def skipped_reply(execution_count: int) -> Reply:
    """Answer a cell that an earlier one's error keeps from running."""
    return {
        "status": "error",
        "ename": "CellSkipped",
        "evalue": "an earlier cell failed; run this one again",
        "traceback": [],
        "execution_count": execution_count,
    }


def _common(request: CellRequest) -> Reply:
    return {
        "execution_count": request.execution_count,
        "payload": [],
        "user_expressions": {},
    }
