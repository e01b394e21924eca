"""What a kernel imports, and when: start-up is paid by everyone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest
from kernel_process import Client, StartKernel

pytestmark = pytest.mark.slow

HEAVY: Final = ("pydantic_ai", "openai", "anthropic", "xllamacpp", "jsonschema")
LOADED: Final = f"%%python\nimport sys\n[n for n in {HEAVY} if n in sys.modules]"


def loaded(client: Client) -> str:
    return client.run(LOADED, store_history=False).text


def test_nothing_heavy_is_imported_before_it_is_needed(
    start_kernel: StartKernel,
) -> None:
    client = start_kernel("--TauKernel.model=echo").client()
    client.ask("complete_request", {"code": "/h", "cursor_pos": 2})
    client.run("a prompt")
    assert loaded(client) == "[]"


def test_the_configured_service_is_imported_while_a_person_types(
    start_kernel: StartKernel, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    stub = {"backend": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1"}
    config = {"default_model": "stub", "models": {"stub": stub}}
    (home / "config.json").write_text(json.dumps(config))
    client = start_kernel(home=home).client()
    assert loaded(client) == "[]"
    client.ask("is_complete_request", {"code": "wh"})
    client.wait_for(lambda: "pydantic_ai" in loaded(client))


def test_the_kernel_offers_neither_a_debugger_nor_subshells(
    start_kernel: StartKernel,
) -> None:
    client = start_kernel("--TauKernel.model=echo").client()
    info = client.ask("kernel_info_request").content
    assert info["supported_features"] == []
    assert info.get("debugger", False) is False
    assert info["language_info"]["name"] == "tau"
    assert info["banner"].startswith("τ")
    cell = client.run("%%python\nimport sys\nsys.modules.get('debugpy')")
    assert cell.outputs == []


def test_the_environment_and_the_command_line_choose_the_model(
    start_kernel: StartKernel,
) -> None:
    by_variable = start_kernel(env={"TAU_MODEL": "echo"}).client()
    assert by_variable.run("heard", cell_id="a").text == "heard"
    assert by_variable.run("/model").text == "The model is `echo`."
    by_alias = start_kernel("--model=echo", env={"TAU_MODEL": "nope"}).client()
    assert by_alias.run("heard", cell_id="a").text == "heard"
