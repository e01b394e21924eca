"""Sessions of other programs, listed and imported from cells of a real kernel."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest
from kernel_process import StartKernel

from tau_kernel.legacy import SessionManager, session_folders
from tau_kernel.messages import JsonObject, user_message
from tau_kernel.sessions import FileSessionCatalog

pytestmark = pytest.mark.slow

ECHO: Final = "--TauKernel.model=echo"
ISO: Final = "2025-11-30T10:00:00.000Z"


def pi_lines() -> list[bytes]:
    header: JsonObject = {"type": "session", "version": 3, "id": "p", "timestamp": ISO}
    said: list[tuple[str, str | None, JsonObject]] = [
        ("aa000001", None, {"role": "user", "content": "a *question* for pi"}),
        (
            "aa000002",
            "aa000001",
            {"role": "assistant", "content": [{"type": "text", "text": "an answer"}]},
        ),
        ("aa000003", "aa000001", {"role": "user", "content": "on another branch"}),
    ]
    records: list[JsonObject] = [header | {"cwd": "/w"}]
    for entry_id, parent, message in said:
        head: JsonObject = {"type": "message", "id": entry_id, "parentId": parent}
        records.append(head | {"timestamp": ISO, "message": message})
    records.append({"type": "hologram", "id": "aa000004", "parentId": "aa000003"})
    return [json.dumps(record).encode() + b"\n" for record in records]


def test_a_session_of_pi_is_imported_shown_and_continued(
    start_kernel: StartKernel, tmp_path: Path
) -> None:
    file = tmp_path / "of pi.jsonl"
    file.write_bytes(b"".join(pi_lines()))
    kernel = start_kernel(ECHO)
    client = kernel.client()
    imported = client.run(f"/import {file}", cell_id="i")
    assert imported.reply["status"] == "ok"
    assert "2 messages at the cursor" in imported.text
    assert "hologram" in imported.text
    assert client.run("go on", cell_id="b").text == "go on"
    tree = client.run("/tree", cell_id="t").text.splitlines()[1:-1]
    assert [row[:10] for row in tree[:3]] == ["* aa000001", "    aa0000", "*   aa0000"]
    assert tree[-1].startswith(">")
    assert "go on" in tree[-1]
    texts = client.run("%%python\n[m['role'] for m in tau.session.messages]").text
    assert texts == "['user', 'user', 'user', 'assistant']"
    assert file.read_bytes() == b"".join(pi_lines())
    assert [one.name for one in tmp_path.glob("*.jsonl*")] == ["of pi.jsonl"]
    (copy,) = kernel.session_files
    assert b'"customType":"imported_from"' in copy.read_bytes()


def test_a_damaged_session_is_refused_and_the_conversation_goes_on(
    start_kernel: StartKernel, tmp_path: Path
) -> None:
    file = tmp_path / "s.jsonl"
    lines = pi_lines()
    file.write_bytes(b"".join([*lines[:2], b"{ no JSON\n", *lines[2:]]))
    kernel = start_kernel(ECHO)
    client = kernel.client()
    client.run("one", cell_id="a")
    refused = client.run(f"/import {file}", cell_id="i").reply
    assert refused["ename"] == "SessionDamagedError"
    assert "s.jsonl:3 " in refused["evalue"]
    assert len(kernel.session_files) == 1
    assert client.run("two", cell_id="b").reply["status"] == "ok"
    assert client.run("%%python\nlen(tau.session.messages)").text == "4"
    file.write_bytes(b"".join([*lines[:3], lines[3][:-20]]))
    torn = client.run(f"/import {file}", cell_id="j")
    assert "The last line is incomplete" in torn.text


def test_what_can_be_imported_is_listed_with_the_path_to_pass(
    start_kernel: StartKernel, tmp_path: Path
) -> None:
    person, work = tmp_path / "person", tmp_path / "work"
    work.mkdir()
    of_tau, of_pi = session_folders(person, str(work))
    of_pi.mkdir(parents=True)
    (of_pi / "p.jsonl").write_bytes(b"".join(pi_lines()))
    catalog = FileSessionCatalog(person / ".tau" / "sessions")
    session = catalog.create(str(work), "m", "b", name="v1 | talk")
    session.append_message(user_message("one"))
    session.close()
    older = SessionManager(str(work), str(person / ".tau" / "sessions"))
    older.new_session("m")
    client = start_kernel(ECHO, cwd=work, env={"HOME": str(person)}).client()
    listed = client.run("/import", cell_id="l").text
    assert listed.count("| tau-v1 |") == 1
    assert r"v1 \| talk" in listed
    assert listed.count("| tau-older |") == 1
    assert r"| pi | a \*question\* for pi |" in listed
    path = f"~/.pi/agent/sessions/{of_pi.name}/p.jsonl"
    assert f"`{path}`" in listed
    assert of_tau.name in listed
    assert "2 messages" in client.run(f"/import {path}", cell_id="i").text
    below = client.run("/import ~/.pi", cell_id="d").text
    assert "| pi |" in below
    assert "tau-v1" not in below
    assert "No session" in client.run(f"/import {work}", cell_id="n").text
