"""The commands about the conversation as a whole: its name, its tree, its file."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from tau_kernel.agent import AgentSession
from tau_kernel.errors import CallerError
from tau_kernel.legacy import (
    FoundSession,
    FoundSessions,
    find_sessions,
    session_folders,
)
from tau_kernel.sessions import SessionInfo

from .command_call import CommandCall
from .notebook_note import notebook_of
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
        notebook = call.conversation.config().environ_notebook
        return _listed(infos, notebook)
    session = await call.conversation.resume(call.args)
    call.history.recall(session.session_log)
    messages = len(session.messages)
    return (
        f"Goes on with session `{session.session_log.id[:12]}`, "
        f"{messages} messages at the cursor."
    )


async def import_(call: CommandCall) -> str:
    """List session files from elsewhere, or go on in a copy of one of them."""
    found = await asyncio.to_thread(_importable, call.args)
    if found is not None:
        return found
    read = await call.conversation.import_copy(_path(call.args))
    session = _session(call)
    call.history.recall(session.session_log)
    notices = "".join(f"\n- {_plain(notice)}" for notice in read.notices)
    return (
        f"Goes on in a copy, session `{session.session_log.id[:12]}`, "
        f"{len(session.messages)} messages at the cursor. The file stays as it is."
        + (f"\n{notices}" if notices else "")
    )


def _importable(args: str) -> str | None:
    """List what can be imported from a directory; None where `args` is none."""
    if not args:
        return _found(find_sessions(_homes(), most=_LISTED), "made in this directory")
    path = _path(args)
    if path.is_dir():
        return _found(find_sessions([path], most=_LISTED), f"below {_plain(args)}")
    return None


def _path(args: str) -> Path:
    return Path(args).expanduser()


def _homes() -> tuple[Path, ...]:
    return session_folders(Path.home(), str(Path.cwd()))


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


def _listed(infos: list[SessionInfo], notebook: str | None) -> str:
    if not infos:
        return "No conversation was kept in this directory yet."
    rows = ["| session | written | messages | |", "|---|---|---|---|"]
    for info in infos[:_LISTED]:
        title = f"damaged: {info.error}" if info.error else info.display_title()
        if notebook is not None and notebook_of(Path(info.ref)) == notebook:
            title += " (this notebook)"
        written = info.modified.astimezone().strftime("%Y-%m-%d %H:%M")
        rows.append(
            f"| `{info.id[:12]}` | {written} | {info.message_count} | {_plain(title)} |"
        )
    more = len(infos) - _LISTED
    rest = f"\n\n{more} older ones are not listed." if more > 0 else ""
    return (
        "\n".join(rows)
        + rest
        + "\n\n`/resume ID` goes on with one, `/resume last` with the last, "
        "`/resume notebook` with the last of this notebook."
    )


def _found(found: FoundSessions, where: str) -> str:
    hint = (
        "`/import PATH` goes on in a copy of one; "
        "`/import DIRECTORY` lists those of another directory."
    )
    if not found.sessions:
        return f"No session of τ or pi that was {where} was found.\n\n{hint}"
    rows = ["| path | written | format | |", "|---|---|---|---|"]
    rows.extend(map(_found_row, found.sessions))
    rest = [f"{found.left} older files are not listed."] if found.left else []
    if found.passed_over:
        rest.append(f"{found.passed_over} other files hold no session.")
    return "\n\n".join(["\n".join(rows), *rest, hint])


def _found_row(found: FoundSession) -> str:
    path = str(found.path)
    home = f"{Path.home()}/"
    if path.startswith(home):
        path = f"~/{path.removeprefix(home)}"
    # In a table, a bar ends even code, and code cannot hold a backtick.
    shown = _plain(path) if set(path) & set("`|") else f"`{path}`"
    written = found.modified.astimezone().strftime("%Y-%m-%d %H:%M")
    return f"| {shown} | {written} | {found.format} | {_plain(found.title)} |"


def _plain(text: str) -> str:
    """Write a person's words so that Markdown takes none of them for markup."""
    flat = " ".join(text.split())
    return "".join(f"\\{c}" if c in "\\`*_[]<>|#$&~" else c for c in flat)
