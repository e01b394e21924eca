"""Operations on the tree, over a log in memory, a session file and a branch."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai_server import OpenAIServer
from random_logs import (
    Action,
    actions,
    answering,
    calling,
    contexts_of,
    grow,
    note,
    picked,
    picks,
    said,
    state_of,
)

from tau_kernel.errors import CallerError, ModelError, StorageError
from tau_kernel.messages import (
    ImageBlock,
    Message,
    message_text,
    system_message,
    user_message,
)
from tau_kernel.models import Model, ModelSettings, resolve_model
from tau_kernel.sessions import FileSession
from tau_kernel.tree import (
    BranchSummaryError,
    ConversationTree,
    EntryDict,
    EntryLog,
    InMemorySessionLog,
    LogView,
    SessionLog,
    branch_refusal_reason,
    commit_branch,
    elide_span,
    navigate,
    open_branch,
    paste_refusal_reason,
    paste_subtree,
    plan_branch,
    plan_elide,
    plan_paste,
    planned_messages,
    summarize_and_navigate,
    summarize_branch,
)

Operation: TypeAlias = Callable[[SessionLog], object]

ECHO: Final = resolve_model("echo")


def _branch(log: SessionLog) -> SessionLog:
    log.append_message(user_message("root"))
    return open_branch(log, log.cursor, label="branch")


@pytest.fixture(params=["memory", "file", "branch of a file"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SessionLog]:
    with closing(FileSession.create(tmp_path, "/w", "echo", "echo")) as file:
        logs: dict[str, Callable[[], SessionLog]] = {
            "memory": InMemorySessionLog,
            "file": lambda: file,
            "branch of a file": lambda: _branch(file),
        }
        yield logs[request.param]()


def _say(log: SessionLog, *texts: str) -> list[str]:
    return [log.append_message(user_message(text)) for text in texts]


def _texts(messages: Sequence[Message]) -> list[str]:
    return [message_text(message) for message in messages]


def _since(log: SessionLog, count: int) -> Sequence[EntryDict]:
    return log.view()[count:]


def _sources(entries: Sequence[EntryDict]) -> list[object]:
    return [entry.get("copiedFrom") for entry in entries if "copiedFrom" in entry]


def _kinds(entries: Sequence[EntryDict]) -> list[str]:
    return [entry["type"] for entry in entries]


def _refused(log: SessionLog, operation: Operation) -> str:
    """Give why an operation is refused, after checking that it changed nothing."""
    before = state_of(log)
    with pytest.raises(CallerError) as refusal:
        operation(log)
    assert state_of(log) == before
    return str(refusal.value)


def test_going_somewhere_gives_the_context_there(log: SessionLog) -> None:
    first, _second = _say(log, "a", "b")
    messages = navigate(log, first)
    assert log.cursor == first
    assert _texts(messages)[-1] == "a"
    assert messages == log.view().context_for(first)


def test_staying_where_one_is_appends_nothing(log: SessionLog) -> None:
    _first, second = _say(log, "a", "b")
    before = state_of(log)
    assert _texts(navigate(log, second))[-2:] == ["a", "b"]
    assert state_of(log) == before


def test_the_place_before_the_root_starts_anew(log: SessionLog) -> None:
    _say(log, "a")
    assert navigate(log, None) == []
    (anew,) = _say(log, "anew")
    assert log.view().entry(anew)["parentId"] is None
    assert _texts(log.view().context_for(anew)) == ["anew"]


def test_an_unknown_target_is_refused(log: SessionLog) -> None:
    _say(log, "a")
    assert "'none'" in _refused(log, lambda log: navigate(log, "none"))


def test_an_elision_hides_the_start_and_says_how_much(log: SessionLog) -> None:
    spec = log.append_custom_entry("agent_spec", {})
    log.append_message(system_message("task"))
    pixel: ImageBlock = {"type": "image", "data": "", "mime_type": "image/png"}
    log.append_message(user_message("12345678", [pixel]))
    log.append_custom_message(note("1234"), "note")
    kept, anchor = _say(log, "kept", "anchor")
    folded = log.view().context_entries(anchor)
    count = len(log.view())
    assert _texts(elide_span(log, anchor, kept)) == ["task", "kept", "anchor"]
    (elide,) = _since(log, count)
    assert elide["type"] == "elide"
    assert (elide["parentId"], elide["firstKeptId"]) == (anchor, kept)
    # All but the system message and the two that stay.
    assert elide["coveredEntries"] == len(folded) - 3
    assert elide["coveredTokens"] >= 1200 + 2 + 1
    assert elide["agentSpecId"] == spec
    assert log.cursor == elide["id"]


def test_an_elision_elsewhere_goes_there_first(log: SessionLog) -> None:
    _a, kept, anchor, _last = _say(log, "a", "kept", "anchor", "last")
    count = len(log.view())
    assert _texts(elide_span(log, anchor, kept)) == ["kept", "anchor"]
    assert _kinds(_since(log, count)) == ["navigate", "elide"]


@pytest.mark.parametrize(
    ("anchor", "kept", "words"),
    [
        ("none", "first", "'none'"),
        ("last", "none", "'none'"),
        ("first", "last", "not on the path"),
        ("last", "beside", "not on the path"),
    ],
)
def test_an_elision_that_cannot_be_leaves_the_log_alone(
    log: SessionLog, anchor: str, kept: str, words: str
) -> None:
    first, last = _say(log, "first", "last")
    beside = log.append_at(first, "message", {"message": user_message("beside")})
    ids = {"first": first, "last": last, "beside": beside, "none": "none"}
    refused = _refused(log, lambda log: elide_span(log, ids[anchor], ids[kept]))
    assert words in refused


def test_an_elision_of_nothing_is_refused() -> None:
    log = InMemorySessionLog()
    log.append_message(system_message("task"))
    log.append_custom_entry("note", {})
    first, last = _say(log, "first", "last")
    assert "nothing" in _refused(log, lambda log: elide_span(log, last, first))


def test_a_branch_in_place_is_only_a_move(log: SessionLog) -> None:
    first, second, _third = _say(log, "a", "b", "c")
    count = len(log.view())
    messages = commit_branch(log, [second, first], drop_context=False)
    assert _texts(messages)[-2:] == ["a", "b"]
    assert _kinds(_since(log, count)) == ["navigate"]
    before = state_of(log)
    commit_branch(log, [first, second], drop_context=False)
    assert state_of(log) == before


def test_a_branch_with_a_gap_copies_what_follows(log: SessionLog) -> None:
    log.append_message(system_message("task"))
    _a, kept, _b, _c = _say(log, "a", "kept", "b", "c")
    custom = log.append_custom_message(note("psst"), "note")
    asked = log.append_message(calling("c1"))
    result = log.append_message(answering("c1"))
    last = log.append_message(said("last"))
    count = len(log.view())
    messages = commit_branch(
        log, [last, result, asked, custom, kept], drop_context=True
    )
    assert _texts(messages) == ["task", "kept", "psst", "", "result of c1", "last"]
    written = _since(log, count)
    assert _kinds(written) == [
        "navigate",
        "customMessage",
        "message",
        "message",
        "message",
        "navigate",
        "elide",
    ]
    assert _sources(written) == [custom, asked, result, last]
    assert written[1]["parentId"] == kept
    assert written[4]["parentId"] == written[3]["id"]
    assert log.cursor == written[-1]["id"]


@pytest.mark.parametrize("drop_context", [False, True])
def test_a_branch_that_cannot_be_leaves_the_log_alone(
    log: SessionLog, drop_context: bool
) -> None:
    first, _second = _say(log, "a", "b")
    system = log.append_message(system_message("late"))
    asked = log.append_message(calling("c1"))
    moved = log.append_navigate(first)
    for ids, words in [
        ([], "at least one"),
        ([first, "none"], "'none'"),
        ([first, moved], "'navigate'"),
        ([first, system], "system message"),
        ([first, asked], "without results"),
    ]:
        commit = partial(commit_branch, ids=ids, drop_context=drop_context)
        refused = _refused(log, commit)
        assert words in refused


def test_a_disk_that_fails_leaves_the_cursor_on_an_entry_that_was_there() -> None:
    stored: list[EntryDict] = []

    def sink(entry: EntryDict) -> None:
        if len(stored) == 6:
            msg = "full"
            raise StorageError(28, msg)
        stored.append(entry)

    log = EntryLog("s", sink=sink)
    kept, _gap, second, third = _say(log, "kept", "gap", "b", "c")
    with pytest.raises(StorageError):
        commit_branch(log, [kept, second, third], drop_context=False)
    assert _kinds(log.view()[4:]) == ["navigate", "message"]
    assert log.cursor == kept
    assert _texts(log.view().context_for(log.cursor)) == ["kept"]


def test_a_paste_keeps_the_shape_and_the_cursor(log: SessionLog) -> None:
    target, source, below = _say(log, "target", "source", "below")
    log.append_custom_entry("note", {})
    log.append_at(source, "message", {"message": user_message("beside")})
    cursor, context = log.cursor, log.view().context_for(log.cursor)
    minted = paste_subtree(log, source, target)
    assert (log.cursor, log.view().context_for(log.cursor)) == (cursor, context)
    copies = [log.view().entry(entry_id) for entry_id in minted]
    assert [entry["parentId"] for entry in copies] == [target, minted[0], minted[0]]
    assert _sources(copies)[:2] == [source, below]
    assert _texts(log.view().context_for(minted[2]))[-2:] == ["source", "beside"]


def test_a_paste_in_memory_appends_the_copies_alone() -> None:
    log = InMemorySessionLog()
    target, source = _say(log, "target", "source")
    minted = paste_subtree(log, source, target)
    assert [entry["id"] for entry in log.view()] == [target, source, *minted]


def test_a_paste_that_cannot_be_leaves_the_log_alone(log: SessionLog) -> None:
    first, source, below = _say(log, "first", "source", "below")
    log.append_message(calling("c1"))
    result = log.append_message(answering("c1"))
    moved = log.append_navigate(first)
    for source_id, target_id, words in [
        ("none", first, "'none'"),
        (source, "none", "'none'"),
        (moved, first, "'navigate'"),
        (source, below, "into itself"),
        (result, first, "'c1'"),
    ]:
        paste = partial(paste_subtree, source_id=source_id, target_id=target_id)
        refused = _refused(log, paste)
        assert words in refused


def test_a_stored_session_reopens_where_each_operation_left_it(tmp_path: Path) -> None:
    session = FileSession.create(tmp_path, "/w", "echo", "echo")
    first, second, third = _say(session, "a", "b", "c")
    operations: list[Operation] = [
        lambda log: paste_subtree(log, second, first),
        lambda log: commit_branch(log, [first, third], drop_context=True),
        lambda log: elide_span(log, third, second),
        lambda log: navigate(log, second),
        lambda log: navigate(log, None),
    ]
    for operation in operations:
        operation(session)
        session.close()
        cursor, context = session.cursor, session.context
        session = FileSession.load(session.path)
        assert (session.cursor, session.context) == (cursor, context)
    session.close()


def test_a_session_that_is_read_only_is_not_changed(tmp_path: Path) -> None:
    with closing(FileSession.create(tmp_path, "/w", "echo", "echo")) as written:
        first, second, third = _say(written, "a", "b", "c")
    session = FileSession.read(written.path)
    operations: list[Operation] = [
        lambda log: navigate(log, first),
        lambda log: elide_span(log, third, second),
        lambda log: commit_branch(log, [first, third], drop_context=True),
        lambda log: paste_subtree(log, third, first),
    ]
    for operation in operations:
        assert "opened for reading" in _refused(session, operation)


def _check_every_operation(
    log: SessionLog, at: list[int], *, drop_context: bool
) -> None:
    """Plan, carry out and compare: what was planned is what a model sees."""
    ids = [picked(log, pick) for pick in at]
    earlier = contexts_of(log)
    _check_branch(log, ids, drop_context=drop_context)
    _check_elide(log, ids[0], ids[-1])
    _check_paste(log, ids[0], ids[-1])
    after = contexts_of(log)
    assert {entry_id: after[entry_id] for entry_id in earlier} == earlier


def _check_branch(log: SessionLog, ids: list[str], *, drop_context: bool) -> None:
    tree = ConversationTree(log.view(), log.cursor)
    reason = branch_refusal_reason(tree, ids, drop_context=drop_context)
    if reason is not None:
        refused = _refused(
            log, lambda log: commit_branch(log, ids, drop_context=drop_context)
        )
        assert refused == reason
        return
    plan = plan_branch(tree, ids, drop_context=drop_context)
    planned = planned_messages(tree, plan)
    count = len(log.view())
    assert commit_branch(log, ids, drop_context=drop_context) == planned
    assert LogView(log.entries()).context_for(log.cursor) == planned
    assert _sources(_since(log, count)) == list(plan.copies)


def _check_elide(log: SessionLog, anchor: str, kept: str) -> None:
    tree = ConversationTree(log.view(), log.cursor)
    elide = partial(elide_span, anchor_id=anchor, first_kept_id=kept)
    reason = _reason_against(lambda: plan_elide(tree, anchor, kept))
    if reason is not None:
        assert _refused(log, elide) == reason
        return
    plan = plan_elide(tree, anchor, kept)
    planned = planned_messages(tree, plan)
    assert elide(log) == planned
    assert LogView(log.entries()).context_for(log.cursor) == planned
    entry = log.view()[-1]
    assert entry["type"] == "elide"
    assert entry["coveredEntries"] == plan.hidden


def _check_paste(log: SessionLog, source: str, target: str) -> None:
    tree = ConversationTree(log.view(), log.cursor)
    paste = partial(paste_subtree, source_id=source, target_id=target)
    reason = _reason_against(lambda: plan_paste(tree, source, target))
    if reason is None:
        reason = paste_refusal_reason(tree, plan_paste(tree, source, target))
    if reason is not None:
        assert _refused(log, paste) == reason
        return
    plan = plan_paste(tree, source, target)
    cursor, context = log.cursor, log.view().context_for(log.cursor)
    minted = paste(log)
    assert (log.cursor, log.view().context_for(log.cursor)) == (cursor, context)
    copy_of_source = dict(zip((m.source_id for m in plan.mints), minted, strict=True))
    for mint in plan.mints:
        copy = log.view().entry(copy_of_source[mint.source_id])
        parent = mint.parent_source_id
        assert copy["parentId"] == (copy_of_source[parent] if parent else target)
        assert copy["type"] == mint.kind
        inherited = log.view().context_for(copy["parentId"])
        assert log.view().context_for(copy["id"])[:-1] == inherited


def _reason_against(plan: Callable[[], object]) -> str | None:
    try:
        plan()
    except CallerError as error:
        return str(error)
    return None


@given(actions, st.lists(picks, min_size=1, max_size=5), st.booleans())
def test_in_memory_a_model_sees_what_was_planned_and_earlier_contexts_stay(
    steps: list[Action], at: list[int], drop_context: bool
) -> None:
    log = InMemorySessionLog()
    grow(log, steps)
    _check_every_operation(log, at, drop_context=drop_context)


@settings(max_examples=25)
@given(actions, st.lists(picks, min_size=1, max_size=5), st.booleans())
def test_in_a_file_a_model_sees_what_was_planned_and_earlier_contexts_stay(
    steps: list[Action], at: list[int], drop_context: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        with closing(FileSession.create(Path(folder), "/w", "echo", "echo")) as log:
            grow(log, steps)
            # What was appended beside the cursor would decide where a file reopens.
            log.append_message(user_message("last"))
            _check_every_operation(log, at, drop_context=drop_context)
        with closing(FileSession.load(log.path)) as loaded:
            assert (loaded.cursor, loaded.context) == (log.cursor, log.context)
            assert contexts_of(loaded) == contexts_of(log)


@given(actions, picks, picks)
def test_what_hangs_elsewhere_is_no_matter_for_a_context(
    steps: list[Action], leaf_pick: int, other_pick: int
) -> None:
    log = InMemorySessionLog()
    grow(log, steps)
    leaf, other = picked(log, leaf_pick), picked(log, other_pick)
    path = log.view().path(leaf)
    context = log.view().context_for(leaf)
    navigate(log, other)
    log.append_message(user_message("elsewhere"))
    assert log.view().context_for(leaf) == context
    assert LogView(path).context_for(leaf) == context


def _scripted(folder: Path, line: str) -> Model:
    path = folder / "script.jsonl"
    path.write_text(line)
    return resolve_model(f"scripted:{path}")


def test_a_summary_takes_the_place_of_the_branch(
    log: SessionLog, tmp_path: Path
) -> None:
    target, _tried = _say(log, "target", "tried")
    usage = '"usage": {"input_tokens": 7, "output_tokens": 2}'
    model = _scripted(tmp_path, f'{{"text": " It failed. ", {usage}}}')
    messages, spent = asyncio.run(summarize_and_navigate(log, target, model))
    expected = ["target", "[[Branch summary: It failed.]]"]
    assert _texts(messages)[-2:] == expected
    assert (spent["input_tokens"], spent["output_tokens"]) == (7, 2)
    entry = log.view()[-1]
    assert entry["type"] == "branch_summary"
    assert (entry["parentId"], entry["fromId"]) == (target, target)
    assert log.cursor == entry["id"]


def test_the_summary_is_of_the_branch_below_its_target_alone() -> None:
    log = InMemorySessionLog()
    _root, target, _tried = _say(log, "root", "target", "tried")
    asyncio.run(summarize_and_navigate(log, target, ECHO))
    entry = log.view()[-1]
    assert entry["type"] == "branch_summary"
    assert entry["summary"] == "<branch>\n[user]: target\n[user]: tried\n</branch>"


def test_an_unknown_target_is_refused_before_a_model_is_asked(log: SessionLog) -> None:
    _say(log, "a")
    unasked = Model(id="m", name="m", api="none", provider="none")

    def summarize(log: SessionLog) -> None:
        asyncio.run(summarize_and_navigate(log, "none", unasked))

    assert "'none'" in _refused(log, summarize)


def test_a_branch_without_text_is_refused_before_a_model_is_asked() -> None:
    log = InMemorySessionLog()
    record = log.append_custom_entry("note", {})
    unasked = Model(id="m", name="m", api="none", provider="none")

    def summarize(log: SessionLog) -> None:
        asyncio.run(summarize_and_navigate(log, record, unasked))

    assert "no text" in _refused(log, summarize)


@pytest.mark.parametrize("error", [ValueError, RuntimeError, BranchSummaryError])
def test_a_model_that_says_nothing_gives_no_summary(
    log: SessionLog, tmp_path: Path, error: type[Exception]
) -> None:
    (target,) = _say(log, "target")
    before = state_of(log)
    model = _scripted(tmp_path, '{"text": " ", "thinking": "hm"}')
    with pytest.raises(error, match="gave no summary"):
        asyncio.run(summarize_and_navigate(log, target, model))
    assert state_of(log) == before


def test_a_provider_that_fails_gives_no_summary(
    log: SessionLog, tmp_path: Path
) -> None:
    (target,) = _say(log, "target")
    before = state_of(log)
    error = '{"message": "overloaded", "retry_after": 3}'
    model = _scripted(tmp_path, f'{{"text": "half", "error": {error}}}')
    with pytest.raises(ModelError, match="overloaded") as failure:
        asyncio.run(summarize_and_navigate(log, target, model))
    assert failure.value.retry_after == 3
    assert state_of(log) == before


def test_a_summary_that_is_cancelled_leaves_the_log_alone(tmp_path: Path) -> None:
    log = InMemorySessionLog()
    (target,) = _say(log, "target")
    before = state_of(log)
    model = _scripted(tmp_path, '{"text": "half", "stall": true}')

    async def cancel_midway() -> None:
        task = asyncio.create_task(summarize_and_navigate(log, target, model))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel_midway())
    assert state_of(log) == before


@pytest.mark.slow
def test_the_key_and_the_wishes_reach_the_model() -> None:
    with OpenAIServer() as server:
        server.say("All is well.")
        settings = ModelSettings(
            backend="openai", model="some-model", base_url=server.base_url
        )
        model = resolve_model("mine", {"mine": settings})
        summary, usage = asyncio.run(
            summarize_branch(
                "[user]: hi",
                model,
                api_key="secret",
                custom_instructions="Name every file.",
            )
        )
        asked = server.wait_for_request()
    assert summary == "All is well."
    assert usage["total_tokens"] == 12
    assert asked.headers["authorization"] == "Bearer secret"
    system, user = cast("list[dict[str, str]]", asked.body["messages"])
    assert "Name every file." in system["content"]
    assert "[user]: hi" in user["content"]
