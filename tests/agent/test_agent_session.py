from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from tau_kernel.agent import AgentSession, TurnSettings
from tau_kernel.errors import CallerError, ModelError
from tau_kernel.extensions import NotifyLevel, ToolContext
from tau_kernel.messages import (
    ImageBlock,
    JsonObject,
    Message,
    message_text,
    user_message,
)
from tau_kernel.models import ErrorEvent, Model, TextDeltaEvent
from tau_kernel.sessions import FileSession
from tau_kernel.submissions import AgentEvent, Submission, SubmissionResult

if TYPE_CHECKING:
    from .conftest import Kit, ScriptedStream

Result = TypeVar("Result")

OTHER = Model(id="n", name="n", api="echo", provider="q", context_window=99)
IMAGE: ImageBlock = {"type": "image", "data": "AA==", "mime_type": "image/png"}


async def soon(work: Awaitable[Result]) -> Result:
    """Wait for what should come at once, with a bound for a busy machine."""
    return await asyncio.wait_for(work, 5)


def texts(messages: Sequence[Message]) -> list[str]:
    return [message_text(message) for message in messages]


def ask(kit: Kit, session: AgentSession, text: str = "hi") -> SubmissionResult:
    return asyncio.run(session.submit(kit.bench.submission(text)))


def abort_from_here(session: AgentSession) -> None:
    session.abort()


def abort_from_a_thread(session: AgentSession) -> None:
    thread = threading.Thread(target=session.abort)
    thread.start()
    thread.join()


async def talk_until_silent(
    kit: Kit, session: AgentSession, stream: ScriptedStream
) -> asyncio.Task[SubmissionResult]:
    running = asyncio.ensure_future(session.submit(kit.bench.submission("first")))
    await soon(stream.hanging.wait())
    stream.hangs = False
    return running


def half(kit: Kit) -> TextDeltaEvent:
    return TextDeltaEvent(delta="half", partial=kit.answer("half"))


@pytest.mark.parametrize("abort", [abort_from_here, abort_from_a_thread])
def test_an_abort_keeps_what_was_said_and_the_next_turn_works(
    kit: Kit,
    abort: Any,  # noqa: ANN401 - either of the two above
) -> None:
    async def scenario() -> AgentSession:
        stream = kit.stream([[half(kit)], kit.say("whole")], hangs=True)
        session = kit.bench.session(stream)
        running = await talk_until_silent(kit, session, stream)
        assert (session.is_streaming, session.is_aborted) == (True, False)
        abort(session)
        assert session.is_aborted
        [kept] = (await soon(running)).messages
        assert kept["role"] == "assistant"
        assert kept["stop_reason"] == "aborted"
        assert (session.is_streaming, session.is_aborted) == (False, False)
        await soon(session.submit(kit.bench.submission("second")))
        return session

    session = asyncio.run(scenario())
    assert texts(session.messages) == ["first", "half", "second", "whole"]


def test_an_abort_ends_a_turn_whose_tool_waits_for_ever(kit: Kit) -> None:
    async def scenario() -> SubmissionResult:
        async def wait(params: JsonObject, ctx: ToolContext) -> object:
            return await asyncio.Event().wait()

        tool = kit.tool("t", wait)
        stream = kit.stream([kit.say("", kit.call("t"))])
        session = kit.bench.session(stream, tool)
        running = asyncio.ensure_future(session.submit(kit.bench.submission()))
        await soon(tool.started.wait())
        session.abort()
        return await asyncio.wait_for(running, 0.5)

    result = asyncio.run(scenario())
    assert texts(result.messages) == ["", "Operation aborted"]


def test_an_abort_without_a_turn_leaves_the_next_one_alone(kit: Kit) -> None:
    session = kit.bench.session(kit.stream([kit.say("a")]))
    session.abort()
    assert not session.is_aborted
    assert texts(ask(kit, session).messages) == ["a"]


def test_a_turn_that_nobody_waits_for_any_more_is_kept_as_aborted(kit: Kit) -> None:
    async def scenario() -> AgentSession:
        stream = kit.stream([[half(kit)], kit.say("whole")], hangs=True)
        session = kit.bench.session(stream)
        running = await talk_until_silent(kit, session, stream)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await soon(session.submit(kit.bench.submission("second")))
        return session

    session = asyncio.run(scenario())
    assert texts(session.messages) == ["first", "half", "second", "whole"]
    aborted = session.messages[1]
    assert aborted["role"] == "assistant"
    assert aborted["stop_reason"] == "aborted"


