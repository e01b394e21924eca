"""From the name of a model, as a user writes it, to the model.

Which name applies where several places give one belongs to `default_model_name`; the
files and variables themselves are read by `tau_kernel.config`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tau_kernel.errors import ConfigError

from .local_install import local_model_path
from .model import ApiKey, Model
from .scripted import check_script

__all__ = ["ModelSettings", "default_model_name", "resolve_model"]

_LOCAL_CONTEXT: Final = 4096
_LOCAL_ANSWER: Final = 256

#: The APIs of services that have one of their own; others go by pydantic-ai's name.
_APIS: Final[Mapping[str, str]] = {
    "openai": "openai-completions",
    "anthropic": "anthropic-messages",
    "google": "google-generative-ai",
}
_KEY_VARIABLES: Final[Mapping[str, str]] = {
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "google": "GOOGLE_API_KEY",
}
_FORMS: Final = (
    "echo, scripted:FILE, local, local:FILE.gguf, openai:NAME, anthropic:NAME"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """A model as the configuration describes it.

    Args:
        backend: ``echo``, ``scripted``, ``local``, ``openai``, ``anthropic`` or another
            provider that pydantic-ai knows.
        model: The backend's name of the model; a file for ``scripted`` and ``local``.
        base_url: Where the service is; with ``openai`` any compatible one.
        api_key_env: The environment variable that holds the key; without a `base_url`
            the backend's usual one.
        api_key: The key itself.
        context_window: Tokens that request and answer share.
        max_tokens: Tokens that one answer may have.
        reasoning: Whether it can think before it answers.
        temperature: Used where a request gives none.
        request_timeout: Seconds that the service may stay silent.
        prices: As in `Model`.
    """

    backend: str
    model: str = ""
    base_url: str | None = None
    api_key_env: str | None = None
    api_key: str | None = field(default=None, repr=False)
    context_window: int | None = None
    max_tokens: int | None = None
    reasoning: bool = False
    temperature: float | None = None
    request_timeout: float | None = None
    prices: Mapping[str, float] = field(default_factory=dict)


_NONE_CONFIGURED: Final[Mapping[str, ModelSettings]] = MappingProxyType({})


def resolve_model(
    name: str, configured: Mapping[str, ModelSettings] = _NONE_CONFIGURED
) -> Model:
    """Give the model of this name; a configured one wins over a built-in form.

    No key is looked for and no service asked, but a script is read.

    Raises:
        ConfigError: There is no such model (the message suggests the nearest), or its
            script is missing or wrong.
    """
    settings = configured.get(name)
    if settings is not None:
        return _build(name, settings)
    backend, colon, rest = name.partition(":")
    if (not colon and backend in ("echo", "local")) or (colon and backend and rest):
        return _build(name, ModelSettings(backend=backend, model=rest))
    known = [*configured, "echo", "local"]
    near = get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"use {_FORMS}"
    msg = f"there is no model {name!r}; {hint}\nConfigured: {_listed(configured)}."
    raise ConfigError(msg)


def default_model_name(environ_name: str | None, configured_default: str | None) -> str:
    """Give the name of the model to use where a cell names none.

    A key in the environment chooses nothing: it must not start spending money.

    Args:
        environ_name: The value of ``TAU_MODEL``.
        configured_default: ``default_model`` of the configuration.

    Raises:
        ConfigError: Neither says, and no local model is installed.
    """
    if environ_name:
        return environ_name
    if configured_default:
        return configured_default
    if local_model_path() is not None:
        return "local"
    msg = (
        "no model is chosen: run `tau-kernel local install` for a small one that needs "
        "no key,\nor name one in TAU_MODEL or with /model, such as openai:gpt-5-mini "
        "(with OPENAI_API_KEY set)."
    )
    raise ConfigError(msg)


def _build(name: str, settings: ModelSettings) -> Model:
    match settings.backend:
        case "echo":
            return _plain(name, settings, source="")
        case "scripted":
            path = Path(settings.model).expanduser().absolute()
            check_script(path)
            return _plain(name, settings, source=str(path))
        case "local":
            given = settings.model
            path_text = str(Path(given).expanduser().absolute()) if given else ""
            return _plain(name, settings, source=path_text)
        case _:
            return _service(name, settings)


def _plain(name: str, settings: ModelSettings, *, source: str) -> Model:
    is_local = settings.backend == "local"
    return Model(
        id=name,
        name=name,
        api=settings.backend,
        provider=settings.backend,
        context_window=settings.context_window
        or (_LOCAL_CONTEXT if is_local else 128_000),
        max_tokens=settings.max_tokens or (_LOCAL_ANSWER if is_local else 4096),
        temperature=settings.temperature,
        source=source,
    )


def _service(name: str, settings: ModelSettings) -> Model:
    backend = settings.backend
    key = settings.api_key
    return Model(
        id=settings.model,
        name=name,
        api=_APIS.get(backend, "pydantic-ai"),
        provider=backend,
        base_url=settings.base_url,
        context_window=settings.context_window or 128_000,
        max_tokens=settings.max_tokens or 4096,
        reasoning=settings.reasoning,
        temperature=settings.temperature,
        request_timeout=settings.request_timeout,
        api_key_env=settings.api_key_env or _key_variable(settings),
        api_key=None if key is None else ApiKey(key),
        prices=settings.prices,
    )


def _key_variable(settings: ModelSettings) -> str | None:
    # A key is never sent to an address that it was not given for.
    return None if settings.base_url else _KEY_VARIABLES.get(settings.backend)


def _listed(configured: Mapping[str, ModelSettings]) -> str:
    return ", ".join(sorted(configured)) or "none"
