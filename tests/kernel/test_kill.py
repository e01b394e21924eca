"""A killed kernel loses nothing that had been completed before."""

from __future__ import annotations

import json
import os
import random
import signal
from pathlib import Path
from typing import Final

import pytest
from kernel_process import KernelProcess, write_script

from tau_kernel.sessions import FileSessionCatalog

pytestmark = pytest.mark.slow

KILLS: Final = 50
CHANCE: Final = random.Random(20_252)


@pytest.mark.parametrize("moment", [CHANCE.uniform(0, 0.25) for _ in range(KILLS)])
@pytest.mark.timeout(120)
def test_a_kill_while_streaming_loses_nothing_completed(
    tmp_path: Path, moment: float
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    model = write_script(
        tmp_path / "s.jsonl",
        {"text": "the whole first answer"},
        {"text": "word " * 200, "chunk_chars": 5, "delay_ms": 1},
    )
    with KernelProcess(f"--TauKernel.model={model}", home=home) as kernel:
        client = kernel.client()
        first = client.run("first prompt", cell_id="a")
        assert first.reply["status"] == "ok"
        second = client.execute("second prompt", cell_id="b")
        second.wait_for_text("word")
        client.read(moment)
        os.kill(kernel.pid, signal.SIGKILL)
        client.wait_for(lambda: not kernel.manager.is_alive())
        shown = second.tau["submission_id"]
    (file,) = kernel.session_files
    session = FileSessionCatalog(home / "sessions").load(str(file))
    try:
        texts = [
            block["text"]
            for entry in session.entries()
            if entry["type"] == "message"
            for block in entry["message"]["content"]
            if isinstance(block, dict) and block["type"] == "text"
        ]
        assert texts[:3] == ["first prompt", "the whole first answer", "second prompt"]
        assert shown in json.dumps(session.entries())
    finally:
        session.close()
