from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from tau_kernel.agent import AgentSession
from tau_kernel.errors import LimitError
from tau_kernel.extensions import ToolContext
from tau_kernel.messages import JsonObject, message_text
from tau_kernel.models import TextDeltaEvent
from tau_kernel.submissions import (
    MAX_SUBMISSION_DEPTH,
    AgentEvent,
    SubmissionResult,
    user_input_permitted,
)

if TYPE_CHECKING:
    from .conftest import Kit, ScriptedStream

Result = TypeVar("Result")
Running = asyncio.Task[SubmissionResult]
Future = concurrent.futures.Future[SubmissionResult]

BUSY = "a turn is already in flight"


async def soon(work: Awaitable[Result]) -> Result:
    """Wait for what should come at once, with a bound for a busy machine."""
    return await asyncio.wait_for(work, 5)


def texts(session: AgentSession) -> list[str]:
    return [message_text(message) for message in session.messages]


def begin(
    kit: Kit,
    session: AgentSession,
    text: str,
    **more: Any,  # noqa: ANN401
) -> Running:
    return asyncio.ensure_future(session.submit(kit.bench.submission(text, **more)))


async def hang(
    kit: Kit, session: AgentSession, stream: ScriptedStream, text: str = "first"
) -> Running:
    """Start a turn whose provider says nothing more, and wait until it is there."""
    running = begin(kit, session, text)
    await soon(stream.hanging.wait())
    stream.hangs = False
    return running


async def until_queued(running: Running) -> None:
    """Let a submission come as far as it gets without waiting for anybody."""
    ready = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(ready.set_result, None)
    await soon(ready)
    assert not running.done()


def test_a_submission_gives_the_messages_of_its_turn(kit: Kit) -> None:
    session = kit.bench.session(kit.stream([kit.say("hello")]))
    result = asyncio.run(session.submit(kit.bench.submission("hi")))
    assert (result.accepted, result.submission_id) == (True, "hi")
    assert [message_text(message) for message in result.messages] == ["hello"]


def test_reject_refuses_while_a_turn_runs_and_names_the_reason(kit: Kit) -> None:
    async def scenario() -> None:
        stream = kit.stream([], hangs=True)
        session = kit.bench.session(stream)
        running = await hang(kit, session, stream)
        refused = await soon(session.submit(kit.bench.submission("second")))
        assert refused == SubmissionResult(
            accepted=False, submission_id="second", rejection_reason=BUSY
        )
        session.abort()
        await soon(running)

    asyncio.run(scenario())
    assert kit.bench.kinds().count("user") == 1


def test_reject_refuses_between_a_turn_and_the_one_that_waits(kit: Kit) -> None:
    async def scenario() -> SubmissionResult:
        stream = kit.stream([[], kit.say("b")], hangs=True)
        session = kit.bench.session(stream)
        first = await hang(kit, session, stream)
        second = begin(kit, session, "second", multitask_strategy="enqueue")
        await until_queued(second)
        between: list[Running] = []

        def ask_again(**ignored: object) -> None:
            # This task runs as soon as the turn has let go of its lock.
            if not between:
                between.append(begin(kit, session, "third"))

        session.subscribe_channel("submission_end", ask_again)
        session.abort()
        await soon(asyncio.gather(first, second))
        return await soon(between[0])

    assert asyncio.run(scenario()).rejection_reason == BUSY


def test_enqueued_submissions_run_in_the_order_they_came(kit: Kit) -> None:
    async def scenario() -> list[str]:
        stream = kit.stream([kit.say(text) for text in "abc"])
        session = kit.bench.session(stream)
        turns = [
            begin(kit, session, text, multitask_strategy="enqueue")
            for text in ("1", "2", "3")
        ]
        await soon(asyncio.gather(*turns))
        return texts(session)

    assert asyncio.run(scenario()) == ["1", "a", "2", "b", "3", "c"]


