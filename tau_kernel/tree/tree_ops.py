"""What people do to a conversation's tree: go somewhere, hide, branch, paste.

Each operation checks everything before its first append, so a refused one leaves the
log as it was. None of them edits or deletes an entry. They take no lock: whoever runs
turns on the log holds them off meanwhile. Contexts are lists of the caller's own whose
messages are the log's: never change those.
"""

from __future__ import annotations

from collections.abc import Sequence

from tau_kernel.errors import CallerError
from tau_kernel.messages import AbortSignal, Message, UsageDict
from tau_kernel.models import Model

from .branch_summary import summarize_branch
from .conversation_tree import ConversationTree
from .entry import EntryDict
from .log_view import estimate_span_tokens
from .session_log import (
    SessionLog,
    agent_spec_in_force,
    session_log_is_addressable,
)
from .tree_surgery import (
    BranchPlan,
    branch_refusal_reason,
    copy_of,
    hidden_entries,
    paste_refusal_reason,
    plan_branch,
    plan_elide,
    plan_paste,
)

__all__ = [
    "commit_branch",
    "elide_span",
    "navigate",
    "paste_subtree",
    "summarize_and_navigate",
]


def navigate(session: SessionLog, target_id: str | None) -> list[Message]:
    """Move a log's cursor and give what a model sees there.

    Nothing is appended where the cursor is there already.

    Args:
        session: The log.
        target_id: The entry to go to. None is the place before the root, whose context
            is empty: what is appended next starts a new root.

    Raises:
        CallerError: `target_id` names no entry; the log is unchanged.
    """
    _move(session, target_id)
    return session.view().context_for(session.cursor)


def elide_span(
    session: SessionLog, anchor_id: str, first_kept_id: str
) -> list[Message]:
    """Hide the start of a path from models, go to its end, and give the context.

    Args:
        session: The log.
        anchor_id: The end of what stays; the elision is appended below it.
        first_kept_id: The start of what stays: the anchor itself or an ancestor.
            System messages from above it stay too.

    Raises:
        CallerError: As for `plan_elide`; the log is unchanged.
    """
    return _carry_out(session, plan_elide(_tree_of(session), anchor_id, first_kept_id))


def commit_branch(
    session: SessionLog, ids: Sequence[str], *, drop_context: bool
) -> list[Message]:
    """Make a branch of chosen entries, go to its end, and give the context.

    Appended are, as far as needed: a move to the last entry kept in place, the copies,
    a move to the last of them, an elision. While copies are appended the cursor stays
    where they hang from, so a failing disk leaves it on an entry that was there before.

    Args:
        session: The log.
        ids: The entries, in any order; the tree's order counts.
        drop_context: Whether a model is to see, beside system messages, nothing but
            them.

    Raises:
        CallerError: As `plan_branch` and `branch_refusal_reason` say; the log is
            unchanged.
    """
    tree = _tree_of(session)
    reason = branch_refusal_reason(tree, ids, drop_context=drop_context)
    if reason is not None:
        raise CallerError(reason)
    return _carry_out(session, plan_branch(tree, ids, drop_context=drop_context))


def paste_subtree(session: SessionLog, source_id: str, target_id: str) -> list[str]:
    """Copy an entry, and all that hangs from it, below another; stay where you are.

    A log that is stored gets a move to its own cursor as the last entry: it reopens
    where its last entry leaves it, which would be inside the copy.

    Args:
        session: The log.
        source_id: The root of what is copied.
        target_id: The entry that the copy hangs from.

    Returns:
        The ids of the copies in the order they were appended, the copy of `source_id`
        first.

    Raises:
        CallerError: As `plan_paste` and `paste_refusal_reason` say; the log is
            unchanged.
    """
    tree = _tree_of(session)
    plan = plan_paste(tree, source_id, target_id)
    reason = paste_refusal_reason(tree, plan)
    if reason is not None:
        raise CallerError(reason)
    copies: dict[str | None, str] = {None: plan.target}
    minted: list[str] = []
    for mint in plan.mints:
        parent = copies[mint.parent_source_id]
        minted.append(session.append_at(parent, mint.kind, mint.payload))
        copies[mint.source_id] = minted[-1]
    if session_log_is_addressable(session):
        session.append_navigate(session.cursor)
    return minted


async def summarize_and_navigate(
    session: SessionLog,
    target_id: str,
    model: Model,
    *,
    api_key: str | None = None,
    custom_instructions: str | None = None,
    prompt: str | None = None,
    signal: AbortSignal | None = None,
) -> tuple[list[Message], UsageDict]:
    """Leave what hangs from an entry with a summary of it, and go there.

    The summary is appended below the entry once it is complete; cancelled before
    that, nothing is appended.

    Args:
        session: The log.
        target_id: The entry to go back to.
        model: Writes the summary.
        api_key: Wins over the model's own key.
        custom_instructions: What the summary should heed besides.
        prompt: As for `summarize_branch`.
        signal: Its rise ends the work; nothing is appended.

    Returns:
        The context at the summary, and what writing it cost.

    Raises:
        CallerError: `target_id` names no entry, or there is no text to summarise; no
            model was asked.
        BranchSummaryError: The model gave no summary; the log is unchanged.
        ModelError: The provider failed; the log is unchanged.
    """
    session.view().entry(target_id)
    summary, usage = await summarize_branch(
        _tree_of(session).subtree_text(target_id),
        model,
        api_key=api_key,
        custom_instructions=custom_instructions,
        prompt=prompt,
        signal=signal,
    )
    session.append_branch_summary(summary, target_id)
    return session.view().context_for(session.cursor), usage


def _tree_of(session: SessionLog) -> ConversationTree:
    return ConversationTree(session.view(), session.cursor)


def _move(session: SessionLog, target_id: str | None) -> None:
    if target_id != session.cursor:
        session.append_navigate(target_id)


def _carry_out(session: SessionLog, plan: BranchPlan) -> list[Message]:
    view = session.view()
    hidden: list[EntryDict] = []
    if plan.elide_from is not None:
        hidden = hidden_entries(_tree_of(session), plan.attach, plan.elide_from)
    _move(session, plan.attach)
    tip = plan.attach
    for entry_id in plan.copies:
        tip = session.append_at(tip, *copy_of(view.entry(entry_id)))
    _move(session, tip)
    if plan.elide_from is not None:
        session.append_elide(
            plan.elide_from,
            covered_entries=len(hidden),
            covered_tokens=estimate_span_tokens(hidden),
            agent_spec_id=agent_spec_in_force(view, tip),
        )
    return view.context_for(session.cursor)