def test_a_prompt_is_a_persons_and_may_ask_back(kit: Kit) -> None:
    seen: list[Submission] = []

    def note(*, submission: Submission, **rest: object) -> None:
        seen.append(submission)

    session = kit.bench.session(kit.stream([kit.say("a")]))
    session.subscribe_channel("submission_start", note)
    answers = asyncio.run(session.prompt("hi", [IMAGE]))
    assert texts(answers) == ["a"]
    [made] = seen
    assert made == Submission(
        text="hi",
        source="interactive",
        submitter="human",
        submission_id=made.submission_id,
        images=[IMAGE],
        multitask_strategy="enqueue",
        expand_commands=True,
        allow_user_input=True,
    )
    [prompt, _] = session.messages
    assert prompt["content"] == [{"type": "text", "text": "hi"}, IMAGE]


def test_a_given_context_takes_the_place_of_the_sessions(kit: Kit) -> None:
    stream = kit.stream([kit.say("a"), kit.say("b")])
    session = kit.bench.session(stream)
    ask(kit, session, "forgotten")
    given = [user_message("given")]
    asyncio.run(session.prompt("hi", context=given))
    assert texts(stream.requests[1]["messages"]) == ["given", "hi"]
    assert texts(given) == ["given"]


def test_a_prompt_that_the_context_ends_with_is_asked_once(kit: Kit) -> None:
    stream = kit.stream([kit.say("a")])
    session = kit.bench.session(stream)
    asyncio.run(session.prompt("hi", context=[user_message("x"), user_message("hi")]))
    assert texts(stream.requests[0]["messages"]) == ["x", "hi"]


def test_continuing_asks_again_without_a_message_or_a_stamp(kit: Kit) -> None:
    stream = kit.stream([[ErrorEvent(message="overloaded")], kit.say("at last")])
    session = kit.bench.session(stream)
    with pytest.raises(ModelError):
        ask(kit, session)
    kit.bench.events.clear()
    added = asyncio.run(session.continue_conversation())
    assert texts(added) == ["at last"]
    assert texts(session.messages) == ["hi", "at last"]
    assert {event.submission_id for event in kit.bench.events} == {None}
    assert {event.correlation is None for event in kit.bench.events} == {True}


def test_continuing_is_refused_while_a_turn_runs(kit: Kit) -> None:
    async def scenario() -> None:
        stream = kit.stream([], hangs=True)
        session = kit.bench.session(stream)
        running = await talk_until_silent(kit, session, stream)
        with pytest.raises(RuntimeError, match="already in flight"):
            await session.continue_conversation()
        session.abort()
        await soon(running)

    asyncio.run(scenario())


def test_a_continued_conversation_can_be_aborted(kit: Kit) -> None:
    async def scenario() -> AgentSession:
        stream = kit.stream([kit.say("a"), [half(kit)]])
        session = kit.bench.session(stream)
        await soon(session.submit(kit.bench.submission()))
        stream.hangs = True
        running = asyncio.ensure_future(session.continue_conversation())
        await soon(stream.hanging.wait())
        assert session.is_streaming
        session.abort()
        await soon(running)
        return session

    session = asyncio.run(scenario())
    assert texts(session.messages) == ["hi", "a", "half"]
    assert not session.is_streaming


def test_messages_are_copies_and_empty_before_the_root(kit: Kit) -> None:
    session = kit.bench.session(kit.stream([kit.say("a")]))
    assert session.messages == []
    ask(kit, session)
    session.messages[0]["content"].clear()  # type: ignore[union-attr] # it is a list
    session.messages.clear()
    assert texts(session.messages) == ["hi", "a"]
    kit.bench.log.append_navigate(None)
    assert session.messages == []


def test_changing_a_result_leaves_the_log_alone(kit: Kit) -> None:
    session = kit.bench.session(kit.stream([kit.say("a")]))
    [answer] = ask(kit, session).messages
    answer["content"] = []
    assert texts(session.messages) == ["hi", "a"]


def test_every_event_of_a_turn_is_stamped_with_its_submission(kit: Kit) -> None:
    session = kit.bench.session(kit.stream([kit.say("a")]))
    submission = kit.bench.submission(
        source="bus", submitter="cron", correlation={"subject": "x"}
    )
    asyncio.run(session.submit(submission))
    stamps = [
        (e.submission_id, e.source, e.submitter, e.correlation)
        for e in kit.bench.events
    ]
    assert stamps == [("hi", "bus", "cron", {"subject": "x"})] * len(stamps)