def test_a_steering_message_joins_the_turn_before_its_next_completion(
    kit: Kit,
) -> None:
    async def scenario() -> tuple[SubmissionResult, ScriptedStream]:
        go_on = asyncio.Event()

        async def wait(params: JsonObject, ctx: ToolContext) -> object:
            return await go_on.wait()

        tool = kit.tool("t", wait)
        stream = kit.stream([kit.say("", kit.call("t")), kit.say("understood")])
        session = kit.bench.session(stream, tool)
        running = begin(kit, session, "first")
        await soon(tool.started.wait())
        steer = kit.bench.submission("rather this", multitask_strategy="steer")
        result = await soon(session.submit(steer))
        go_on.set()
        await soon(running)
        return result, stream

    result, stream = asyncio.run(scenario())
    assert result == SubmissionResult(accepted=True, submission_id="rather this")
    roles = [message["role"] for message in stream.requests[1]["messages"]]
    assert roles == ["user", "assistant", "toolResult", "user"]
    assert kit.bench.kinds()[-3:] == ["submission", "user", "assistant"]
    ends = [e.message for e in kit.bench.events if e.type == "message_end"]
    assert "rather this" in [message_text(m) for m in ends if m is not None]


def test_a_steering_message_keeps_its_own_provenance(kit: Kit) -> None:
    steered: list[Running] = []

    async def steer(event: AgentEvent) -> None:
        if event.type == "message_update" and not steered:
            late = begin(
                kit,
                session,
                "late",
                multitask_strategy="steer",
                source="rpc",
                submitter="editor",
            )
            steered.append(late)
            await asyncio.wait(steered)

    session = kit.bench.session(kit.stream([kit.say("a"), kit.say("b")]))
    session.subscribe(steer)
    asyncio.run(session.submit(kit.bench.submission("hi")))
    records = [
        entry["data"]
        for entry in kit.bench.log.entries()
        if entry["type"] == "customEntry" and entry["customType"] == "submission"
    ]
    facts = [(r["submission_id"], r["source"], r["submitter"]) for r in records]
    assert facts == [("hi", "interactive", "human"), ("late", "rpc", "editor")]


def test_steering_that_comes_with_the_last_answer_still_gets_one(kit: Kit) -> None:
    stream = kit.stream([kit.say("a"), kit.say("b")])
    session = kit.bench.session(stream)
    steered: list[Running] = []

    async def steer(event: AgentEvent) -> None:
        if event.type == "message_update" and not steered:
            steered.append(begin(kit, session, "and?", multitask_strategy="steer"))
            await asyncio.wait(steered)

    session.subscribe(steer)
    asyncio.run(session.submit(kit.bench.submission("hi")))
    assert texts(session) == ["hi", "a", "and?", "b"]


def test_what_waits_to_join_a_turn_is_dropped_by_its_abort(kit: Kit) -> None:
    async def scenario() -> list[str]:
        stream = kit.stream([[], kit.say("b")], hangs=True)
        session = kit.bench.session(stream)
        running = await hang(kit, session, stream)
        late = kit.bench.submission("joins", multitask_strategy="steer")
        await soon(session.submit(late))
        session.abort()
        await soon(running)
        await soon(session.submit(kit.bench.submission("next")))
        return texts(session)

    assert asyncio.run(scenario()) == ["first", "next", "b"]


def test_steering_that_its_turn_left_joins_the_next_one(kit: Kit) -> None:
    async def scenario() -> list[str]:
        stream = kit.stream([kit.say("", kit.call("t")), kit.say("b")])
        late = kit.bench.submission("left over", multitask_strategy="steer")

        async def give(params: JsonObject, ctx: ToolContext) -> object:
            return "ok"

        session = kit.bench.session(stream, kit.tool("t", give), max_turns=1)

        steered: list[Running] = []

        async def steer(event: AgentEvent) -> None:
            if event.type == "turn_end" and not steered:
                steered.append(asyncio.ensure_future(session.submit(late)))
                await asyncio.wait(steered)

        session.subscribe(steer)
        await soon(session.submit(kit.bench.submission("first")))
        await soon(session.submit(kit.bench.submission("second")))
        return texts(session)

    assert asyncio.run(scenario()) == ["first", "", "ok", "second", "left over", "b"]


