from __future__ import annotations

from pathlib import Path

import pytest

from tau_kernel.errors import ConfigError
from tau_kernel.models import (
    ModelSettings,
    default_model_name,
    local_model_path,
    resolve_model,
)


def test_echo_and_local_are_built_in() -> None:
    assert resolve_model("echo").api == "echo"
    local = resolve_model("local")
    assert (local.api, local.source) == ("local", "")
    assert local.max_tokens < local.context_window <= 8192


@pytest.mark.parametrize(
    ("name", "api", "provider", "variable"),
    [
        ("openai:gpt-5-mini", "openai-completions", "openai", "OPENAI_API_KEY"),
        ("anthropic:claude-x", "anthropic-messages", "anthropic", "ANTHROPIC_API_KEY"),
        ("google:gemini-x", "google-generative-ai", "google", "GOOGLE_API_KEY"),
        ("groq:llama", "pydantic-ai", "groq", None),
    ],
)
def test_a_service_is_named_before_its_model(
    name: str, api: str, provider: str, variable: str | None
) -> None:
    model = resolve_model(name)
    assert (model.name, model.id) == (name, name.split(":")[1])
    assert (model.api, model.provider, model.api_key_env) == (api, provider, variable)


def test_a_models_own_name_may_hold_colons() -> None:
    assert resolve_model("openai:ft:gpt:me").id == "ft:gpt:me"


def test_files_become_absolute() -> None:
    model = resolve_model("local:weights.gguf")
    assert model.source == str(Path("weights.gguf").absolute())
    assert resolve_model("local:~/w.gguf").source == str(Path.home() / "w.gguf")


def test_a_configured_name_wins_over_a_built_in_one() -> None:
    settings = ModelSettings(backend="openai", model="gpt-x", max_tokens=9)
    model = resolve_model("local", {"local": settings})
    assert (model.api, model.id, model.max_tokens) == ("openai-completions", "gpt-x", 9)


def test_settings_reach_the_model() -> None:
    settings = ModelSettings(
        backend="anthropic",
        model="m",
        context_window=10,
        reasoning=True,
        temperature=0.5,
        request_timeout=3.0,
        api_key="secret",
        api_key_env="MINE",
    )
    model = resolve_model("mine", {"mine": settings})
    assert (model.context_window, model.reasoning) == (10, True)
    assert (model.temperature, model.request_timeout) == (0.5, 3.0)
    assert model.api_key_env == "MINE"


def test_a_key_shows_in_no_repr() -> None:
    settings = ModelSettings(backend="openai", model="m", api_key="hush-hush")
    model = resolve_model("mine", {"mine": settings})
    assert model.api_key is not None
    assert model.api_key.reveal() == "hush-hush"
    assert "hush-hush" not in f"{settings!r} {model!r}"


def test_an_address_of_ones_own_gets_no_key_by_default() -> None:
    settings = ModelSettings(backend="openai", model="m", base_url="http://here/v1")
    assert resolve_model("mine", {"mine": settings}).api_key_env is None


@pytest.mark.parametrize("name", ["", "ech", "openai:", ":x", "mien"])
def test_an_unknown_name_is_refused_in_three_lines(name: str) -> None:
    settings = ModelSettings(backend="echo")
    with pytest.raises(ConfigError) as refusal:
        resolve_model(name, {"mine": settings})
    message = str(refusal.value)
    assert repr(name) in message
    assert message.count("\n") < 3
    assert "mine" in message


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'mine'"):
        resolve_model("mien", {"mine": ModelSettings(backend="echo")})


def test_the_variable_wins_over_the_configuration() -> None:
    assert default_model_name("echo", "local") == "echo"
    assert default_model_name(None, "mine") == "mine"
    assert default_model_name("", "mine") == "mine"


def test_without_a_choice_the_local_model_is_used_or_the_way_to_one_told() -> None:
    if local_model_path() is not None:
        assert default_model_name(None, None) == "local"
        return
    with pytest.raises(ConfigError) as refusal:
        default_model_name(None, None)
    message = str(refusal.value)
    assert "tau-kernel local install" in message
    assert "TAU_MODEL" in message
    assert message.count("\n") == 1


def test_a_key_in_the_environment_chooses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    test_without_a_choice_the_local_model_is_used_or_the_way_to_one_told()
