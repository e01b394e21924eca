"""The configuration: ``TAU_HOME``, its ``config.json`` and the environment.

Both are read in this one place and checked as a whole. What a model's settings
mean is left to ``tau_kernel.models``, and what a dialog's answer means to
``tau_kernel.extensions``.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypedDict, cast

import platformdirs

from tau_kernel.errors import ConfigError

__all__ = ["CONFIG_FILE", "Config", "LimitsEntry", "ModelEntry", "load_config"]

CONFIG_FILE: Final = "config.json"


class ModelEntry(TypedDict, total=False):
    """One model of ``config.json``, under the name that cells call it by."""

    backend: str
    model: str
    base_url: str
    api_key_env: str
    api_key: str
    context_window: int
    max_tokens: int
    reasoning: bool
    temperature: float
    request_timeout: float
    prices: Mapping[str, float]


class LimitsEntry(TypedDict, total=False):
    """The limits of one cell, or of a session."""

    max_turns: int
    max_tokens: int
    max_cost: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What the user configured.

    Attributes:
        home: The absolute folder of sessions and of ``config.json``.
        environ_model: The model that ``TAU_MODEL`` names, if it is set.
        environ_session: The session that ``TAU_SESSION`` names, if it is set.
        environ_notebook: The notebook that the server started the kernel for, as it
            says in ``JPY_SESSION_NAME``; nothing proves it.
        default_model: The model that ``config.json`` names, if it does.
        models: The models that ``config.json`` declares, by name.
        system_prompt: Text in place of the shipped system prompt.
        ui_defaults: The answers to dialogs where nobody may be asked, by method.
        remote_images: Whether images from the network are shown; they tell their
            server who reads.
        cell_limits: What one cell may spend, unless its first line says otherwise.
        session_limits: What one conversation may spend.
    """

    home: Path
    environ_model: str | None = None
    environ_session: str | None = None
    environ_notebook: str | None = None
    default_model: str | None = None
    # Entries may hold a key: a logged or shown configuration must not.
    models: Mapping[str, ModelEntry] = field(
        default_factory=lambda: MappingProxyType({}), repr=False
    )
    system_prompt: str | None = None
    ui_defaults: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    remote_images: bool = False
    cell_limits: LimitsEntry = field(default_factory=LimitsEntry)
    session_limits: LimitsEntry = field(default_factory=LimitsEntry)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """What a value must be, in words and as a check."""

    words: str
    holds: Callable[[object], bool]


def _is_number(value: object) -> bool:
    # JSON's true and false are ints to Python.
    return isinstance(value, int | float) and not isinstance(value, bool)


_TEXT = _Rule(
    words="a text that is not empty",
    holds=lambda value: isinstance(value, str) and bool(value.strip()),
)
_FLAG = _Rule(words="true or false", holds=lambda value: isinstance(value, bool))
_TOKENS = _Rule(
    words="a whole number of tokens above 0",
    holds=lambda value: (
        isinstance(value, int) and not isinstance(value, bool) and value > 0
    ),
)
_SECONDS = _Rule(
    words="a number of seconds above 0",
    holds=lambda value: _is_number(value) and cast("float", value) > 0,
)
_TEMPERATURE = _Rule(
    words="a number from 0 up",
    holds=lambda value: _is_number(value) and cast("float", value) >= 0,
)
_COUNT = _Rule(
    words="a whole number from 1 up",
    holds=_TOKENS.holds,
)
_DOLLARS = _Rule(
    words="US dollars above 0",
    holds=lambda value: _is_number(value) and cast("float", value) > 0,
)
_PRICE = _Rule(
    words="US dollars for a million tokens, from 0 up",
    holds=_TEMPERATURE.holds,
)
_OBJECT = _Rule(words="an object {…}", holds=lambda value: isinstance(value, dict))

_CONFIG_RULES: Final[Mapping[str, _Rule]] = MappingProxyType(
    {
        "default_model": _TEXT,
        "models": _OBJECT,
        "system_prompt": _TEXT,
        "ui_defaults": _OBJECT,
        "remote_images": _FLAG,
        "limits": _OBJECT,
    }
)
_MODEL_RULES: Final[Mapping[str, _Rule]] = MappingProxyType(
    {
        "backend": _TEXT,
        "model": _TEXT,
        "base_url": _TEXT,
        "api_key_env": _TEXT,
        "api_key": _TEXT,
        "context_window": _TOKENS,
        "max_tokens": _TOKENS,
        "reasoning": _FLAG,
        "temperature": _TEMPERATURE,
        "request_timeout": _SECONDS,
        "prices": _OBJECT,
    }
)
_PRICE_RULES: Final[Mapping[str, _Rule]] = MappingProxyType(
    dict.fromkeys(("input", "output", "cache_read", "cache_write"), _PRICE)
)
_SCOPE_RULES: Final[Mapping[str, _Rule]] = MappingProxyType(
    {"cell": _OBJECT, "session": _OBJECT}
)
_LIMIT_RULES: Final[Mapping[str, _Rule]] = MappingProxyType(
    {"max_turns": _COUNT, "max_tokens": _TOKENS, "max_cost": _DOLLARS}
)
#: What a message must not repeat.
_SECRET_KEYS: Final = frozenset({"api_key"})


