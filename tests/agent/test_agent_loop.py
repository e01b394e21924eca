from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tau_kernel.agent import run_agent_loop
from tau_kernel.errors import CallerError, ModelError, ToolError
from tau_kernel.extensions import AgentToolResult, ToolContext
from tau_kernel.messages import JsonObject, message_text, user_message, zero_usage
from tau_kernel.models import DoneEvent, ErrorEvent, TextDeltaEvent

if TYPE_CHECKING:
    from .conftest import Kit

PROMPT = [user_message("hi")]


async def give(params: JsonObject, ctx: ToolContext) -> object:
    return params.get("give", "ok")


async def wait_for_ever(params: JsonObject, ctx: ToolContext) -> object:
    return await asyncio.Event().wait()


async def fail(params: JsonObject, ctx: ToolContext) -> object:
    msg = "no such file"
    raise ToolError(msg)


async def crash(params: JsonObject, ctx: ToolContext) -> object:
    nothing: dict[str, object] = {}
    return nothing["missing"]


async def abort_within_50_ms(kit: Kit, work: asyncio.Task[object]) -> object:
    kit.bench.signal.abort()
    return await asyncio.wait_for(work, 0.05)


def test_an_answer_without_calls_is_stored_before_its_end_is_told(kit: Kit) -> None:
    stream = kit.stream([kit.say("hello")])
    spec = kit.bench.spec(system_prompt="be kind")
    outcome = asyncio.run(run_agent_loop(PROMPT, spec, kit.bench.ports(stream)))
    assert outcome.end_reason == "done"
    assert kit.bench.types() == [
        "agent_start",
        "turn_start",
        "message_start",
        "message_update",
        "message_end",
        "turn_end",
        "agent_end",
    ]
    assert kit.bench.events[4].entry_id == "e1"
    assert kit.bench.events[3].delta == {"kind": "text", "text": "hello"}
    assert [m["role"] for m in stream.requests[0]["messages"]] == ["system", "user"]


def test_an_empty_context_gets_the_system_prompt_alone(kit: Kit) -> None:
    stream = kit.stream([kit.say("x")])
    spec = kit.bench.spec(system_prompt="be kind")
    asyncio.run(run_agent_loop([], spec, kit.bench.ports(stream)))
    assert [m["role"] for m in stream.requests[0]["messages"]] == ["system"]


@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_calls_are_answered_in_their_order_in_either_mode(kit: Kit, mode: str) -> None:
    calls = [kit.call("t", "a", give="1"), kit.call("t", "b", give="2")]
    stream = kit.stream([kit.say("", *calls), kit.say("done")])
    spec = kit.bench.spec(kit.tool("t", give), tool_execution_mode=mode)
    outcome = asyncio.run(run_agent_loop(PROMPT, spec, kit.bench.ports(stream)))
    roles = [message["role"] for message in outcome.messages]
    assert roles == ["assistant", "toolResult", "toolResult", "assistant"]
    assert [message_text(m) for m in outcome.messages[1:3]] == ["1", "2"]
    ends = [e for e in kit.bench.events if e.type == "tool_execution_end"]
    assert [(e.tool_call_id, e.entry_id) for e in ends] == [("a", "e2"), ("b", "e3")]


def test_details_reach_the_event_in_sequence_too(kit: Kit) -> None:
    async def detailed(params: JsonObject, ctx: ToolContext) -> object:
        return AgentToolResult("x", details={"lines": 3})

    tool = kit.tool("t", detailed, execution_mode="sequential")
    stream = kit.stream([kit.say("", kit.call("t")), kit.say("done")])
    spec = kit.bench.spec(tool)
    asyncio.run(run_agent_loop(PROMPT, spec, kit.bench.ports(stream)))
    end = next(e for e in kit.bench.events if e.type == "tool_execution_end")
    assert end.details == {"lines": 3}


def test_a_call_after_one_that_ends_the_run_is_still_answered(kit: Kit) -> None:
    async def stop(params: JsonObject, ctx: ToolContext) -> object:
        return AgentToolResult("bye", terminate=True)

    tool = kit.tool("t", stop, execution_mode="sequential")
    stream = kit.stream([kit.say("", kit.call("t", "a"), kit.call("t", "b"))])
    spec = kit.bench.spec(tool)
    outcome = asyncio.run(run_agent_loop(PROMPT, spec, kit.bench.ports(stream)))
    assert outcome.end_reason == "terminate"
    last = outcome.messages[-1]
    assert last["role"] == "toolResult"
    assert (last["tool_call_id"], last["is_error"]) == ("b", True)


