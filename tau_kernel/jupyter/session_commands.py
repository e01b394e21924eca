"""The commands about the conversation as a whole: its name, its tree, its file."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from tau_kernel.agent import AgentSession
from tau_kernel.errors import CallerError
from tau_kernel.sessions import SessionInfo

from .command_call import CommandCall
from .prompt_run import provenance
from .render import AnswerWriter
from .replay import answer_events, find_submission
from .tree_text import tree_text

__all__ = ["fork", "import_", "name", "repair", "replay", "resume", "tree"]

_LISTED: Final = 12


async def name(call: CommandCall) -> str:
    """Show the conversation's name, or give it one."""
    session = _session(call)
    if call.args:
        session.set_session_name(call.args)
        return f"The conversation is called **{_plain(call.args)}**."
    known = session.get_session_name()
    return (
        f"The conversation is called **{_plain(known)}**." if known else "No name yet."
    )


async def tree(call: CommandCall) -> str:
    """Show the tree of the conversation."""
    _refuse_arguments(call)
    return f"```text\n{tree_text(_session(call).session_log)}\n```"


async def fork(call: CommandCall) -> str:
    """Go on in a copy of the conversation."""
    _refuse_arguments(call)
    before = _session(call).session_log.id
    session = await call.conversation.fork()
    return (
        f"Goes on in a copy, session `{session.session_log.id[:12]}`. "
        f"The conversation until here stays as `{before[:12]}`."
    )


async def resume(call: CommandCall) -> str:
    """List the stored conversations, or go on with one of them."""
    if not call.args:
        catalog = call.conversation.catalog()
        infos = await asyncio.to_thread(catalog.list, str(Path.cwd()))
        return _listed(infos)
    session = await call.conversation.resume(call.args)
    call.history.recall(session.session_log)
    messages = len(session.messages)
    return (
        f"Goes on with session `{session.session_log.id[:12]}`, "
        f"{messages} messages at the cursor."
    )


async def import_(call: CommandCall) -> str:
    """Go on in a copy of a session file from elsewhere."""
    if not call.args:
        msg = "/import needs the path of a session file: /import ~/.tau/sessions/…"
        raise CallerError(msg)
    session = await call.conversation.import_copy(Path(call.args))
    return (
        f"Goes on in a copy, session `{session.session_log.id[:12]}`, "
        f"{len(session.messages)} messages at the cursor. The file stays as it is."
    )


async def repair(call: CommandCall) -> str:
    """Write a mended copy of a damaged session."""
    if not call.args:
        msg = "/repair needs a session: its path, its id or the start of its id"
        raise CallerError(msg)
    report = await asyncio.to_thread(call.conversation.catalog().repair, call.args)
    lines = "\n".join(report.lines())
    return f"```text\n{lines}\n```\n\n`/resume {report.id[:12]}` goes on with it."


async def replay(call: CommandCall) -> str:
    """Draw the answer to a submission again."""
    if not call.args:
        msg = "/replay needs a submission's id; it stands in an output's metadata.tau"
        raise CallerError(msg)
    session = _session(call)
    log = session.session_log
    submission = find_submission(log, call.args)
    data = submission["data"] if submission["type"] == "customEntry" else {}
    known = provenance(session, None, None) | {
        "submission_id": data.get("submission_id"),
        "source": data.get("source"),
        "submitter": data.get("submitter"),
    }
    writer = AnswerWriter(
        call.outlet,
        asyncio.get_running_loop(),
        known,
        mode=call.mode,
        remote_images=call.conversation.config().remote_images,
    )
    for event in answer_events(log, submission):
        writer.feed(event)
    await writer.finish()
    return ""


def _session(call: CommandCall) -> AgentSession:
    session = call.conversation.session
    if session is None:
        msg = "there is no conversation yet; run a prompt, or /resume one"
        raise CallerError(msg)
    return session


def _refuse_arguments(call: CommandCall) -> None:
    if call.args:
        msg = f"this command takes no arguments, got {call.args!r}; write it alone"
        raise CallerError(msg)


def _listed(infos: list[SessionInfo]) -> str:
    if not infos:
        return "No conversation was kept in this directory yet."
    rows = ["| session | written | messages | |", "|---|---|---|---|"]
    for info in infos[:_LISTED]:
        title = f"damaged: {info.error}" if info.error else info.display_title()
        written = info.modified.astimezone().strftime("%Y-%m-%d %H:%M")
        rows.append(
            f"| `{info.id[:12]}` | {written} | {info.message_count} | {_plain(title)} |"
        )
    more = len(infos) - _LISTED
    rest = f"\n\n{more} older ones are not listed." if more > 0 else ""
    return (
        "\n".join(rows)
        + rest
        + "\n\n`/resume ID` goes on with one, `/resume last` with the last."
    )


def _plain(text: str) -> str:
    """Write a person's words so that Markdown takes none of them for markup."""
    flat = " ".join(text.split())
    return "".join(f"\\{c}" if c in "\\`*_[]<>|#$&~" else c for c in flat)