def test_rollback_replaces_the_running_turn(kit: Kit) -> None:
    async def scenario() -> list[str]:
        partial = TextDeltaEvent(delta="half", partial=kit.answer("half"))
        stream = kit.stream([kit.say("kept"), [partial], kit.say("better")])
        session = kit.bench.session(stream)
        await soon(session.submit(kit.bench.submission("zero")))
        stream.hangs = True
        running = await hang(kit, session, stream, "wrong")
        instead = kit.bench.submission("right", multitask_strategy="rollback")
        result = await soon(session.submit(instead))
        assert result.accepted
        assert (await soon(running)).accepted
        return texts(session)

    assert asyncio.run(scenario()) == ["zero", "kept", "right", "better"]
    assert "half" in [
        message_text(entry["message"])
        for entry in kit.bench.log.entries()
        if entry["type"] == "message"
    ]


def test_rollback_of_the_very_first_turn_starts_a_new_root(kit: Kit) -> None:
    async def scenario() -> list[str]:
        stream = kit.stream([[], kit.say("b")], hangs=True)
        session = kit.bench.session(stream)
        running = await hang(kit, session, stream)
        instead = kit.bench.submission("right", multitask_strategy="rollback")
        assert (await soon(session.submit(instead))).accepted
        await soon(running)
        return texts(session)

    assert asyncio.run(scenario()) == ["right", "b"]


def test_rollback_without_a_running_turn_is_an_ordinary_turn(kit: Kit) -> None:
    stream = kit.stream([kit.say("a"), kit.say("b")])
    session = kit.bench.session(stream)
    asyncio.run(session.submit(kit.bench.submission("first")))
    second = kit.bench.submission("second", multitask_strategy="rollback")
    asyncio.run(session.submit(second))
    assert texts(session) == ["first", "a", "second", "b"]


def test_rollback_behind_another_turn_is_refused_and_keeps_that_turn(
    kit: Kit,
) -> None:
    async def scenario() -> tuple[SubmissionResult, list[str]]:
        stream = kit.stream([[], kit.say("b")], hangs=True)
        session = kit.bench.session(stream)
        first = await hang(kit, session, stream)
        second = begin(kit, session, "second", multitask_strategy="enqueue")
        await until_queued(second)
        instead = kit.bench.submission("instead", multitask_strategy="rollback")
        refused = await soon(session.submit(instead))
        await soon(asyncio.gather(first, second))
        return refused, texts(session)

    refused, kept = asyncio.run(scenario())
    assert not refused.accepted
    assert refused.rejection_reason is not None
    assert "followed by another" in refused.rejection_reason
    assert kept == ["first", "second", "b"]


def test_an_unknown_strategy_says_which_there_are(kit: Kit) -> None:
    session = kit.bench.session(kit.stream([kit.say("still there")]))
    odd = kit.bench.submission("odd", multitask_strategy="unheard-of")
    with pytest.raises(NotImplementedError, match="take one of reject, enqueue"):
        asyncio.run(session.submit(odd))
    assert asyncio.run(session.submit(kit.bench.submission("hi"))).accepted


def test_a_submission_from_within_its_turn_is_refused(kit: Kit) -> None:
    caught: list[str] = []

    async def submit(event: AgentEvent) -> None:
        if event.type == "turn_start":
            try:
                await session.submit(kit.bench.submission("inner"))
            except RuntimeError as error:
                caught.append(str(error))

    session = kit.bench.session(kit.stream([kit.say("a")]))
    session.subscribe(submit)
    asyncio.run(session.submit(kit.bench.submission("outer")))
    assert len(caught) == 1
    assert "within the running turn" in caught[0]


