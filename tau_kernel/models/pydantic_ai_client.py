"""One service, asked through pydantic-ai's model layer; heavy, so imported late.

Only the layer that translates to a provider's wire is used: no agent, no retries,
none of its rewriting of prompts.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from difflib import get_close_matches
from typing import Any, Final

from pydantic_ai import exceptions
from pydantic_ai.models import Model as Client
from pydantic_ai.models import ModelRequestParameters, infer_model
from pydantic_ai.providers import Provider, infer_provider_class
from pydantic_ai.settings import ModelSettings as Settings
from pydantic_ai.tools import ToolDefinition

from tau_kernel.errors import ConfigError

from .model import (
    ErrorEvent,
    Model,
    ModelContext,
    StreamEvent,
    StreamOptions,
    is_retryable_status,
)
from .pydantic_ai_parts import AnswerReader, to_requests

__all__ = ["Connection", "connect"]

#: Shown of a provider's own words, in characters.
_WORDS: Final = 500
_KNOWN: Final = (
    "openai",
    "anthropic",
    "google",
    "mistral",
    "groq",
    "deepseek",
    "ollama",
)


def connect(model: Model, key: str | None) -> Connection:
    """Build what asks `model`; no connection is opened before it is asked.

    Raises:
        ConfigError: The service is unknown, or the package it needs is missing.
    """
    try:
        return Connection(model, _client(model, key))
    except ImportError as error:
        msg = (
            f"model {model.name!r} needs a package that is not installed: {error}\n"
            f"Run `pip install 'pydantic-ai-slim[{model.provider}]'`."
        )
        raise ConfigError(msg) from error
    except exceptions.UserError as error:
        msg = f"model {model.name!r} cannot be asked: {_one_line(str(error))}"
        raise ConfigError(msg) from error


class Connection:
    """A model of a service; each answer has HTTP connections of its own."""

    def __init__(self, model: Model, client: Client[Any]) -> None:
        """Keep both; `client` is not entered yet."""
        self._model = model
        self._client = client

    async def stream(
        self, context: ModelContext, options: StreamOptions
    ) -> AsyncGenerator[StreamEvent, None]:
        """Ask once and give the events of the answer."""
        system = self._client.system
        reader = AnswerReader(self._model, context["messages"])
        try:
            async with (
                self._client,
                self._client.request_stream(
                    to_requests(context["messages"], self._model, system),
                    _settings(self._model, options),
                    ModelRequestParameters(function_tools=_tools(self._model, context)),
                ) as response,
            ):
                async for event in response:
                    for made in reader.read(event):
                        yield made
                last = reader.last_event(response.get())
        except exceptions.ModelAPIError as error:
            last = _failure(self._model, error)
        except (exceptions.UserError, exceptions.UnexpectedModelBehavior) as error:
            last = ErrorEvent(
                message=f"model {self._model.name!r} failed: {_one_line(str(error))}"
            )
        yield last


def _client(model: Model, key: str | None) -> Client[Any]:
    # Each SDK takes another half second to import: only the one that is asked is.
    match model.api:
        case "openai-completions" if model.base_url is None:
            from pydantic_ai.models.openai import OpenAIChatModel  # noqa: PLC0415
            from pydantic_ai.providers.openai import OpenAIProvider  # noqa: PLC0415

            return OpenAIChatModel(model.id, provider=OpenAIProvider(api_key=key))
        case "openai-completions":
            return _openai_compatible(model, key)
        case "anthropic-messages":
            from pydantic_ai.models.anthropic import AnthropicModel  # noqa: PLC0415
            from pydantic_ai.providers.anthropic import (  # noqa: PLC0415
                AnthropicProvider,
            )

            return AnthropicModel(
                model.id,
                # Without a key of ours the SDK would send one from its own variable.
                provider=AnthropicProvider(
                    api_key=key or _NO_KEY, base_url=model.base_url
                ),
            )
        case _:
            return _inferred(model, key)


#: Sent where a service of the user's own asks for no key.
_NO_KEY: Final = "no-key"


def _openai_compatible(model: Model, key: str | None) -> Client[Any]:
    # The SDK's import, as in `_client`.
    from pydantic_ai.models.openai import OpenAIChatModel  # noqa: PLC0415
    from pydantic_ai.profiles.openai import OpenAIModelProfile  # noqa: PLC0415
    from pydantic_ai.providers.openai_compatible import (  # noqa: PLC0415
        OpenAICompatibleProvider,
    )

    # Many of these servers know only the older name of the limit, and reject or
    # ignore strict tools.
    profile = OpenAIModelProfile(
        openai_chat_supports_max_completion_tokens=False,
        openai_supports_strict_tool_definition=False,
    )
    if model.reasoning:
        profile["supports_thinking"] = True
    assert model.base_url is not None, "the caller looked"
    return OpenAIChatModel(
        model.id,
        provider=OpenAICompatibleProvider(
            "openai-compatible",
            base_url=model.base_url,
            api_key=key or _NO_KEY,
            profile=profile,
        ),
    )


def _inferred(model: Model, key: str | None) -> Client[Any]:
    def provider(name: str) -> Provider[Any]:
        made: dict[str, str] = {}
        if key is not None:
            made["api_key"] = key
        if model.base_url is not None:
            made["base_url"] = model.base_url
        try:
            kind: Any = infer_provider_class(name)
        except ValueError as error:
            near = get_close_matches(name, _KNOWN, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"such as {_KNOWN[0]!r}"
            msg = (
                f"model {model.name!r} names the unknown service {name!r}; {hint}\n"
                "Give one that pydantic-ai knows, or `openai` with a base_url."
            )
            raise ConfigError(msg) from error
        built: Provider[Any] = kind(**made)
        return built

    return infer_model(f"{model.provider}:{model.id}", provider)


def _settings(model: Model, options: StreamOptions) -> Settings:
    settings = Settings(
        max_tokens=options.max_tokens or model.max_tokens,
        # Trying again belongs to the agent's loop, where it is seen.
        max_retries=0,
    )
    temperature = options.temperature
    if temperature is None:
        temperature = model.temperature
    if temperature is not None:
        settings["temperature"] = temperature
    if options.seed is not None:
        settings["seed"] = options.seed
    if options.reasoning is not None:
        settings["thinking"] = (
            False if options.reasoning == "off" else options.reasoning
        )
    if model.request_timeout is not None:
        settings["timeout"] = model.request_timeout
    if model.api == "anthropic-messages":
        # Other services cache a prompt's beginning without being asked.
        settings["cache"] = True
    if model.extra:
        settings["extra_body"] = dict(model.extra)
    return settings


def _tools(model: Model, context: ModelContext) -> list[ToolDefinition]:
    return [
        ToolDefinition(
            name=tool["name"],
            description=tool["description"],
            parameters_json_schema=tool["parameters"],
            # Elsewhere pydantic-ai may ask for strict calls, and adapts the schema.
            strict=None if model.base_url is None else False,
        )
        for tool in context["tools"]
    ]


def _failure(model: Model, error: exceptions.ModelAPIError) -> ErrorEvent:
    status = error.status_code if isinstance(error, exceptions.ModelHTTPError) else None
    code = "" if status is None else f" with HTTP status {status}"
    return ErrorEvent(
        message=f"model {model.name!r} failed{code}: {_words(error)}\n"
        f"{_advice(model, error)}",
        retry_after=error.retry_after,
        retryable=_is_retryable(error, status),
        status=status,
    )


def _is_retryable(error: exceptions.ModelAPIError, status: int | None) -> bool:
    if isinstance(
        error, exceptions.ModelQuotaExceededError | exceptions.ModelRequestRejectedError
    ):
        return False
    return isinstance(
        error,
        exceptions.ModelRateLimitError
        | exceptions.ModelUnavailableError
        | exceptions.ModelServerError
        | exceptions.ModelConnectionError
        | exceptions.ModelRequestTimeout,
    ) or (status is not None and is_retryable_status(status))


def _advice(model: Model, error: exceptions.ModelAPIError) -> str:
    match error:
        case exceptions.ModelAuthenticationError():
            where = model.api_key_env or "the configuration"
            return f"Check the key in {where} and what it may use."
        case exceptions.ModelNotFoundError():
            return f"Check the model's name {model.id!r} and its base_url."
        case exceptions.ModelContextWindowExceededError():
            return "Shorten the conversation, or use a model with a larger context."
        case exceptions.ModelQuotaExceededError():
            return "Check the plan and the balance of the account."
        case exceptions.ModelRateLimitError() if error.retry_after is not None:
            return f"Run the cell again in {error.retry_after:g} s."
        case exceptions.ModelConnectionError():
            where = model.base_url or f"the service of {model.provider}"
            return f"Check that {where} can be reached, and run the cell again."
        case exceptions.ModelRequestRejectedError():
            return "Change what the service names in its words above."
        case _:
            return "Run the cell again later."


def _words(error: exceptions.ModelAPIError) -> str:
    body = error.body
    if isinstance(body, dict):
        body = body.get("error", body)
    if isinstance(body, dict):
        body = body.get("message", body)
    return _one_line(str(body or error))


def _one_line(words: str) -> str:
    return " ".join(words.split())[:_WORDS]
