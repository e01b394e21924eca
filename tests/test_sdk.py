"""The core works without Jupyter: a second, plain head shows it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Final

from tau_kernel.models import resolve_model
from tau_kernel.sdk import SessionConfig, create_agent_session
from tau_kernel.submissions import AgentEvent
from tau_kernel.tree import InMemorySessionLog

#: A whole head: it reads lines, and prints what the session reports.
PLAIN_HEAD: Final = """
import asyncio, sys
from tau_kernel.models import resolve_model
from tau_kernel.sdk import SessionConfig, create_agent_session
from tau_kernel.tree import InMemorySessionLog

def show(event):
    if event.type == "message_update" and event.delta:
        print(event.delta["text"], end="")

async def head():
    config = SessionConfig(model=resolve_model("echo"), log=InMemorySessionLog())
    session = create_agent_session(config)
    session.subscribe(show)
    for line in sys.stdin:
        await session.prompt(line.strip())
        print()

asyncio.run(head())
heads = ("IPython", "ipykernel", "jupyter_client", "nbformat", "traitlets", "zmq")
print([name for name in heads if name in sys.modules], file=sys.stderr)
"""


def test_a_plain_head_shows_answers_and_loads_nothing_of_jupyter() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PLAIN_HEAD],
        input="hello there\nand again\n",
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert ran.stdout.splitlines() == ["hello there", "and again"]
    assert ran.stderr.strip() == "[]"


def test_a_session_keeps_what_was_said_in_the_log_it_was_given() -> None:
    log = InMemorySessionLog()
    config = SessionConfig(model=resolve_model("echo"), log=log, system_prompt="Echo.")
    session = create_agent_session(config)
    events: list[AgentEvent] = []
    session.subscribe(events.append)
    asyncio.run(session.prompt("one"))
    roles = [e["message"]["role"] for e in log.entries() if e["type"] == "message"]
    assert roles == ["user", "assistant"]
    assert session.get_last_assistant_text() == "one"
    assert [events[0].type, events[-1].type] == ["agent_start", "agent_end"]