def test_a_tool_may_not_wait_for_its_own_session(kit: Kit) -> None:
    async def submit(params: JsonObject, ctx: ToolContext) -> object:
        inner = kit.bench.submission("inner", multitask_strategy="enqueue")
        return (await session.submit(inner)).accepted

    stream = kit.stream([kit.say("", kit.call("t"))])
    session = kit.bench.session(stream, kit.tool("t", submit))
    with pytest.raises(RuntimeError, match="within the running turn"):
        asyncio.run(session.submit(kit.bench.submission("outer")))


def test_a_submission_that_a_tool_starts_is_one_deeper(kit: Kit) -> None:
    async def scenario() -> Running:
        inner: list[Running] = []

        async def spawn(params: JsonObject, ctx: ToolContext) -> object:
            inner.append(begin(kit, session, "in", multitask_strategy="enqueue"))
            return "started"

        stream = kit.stream([kit.say("", kit.call("t")), kit.say("a"), kit.say("b")])
        session = kit.bench.session(stream, kit.tool("t", spawn))
        outer = kit.bench.submission("out", depth=depth)
        await soon(session.submit(outer))
        await asyncio.wait(inner)
        return inner[0]

    depth = MAX_SUBMISSION_DEPTH - 1
    assert asyncio.run(scenario()).result().accepted
    depth = MAX_SUBMISSION_DEPTH
    with pytest.raises(LimitError, match="keep causing"):
        asyncio.run(scenario()).result()


def test_a_declared_depth_over_the_limit_is_refused(kit: Kit) -> None:
    session = kit.bench.session(kit.stream([]))
    deep = kit.bench.submission("deep", depth=MAX_SUBMISSION_DEPTH + 1)
    with pytest.raises(LimitError, match="'deep' has depth 11, over 10"):
        asyncio.run(session.submit(deep))
    assert kit.bench.log.entries() == []


@pytest.mark.parametrize("allowed", [True, False])
def test_work_of_a_turn_knows_whether_it_may_ask(kit: Kit, allowed: bool) -> None:
    seen: list[bool] = []

    async def look(params: JsonObject, ctx: ToolContext) -> object:
        seen.append(user_input_permitted())
        return "ok"

    stream = kit.stream([kit.say("", kit.call("t")), kit.say("a")])
    session = kit.bench.session(stream, kit.tool("t", look))
    asyncio.run(session.submit(kit.bench.submission(allow_user_input=allowed)))
    assert seen == [allowed]
    assert user_input_permitted()


def test_a_session_of_a_running_loop_refuses_another_loop(kit: Kit) -> None:
    async def scenario() -> None:
        session = kit.bench.session(kit.stream([]))
        await session.emit_session_start()

        def from_another_loop() -> None:
            asyncio.run(session.submit(kit.bench.submission()))

        with pytest.raises(RuntimeError, match="use submit_threadsafe"):
            await asyncio.to_thread(from_another_loop)

    asyncio.run(scenario())


def test_a_session_outlives_the_loop_that_it_was_busy_on(kit: Kit) -> None:
    stream = kit.stream([kit.say(text) for text in "abcd"])
    session = kit.bench.session(stream)

    async def two(first: str, second: str) -> None:
        turns = [
            begin(kit, session, text, multitask_strategy="enqueue")
            for text in (first, second)
        ]
        await soon(asyncio.gather(*turns))

    asyncio.run(two("1", "2"))
    asyncio.run(two("3", "4"))
    assert texts(session) == ["1", "a", "2", "b", "3", "c", "4", "d"]


async def from_thread(give: Callable[[], Result]) -> Result:
    return await soon(asyncio.to_thread(give))


async def settled(future: Future) -> SubmissionResult:
    return await soon(asyncio.wrap_future(future))