def test_one_that_stopped_listening_hears_nothing(kit: Kit) -> None:
    heard: list[AgentEvent] = []
    session = kit.bench.session(kit.stream([kit.say("a")]))
    session.subscribe(heard.append)()
    ask(kit, session)
    assert heard == []


def test_a_listener_that_fails_does_not_harm_the_turn(
    kit: Kit, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(event: AgentEvent) -> None:
        msg = f"no {event.type}"
        raise LookupError(msg)

    session = kit.bench.session(kit.stream([kit.say("a")]))
    session.subscribe(fail)
    assert texts(ask(kit, session).messages) == ["a"]
    assert "LookupError: no agent_end" in capsys.readouterr().err


def test_start_and_end_of_a_submission_frame_its_events(kit: Kit) -> None:
    order: list[object] = []
    session = kit.bench.session(kit.stream([kit.say("a")]))

    def spend(event: AgentEvent) -> None:
        if event.type == "agent_end":
            session.record_side_usage({"input_tokens": 2, "total_tokens": 2})
        order.append(event.type)

    def start(*, submission: Submission, text: str, images: object) -> None:
        order.append(("start", submission.submission_id, text, images))

    def end(*, submission: Submission, side_usage: dict[str, int]) -> None:
        order.append(("end", submission.submission_id, side_usage["total_tokens"]))

    session.record_side_usage({"total_tokens": 40})
    session.subscribe(spend)
    session.subscribe_channel("submission_start", start)
    session.subscribe_channel("submission_end", end)
    ask(kit, session)
    assert order[0] == ("start", "hi", "hi", None)
    assert order[1] == "agent_start"
    assert order[-2:] == ["agent_end", ("end", "hi", 2)]
    assert session.side_usage["total_tokens"] == 42


def test_a_failed_submission_ends_on_its_channel_as_well(kit: Kit) -> None:
    ended: list[str] = []

    def end(*, submission: Submission, side_usage: dict[str, int]) -> None:
        ended.append(submission.submission_id)

    session = kit.bench.session(kit.stream([[ErrorEvent(message="down")]]))
    session.subscribe_channel("submission_end", end)
    with pytest.raises(ModelError, match="down"):
        ask(kit, session)
    assert ended == ["hi"]


def test_admission_is_told_once_and_before_anything_is_written(kit: Kit) -> None:
    told: list[int] = []

    def admitted() -> None:
        told.append(len(kit.bench.log.entries()))

    session = kit.bench.session(kit.stream([kit.say("a")]))
    work = session.submit(kit.bench.submission(), on_admitted=admitted)
    asyncio.run(work)
    assert told == [0]


def test_a_refused_submission_is_never_told_admitted(kit: Kit) -> None:
    async def scenario() -> list[str]:
        told: list[str] = []
        stream = kit.stream([], hangs=True)
        session = kit.bench.session(stream)
        running = await talk_until_silent(kit, session, stream)
        refused = kit.bench.submission("second")
        await session.submit(refused, on_admitted=lambda: told.append("second"))
        session.abort()
        await soon(running)
        return told

    assert asyncio.run(scenario()) == []


def test_the_model_is_told_by_id_provider_and_window(kit: Kit) -> None:
    session = kit.bench.session(kit.stream([]))
    assert session.get_model() == {
        "id": "m",
        "provider": "p",
        "context_window": 128_000,
    }


def test_a_model_is_set_by_name_from_the_next_turn_on(kit: Kit) -> None:
    stream = kit.stream([kit.say("a"), kit.say("b")])
    session = kit.bench.session(stream)
    session.set_model_resolver({"other": OTHER}.__getitem__)
    ask(kit, session, "1")
    told = session.set_model("other")
    assert told == {"id": "n", "provider": "q", "context_window": 99}
    ask(kit, session, "2")
    assert [model.id for model in stream.models] == ["m", "n"]
    kinds = kit.bench.kinds()
    assert [kind for kind in kinds if kind == "agent_spec"] == ["agent_spec"] * 2


def test_setting_the_model_that_is_in_use_records_nothing(kit: Kit) -> None:
    session = kit.bench.session(kit.stream([kit.say("a")]), model_resolver=same_model)
    ask(kit, session)
    session.set_model("m")
    assert kit.bench.kinds().count("agent_spec") == 1


def same_model(name: str) -> Model:
    return Model(id="m", name=name, api="echo", provider="p")


def test_an_unknown_model_leaves_the_one_in_use(kit: Kit) -> None:
    models: dict[str, Model] = {}
    session = kit.bench.session(kit.stream([]), model_resolver=models.__getitem__)
    with pytest.raises(KeyError):
        session.set_model("nobody")
    assert session.get_model()["id"] == "m"


def test_a_model_is_not_found_without_a_resolver(kit: Kit) -> None:
    session = kit.bench.session(kit.stream([]))
    with pytest.raises(RuntimeError, match="set_model_resolver first"):
        session.set_model("other")


def test_the_key_goes_to_the_provider_that_it_is_for_and_no_other(kit: Kit) -> None:
    stream = kit.stream([kit.say("a") for _ in range(4)])
    session = kit.bench.session(stream, api_key="secret")
    session.set_model_resolver({"other": OTHER, "same": same_model("m")}.__getitem__)
    ask(kit, session)
    other_once = TurnSettings(model=OTHER)
    asyncio.run(session.submit(kit.bench.submission(), settings=other_once))
    session.set_model("other")
    ask(kit, session)
    session.set_model("same")
    ask(kit, session)
    keys = [options.api_key for options in stream.options]
    assert keys == ["secret", None, None, "secret"]


def test_settings_hold_for_one_turn(kit: Kit) -> None:
    async def give(params: JsonObject, ctx: ToolContext) -> object:
        return "ok"

    stream = kit.stream([kit.say("a"), kit.say("b")])
    tools = (kit.tool("t", give), kit.tool("u", give))
    session = kit.bench.session(stream, *tools, system_prompt="be kind")
    once = TurnSettings(
        model=OTHER,
        system_prompt="be brief",
        tools=("u",),
        temperature=0.5,
        seed=7,
        max_tokens=10,
        reasoning="low",
    )
    asyncio.run(session.submit(kit.bench.submission("1"), settings=once))
    asyncio.run(session.submit(kit.bench.submission("2")))
    assert [model.id for model in stream.models] == ["n", "m"]
    prompts = [message_text(request["messages"][0]) for request in stream.requests]
    assert prompts == ["be brief", "be kind"]
    offered = [[tool["name"] for tool in r["tools"]] for r in stream.requests]
    assert offered == [["u"], ["t", "u"]]
    told = [(o.temperature, o.seed, o.max_tokens, o.reasoning) for o in stream.options]
    assert told == [(0.5, 7, 10, "low"), (None, None, None, None)]


def test_settings_with_an_unknown_tool_stop_the_turn_before_it_begins(
    kit: Kit,
) -> None:
    session = kit.bench.session(kit.stream([kit.say("a")]))
    odd = TurnSettings(tools=("hammer",))
    with pytest.raises(CallerError, match="no tool is named 'hammer'"):
        asyncio.run(session.submit(kit.bench.submission(), settings=odd))
    assert (kit.bench.events, kit.bench.log.entries()) == ([], [])
    assert ask(kit, session).accepted


def test_a_limit_of_turns_under_one_is_refused(kit: Kit) -> None:
    with pytest.raises(CallerError, match="max_turns is 0"):
        kit.bench.session(kit.stream([]), max_turns=0)
    with pytest.raises(CallerError, match="max_turns is 0"):
        TurnSettings(max_turns=0)


def test_usage_is_that_of_the_newest_completion_and_a_copy(kit: Kit) -> None:
    session = kit.bench.session(kit.stream([kit.say("a")]))
    assert session.get_usage() is None
    ask(kit, session)
    usage = session.get_usage()
    assert usage is not None
    assert usage["total_tokens"] == 7
    usage["extra"]["seen"] = True
    assert session.get_usage() != usage


def test_the_last_answer_is_given_as_text(kit: Kit) -> None:
    session = kit.bench.session(kit.stream([kit.say("  spaced \n")]))
    assert session.get_last_assistant_text() is None
    ask(kit, session)
    assert session.get_last_assistant_text() == "spaced"


def test_a_stored_session_keeps_its_name(kit: Kit, tmp_path: Path) -> None:
    log = FileSession.create(tmp_path, str(tmp_path), "m", "p")
    session = AgentSession(log, same_model("m"), stream=kit.stream([]))
    assert session.get_session_name() is None
    session.set_session_name("résumé")
    assert session.get_session_name() == "résumé"
    assert session.state.session_name == "résumé"
    assert session.is_addressable
    log.close()


def test_an_empty_name_is_refused(kit: Kit) -> None:
    session = kit.bench.session(kit.stream([]))
    with pytest.raises(CallerError, match="name '' is empty"):
        session.set_session_name("")


def test_a_session_in_memory_has_no_place_for_a_name(kit: Kit) -> None:
    session = kit.bench.session(kit.stream([]))
    with pytest.raises(RuntimeError, match="cannot keep a name"):
        session.get_session_name()
    with pytest.raises(RuntimeError, match="cannot keep a name"):
        session.set_session_name("x")
    assert not session.is_addressable


def test_the_state_names_log_cursor_and_agent(kit: Kit) -> None:
    session = kit.bench.session(kit.stream([kit.say("a")]), system_prompt="be kind")
    ask(kit, session)
    log, state = kit.bench.log, session.state
    assert list(state.entries) == log.entries()
    assert replace(state, entries=()) == type(state)(
        entries=(),
        session_path=log.id,
        active_entry_id=log.cursor,
        model="m",
        model_name="m",
        cwd="/",
        system_prompt="be kind",
        session_name=None,
    )


def test_a_turn_holds_the_lock_until_it_has_unwound(kit: Kit) -> None:
    async def scenario() -> list[bool]:
        stream = kit.stream([], hangs=True)
        session = kit.bench.session(stream)
        running = await talk_until_silent(kit, session, stream)
        held = [session.turn_lock.locked()]
        session.abort()
        held.append(session.turn_lock.locked())
        await soon(running)
        return [*held, session.turn_lock.locked()]

    assert asyncio.run(scenario()) == [True, True, False]


def test_a_failed_turn_gives_the_session_back(kit: Kit) -> None:
    stream = kit.stream([[half(kit), ErrorEvent(message="down")], kit.say("up")])
    session = kit.bench.session(stream)
    with pytest.raises(ModelError, match="down"):
        ask(kit, session, "1")
    failed = session.messages[-1]
    assert failed["role"] == "assistant"
    assert (failed["stop_reason"], failed["error_message"]) == ("error", "down")
    ask(kit, session, "2")
    assert texts(session.messages) == ["1", "half", "2", "up"]


def test_a_tool_asks_through_the_sessions_head_where_it_may(kit: Kit) -> None:
    async def ask_back(params: JsonObject, ctx: ToolContext) -> object:
        return await ctx.ui.input("Name?", "nobody")

    stream = kit.stream(
        [
            kit.say("", kit.call("t", "a")),
            kit.say("x"),
            kit.say("", kit.call("t", "b")),
            kit.say("y"),
        ]
    )
    session = kit.bench.session(stream, kit.tool("t", ask_back))
    session.set_ui_delegate(Clerk())
    session.set_headless_ui_defaults({"input": "default"})
    results = [
        asyncio.run(
            session.submit(kit.bench.submission(text, allow_user_input=allowed))
        )
        for text, allowed in [("1", True), ("2", False)]
    ]
    told = [message_text(result.messages[1]) for result in results]
    assert told == ["asked", "nobody"]


class Clerk:
    """A head that answers every dialog by itself."""

    def notify(self, message: str, level: NotifyLevel, source: str | None) -> None:
        """Keep it to itself."""

    async def confirm(self, title: str, message: str) -> bool:
        return True

    async def select(self, title: str, items: Sequence[str]) -> str | None:
        return items[0]

    async def input(self, title: str, default: str) -> str:
        return "asked"

    async def form(self, spec: JsonObject) -> JsonObject | None:
        return None


def test_lifecycle_events_name_session_and_reason(kit: Kit) -> None:
    heard: list[object] = []
    session = kit.bench.session(kit.stream([]))
    session.subscribe_channel("session_start", heard.append)
    session.subscribe_channel("session_shutdown", heard.append)

    async def scenario() -> None:
        await session.emit_session_start("resume")
        await session.emit_session_shutdown()

    asyncio.run(scenario())
    assert heard == [
        {"type": "session_start", "session": session, "reason": "resume"},
        {"type": "session_shutdown", "session": session, "reason": "quit"},
    ]