def load_config(environ: Mapping[str, str]) -> Config:
    """Read the configuration that an environment points to.

    Args:
        environ: The environment; ``TAU_HOME`` names the folder (default: the
            user's data folder for tau-kernel), ``TAU_MODEL`` a model and
            ``TAU_SESSION`` a session to go on with, ``JPY_SESSION_NAME`` a notebook.

    Returns:
        The checked configuration; every setting at its default where the file
        does not exist.

    Raises:
        ConfigError: If the file cannot be read, is not JSON, or holds an unknown
            key or a value of the wrong kind. It names the file and the place.
    """
    home = _home(environ)
    file = home / CONFIG_FILE
    found = _read(file)
    _check(file, "", found, _CONFIG_RULES)
    models = cast("dict[str, dict[str, object]]", found.get("models", {}))
    for name, entry in models.items():
        _check_value(file, f"models.{name}", entry, _OBJECT)
        _check(file, f"models.{name}.", entry, _MODEL_RULES)
        prices = cast("dict[str, object]", entry.get("prices", {}))
        _check(file, f"models.{name}.prices.", prices, _PRICE_RULES)
    limits = cast("dict[str, dict[str, object]]", found.get("limits", {}))
    _check(file, "limits.", limits, _SCOPE_RULES)
    for scope, entry in limits.items():
        _check(file, f"limits.{scope}.", entry, _LIMIT_RULES)
    defaults = cast("dict[str, object]", found.get("ui_defaults", {}))
    for method, answer in defaults.items():
        _check_value(file, f"ui_defaults.{method}", answer, _TEXT)
    return Config(
        home=home,
        environ_model=environ.get("TAU_MODEL") or None,
        environ_session=environ.get("TAU_SESSION") or None,
        environ_notebook=environ.get("JPY_SESSION_NAME") or None,
        default_model=cast("str | None", found.get("default_model")),
        models=MappingProxyType(cast("dict[str, ModelEntry]", models)),
        system_prompt=cast("str | None", found.get("system_prompt")),
        ui_defaults=MappingProxyType(cast("dict[str, str]", defaults)),
        remote_images=cast("bool", found.get("remote_images", False)),
        cell_limits=cast("LimitsEntry", limits.get("cell", {})),
        session_limits=cast("LimitsEntry", limits.get("session", {})),
    )


def _home(environ: Mapping[str, str]) -> Path:
    written = environ.get("TAU_HOME")
    if not written:
        return platformdirs.user_data_path("tau-kernel", appauthor=False)
    home = Path(written).expanduser().absolute()
    if home.exists() and not home.is_dir():
        message = (
            f"TAU_HOME={written!r} is a file\n"
            "it names the folder of sessions and config.json; "
            "set it to a folder, or unset it"
        )
        raise ConfigError(message)
    return home


def _read(file: Path) -> dict[str, object]:
    try:
        text = file.read_text(encoding="utf-8-sig")
        found = json.loads(text)
    except FileNotFoundError:
        return {}
    except json.JSONDecodeError as error:
        message = (
            f"{file}, line {error.lineno}, column {error.colno}: {error.msg}\n"
            "the configuration is one JSON object, without comments or trailing "
            "commas; mend that place"
        )
        raise ConfigError(message) from error
    except UnicodeDecodeError as error:
        message = (
            f"{file}, byte {error.start + 1}: not UTF-8\nsave the file as UTF-8 text"
        )
        raise ConfigError(message) from error
    except OSError as error:
        message = (
            f"{file} cannot be read: {error.strerror}\n"
            "make it readable, or set TAU_HOME to another folder"
        )
        raise ConfigError(message) from error
    if not isinstance(found, dict):
        message = (
            f"{file}, line 1: holds {type(found).__name__}, not an object\n"
            'write an object, as {"default_model": "local"}'
        )
        raise ConfigError(message)
    return found


def _check(
    file: Path, place: str, found: Mapping[str, object], rules: Mapping[str, _Rule]
) -> None:
    for key, value in found.items():
        if key not in rules:
            near = difflib.get_close_matches(key, rules, n=1)
            hint = f"did you mean {place + near[0]!r}" if near else "remove it"
            known = ", ".join(rules)
            message = (
                f"{file}: unknown key {place + key!r}; {hint}\nknown keys: {known}"
            )
            raise ConfigError(message)
        _check_value(file, place + key, value, rules[key])


def _check_value(file: Path, place: str, value: object, rule: _Rule) -> None:
    if not rule.holds(value):
        secret = place.rpartition(".")[2] in _SECRET_KEYS
        shown = "a value of another kind" if secret else repr(value)
        message = f"{file}: {place!r} is {shown}\nwrite {rule.words}"
        raise ConfigError(message)
