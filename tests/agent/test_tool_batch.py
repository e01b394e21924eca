from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import pytest

from tau_kernel.agent import LoopOutcome, run_agent_loop
from tau_kernel.errors import CallerError, ToolError
from tau_kernel.extensions import AgentToolResult, ToolContext
from tau_kernel.messages import (
    AbortSignal,
    AssistantBlock,
    JsonObject,
    JsonValue,
    message_text,
    user_message,
)
from tau_kernel.submissions import AgentEvent

if TYPE_CHECKING:
    from .conftest import FakeTool, Kit

PROMPT = [user_message("hi")]
#: Seconds that an abort may take, whatever the tool does.
BOUND = 0.5


async def give(params: JsonObject, ctx: ToolContext) -> object:
    return params.get("give", "ok")


async def wait_for_ever(params: JsonObject, ctx: ToolContext) -> object:
    return await asyncio.Event().wait()


def run(
    kit: Kit,
    *tools: FakeTool,
    calls: list[AssistantBlock],
    **more: Any,  # noqa: ANN401
) -> None:
    """Run one message with these calls, and an answer after them."""
    stream = kit.stream([kit.say("", *calls), kit.say("done")])
    work = run_agent_loop(
        PROMPT, kit.bench.spec(*tools, **more), kit.bench.ports(stream)
    )
    asyncio.run(asyncio.wait_for(work, 5))


async def until_started(
    kit: Kit, tool: FakeTool, *calls: AssistantBlock
) -> asyncio.Task[LoopOutcome]:
    stream = kit.stream([kit.say("", *calls)])
    work = asyncio.ensure_future(
        run_agent_loop(PROMPT, kit.bench.spec(tool), kit.bench.ports(stream))
    )
    await asyncio.wait_for(tool.started.wait(), 5)
    return work


async def abort_during(kit: Kit, tool: FakeTool, *calls: AssistantBlock) -> None:
    work = await until_started(kit, tool, *calls)
    kit.bench.signal.abort()
    outcome = await asyncio.wait_for(work, BOUND)
    assert outcome.end_reason == "aborted"


def answers(kit: Kit) -> list[tuple[str, str, bool]]:
    """Give id, text and failure of each stored result, in order."""
    return [
        (message["tool_call_id"], message_text(message), message["is_error"])
        for message in kit.bench.stored
        if message["role"] == "toolResult"
    ]


def moments(kit: Kit) -> list[tuple[str, str | None]]:
    """Give the starts and ends of calls in the order they were told."""
    return [
        (event.type.removeprefix("tool_execution_"), event.tool_call_id)
        for event in kit.bench.events
        if event.type in {"tool_execution_start", "tool_execution_end"}
    ]


def ends(kit: Kit) -> list[AgentEvent]:
    return [e for e in kit.bench.events if e.type == "tool_execution_end"]


def two_calls(kit: Kit) -> list[AssistantBlock]:
    return [kit.call("t", "a", n=1), kit.call("t", "b", n=2)]


def test_parallel_calls_run_at_once_and_are_answered_in_their_order(kit: Kit) -> None:
    second_ran = asyncio.Event()

    async def second_first(params: JsonObject, ctx: ToolContext) -> object:
        if params["n"] == 1:
            await second_ran.wait()
        else:
            second_ran.set()
        return f"{params['n']}"

    run(kit, kit.tool("t", second_first), calls=two_calls(kit))
    assert answers(kit) == [("a", "1", False), ("b", "2", False)]
    assert moments(kit) == [("start", "a"), ("start", "b"), ("end", "a"), ("end", "b")]


@pytest.mark.parametrize(
    ("of_the_session", "of_the_tool"),
    [("sequential", "parallel"), ("parallel", "sequential")],
)
def test_sequential_calls_run_one_after_another(
    kit: Kit,
    of_the_session: str,
    of_the_tool: Any,  # noqa: ANN401 - a literal
) -> None:
    at_work: list[JsonValue] = []

    async def alone(params: JsonObject, ctx: ToolContext) -> object:
        assert at_work == []
        at_work.append(params["n"])
        turn_of_others = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(turn_of_others.set_result, None)
        await turn_of_others
        at_work.clear()
        return "ok"

    tool = kit.tool("t", alone, execution_mode=of_the_tool)
    run(kit, tool, calls=two_calls(kit), tool_execution_mode=of_the_session)
    assert answers(kit) == [("a", "ok", False), ("b", "ok", False)]
    assert moments(kit) == [("start", "a"), ("end", "a"), ("start", "b"), ("end", "b")]