def test_a_tool_error_goes_back_to_the_model(kit: Kit) -> None:
    stream = kit.stream([kit.say("", kit.call("t")), kit.say("sorry")])
    spec = kit.bench.spec(kit.tool("t", fail))
    outcome = asyncio.run(run_agent_loop(PROMPT, spec, kit.bench.ports(stream)))
    assert outcome.end_reason == "done"
    assert message_text(outcome.messages[1]) == "no such file"


def test_an_unknown_tool_and_unfit_arguments_are_refused(kit: Kit) -> None:
    schema: JsonObject = {"type": "object", "required": ["path"]}
    calls = [kit.call("nope", "a"), kit.call("t", "b")]
    stream = kit.stream([kit.say("", *calls), kit.say("sorry")])
    spec = kit.bench.spec(kit.tool("t", give, parameters=schema))
    outcome = asyncio.run(run_agent_loop(PROMPT, spec, kit.bench.ports(stream)))
    assert message_text(outcome.messages[1]) == "Unknown tool: nope"
    assert '"path" is a required property' in message_text(outcome.messages[2])
    ends = [e for e in kit.bench.events if e.type == "tool_execution_end"]
    assert [e.blocked for e in ends] == [True, True]


def test_a_bug_in_a_tool_ends_the_run_after_every_call_is_answered(kit: Kit) -> None:
    tools = (kit.tool("t", crash), kit.tool("u", give))
    stream = kit.stream([kit.say("", kit.call("t", "a"), kit.call("u", "b"))])
    spec = kit.bench.spec(*tools)
    with pytest.raises(KeyError):
        asyncio.run(run_agent_loop(PROMPT, spec, kit.bench.ports(stream)))
    assert [m["role"] for m in kit.bench.stored] == [
        "assistant",
        "toolResult",
        "toolResult",
    ]
    end = kit.bench.events[-1]
    assert (end.type, end.end_reason, end.error) == (
        "agent_end",
        "error",
        "KeyError: 'missing'",
    )


def test_a_result_that_is_no_json_names_tool_and_type(kit: Kit) -> None:
    async def weird(params: JsonObject, ctx: ToolContext) -> object:
        return {"value": {1, 2}}

    stream = kit.stream([kit.say("", kit.call("t"))])
    spec = kit.bench.spec(kit.tool("t", weird))
    with pytest.raises(CallerError, match=r"tool 't'.*is a set"):
        asyncio.run(run_agent_loop(PROMPT, spec, kit.bench.ports(stream)))
    assert kit.bench.stored[-1]["role"] == "toolResult"


def test_updates_of_a_tool_come_before_its_end(kit: Kit) -> None:
    tool = kit.tool("t", give, update="half")
    stream = kit.stream([kit.say("", kit.call("t")), kit.say("done")])
    spec = kit.bench.spec(tool)
    asyncio.run(run_agent_loop(PROMPT, spec, kit.bench.ports(stream)))
    types = kit.bench.types()
    assert types.index("tool_execution_update") < types.index("tool_execution_end")


def test_three_identical_failing_batches_end_the_run(kit: Kit) -> None:
    stream = kit.stream([kit.say("", kit.call("t", str(n))) for n in range(5)])
    spec = kit.bench.spec(kit.tool("t", fail))
    outcome = asyncio.run(run_agent_loop(PROMPT, spec, kit.bench.ports(stream)))
    assert outcome.end_reason == "repeat_tool_calls"
    assert len(stream.requests) == 3


def test_the_limit_of_turns_counts_completions(kit: Kit) -> None:
    stream = kit.stream([kit.say("", kit.call("t", str(n))) for n in range(5)])
    spec = kit.bench.spec(kit.tool("t", give), max_turns=2)
    outcome = asyncio.run(run_agent_loop(PROMPT, spec, kit.bench.ports(stream)))
    assert outcome.end_reason == "max_turns"
    assert len(stream.requests) == 2


def test_calls_of_a_message_cut_off_at_the_limit_are_not_run(kit: Kit) -> None:
    tool = kit.tool("t", crash)
    cut = kit.say("", kit.call("t"))
    final = kit.answer("", kit.call("t"), stop_reason="length")
    cut[-1] = DoneEvent(final=final, usage=final["usage"] or zero_usage())
    stream = kit.stream([cut, kit.say("again")])
    spec = kit.bench.spec(tool)
    outcome = asyncio.run(run_agent_loop(PROMPT, spec, kit.bench.ports(stream)))
    assert "cut off" in message_text(outcome.messages[1])
    assert not tool.started.is_set()


