"""The conversation's tree as text, where no widget shows it."""

from __future__ import annotations

from typing import Final

from tau_kernel.tree import LogView, SessionLog, entry_preview

__all__ = ["MOST_ROWS", "tree_text"]

MOST_ROWS: Final = 200
"""Rows shown at most, the newest."""
_PREVIEW: Final = 70
_SHOWN: Final = frozenset(
    {"message", "customMessage", "compaction", "branch_summary", "branchSummary"}
)


def tree_text(log: SessionLog) -> str:
    """Give a row for each message: its id, who speaks and how it begins.

    What follows without a choice stands under its parent; only where a branch leaves
    is a row set in. ``*`` marks the path to the cursor, ``>`` the newest message on it.
    """
    view = log.view()
    path = [] if log.cursor is None else view.path(log.cursor)
    on_path = {entry["id"] for entry in path if entry["type"] in _SHOWN}
    newest = next((e["id"] for e in reversed(path) if e["id"] in on_path), None)
    rows = [
        f"{_mark(entry_id, on_path, newest)} {'  ' * depth}{_row(view, entry_id)}"
        for entry_id, depth in _walk(view)
    ]
    if len(rows) > MOST_ROWS:
        left = len(rows) - MOST_ROWS
        rows = [f"… {left} earlier rows", *rows[-MOST_ROWS:]]
    return "\n".join(rows)


def _walk(view: LogView) -> list[tuple[str, int]]:
    """Give the shown entries, parents first, each with how far it is set in."""
    found: list[tuple[str, int]] = []
    waiting = [(entry_id, 0) for entry_id in reversed(_shown(view, view.roots()))]
    while waiting:
        entry_id, depth = waiting.pop()
        found.append((entry_id, depth))
        below = _shown(view, view.children_of(entry_id))
        inner = depth + (len(below) > 1)
        waiting.extend((one, inner) for one in reversed(below))
    return found


def _shown(view: LogView, entry_ids: tuple[str, ...] | list[str]) -> list[str]:
    """Give these entries, and in place of one that is not shown what hangs from it."""
    shown: list[str] = []
    waiting = list(reversed(entry_ids))
    while waiting:
        entry_id = waiting.pop()
        if view.entry(entry_id)["type"] in _SHOWN:
            shown.append(entry_id)
        else:
            waiting.extend(reversed(view.children_of(entry_id)))
    return shown


def _mark(entry_id: str, on_path: set[str], newest: str | None) -> str:
    if entry_id == newest:
        return ">"
    return "*" if entry_id in on_path else " "


def _row(view: LogView, entry_id: str) -> str:
    entry = view.entry(entry_id)
    who = entry["message"]["role"] if entry["type"] == "message" else entry["type"]
    preview = entry_preview(view, entry)
    short = preview if len(preview) <= _PREVIEW else preview[: _PREVIEW - 1] + "…"
    return f"{entry_id}  {who:<9}  {short}"