def test_one_sequential_tool_makes_the_whole_batch_sequential(kit: Kit) -> None:
    tools = (kit.tool("t", give), kit.tool("u", give, execution_mode="sequential"))
    run(kit, *tools, calls=[kit.call("t", "a"), kit.call("u", "b")])
    assert moments(kit) == [("start", "a"), ("end", "a"), ("start", "b"), ("end", "b")]


@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_a_tool_error_is_read_by_the_model_and_stops_nobody(
    kit: Kit, mode: str
) -> None:
    async def fail_first(params: JsonObject, ctx: ToolContext) -> object:
        if params["n"] == 1:
            msg = "no such file"
            raise ToolError(msg)
        return "ok"

    tool = kit.tool("t", fail_first)
    run(kit, tool, calls=two_calls(kit), tool_execution_mode=mode)
    assert answers(kit) == [("a", "no such file", True), ("b", "ok", False)]
    assert [event.is_error for event in ends(kit)] == [True, False]
    assert kit.bench.events[-1].end_reason == "done"


def test_a_bug_stops_the_calls_after_it_when_they_run_in_turn(kit: Kit) -> None:
    async def crash(params: JsonObject, ctx: ToolContext) -> object:
        raise ZeroDivisionError

    tool = kit.tool("t", crash, execution_mode="sequential")
    with pytest.raises(ZeroDivisionError):
        run(kit, tool, calls=two_calls(kit))
    assert answers(kit) == [
        ("a", "ZeroDivisionError: ", True),
        ("b", "Not run: the call of t before it failed", True),
    ]
    assert kit.bench.events[-1].end_reason == "error"


def test_of_two_bugs_the_first_is_raised(kit: Kit) -> None:
    async def crash(params: JsonObject, ctx: ToolContext) -> object:
        raise LookupError(params["n"])

    with pytest.raises(LookupError, match="1"):
        run(kit, kit.tool("t", crash), calls=two_calls(kit))
    assert [text for _, text, _ in answers(kit)] == ["LookupError: 1", "LookupError: 2"]


def test_an_unknown_tool_is_named_and_the_others_run(kit: Kit) -> None:
    calls = [kit.call("nope", "a"), kit.call("t", "b")]
    run(kit, kit.tool("t", give), calls=calls)
    assert answers(kit) == [("a", "Unknown tool: nope", True), ("b", "ok", False)]
    assert [event.blocked for event in ends(kit)] == [True, False]


def test_arguments_that_do_not_fit_are_refused_with_their_place(kit: Kit) -> None:
    schema = cast(
        "JsonObject",
        {
            "type": "object",
            "properties": {"lines": {"type": "array", "items": {"type": "integer"}}},
        },
    )
    tool = kit.tool("t", give, parameters=schema)
    run(kit, tool, calls=[kit.call("t", "a", lines=[1, "two"])])
    [(_, text, is_error)] = answers(kit)
    expected = """arguments['lines'][1]: "two" is not of type "integer\""""
    assert text == expected
    assert is_error
    assert ends(kit)[0].blocked
    assert not tool.started.is_set()


@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_a_broken_schema_is_a_bug_and_every_call_is_answered(
    kit: Kit, mode: str
) -> None:
    broken = kit.tool("t", give, parameters={"$ref": "#/nowhere"})
    calls = [kit.call("t", "a"), kit.call("u", "b")]
    with pytest.raises(Exception, match="nowhere"):
        run(kit, broken, kit.tool("u", give), calls=calls, tool_execution_mode=mode)
    [(call_id, _, is_error), _] = answers(kit)
    assert (call_id, is_error) == ("a", True)
    assert not broken.started.is_set()


def test_a_message_with_no_tools_at_hand_is_answered(kit: Kit) -> None:
    run(kit, calls=[kit.call("t", "a")])
    assert answers(kit) == [("a", "Unknown tool: t", True)]


