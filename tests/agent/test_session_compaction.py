"""Compaction as a session does it: at the end of turns, and when it is asked to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from tau_kernel.agent import (
    AgentSession,
    CompactionError,
    CompactionPolicy,
    CompactionResult,
    CompactionSettings,
)
from tau_kernel.errors import CallerError
from tau_kernel.messages import JsonObject, message_text, zero_usage
from tau_kernel.models import DoneEvent, Model, StreamEvent
from tau_kernel.tree import ConversationTree

if TYPE_CHECKING:
    from .conftest import Kit

Result = TypeVar("Result")
SMALL = CompactionSettings(reserve_tokens=1000, keep_recent_tokens=20)
LONG = "word " * 2500


async def soon(work: Awaitable[Result]) -> Result:
    """Wait for what should come at once, with a bound for a busy machine."""
    return await asyncio.wait_for(work, 10)


def scripted(tmp_path: Path, *lines: str) -> Model:
    """Give a model that summarises with these words, one completion a line."""
    file = tmp_path / "summaries.jsonl"
    file.write_text("".join(f'{{"text": "{line}"}}\n' for line in lines))
    return Model(
        id="s",
        name="s",
        api="scripted",
        provider="scripted",
        source=str(file),
        context_window=4000,
    )


def counted(kit: Kit, text: str) -> list[StreamEvent]:
    """Make an answer whose usage tells how long it is."""
    final = kit.answer(text)
    usage = zero_usage()
    usage["total_tokens"] = len(text) // 4
    final["usage"] = usage
    return [DoneEvent(final=final, usage=usage)]


def session_of(
    kit: Kit,
    model: Model,
    *answers: str,
    **more: Any,  # noqa: ANN401
) -> AgentSession:
    session = AgentSession(
        kit.bench.log,
        model,
        stream=kit.stream([counted(kit, answer) for answer in answers]),
        cwd=Path("/"),
        **more,
    )
    session.subscribe(kit.bench.events.append)
    return session


def texts(session: AgentSession) -> list[str]:
    return [message_text(message) for message in session.messages]


async def ask(kit: Kit, session: AgentSession, *prompts: str) -> None:
    for prompt in prompts:
        await soon(session.submit(kit.bench.submission(prompt)))


def test_a_full_context_is_compacted_at_the_end_of_a_turn(
    kit: Kit, tmp_path: Path
) -> None:
    model = scripted(tmp_path, *["what was said"] * 2)
    session = session_of(kit, model, "one", LONG, "three", compaction_settings=SMALL)
    told: list[CompactionResult] = []
    session.subscribe_channel(
        "compaction", lambda **facts: told.append(facts["result"])
    )
    asyncio.run(ask(kit, session, "first", "second", "third"))
    (result,) = told
    assert result.summary.startswith("what was said")
    assert texts(session)[0] == f"[[Compaction summary: {result.summary}]]"
    assert "first" not in texts(session)
    last = session.get_last_compaction()
    assert last is not None
    assert last.summary == result.summary


def test_what_a_summary_cost_is_side_usage_of_the_turn_that_it_followed(
    kit: Kit, tmp_path: Path
) -> None:
    session = session_of(kit, scripted(tmp_path, "s"), LONG, compaction_settings=SMALL)
    spent: list[dict[str, int]] = []
    session.subscribe_channel(
        "submission_end", lambda **facts: spent.append(facts["side_usage"])
    )
    asyncio.run(ask(kit, session, "first"))
    assert spent[0]["total_tokens"] > 0
    assert session.side_usage == spent[0]


def test_compaction_that_is_turned_off_leaves_a_full_context(
    kit: Kit, tmp_path: Path
) -> None:
    session = session_of(kit, scripted(tmp_path, "s"), LONG, compaction_settings=SMALL)
    assert session.set_auto_compaction(False) is False
    asyncio.run(ask(kit, session, "first"))
    assert session.get_last_compaction() is None
    assert session.get_session_stats().compaction_settings.enabled is False
    assert session.set_auto_compaction(True) is True


def test_one_session_switches_compaction_for_itself_alone(
    kit: Kit, tmp_path: Path
) -> None:
    model = scripted(tmp_path, "s")
    first, second = session_of(kit, model), session_of(kit, model)
    first.set_auto_compaction(False)
    assert second.get_session_stats().compaction_settings.enabled


def test_a_conversation_is_compacted_when_it_is_asked_for(
    kit: Kit, tmp_path: Path
) -> None:
    session = session_of(
        kit, scripted(tmp_path, "in short"), "one", "two", compaction_settings=SMALL
    )

    async def scenario() -> CompactionResult | None:
        await ask(kit, session, "first", "second " * 40)
        return await soon(session.compact("mind the names"))

    session_result = asyncio.run(scenario())
    assert session_result is not None
    assert session_result.summary == "in short"
    assert texts(session)[0] == "[[Compaction summary: in short]]"


def test_an_empty_conversation_has_nothing_to_compact(kit: Kit, tmp_path: Path) -> None:
    session = session_of(kit, scripted(tmp_path, "s"))
    assert asyncio.run(session.compact()) is None
    assert kit.bench.events == []


def test_a_summary_that_fails_leaves_the_log_as_it_was(
    kit: Kit, tmp_path: Path
) -> None:
    session = session_of(
        kit, scripted(tmp_path, ""), "one", "two", compaction_settings=SMALL
    )

    async def scenario() -> int:
        await ask(kit, session, "first", "second " * 40)
        entries = len(session.session_log.entries())
        with pytest.raises(CompactionError):
            await soon(session.compact())
        return entries

    assert asyncio.run(scenario()) == len(session.session_log.entries())
    assert kit.bench.events[-1].is_error


def test_a_tool_may_not_compact_the_conversation_of_its_own_turn(
    kit: Kit, tmp_path: Path
) -> None:
    refused: list[RuntimeError] = []

    async def compacts(arguments: JsonObject, context: object) -> str:
        del arguments, context
        try:
            await session.compact()
        except RuntimeError as error:
            refused.append(error)
        return "done"

    session = AgentSession(
        kit.bench.log,
        scripted(tmp_path, "s"),
        tools=[kit.tool("compacts", compacts)],
        stream=kit.stream([kit.say("", kit.call("compacts")), kit.say("end")]),
        cwd=Path("/"),
    )
    asyncio.run(ask(kit, session, "go"))
    assert "from within the running turn" in str(refused[0])


def test_a_left_branch_is_summarised_where_it_hung(kit: Kit, tmp_path: Path) -> None:
    session = session_of(kit, scripted(tmp_path, "tried in vain"), "one", "two")

    async def scenario() -> list[str]:
        await ask(kit, session, "first")
        start = session.session_log.cursor
        assert start is not None
        await ask(kit, session, "second")
        context = await soon(session.summarize_and_navigate(start))
        return [message_text(message) for message in context]

    context = asyncio.run(scenario())
    assert context == ["first", "one", "[[Branch summary: tried in vain]]"]
    assert session.side_usage["total_tokens"] > 0


def test_settings_and_a_policy_together_are_refused(kit: Kit, tmp_path: Path) -> None:
    with pytest.raises(CallerError, match="both"):
        session_of(
            kit,
            scripted(tmp_path, "s"),
            compaction_settings=SMALL,
            compaction_policy=CompactionPolicy.disabled(max_turns=1),
        )


def test_the_accounts_of_a_session_say_what_its_window_has_left(
    kit: Kit, tmp_path: Path
) -> None:
    session = session_of(kit, scripted(tmp_path, "s"), "one")
    asyncio.run(ask(kit, session, "first"))
    stats = session.get_session_stats()
    assert stats.context_window == 4000
    assert stats.context_headroom == 4000 - stats.context.tokens
    assert stats.last_compaction is None
    assert stats.usage == session.get_usage()


def test_a_list_of_a_heads_own_is_compacted_beside_the_log(
    kit: Kit, tmp_path: Path
) -> None:
    session = session_of(kit, scripted(tmp_path, "in short"), "one", "two")

    async def scenario() -> list[str]:
        await ask(kit, session, "first", "second")
        shorter = await soon(session.compact_messages(session.messages))
        assert shorter is not None
        return [message_text(message) for message in shorter]

    assert asyncio.run(scenario()) == [
        "[[Compaction summary: in short]]",
        "second",
        "two",
    ]
    assert session.get_last_compaction() is None


def test_a_mutation_is_stamped_with_the_cursor_that_it_declares(
    kit: Kit, tmp_path: Path
) -> None:
    session = session_of(kit, scripted(tmp_path, "s"), "one")
    asyncio.run(ask(kit, session, "first"))
    done = session.performed("set_model", {"model": {"id": "m"}}, flow="model")
    assert done.cursor == session.session_log.cursor
    with pytest.raises(ValueError, match="read"):
        session.performed("get_state", {})


def test_a_command_is_told_from_prose_before_anything_runs(
    kit: Kit, tmp_path: Path
) -> None:
    session = session_of(kit, scripted(tmp_path, "s"))
    command = session.resolve_command("/compact briefly")
    assert command is not None
    assert (command.name, command.args) == ("compact", "briefly")
    assert session.resolve_command("/etc/hosts is a file") is None


def test_after_a_compaction_a_turn_may_start_anywhere_it_could(
    kit: Kit, tmp_path: Path
) -> None:
    session = session_of(
        kit,
        scripted(tmp_path, "in short"),
        *("one", "two", "three"),
        compaction_settings=SMALL,
    )

    async def scenario() -> None:
        await ask(kit, session, "first", "second " * 40)
        await soon(session.compact())
        await ask(kit, session, "third")

    asyncio.run(scenario())
    log = session.session_log
    tree = ConversationTree(log.view(), log.cursor)
    assert tree.fork_admission_reason(log.cursor) is None
    assert texts(session)[-1] == "three"