def test_a_stream_without_an_end_is_an_error_that_keeps_what_came(kit: Kit) -> None:
    partial = TextDeltaEvent(delta="half", partial=kit.answer("half"))
    stream = kit.stream([[partial]])
    with pytest.raises(ModelError, match="without a final message"):
        asyncio.run(run_agent_loop(PROMPT, kit.bench.spec(), kit.bench.ports(stream)))
    [kept] = kit.bench.stored
    assert kept["role"] == "assistant"
    assert (kept["stop_reason"], message_text(kept)) == ("error", "half")


def test_a_provider_error_carries_its_words_and_hints(kit: Kit) -> None:
    stream = kit.stream([[ErrorEvent(message="slow down", retry_after=2.0)]])
    with pytest.raises(ModelError, match="slow down") as caught:
        asyncio.run(run_agent_loop(PROMPT, kit.bench.spec(), kit.bench.ports(stream)))
    assert caught.value.retry_after == 2.0
    assert kit.bench.stored == []


def test_an_abort_while_the_provider_is_silent_keeps_nothing(kit: Kit) -> None:
    async def scenario() -> None:
        stream = kit.stream([], hangs=True)
        work: asyncio.Task[object] = asyncio.ensure_future(
            run_agent_loop(PROMPT, kit.bench.spec(), kit.bench.ports(stream))
        )
        await asyncio.wait_for(stream.hanging.wait(), 5)
        await abort_within_50_ms(kit, work)

    asyncio.run(scenario())
    assert kit.bench.events[-1].end_reason == "aborted"
    assert kit.bench.stored == []


def test_an_abort_while_streaming_keeps_the_text_and_drops_its_calls(kit: Kit) -> None:
    partial = kit.answer("half", kit.call("t"))
    event = TextDeltaEvent(delta="half", partial=partial)

    async def scenario() -> None:
        stream = kit.stream([[event]], hangs=True)
        work: asyncio.Task[object] = asyncio.ensure_future(
            run_agent_loop(PROMPT, kit.bench.spec(), kit.bench.ports(stream))
        )
        await asyncio.wait_for(stream.hanging.wait(), 5)
        await abort_within_50_ms(kit, work)

    asyncio.run(scenario())
    [kept] = kit.bench.stored
    assert kept["role"] == "assistant"
    assert kept["stop_reason"] == "aborted"
    assert kept["content"] == [{"type": "text", "text": "half"}]


@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_an_abort_while_a_tool_runs_answers_every_call(kit: Kit, mode: str) -> None:
    async def scenario() -> None:
        tool = kit.tool("t", wait_for_ever)
        calls = [kit.call("t", "a"), kit.call("t", "b")]
        stream = kit.stream([kit.say("", *calls)])
        spec = kit.bench.spec(tool, tool_execution_mode=mode)
        work: asyncio.Task[object] = asyncio.ensure_future(
            run_agent_loop(PROMPT, spec, kit.bench.ports(stream))
        )
        await asyncio.wait_for(tool.started.wait(), 5)
        await abort_within_50_ms(kit, work)

    asyncio.run(scenario())
    results = kit.bench.stored[1:]
    assert [message_text(m) for m in results] == ["Operation aborted"] * 2
    assert kit.bench.events[-1].end_reason == "aborted"


def test_a_tool_that_ignores_its_cancellation_does_not_hold_the_abort(
    kit: Kit,
) -> None:
    released = asyncio.Event()

    async def stubborn(params: JsonObject, ctx: ToolContext) -> object:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    async def scenario() -> None:
        tool = kit.tool("t", stubborn)
        stream = kit.stream([kit.say("", kit.call("t"))])
        work: asyncio.Task[object] = asyncio.ensure_future(
            run_agent_loop(PROMPT, kit.bench.spec(tool), kit.bench.ports(stream))
        )
        await asyncio.wait_for(tool.started.wait(), 5)
        await abort_within_50_ms(kit, work)
        released.set()

    asyncio.run(scenario())
    assert message_text(kit.bench.stored[-1]) == "Operation aborted"


def test_a_cancelled_run_leaves_its_calls_answered(kit: Kit) -> None:
    async def scenario() -> None:
        tool = kit.tool("t", wait_for_ever)
        stream = kit.stream([kit.say("", kit.call("t"))])
        work = asyncio.ensure_future(
            run_agent_loop(PROMPT, kit.bench.spec(tool), kit.bench.ports(stream))
        )
        await asyncio.wait_for(tool.started.wait(), 5)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    asyncio.run(scenario())
    assert message_text(kit.bench.stored[-1]) == "Operation aborted"
    assert kit.bench.events[-1].end_reason == "aborted"