def test_an_abort_keeps_the_answers_that_were_there(kit: Kit) -> None:
    async def first_only(params: JsonObject, ctx: ToolContext) -> object:
        if params["n"] == 1:
            return "first"
        kit.bench.signal.abort()
        return await wait_for_ever(params, ctx)

    tool = kit.tool("t", first_only, execution_mode="sequential")
    calls = [*two_calls(kit), kit.call("t", "c", n=3)]
    run(kit, tool, calls=calls)
    assert answers(kit) == [
        ("a", "first", False),
        ("b", "Operation aborted", True),
        ("c", "Operation aborted", True),
    ]
    assert kit.bench.events[-1].end_reason == "aborted"


def test_an_abort_gives_a_tool_the_time_to_clean_up(kit: Kit) -> None:
    cleaned: list[bool] = []

    async def tidy(params: JsonObject, ctx: ToolContext) -> object:
        try:
            return await asyncio.Event().wait()
        finally:
            cleaned.append(ctx.signal.is_aborted())

    asyncio.run(abort_during(kit, kit.tool("t", tidy), kit.call("t", "a")))
    assert cleaned == [True]
    assert answers(kit) == [("a", "Operation aborted", True)]


def test_an_abort_does_not_wait_for_a_tool_that_holds_on(kit: Kit) -> None:
    release = asyncio.Event()

    async def hold_on(params: JsonObject, ctx: ToolContext) -> object:
        while True:
            try:
                return await release.wait()
            except asyncio.CancelledError:
                continue

    async def scenario() -> None:
        await abort_during(kit, kit.tool("t", hold_on), *two_calls(kit))
        release.set()

    asyncio.run(scenario())
    assert [text for _, text, _ in answers(kit)] == ["Operation aborted"] * 2


@pytest.mark.parametrize("is_late", [False, True])
def test_a_tool_that_fails_when_aborted_is_reported(kit: Kit, is_late: bool) -> None:
    reports: asyncio.Queue[str] = asyncio.Queue()
    release = asyncio.Event()

    async def fail(params: JsonObject, ctx: ToolContext) -> object:
        try:
            await asyncio.Event().wait()
        finally:
            if is_late:
                await release.wait()
            raise ZeroDivisionError

    async def scenario() -> str:
        report_to(reports)
        await abort_during(kit, kit.tool("t", fail), kit.call("t", "a"))
        release.set()
        return await asyncio.wait_for(reports.get(), 5)

    assert asyncio.run(scenario()) == "an aborted tool failed: ZeroDivisionError()"
    assert answers(kit) == [("a", "Operation aborted", True)]


def report_to(reports: asyncio.Queue[str]) -> None:
    """Collect what the running loop is told of failures that nobody awaits."""

    def report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        reports.put_nowait(f"{context['message']}: {context['exception']!r}")

    asyncio.get_running_loop().set_exception_handler(report)


def test_a_tool_that_fails_when_its_run_is_cancelled_is_reported(kit: Kit) -> None:
    reports: asyncio.Queue[str] = asyncio.Queue()

    async def fail(params: JsonObject, ctx: ToolContext) -> object:
        try:
            return await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ZeroDivisionError from None

    async def scenario() -> str:
        report_to(reports)
        work = await until_started(kit, kit.tool("t", fail), kit.call("t", "a"))
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        return await asyncio.wait_for(reports.get(), 5)

    assert asyncio.run(scenario()) == "an aborted tool failed: ZeroDivisionError()"
    assert answers(kit) == [("a", "Operation aborted", True)]


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        ("plain", "plain"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "ab"),
        ({"content": "from a dict"}, "from a dict"),
        ({"rows": [1, None, True]}, '{"rows":[1,null,true]}'),
        ({"content": "x", "other": 1}, '{"content":"x","other":1}'),
        ([1, "two"], '[1,"two"]'),
        (7, "7"),
        (None, "null"),
        (AgentToolResult("made"), "made"),
        (AgentToolResult([{"type": "text", "text": "block"}]), "block"),
    ],
)
def test_what_a_tool_returns_is_brought_to_blocks(
    kit: Kit, returned: object, text: str
) -> None:
    async def give_it(params: JsonObject, ctx: ToolContext) -> object:
        return returned

    run(kit, kit.tool("t", give_it), calls=[kit.call("t", "a")])
    assert answers(kit) == [("a", text, False)]


