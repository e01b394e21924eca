from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from tau_kernel.agent import AgentSession, BranchResult, Start, TurnSettings
from tau_kernel.errors import CallerError
from tau_kernel.extensions import ToolContext
from tau_kernel.messages import JsonObject, message_text
from tau_kernel.sessions import FileSession
from tau_kernel.submissions import AgentEvent, SubmissionResult, user_input_permitted
from tau_kernel.tree import ConversationTree

if TYPE_CHECKING:
    from .conftest import Kit

Result = TypeVar("Result")


async def soon(work: Awaitable[Result]) -> Result:
    """Wait for what should come at once, with a bound for a busy machine."""
    return await asyncio.wait_for(work, 5)


async def fork(
    kit: Kit,
    session: AgentSession,
    text: str,
    settings: TurnSettings | None = None,
    **more: Any,  # noqa: ANN401
) -> SubmissionResult:
    submission = kit.bench.submission(text, multitask_strategy="fork", **more)
    return await soon(session.submit(submission, settings=settings))


async def forked(
    kit: Kit,
    session: AgentSession,
    text: str,
    **more: Any,  # noqa: ANN401
) -> BranchResult:
    assert (await fork(kit, session, text, **more)).accepted
    return await soon(session.branch_finished(text))


def texts(session: AgentSession) -> list[str]:
    return [message_text(message) for message in session.messages]


def texts_at(session: AgentSession, leaf: str | None) -> list[str]:
    view = session.session_log.view()
    return [message_text(message) for message in view.context_for(leaf)]


def test_a_fork_continues_the_conversation_on_a_branch_of_its_own(kit: Kit) -> None:
    async def scenario() -> tuple[list[str], list[str]]:
        session = kit.bench.session(kit.stream([kit.say("one"), kit.say("aside")]))
        await session.submit(kit.bench.submission("first"))
        branch = await forked(kit, session, "beside")
        return texts(session), texts_at(session, branch.leaf)

    main, branch = asyncio.run(scenario())
    assert main == ["first", "one"]
    assert branch == ["first", "one", "beside", "aside"]


def test_a_fork_beside_a_running_turn_begins_before_that_turn(kit: Kit) -> None:
    async def scenario() -> list[str]:
        stream = kit.stream([kit.say("one"), [], kit.say("aside")], hangs=False)
        session = kit.bench.session(stream)
        await session.submit(kit.bench.submission("first"))
        stream.hangs = True
        running = asyncio.ensure_future(session.submit(kit.bench.submission("running")))
        await soon(stream.hanging.wait())
        stream.hangs = False
        branch = await forked(kit, session, "beside")
        assert not running.done()
        session.abort()
        await soon(running)
        return texts_at(session, branch.leaf)

    assert asyncio.run(scenario()) == ["first", "one", "beside", "aside"]


def test_a_fork_is_answered_before_its_branch_has_ended(kit: Kit) -> None:
    async def scenario() -> None:
        stream = kit.stream([[]], hangs=True)
        session = kit.bench.session(stream)
        result = await fork(kit, session, "beside")
        assert result == SubmissionResult(accepted=True, submission_id="beside")
        await soon(stream.hanging.wait())
        assert not session.is_streaming
        session.abort()

    asyncio.run(scenario())


def test_a_fork_keeps_its_own_provenance_images_and_permission(kit: Kit) -> None:
    asked: list[bool] = []

    async def look(arguments: JsonObject, context: ToolContext) -> str:
        del arguments, context
        asked.append(user_input_permitted())
        return "seen"

    heard: list[AgentEvent] = []
    image = {"type": "image", "data": "aGk=", "mime_type": "image/png"}

    async def scenario() -> list[str]:
        stream = kit.stream([kit.say("", kit.call("look")), kit.say("done")])
        session = kit.bench.session(stream, kit.tool("look", look))
        session.subscribe_channel("branch_event", lambda *args: heard.append(args[2]))
        await forked(
            kit,
            session,
            "beside",
            source="timer",
            submitter="clock",
            correlation={"cron": "1"},
            images=[image],
            allow_user_input=False,
        )
        prompt = stream.requests[0]["messages"][-1]
        assert image in prompt["content"]
        return [event.type for event in heard]

    types = asyncio.run(scenario())
    assert types[0] == "agent_start"
    assert types[-1] == "agent_end"
    assert {(e.submission_id, e.source, e.submitter) for e in heard} == {
        ("beside", "timer", "clock")
    }
    assert all(event.correlation == {"cron": "1"} for event in heard)
    assert asked == [False]
    assert kit.bench.events == []


def test_the_end_of_a_branch_is_told_with_its_lane(kit: Kit) -> None:
    ends: list[tuple[str, str, str | None]] = []

    async def scenario() -> BranchResult:
        session = kit.bench.session(kit.stream([kit.say("a")]))
        session.subscribe_channel("branch_end", lambda *args: ends.append(args))
        return await forked(kit, session, "look at this")

    branch = asyncio.run(scenario())
    assert ends == [(branch.lane, "look at this", None)]
    assert branch.ok


def test_a_failing_branch_harms_nobody_and_says_why(kit: Kit) -> None:
    async def scenario() -> tuple[BranchResult, SubmissionResult]:
        # A stream that ends without a final message is a failed one.
        session = kit.bench.session(
            kit.stream([[kit.say("half")[0]], kit.say("still here")])
        )
        branch = await forked(kit, session, "beside")
        return branch, await session.submit(kit.bench.submission("after"))

    branch, after = asyncio.run(scenario())
    assert not branch.ok
    assert branch.error is not None
    assert branch.error.startswith("ModelError: ")
    assert after.accepted
    kept = [
        entry["data"]
        for entry in kit.bench.log.entries()
        if entry["type"] == "customEntry" and entry["customType"] == "branch_error"
    ]
    assert kept == [{"lane": branch.lane, "label": "beside", "error": branch.error}]