def test_submissions_of_a_thread_are_taken_up_in_the_order_of_the_calls(
    kit: Kit,
) -> None:
    async def scenario() -> list[str]:
        session = kit.bench.session(kit.stream([kit.say(text) for text in "abc"]))
        await session.emit_session_start()
        submissions = [
            kit.bench.submission(text, multitask_strategy="enqueue") for text in "123"
        ]
        futures = await from_thread(
            lambda: [session.submit_threadsafe(sub) for sub in submissions]
        )
        results = [await settled(future) for future in futures]
        assert [result.submission_id for result in results] == ["1", "2", "3"]
        return texts(session)

    assert asyncio.run(scenario()) == ["1", "a", "2", "b", "3", "c"]


def test_a_future_cancelled_before_its_pick_up_keeps_the_turn_from_running(
    kit: Kit,
) -> None:
    async def scenario() -> list[str]:
        session = kit.bench.session(kit.stream([kit.say("a")]))
        await session.emit_session_start()
        cancelled: list[bool] = []

        def submit_and_cancel() -> None:
            future = session.submit_threadsafe(kit.bench.submission("never"))
            cancelled.append(future.cancel())

        thread = threading.Thread(target=submit_and_cancel)
        thread.start()
        # Holding the loop up is the point: nothing is picked up before the cancel.
        thread.join()
        assert cancelled == [True]
        await soon(session.submit(kit.bench.submission("hi")))
        return texts(session)

    assert asyncio.run(scenario()) == ["hi", "a"]


def test_cancelling_a_future_that_was_taken_up_changes_nothing(kit: Kit) -> None:
    async def scenario() -> None:
        stream = kit.stream([], hangs=True)
        session = kit.bench.session(stream)
        await session.emit_session_start()
        submission = kit.bench.submission("hi")
        future = await from_thread(lambda: session.submit_threadsafe(submission))
        await soon(stream.hanging.wait())
        assert not future.cancel()
        session.abort()
        assert (await settled(future)).accepted

    asyncio.run(scenario())


def test_a_thread_needs_a_live_loop_to_submit_to(kit: Kit) -> None:
    session = kit.bench.session(kit.stream([kit.say("a")]))
    with pytest.raises(RuntimeError, match="no running event loop"):
        session.submit_threadsafe(kit.bench.submission())
    asyncio.run(session.submit(kit.bench.submission()))
    with pytest.raises(RuntimeError, match="no running event loop"):
        session.submit_threadsafe(kit.bench.submission())


def test_the_sessions_own_loop_is_told_to_await_submit(kit: Kit) -> None:
    async def scenario() -> None:
        session = kit.bench.session(kit.stream([]))
        await session.emit_session_start()
        with pytest.raises(RuntimeError, match="await submit instead"):
            session.submit_threadsafe(kit.bench.submission())

    asyncio.run(scenario())


def test_an_id_that_is_in_flight_is_refused_and_free_again_after(kit: Kit) -> None:
    async def scenario() -> list[str]:
        stream = kit.stream([[], kit.say("b")], hangs=True)
        session = kit.bench.session(stream)
        await session.emit_session_start()
        twin = kit.bench.submission("twin", multitask_strategy="enqueue")
        first = await from_thread(lambda: session.submit_threadsafe(twin))
        await soon(stream.hanging.wait())
        stream.hangs = False
        second = await from_thread(lambda: session.submit_threadsafe(twin))
        with pytest.raises(RuntimeError, match="'twin' is in flight already"):
            await settled(second)
        session.abort()
        await settled(first)
        third = await from_thread(lambda: session.submit_threadsafe(twin))
        await settled(third)
        return texts(session)

    assert asyncio.run(scenario()) == ["twin", "twin", "b"]