def test_an_image_reaches_the_model_as_one(kit: Kit) -> None:
    image: JsonObject = {"type": "image", "data": "AA==", "mime_type": "image/png"}

    async def draw(params: JsonObject, ctx: ToolContext) -> object:
        return [image]

    run(kit, kit.tool("t", draw), calls=[kit.call("t", "a")])
    result = next(m for m in kit.bench.stored if m["role"] == "toolResult")
    assert cast("object", result["content"]) == [image]


def test_a_dict_may_say_error_details_and_termination(kit: Kit) -> None:
    async def end(params: JsonObject, ctx: ToolContext) -> object:
        return {"content": "x", "is_error": True, "details": [1], "terminate": True}

    run(kit, kit.tool("t", end), calls=[kit.call("t", "a")])
    assert answers(kit) == [("a", "x", True)]
    assert ends(kit)[0].details == [1]
    assert kit.bench.events[-1].end_reason == "terminate"


def test_parallel_calls_beside_one_that_ends_the_run_are_answered_too(
    kit: Kit,
) -> None:
    async def end_first(params: JsonObject, ctx: ToolContext) -> object:
        return AgentToolResult(f"{params['n']}", terminate=params["n"] == 1)

    run(kit, kit.tool("t", end_first), calls=two_calls(kit))
    assert answers(kit) == [("a", "1", False), ("b", "2", False)]
    assert kit.bench.events[-1].end_reason == "terminate"


def test_details_that_are_no_json_name_the_tool(kit: Kit) -> None:
    async def odd(params: JsonObject, ctx: ToolContext) -> object:
        return AgentToolResult("x", details=cast("JsonValue", {"at": object()}))

    with pytest.raises(CallerError, match=r"details of tool 't'\['at'\] is a object"):
        run(kit, kit.tool("t", odd), calls=[kit.call("t", "a")])


class Chatty:
    """Reports from a thread of its own, in an order that the thread fixes."""

    name = "t"
    description = "reports"
    execution_mode = "parallel"

    def __init__(self, *updates: JsonValue) -> None:
        self.parameters: JsonObject = {"type": "object"}
        self._updates = updates

    async def execute(
        self,
        tool_call_id: str,
        params: JsonObject,
        signal: AbortSignal,
        on_update: Callable[[JsonValue], None],
        ctx: ToolContext,
    ) -> AgentToolResult | JsonValue:
        def report() -> None:
            for update in self._updates:
                on_update(update)

        thread = threading.Thread(target=report)
        thread.start()
        await asyncio.to_thread(thread.join)
        return "done"


def test_updates_from_a_thread_arrive_in_order_and_before_the_end(kit: Kit) -> None:
    tool = Chatty("one", ["two"], None)
    stream = kit.stream([kit.say("", kit.call("t", "a")), kit.say("done")])
    spec = kit.bench.spec(cast("FakeTool", tool))
    asyncio.run(run_agent_loop(PROMPT, spec, kit.bench.ports(stream)))
    told = [
        (event.type, event.result)
        for event in kit.bench.events
        if event.type in {"tool_execution_update", "tool_execution_end"}
    ]
    assert told == [
        ("tool_execution_update", "one"),
        ("tool_execution_update", ["two"]),
        ("tool_execution_update", None),
        ("tool_execution_end", [{"type": "text", "text": "done"}]),
    ]


def test_an_update_that_is_no_json_is_refused_where_the_tool_gives_it(
    kit: Kit,
) -> None:
    tool = kit.tool("t", give, update=cast("JsonValue", {1, 2}))
    with pytest.raises(CallerError, match="update of tool 't' is a set"):
        run(kit, tool, calls=[kit.call("t", "a")])
    assert answers(kit)[0][2]


def test_a_tool_gets_its_call_its_signal_and_its_place(kit: Kit) -> None:
    seen: list[tuple[JsonObject, ToolContext]] = []

    async def look(params: JsonObject, ctx: ToolContext) -> object:
        seen.append((params, ctx))
        return "ok"

    stream = kit.stream([kit.say("", kit.call("t", "a", path="x")), kit.say("done")])
    session = kit.bench.session(stream, kit.tool("t", look))
    asyncio.run(session.submit(kit.bench.submission("sub")))
    [(params, ctx)] = seen
    assert params == {"path": "x"}
    assert (ctx.submission_id, f"{ctx.cwd}", ctx.signal.is_aborted()) == (
        "sub",
        "/",
        False,
    )
