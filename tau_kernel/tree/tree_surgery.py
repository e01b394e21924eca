"""Branches, elisions and copies worked out before anything is written.

A plan is a value: what it will give a model can be read with `planned_messages` and
judged with a refusal reason while the log is still as it was. `tree_ops` carries plans
out; which entries to take is the caller's choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, Literal, TypeAlias, TypedDict, get_args

from tau_kernel.errors import CallerError
from tau_kernel.messages import CustomMessage, Message

from .conversation_tree import ConversationTree
from .entry import ElideEntryDict, EntryDict, entry_timestamp
from .log_view import entries_to_messages, fold_path, is_system_entry

__all__ = [
    "COPYABLE_KINDS",
    "BranchPlan",
    "BranchSummaryCopyDict",
    "CopyPayload",
    "CopyableKind",
    "CustomMessageCopyDict",
    "MessageCopyDict",
    "PasteMint",
    "PastePlan",
    "admission_reason",
    "branch_refusal_reason",
    "copy_of",
    "hidden_entries",
    "paste_refusal_reason",
    "plan_branch",
    "plan_elide",
    "plan_paste",
    "planned_messages",
    "selection_order",
    "tool_group",
]

CopyableKind: TypeAlias = Literal["message", "customMessage", "branch_summary"]

#: The kinds that mean the same wherever they hang; the others point at places.
COPYABLE_KINDS: Final[tuple[CopyableKind, ...]] = get_args(CopyableKind)


class MessageCopyDict(TypedDict):
    """What a copied ``message`` is appended with."""

    copiedFrom: str
    message: Message


class CustomMessageCopyDict(TypedDict):
    """What a copied ``customMessage`` is appended with."""

    copiedFrom: str
    message: CustomMessage
    customType: str


class BranchSummaryCopyDict(TypedDict):
    """What a copied ``branch_summary`` is appended with; it was made at no branch."""

    copiedFrom: str
    summary: str
    fromId: None


CopyPayload: TypeAlias = MessageCopyDict | CustomMessageCopyDict | BranchSummaryCopyDict


@dataclass(frozen=True, slots=True)
class BranchPlan:
    """A branch that is not written yet.

    Args:
        attach: The entry that it grows from: the last of `keeps`.
        keeps: Entries it uses as they stand, root first; at least one.
        copies: Entries to append again below `attach`, each under the one before.
        elide_from: Where its context resumes, or None if nothing is to be hidden.
        hidden: How many entries that takes out of the context; no system message is
            among them.
    """

    attach: str
    keeps: tuple[str, ...]
    copies: tuple[str, ...]
    elide_from: str | None
    hidden: int

    @property
    def mints(self) -> int:
        """How many copies carrying it out appends."""
        return len(self.copies)


@dataclass(frozen=True, slots=True)
class PasteMint:
    """One entry of a copied subtree.

    Args:
        source_id: The entry it is a copy of.
        parent_source_id: The source of the copy that it hangs from; None hangs it from
            the plan's target.
        kind: Its type.
        payload: Its fields. The message in it is the log's: never change it.
    """

    source_id: str
    parent_source_id: str | None
    kind: CopyableKind
    payload: CopyPayload


@dataclass(frozen=True, slots=True)
class PastePlan:
    """A copy of a subtree that is not written yet.

    Args:
        target: The entry it will hang from.
        mints: Its entries, in row order, so that a parent precedes its children.
        skipped: Entries of the subtree that cannot be copied. What hangs from one
            hangs from the nearest copy above it instead.
    """

    target: str
    mints: tuple[PasteMint, ...]
    skipped: tuple[str, ...]


def selection_order(tree: ConversationTree, ids: Iterable[str]) -> tuple[str, ...]:
    """Give ids in the order of the tree's rows, each once.

    Args:
        tree: The tree that they belong to.
        ids: In any order; repeated ones count once.

    Raises:
        CallerError: Ids name no entry; the message lists all of them.
    """
    wanted = dict.fromkeys(ids)
    if unknown := [entry_id for entry_id in wanted if not tree.contains(entry_id)]:
        msg = (
            f"no entry has the id {', '.join(map(repr, unknown))}; "
            "use ids that the tree of this session shows"
        )
        raise CallerError(msg)
    found: list[str] = []
    for entry_id in _rows(tree, tree.children_of(None)):
        if len(found) == len(wanted):
            break
        if entry_id in wanted:
            found.append(entry_id)
    if lost := wanted.keys() - set(found):
        msg = (
            f"no root leads to {', '.join(sorted(map(repr, lost)))}: their parents "
            "form a ring; choose entries that have a row"
        )
        raise CallerError(msg)
    return tuple(found)


def _rows(tree: ConversationTree, first: Sequence[str]) -> Iterator[str]:
    """Walk down from `first`, a parent before its children, oldest first."""
    waiting = list(reversed(first))
    seen: set[str] = set()
    while waiting:
        entry_id = waiting.pop()
        # A file may hold a ring of parents; each entry is met once.
        if entry_id not in seen:
            seen.add(entry_id)
            yield entry_id
            waiting.extend(reversed(tree.children_of(entry_id)))


def tool_group(tree: ConversationTree, entry_id: str) -> frozenset[str]:
    """Give an entry and those that a model accepts only together with it.

    A message with tool calls belongs with the results below it, and a result with the
    message above it that made its call. Where a call was answered on several branches,
    the first in row order counts, or those on the line of the result that was asked
    for.

    Args:
        tree: The tree that the entry belongs to.
        entry_id: Any entry; most are groups of their own.

    Raises:
        UnknownEntryError: No entry has the id; it is a KeyError.
    """
    call_id = _answered_call(tree.entry(entry_id))
    near: Iterable[str] = ()
    group = {entry_id}
    caller: str | None = entry_id
    if call_id is not None:
        caller = _caller_of(tree, entry_id, call_id)
        above = [entry["id"] for entry in reversed(tree.path(entry_id))]
        near = chain(above, _rows(tree, tree.children_of(entry_id)))
    if caller is None:
        return frozenset(group)
    group.add(caller)
    waiting = set(_calls_of_entry(tree.entry(caller))) - {call_id}
    for candidate in chain(near, _rows(tree, tree.children_of(caller))):
        if not waiting:
            break
        answered = _answered_call(tree.entry(candidate))
        if answered in waiting and _caller_of(tree, candidate, answered) == caller:
            waiting.remove(answered)
            group.add(candidate)
    return frozenset(group)


def _calls_of(message: Message) -> dict[str, str]:
    """Give the tool calls that a message makes, names by id."""
    if message["role"] != "assistant":
        return {}
    return {
        block["id"]: block["name"]
        for block in message["content"]
        if block["type"] == "toolCall"
    }


def _calls_of_entry(entry: EntryDict) -> dict[str, str]:
    return _calls_of(entry["message"]) if entry["type"] == "message" else {}


def _answered_call(entry: EntryDict) -> str | None:
    if entry["type"] == "message" and entry["message"]["role"] == "toolResult":
        return entry["message"]["tool_call_id"]
    return None


def _caller_of(tree: ConversationTree, entry_id: str, call_id: str) -> str | None:
    for entry in reversed(tree.path(entry_id)):
        if call_id in _calls_of_entry(entry):
            return entry["id"]
    return None


def admission_reason(messages: Sequence[Message]) -> str | None:
    """Say why no model would accept these messages as a prompt, or give None.

    Args:
        messages: As a model would see them, oldest first.
    """
    return _orphan_reason(messages) or _pending_reason(messages)


def _orphan_reason(messages: Iterable[Message]) -> str | None:
    declared: set[str] = set()
    for message in messages:
        if message["role"] == "assistant":
            declared.update(_calls_of(message))
        elif message["role"] == "toolResult":
            call_id = message["tool_call_id"]
            if call_id not in declared:
                return (
                    f"the result of tool call {call_id!r} ({message['tool_name']}) has "
                    "no message above it that makes the call; include that message, or "
                    "leave the result out"
                )
    return None


def _pending_reason(messages: Iterable[Message]) -> str | None:
    pending: dict[str, str] = {}
    for message in messages:
        if message["role"] == "assistant":
            pending = _calls_of(message)
        elif message["role"] == "toolResult":
            pending.pop(message["tool_call_id"], None)
    if not pending:
        return None
    calls = ", ".join(f"{call!r} ({name})" for call, name in pending.items())
    return (
        f"tool calls without results: {calls}; "
        "include their results, or leave the message that makes them out"
    )


def plan_branch(
    tree: ConversationTree, ids: Iterable[str], *, drop_context: bool
) -> BranchPlan:
    """Plan the branch that chosen entries make, in row order.

    From the first on, entries are kept in place while each is the parent of the next;
    all that follow are copied. Whether the result is fit for a model is asked with
    `branch_refusal_reason`.

    Args:
        tree: The tree that they belong to.
        ids: In any order.
        drop_context: Whether a model is to see, beside system messages, nothing but
            the chosen entries. Otherwise it sees what is above them too.

    Raises:
        CallerError: No ids are given, or some name no entry.
    """
    order = selection_order(tree, ids)
    if not order:
        msg = "a branch needs at least one entry; mark the entries that it shall have"
        raise CallerError(msg)
    kept = 1
    while kept < len(order) and tree.entry(order[kept])["parentId"] == order[kept - 1]:
        kept += 1
    keeps, copies = order[:kept], order[kept:]
    attach = keeps[-1]
    hidden = len(hidden_entries(tree, attach, keeps[0])) if drop_context else 0
    return BranchPlan(
        attach=attach,
        keeps=keeps,
        copies=copies,
        elide_from=keeps[0] if hidden else None,
        hidden=hidden,
    )


def hidden_entries(
    tree: ConversationTree, leaf: str, first_kept_id: str
) -> list[EntryDict]:
    """Give what an elision below `leaf` would take out of the context there.

    Nothing, where no message would go; system messages always stay.

    Args:
        tree: The tree that both belong to.
        leaf: Where the elision would hang.
        first_kept_id: Where the context would resume; `leaf` or an ancestor.
    """
    ids = [entry["id"] for entry in tree.path(leaf)]
    kept = set(ids[ids.index(first_kept_id) :])
    hidden = [
        entry
        for entry in tree.context_entries(leaf)
        if entry["id"] not in kept and not is_system_entry(entry)
    ]
    return hidden if entries_to_messages(hidden) else []


def plan_elide(
    tree: ConversationTree, anchor_id: str, first_kept_id: str
) -> BranchPlan:
    """Plan a branch that keeps a stretch of one path and hides what is above it.

    Args:
        tree: The tree that both belong to.
        anchor_id: The end of the stretch, where the branch grows from.
        first_kept_id: Its start; the anchor itself or an ancestor.

    Raises:
        CallerError: An id names no entry, the start is not on the path to the anchor,
            no message would be hidden, or a tool result would lose its call.
    """
    ids = [entry["id"] for entry in tree.path(anchor_id)]
    if tree.entry(first_kept_id)["id"] not in ids:
        msg = (
            f"entry {first_kept_id!r} is not on the path to {anchor_id!r}, so a "
            "context cannot resume there; choose that entry or one of its ancestors"
        )
        raise CallerError(msg)
    hidden = hidden_entries(tree, anchor_id, first_kept_id)
    if not hidden:
        msg = (
            f"resuming at {first_kept_id!r} would hide nothing from "
            f"{anchor_id!r}; choose a later entry to resume at"
        )
        raise CallerError(msg)
    plan = BranchPlan(
        attach=anchor_id,
        keeps=tuple(ids[ids.index(first_kept_id) :]),
        copies=(),
        elide_from=first_kept_id,
        hidden=len(hidden),
    )
    # A fault that the path had before is no reason against the elision.
    reason = _orphan_reason(planned_messages(tree, plan))
    if reason is not None and _orphan_reason(tree.context_for(anchor_id)) is None:
        raise CallerError(reason)
    return plan


def branch_refusal_reason(
    tree: ConversationTree, ids: Iterable[str], *, drop_context: bool
) -> str | None:
    """Say why chosen entries make no branch that a model accepts, or give None.

    The arguments are those of `plan_branch`.

    Raises:
        CallerError: No ids are given, or some name no entry.
    """
    plan = plan_branch(tree, ids, drop_context=drop_context)
    for entry_id in (*plan.keeps, *plan.copies):
        kind = tree.entry(entry_id)["type"]
        if kind not in COPYABLE_KINDS:
            return _not_copyable(entry_id, kind)
    for entry_id in plan.copies:
        if is_system_entry(tree.entry(entry_id)):
            return (
                f"entry {entry_id!r} is a system message, and a copy of it would be a "
                "second one in the middle of the branch; leave it out, the branch "
                "has the one above"
            )
    return admission_reason(planned_messages(tree, plan))


def _not_copyable(entry_id: str, kind: str) -> str:
    return (
        f"entry {entry_id!r} is of the kind {kind!r}, which belongs to its place; "
        f"choose entries of the kinds {', '.join(COPYABLE_KINDS)}"
    )


def planned_messages(tree: ConversationTree, plan: BranchPlan) -> list[Message]:
    """Give what a model will see at the end of a planned branch.

    Args:
        tree: The tree that the plan was made for.
        plan: The branch; it need not be fit.
    """
    path = tree.path(plan.attach)
    path.extend(map(tree.entry, plan.copies))
    if plan.elide_from is not None:
        path.append(_planned_elide(plan.attach, plan.elide_from))
    return entries_to_messages(fold_path(path))


def _planned_elide(parent_id: str, first_kept_id: str) -> ElideEntryDict:
    return {
        "type": "elide",
        "id": "",
        "parentId": parent_id,
        "timestamp": entry_timestamp(),
        "firstKeptId": first_kept_id,
    }


def copy_of(entry: EntryDict) -> tuple[CopyableKind, CopyPayload]:
    """Give what `append_at` needs to append an entry's content at another place.

    The copy names its source and is otherwise an ordinary entry. Fields that are
    unknown here stay behind.

    Args:
        entry: Of one of `COPYABLE_KINDS`. Its message is passed on, not copied.

    Raises:
        CallerError: Its kind cannot be copied.
    """
    source = entry["id"]
    match entry["type"]:
        case "message":
            return "message", {"copiedFrom": source, "message": entry["message"]}
        case "customMessage":
            return "customMessage", {
                "copiedFrom": source,
                "message": entry["message"],
                "customType": entry["customType"],
            }
        case "branch_summary":
            return "branch_summary", {
                "copiedFrom": source,
                "summary": entry["summary"],
                "fromId": None,
            }
        case kind:
            raise CallerError(_not_copyable(source, kind))


def plan_paste(tree: ConversationTree, source_id: str, target_id: str) -> PastePlan:
    """Plan a copy of an entry and of all that hangs from it, forks included.

    Args:
        tree: The tree that both belong to.
        source_id: The root of the subtree.
        target_id: The entry that the copy will hang from.

    Raises:
        CallerError: An id names no entry, the source is not of a copyable kind, or
            the target is in the subtree: source and copy would share a path, on which
            an id of a tool call has to be unique.
    """
    copy_of(tree.entry(source_id))
    if any(entry["id"] == source_id for entry in tree.path(target_id)):
        msg = (
            f"entry {target_id!r} is in the subtree of {source_id!r}, which cannot be "
            "pasted into itself; choose a target outside of it"
        )
        raise CallerError(msg)
    mints: list[PasteMint] = []
    skipped: list[str] = []
    copy_above: dict[str | None, str | None] = {}
    for entry_id in _rows(tree, [source_id]):
        entry = tree.entry(entry_id)
        parent = None if entry_id == source_id else copy_above[entry["parentId"]]
        if entry["type"] in COPYABLE_KINDS:
            mints.append(PasteMint(entry_id, parent, *copy_of(entry)))
            copy_above[entry_id] = entry_id
        else:
            skipped.append(entry_id)
            copy_above[entry_id] = parent
    return PastePlan(target_id, tuple(mints), tuple(skipped))


def paste_refusal_reason(tree: ConversationTree, plan: PastePlan) -> str | None:
    """Say which pasted tool result would lack its call, or give None.

    The call may stand in the context of the target, or among the copies above the
    result. A copy that ends with calls not yet answered is fit: no turn starts there
    before somebody goes there.

    Args:
        tree: The tree that the plan was made for.
        plan: The copy.
    """
    context = tree.context_for(plan.target)
    declared: dict[str | None, Mapping[str, str]] = {
        None: {call: name for m in context for call, name in _calls_of(m).items()}
    }
    for mint in plan.mints:
        entry = tree.entry(mint.source_id)
        above = declared[mint.parent_source_id]
        call_id = _answered_call(entry)
        if call_id is not None and call_id not in above:
            return (
                f"entry {mint.source_id!r} is the result of tool call {call_id!r}, "
                f"which nothing above it makes below {plan.target!r}; copy from the "
                "message that makes the call"
            )
        made = _calls_of_entry(entry)
        # Most messages make no call and share the record of those above.
        declared[mint.source_id] = {**above, **made} if made else above
    return None
