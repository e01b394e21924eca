from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tau_kernel.agent import AgentSession, Limits, TurnSettings
from tau_kernel.errors import CallerError, LimitError
from tau_kernel.extensions import ToolContext
from tau_kernel.messages import AssistantBlock, JsonObject, message_text, zero_usage
from tau_kernel.models import DoneEvent, Model, StreamEvent

if TYPE_CHECKING:
    from .conftest import Kit, ScriptedStream

SERVICE = Model(id="s", name="service", api="openai-completions", provider="openai")


def spending(
    kit: Kit,
    tokens: int,
    *calls: AssistantBlock,
    cost: float | None = None,
) -> list[StreamEvent]:
    """Make a completion that writes so many tokens."""
    final = kit.answer("said", *calls)
    usage = zero_usage()
    usage["output_tokens"] = tokens
    usage["cost"] = {} if cost is None else {"total": cost}
    final["usage"] = usage
    return [DoneEvent(final=final, usage=usage)]


def busy(kit: Kit, script: list[list[StreamEvent]], **more: Any) -> AgentSession:  # noqa: ANN401
    async def work(arguments: JsonObject, context: ToolContext) -> str:
        del arguments, context
        return "worked"

    return kit.bench.session(kit.stream(script), kit.tool("work", work), **more)


def ask(kit: Kit, session: AgentSession, settings: TurnSettings | None = None) -> None:
    asyncio.run(session.submit(kit.bench.submission("hi"), settings=settings))


def test_a_turn_ends_where_it_has_written_enough_and_keeps_that(kit: Kit) -> None:
    session = busy(kit, [spending(kit, 60, kit.call("work")) for _ in range(5)])
    with pytest.raises(LimitError, match=r"120 tokens.*max_tokens=100") as caught:
        ask(kit, session, TurnSettings(max_tokens=100))
    assert (caught.value.limit, caught.value.scope) == ("max_tokens", "submission")
    assert [message["role"] for message in session.messages] == [
        "user",
        *("assistant", "toolResult") * 2,
    ]


def test_each_answer_may_have_what_the_turn_has_left(kit: Kit) -> None:
    stream = kit.stream([spending(kit, 60, kit.call("work")), spending(kit, 1)])
    session = _with_tool(kit, stream)
    ask(kit, session, TurnSettings(max_tokens=100))
    assert [options.max_tokens for options in stream.options] == [100, 40]


def test_without_a_limit_the_model_has_its_own(kit: Kit) -> None:
    stream = kit.stream([spending(kit, 60)])
    ask(kit, _with_tool(kit, stream))
    assert stream.options[0].max_tokens is None


def _with_tool(kit: Kit, stream: ScriptedStream) -> AgentSession:
    async def work(arguments: JsonObject, context: ToolContext) -> str:
        del arguments, context
        return "worked"

    return kit.bench.session(stream, kit.tool("work", work))


def test_a_turn_ends_where_it_has_cost_enough(kit: Kit) -> None:
    script = [spending(kit, 1, kit.call("work"), cost=0.3) for _ in range(5)]
    session = busy(kit, script)
    with pytest.raises(LimitError, match=r"0\.6000 US dollars.*max_cost=0\.5"):
        ask(kit, session, TurnSettings(max_cost=0.5, model=SERVICE))


def test_a_model_without_a_price_cannot_run_on_under_a_limit_of_cost(kit: Kit) -> None:
    session = busy(kit, [spending(kit, 1, kit.call("work")) for _ in range(2)])
    with pytest.raises(LimitError, match="'service' tells no price"):
        ask(kit, session, TurnSettings(max_cost=0.5, model=SERVICE))


def test_a_model_of_this_machine_costs_nothing(kit: Kit) -> None:
    session = busy(kit, [spending(kit, 1, kit.call("work")), spending(kit, 1)])
    ask(kit, session, TurnSettings(max_cost=0.5))
    assert message_text(session.messages[-1]) == "said"


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (Limits(max_tokens=100), "max_tokens=100"),
        (Limits(max_turns=2), "2 completions"),
    ],
)
def test_a_session_is_held_to_its_limits_over_all_its_turns(
    kit: Kit, limits: Limits, words: str
) -> None:
    session = busy(kit, [spending(kit, 60) for _ in range(5)], limits=limits)
    ask(kit, session)
    ask(kit, session)
    with pytest.raises(LimitError, match=words) as caught:
        ask(kit, session)
    assert caught.value.scope == "session"


def test_what_a_stored_session_spent_before_counts(kit: Kit) -> None:
    ask(kit, busy(kit, [spending(kit, 60), spending(kit, 60)]))
    again = busy(kit, [spending(kit, 1)], limits=Limits(max_tokens=50))
    with pytest.raises(LimitError, match="60 tokens"):
        ask(kit, again)


@pytest.mark.parametrize(
    "wrong", [{"max_turns": 0}, {"max_tokens": 0}, {"max_cost": 0}, {"max_cost": -1}]
)
def test_a_limit_that_lets_nothing_through_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(CallerError, match=next(iter(wrong))):
        Limits(**wrong)
    with pytest.raises(CallerError):
        TurnSettings(**wrong)


def test_side_work_counts_for_the_session(kit: Kit) -> None:
    session = AgentSession(
        kit.bench.log,
        kit.bench.spec().model,
        stream=kit.stream([spending(kit, 1)]),
        cwd=Path("/"),
        limits=Limits(max_tokens=50),
    )
    session.record_side_usage({"output_tokens": 80})
    with pytest.raises(LimitError, match="80 tokens"):
        ask(kit, session)
