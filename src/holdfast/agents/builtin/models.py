"""Calls the model: one streamed answer, from any provider, and the meaning of its errors.

Everything of the optional extra is imported here, when the first model is created.
"""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from holdfast.agents.limits.headers import resets_at
from holdfast.leaf.errors import BadInput
from holdfast.leaf.failpoints import failpoint_pair

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model as AnyModel
    from pydantic_ai.models import StreamedResponse

    from holdfast.agents.builtin.tools import ToolSpec

_FAILPOINT = failpoint_pair("builtin.ask")
KEY_VARIABLES = {
    "openai": ("OPENAI_API_KEY",),
    "openai-responses": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
}
_CONTEXT_WINDOWS = {"openai": 128_000, "openai-responses": 128_000, "anthropic": 200_000, "google": 1_000_000}
_MAX_OUTPUT_TOKENS = 16_000  # tokens: Anthropic requires a number, and its client's default is too small for a file

ModelErrorKind = Literal["rate_limit", "quota", "auth", "context", "passing", "rejected"]


class ModelError(Exception):
    """An error of the model, with a message for people. `passing`: the same call may succeed later."""

    def __init__(self, kind: ModelErrorKind, message: str, *, resets_at: float | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.resets_at = resets_at


@dataclass(frozen=True, slots=True)
class Endpoint:
    provider: str
    name: str
    base_url: str | None = None
    key: str | None = None
    timeout_s: float = 300.0  # seconds without a byte
    context_window: int | None = None

    @staticmethod
    def split_name(text: str) -> tuple[str, str]:
        provider, _, name = text.partition(":")
        if provider not in KEY_VARIABLES or not name:
            raise BadInput(
                f"{text!r} is no model; give PROVIDER:NAME, where PROVIDER is one of {', '.join(KEY_VARIABLES)}"
            )
        return provider, name


class ModelClient:
    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._model = _make_model(endpoint)
        self.name = f"{endpoint.provider}:{endpoint.name}"
        self.context_window = endpoint.context_window or _known_window(endpoint) or _CONTEXT_WINDOWS[endpoint.provider]

    @asynccontextmanager
    async def stream_answer(
        self, messages: Sequence[ModelMessage], specs: Sequence[ToolSpec]
    ) -> AsyncIterator[StreamedResponse]:
        """Send one request. Raises `ModelError`, before the stream or in the middle of it."""
        from pydantic_ai.direct import model_request_stream  # noqa: PLC0415 - optional extra
        from pydantic_ai.exceptions import AgentRunError  # noqa: PLC0415
        from pydantic_ai.models import ModelRequestParameters  # noqa: PLC0415
        from pydantic_ai.settings import ModelSettings  # noqa: PLC0415
        from pydantic_ai.tools import ToolDefinition  # noqa: PLC0415

        tools = [
            ToolDefinition(name=offer.name, description=offer.description, parameters_json_schema=offer.schema)
            for offer in specs
        ]
        settings = ModelSettings(timeout=self._endpoint.timeout_s, cache=True)
        if self._endpoint.provider == "anthropic":
            settings["max_tokens"] = _MAX_OUTPUT_TOKENS
        _FAILPOINT.before()
        try:
            async with model_request_stream(
                self._model,
                messages,
                model_settings=settings,
                model_request_parameters=ModelRequestParameters(function_tools=tools),
                instrument=False,
            ) as stream:
                yield stream
        except (AgentRunError, OSError, TimeoutError) as error:
            raise _to_model_error(error, self.name) from error
        _FAILPOINT.after()

    def cost(self, response: ModelResponse) -> float | None:
        """Return the cost in US dollars; None if the model's price is unknown."""
        try:
            return float(response.cost().total_price)
        except (LookupError, ValueError, AssertionError):
            return None


def _make_model(endpoint: Endpoint) -> AnyModel:
    key = endpoint.key or "none"  # a local endpoint needs no key, but its client requires one
    timeout = endpoint.timeout_s
    match endpoint.provider:
        case "anthropic":
            from anthropic import AsyncAnthropic  # noqa: PLC0415 - optional extra
            from pydantic_ai.models.anthropic import AnthropicModel  # noqa: PLC0415
            from pydantic_ai.providers.anthropic import AnthropicProvider  # noqa: PLC0415

            claude = AsyncAnthropic(api_key=key, base_url=endpoint.base_url, max_retries=0, timeout=timeout)
            return AnthropicModel(endpoint.name, provider=AnthropicProvider(anthropic_client=claude))
        case "google":
            from pydantic_ai.models.google import GoogleModel  # noqa: PLC0415
            from pydantic_ai.providers.google import GoogleProvider  # noqa: PLC0415

            return GoogleModel(endpoint.name, provider=GoogleProvider(api_key=key, base_url=endpoint.base_url))
        case _:
            from openai import AsyncOpenAI  # noqa: PLC0415
            from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel  # noqa: PLC0415
            from pydantic_ai.providers.openai import OpenAIProvider  # noqa: PLC0415

            client = AsyncOpenAI(api_key=key, base_url=endpoint.base_url, max_retries=0, timeout=timeout)
            provider = OpenAIProvider(openai_client=client)
            kind = OpenAIResponsesModel if endpoint.provider == "openai-responses" else OpenAIChatModel
            return kind(endpoint.name, provider=provider)


def _known_window(endpoint: Endpoint) -> int | None:
    from genai_prices import data_snapshot  # noqa: PLC0415 - optional extra

    provider = endpoint.provider.removesuffix("-responses")
    try:
        _, found = data_snapshot.get_snapshot().find_provider_model(endpoint.name, None, provider, None)
    except LookupError:
        return None
    return found.context_window


def _to_model_error(error: BaseException, model: str) -> ModelError:
    from pydantic_ai import exceptions as ai  # noqa: PLC0415 - optional extra

    message = _provider_message(error)
    headers, body = getattr(error, "headers", None) or {}, getattr(error, "body", None)
    match error:
        case ai.ModelContextWindowExceededError():
            return ModelError("context", f"the conversation is too long for {model}: {message}")
        case ai.ModelRateLimitError():
            resets = resets_at(headers, body, time.time())
            return ModelError("rate_limit", f"{model} accepts no more requests for now: {message}", resets_at=resets)
        case ai.ModelQuotaExceededError():
            resets = resets_at(headers, body, time.time())
            return ModelError("quota", f"the account's quota for {model} is used up: {message}", resets_at=resets)
        case ai.ModelAuthenticationError():
            return ModelError("auth", f"{model} does not accept the API key: {message}")
        case ai.ModelRequestRejectedError():
            if "api key" in message.lower():  # Google's wording
                return ModelError("auth", f"{model} does not accept the API key: {message}")
            return ModelError("rejected", f"{model} rejected the request: {message}")
        case ai.ModelAPIError() | OSError() | TimeoutError():
            return ModelError("passing", f"{model} could not answer: {message}")
    return ModelError("rejected", f"{model} gave an unusable answer: {message}")


def _provider_message(error: BaseException) -> str:
    """Return the provider's message, without what a library adds to it."""
    body: Any = getattr(error, "body", None)
    for _ in range(3):
        if isinstance(body, dict) and isinstance(body.get("message"), str):
            return str(body["message"])
        if not isinstance(body, dict) or "error" not in body:
            break
        body = body["error"]
    return str(error) or type(error).__name__