def test_an_abort_ends_branches_and_keeps_what_they_said(kit: Kit) -> None:
    async def scenario() -> tuple[AgentSession, BranchResult]:
        stream = kit.stream([kit.say("half")[:1]], hangs=True)
        session = kit.bench.session(stream)
        await fork(kit, session, "beside")
        await soon(stream.hanging.wait())
        ending = asyncio.ensure_future(session.branch_finished("beside"))
        await asyncio.sleep(0)
        session.abort()
        return session, await soon(ending)

    session, branch = asyncio.run(scenario())
    assert (branch.ok, branch.error) == (False, "aborted")
    assert texts_at(session, branch.leaf) == ["beside", "half"]
    tree = ConversationTree(session.session_log.view(), None)
    assert tree.fork_admission_reason(branch.leaf) is None


def test_one_branch_can_be_aborted_while_another_runs_on(kit: Kit) -> None:
    async def scenario() -> tuple[BranchResult, bool]:
        stream = kit.stream([[], []], hangs=True)
        session = kit.bench.session(stream)
        await fork(kit, session, "one")
        await fork(kit, session, "two")
        await soon(stream.hanging.wait())
        ending = asyncio.ensure_future(session.branch_finished("one"))
        other = asyncio.ensure_future(session.branch_finished("two"))
        await asyncio.sleep(0)
        session.abort_branch("one")
        ended = await soon(ending)
        runs = not other.done()
        session.abort()
        await soon(other)
        return ended, runs

    ended, runs = asyncio.run(scenario())
    assert ended.error == "aborted"
    assert runs


def test_no_branch_outlives_its_session(kit: Kit) -> None:
    async def scenario() -> list[str]:
        stream = kit.stream([[]], hangs=True)
        session = kit.bench.session(stream)
        ends: list[str] = []
        session.subscribe_channel("branch_end", lambda *args: ends.append(args[1]))
        await fork(kit, session, "beside")
        await soon(stream.hanging.wait())
        await soon(session.emit_session_shutdown())
        return ends

    assert asyncio.run(scenario()) == ["beside"]


def test_a_fork_below_calls_without_results_is_refused_with_the_reason(
    kit: Kit,
) -> None:
    session = kit.bench.session(kit.stream([]))
    session.session_log.append_message(kit.answer("", kit.call("look")))

    async def scenario() -> SubmissionResult:
        return await fork(kit, session, "beside")

    refused = asyncio.run(scenario())
    assert not refused.accepted
    assert "without results" in (refused.rejection_reason or "")
    assert len(session.session_log.entries()) == 1


def test_a_fork_may_begin_elsewhere_and_leaves_the_cursor_alone(kit: Kit) -> None:
    async def scenario() -> tuple[list[str], list[str]]:
        session = kit.bench.session(kit.stream([kit.say("one"), kit.say("fresh")]))
        await session.submit(kit.bench.submission("first"))
        cursor = session.session_log.cursor
        await fork(
            kit,
            session,
            "beside",
            settings=TurnSettings(place=lambda _: Start(entry_id=None)),
        )
        branch = await soon(session.branch_finished("beside"))
        assert session.session_log.cursor == cursor
        return texts(session), texts_at(session, branch.leaf)

    assert asyncio.run(scenario()) == (["first", "one"], ["beside", "fresh"])


def test_a_branch_that_is_not_there_cannot_be_waited_for(kit: Kit) -> None:
    session = kit.bench.session(kit.stream([]))
    with pytest.raises(CallerError, match="'nobody'"):
        session.branch_finished("nobody")


def test_an_id_that_runs_on_a_branch_is_refused(kit: Kit) -> None:
    async def scenario() -> None:
        stream = kit.stream([[]], hangs=True)
        session = kit.bench.session(stream)
        await fork(kit, session, "twin")
        await soon(stream.hanging.wait())
        with pytest.raises(CallerError, match="runs already"):
            await fork(kit, session, "twin")
        session.abort()

    asyncio.run(scenario())


def test_a_stored_log_reopens_on_the_main_line(kit: Kit, tmp_path: Path) -> None:
    log = FileSession.create(tmp_path, "/work", "m", "p")

    async def scenario() -> list[str]:
        stream = kit.stream([kit.say("one"), kit.say("aside")])
        session = AgentSession(
            log, kit.bench.spec().model, stream=stream, cwd=Path("/")
        )
        await session.submit(kit.bench.submission("first"))
        await forked(kit, session, "beside")
        await session.emit_session_shutdown()
        return texts(session)

    before = asyncio.run(scenario())
    log.close()
    again = FileSession.load(log.path)
    assert [message_text(m) for m in again.context] == before
    again.close()


def test_what_a_branch_spends_is_side_usage_of_its_session(kit: Kit) -> None:
    async def scenario() -> AgentSession:
        session = kit.bench.session(kit.stream([kit.say("aside")]))
        await forked(kit, session, "beside")
        return session

    session = asyncio.run(scenario())
    assert session.side_usage["total_tokens"] == 7
    assert session.spending.turns == 1
    assert session.get_usage() is None
