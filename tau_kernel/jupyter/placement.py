"""Where in the tree a cell's turn begins.

A notebook is read from top to bottom, so running a cell again begins a sibling of its
old turn. `%%tau from=` begins anywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tau_kernel.agent import Start
from tau_kernel.errors import CallerError
from tau_kernel.tree import EntryDict, LogView, SessionLog

__all__ = ["Branching", "place_rerun", "place_start"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Branching:
    """That a cell left turns behind on another branch.

    Args:
        left: How many turns come after the place where the new one begins.
        tip: The entry that the old branch ends with.
    """

    left: int
    tip: str


def place_rerun(
    cell_id: str, report: Callable[[Branching], None]
) -> Callable[[SessionLog], Start | None]:
    """Give what finds the place before the cell's turn on the active path, if any.

    Args:
        cell_id: The notebook's id of the cell.
        report: Told of the turns that stay on the old branch.
    """

    def place(log: SessionLog) -> Start | None:
        path = log.view().path(log.cursor)
        turns = [entry for entry in path if _cell_of(entry) is not None]
        for number, entry in enumerate(turns):
            if _cell_of(entry) == cell_id:
                if log.cursor is not None:
                    left = len(turns) - number - 1
                    report(Branching(left=left, tip=log.cursor))
                return Start(entry_id=entry["parentId"])
        return None

    return place


def place_start(start: str) -> Callable[[SessionLog], Start]:
    """Give what finds an entry, the end of a cell's turn, or the root.

    Args:
        start: ``"root"``, an entry's id or a cell's id.
    """

    def place(log: SessionLog) -> Start:
        if start == "root":
            return Start(entry_id=None)
        view = log.view()
        target = start if view.contains(start) else _end_of_turn(view, log, start)
        if target is None:
            msg = (
                f"from={start} names no entry and no cell of this conversation\n"
                "give an entry id (metadata.tau.entry_id of an output), a cell id "
                "or root"
            )
            raise CallerError(msg)
        return Start(entry_id=target)

    return place


def _end_of_turn(view: LogView, log: SessionLog, cell_id: str) -> str | None:
    """Give the last entry of the cell's newest turn, one on the active path first."""
    path = view.path(log.cursor)
    begun = [entry for entry in view if _cell_of(entry) == cell_id]
    if not begun:
        return None
    on_path = [entry for entry in path if _cell_of(entry) == cell_id]
    last = (on_path or begun)[-1]
    members = path[path.index(last) + 1 :] if on_path else _following(view, last)
    end = last["id"]
    for entry in members:
        if _cell_of(entry) is not None:
            break
        end = entry["id"]
    return end


def _following(view: LogView, entry: EntryDict) -> list[EntryDict]:
    found = []
    children = view.children_of(entry["id"])
    while children:
        entry = view.entry(children[-1])
        found.append(entry)
        children = view.children_of(entry["id"])
    return found


def _cell_of(entry: EntryDict) -> str | None:
    """Give the cell id if the entry begins a turn, "" for a turn without a cell."""
    if entry["type"] != "customEntry" or entry["customType"] != "submission":
        return None
    correlation = entry["data"].get("correlation")
    cell_id = correlation.get("cell_id") if isinstance(correlation, dict) else None
    return cell_id if isinstance(cell_id, str) else ""