def test_the_failure_of_a_turn_reaches_the_futures_holder(kit: Kit) -> None:
    async def scenario() -> None:
        session = kit.bench.session(kit.stream([]))
        await session.emit_session_start()
        odd = kit.bench.submission(multitask_strategy="unheard-of")
        future = await from_thread(lambda: session.submit_threadsafe(odd))
        with pytest.raises(NotImplementedError):
            await settled(future)

    asyncio.run(scenario())


def test_a_shutdown_ends_the_turn_and_keeps_what_it_said(kit: Kit) -> None:
    async def scenario() -> AgentSession:
        partial = TextDeltaEvent(delta="half", partial=kit.answer("half"))
        stream = kit.stream([[partial]], hangs=True)
        session = kit.bench.session(stream)
        running = await hang(kit, session, stream)
        await soon(session.emit_session_shutdown())
        assert not session.is_streaming
        await soon(running)
        return session

    assert texts(asyncio.run(scenario())) == ["first", "half"]


def test_a_shutdown_refuses_what_waits_for_a_turn(kit: Kit) -> None:
    async def scenario() -> SubmissionResult:
        stream = kit.stream([[], []], hangs=True)
        session = kit.bench.session(stream)
        running = begin(kit, session, "first")
        await soon(stream.hanging.wait())
        waiting = begin(kit, session, "second", multitask_strategy="enqueue")
        await until_queued(waiting)
        await soon(session.emit_session_shutdown())
        await soon(running)
        return await soon(waiting)

    refused = asyncio.run(scenario())
    assert not refused.accepted
    assert refused.rejection_reason is not None
    assert "shut down" in refused.rejection_reason
    assert kit.bench.kinds().count("user") == 1


def test_a_shutdown_refuses_a_rollback_of_the_turn_that_it_ends(kit: Kit) -> None:
    async def scenario() -> SubmissionResult:
        stream = kit.stream([], hangs=True)
        session = kit.bench.session(stream)
        running = await hang(kit, session, stream)
        instead = begin(kit, session, "instead", multitask_strategy="rollback")
        await until_queued(instead)
        await soon(session.emit_session_shutdown())
        await soon(running)
        return await soon(instead)

    refused = asyncio.run(scenario())
    assert not refused.accepted
    assert "navigate" not in kit.bench.kinds()


def test_a_session_takes_submissions_again_after_a_shutdown(kit: Kit) -> None:
    async def scenario() -> list[str]:
        session = kit.bench.session(kit.stream([kit.say("a")]))
        await session.emit_session_shutdown("new")
        await session.emit_session_start("new")
        await soon(session.submit(kit.bench.submission("hi")))
        return texts(session)

    assert asyncio.run(scenario()) == ["hi", "a"]


def test_a_shutdown_cancels_what_threads_submitted(kit: Kit) -> None:
    async def scenario() -> None:
        stream = kit.stream([], hangs=True)
        session = kit.bench.session(stream)
        await session.emit_session_start()
        futures = await from_thread(
            lambda: [
                session.submit_threadsafe(
                    kit.bench.submission(text, multitask_strategy="enqueue")
                )
                for text in ("first", "second")
            ]
        )
        await soon(stream.hanging.wait())
        await soon(session.emit_session_shutdown())
        for future in futures:
            with pytest.raises(concurrent.futures.CancelledError):
                future.result(timeout=5)

    asyncio.run(scenario())
    assert kit.bench.events[-1].end_reason == "aborted"


def test_a_tool_may_shut_its_session_down(kit: Kit) -> None:
    async def scenario() -> SubmissionResult:
        async def shut_down(params: JsonObject, ctx: ToolContext) -> object:
            await session.emit_session_shutdown()
            return "never told"

        stream = kit.stream([kit.say("", kit.call("t"))])
        session = kit.bench.session(stream, kit.tool("t", shut_down))
        return await soon(session.submit(kit.bench.submission()))

    result = asyncio.run(scenario())
    assert message_text(result.messages[-1]) == "Operation aborted"
