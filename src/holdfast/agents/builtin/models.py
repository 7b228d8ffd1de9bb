"""The model behind the agent: one answer, streamed, from whichever provider; and what its refusals mean.

Everything of the optional extra is imported here, when the first model is made.
"""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from holdfast.agents.builtin.rate_limits import resets_at
from holdfast.leaf.errors import BadInput
from holdfast.leaf.failpoints import around

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model as AnyModel
    from pydantic_ai.models import StreamedResponse

    from holdfast.agents.builtin.tools import Offer

_CRASH = around("builtin.ask")
KEYS = {
    "openai": ("OPENAI_API_KEY",),
    "openai-responses": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
}
_WINDOWS = {"openai": 128_000, "openai-responses": 128_000, "anthropic": 200_000, "google": 1_000_000}
_MAX_OUTPUT = 16_000  # tokens: Anthropic asks for a number, and the default of its client is too small for a file

Why = Literal["rate_limit", "quota", "auth", "context", "passing", "rejected"]


class ModelTrouble(Exception):
    """A refusal, in words a person can use. `passing`: the same call may succeed if made again."""

    def __init__(self, why: Why, message: str, *, resets: float | None = None) -> None:
        super().__init__(message)
        self.why = why
        self.resets = resets


@dataclass(frozen=True, slots=True)
class Endpoint:
    provider: str
    name: str
    base_url: str | None = None
    key: str | None = None
    timeout: float = 300.0  # seconds without a byte
    context_window: int | None = None

    @staticmethod
    def split(text: str) -> tuple[str, str]:
        provider, _, name = text.partition(":")
        if provider not in KEYS or not name:
            raise BadInput(f"{text!r} is no model; give PROVIDER:NAME, where PROVIDER is one of {', '.join(KEYS)}")
        return provider, name


class Model:
    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._model = _made(endpoint)
        self.name = f"{endpoint.provider}:{endpoint.name}"
        self.context_window = endpoint.context_window or _known_window(endpoint) or _WINDOWS[endpoint.provider]

    @asynccontextmanager
    async def answer(
        self, messages: Sequence[ModelMessage], offers: Sequence[Offer]
    ) -> AsyncIterator[StreamedResponse]:
        """One request. Raises ModelTrouble, before the stream or in the middle of it."""
        from pydantic_ai.direct import model_request_stream  # noqa: PLC0415 - optional extra
        from pydantic_ai.exceptions import AgentRunError  # noqa: PLC0415
        from pydantic_ai.models import ModelRequestParameters  # noqa: PLC0415
        from pydantic_ai.settings import ModelSettings  # noqa: PLC0415
        from pydantic_ai.tools import ToolDefinition  # noqa: PLC0415

        tools = [
            ToolDefinition(name=offer.name, description=offer.description, parameters_json_schema=offer.schema)
            for offer in offers
        ]
        settings = ModelSettings(timeout=self._endpoint.timeout, cache=True)
        if self._endpoint.provider == "anthropic":
            settings["max_tokens"] = _MAX_OUTPUT
        _CRASH.before()
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
            raise _trouble(error, self.name) from error
        _CRASH.after()

    def cost(self, response: ModelResponse) -> float | None:
        """In US dollars; None when the price of the model is not known."""
        try:
            return float(response.cost().total_price)
        except (LookupError, ValueError, AssertionError):
            return None


def _made(endpoint: Endpoint) -> AnyModel:
    key = endpoint.key or "none"  # a local endpoint wants none, its client wants a word
    timeout = endpoint.timeout
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
    from genai_prices import data_snapshot  # noqa: PLC0415 - comes with the extra

    provider = endpoint.provider.removesuffix("-responses")
    try:
        _, found = data_snapshot.get_snapshot().find_provider_model(endpoint.name, None, provider, None)
    except LookupError:
        return None
    return found.context_window


def _trouble(error: BaseException, model: str) -> ModelTrouble:
    from pydantic_ai import exceptions as ai  # noqa: PLC0415 - optional extra

    said = _said(error)
    headers, body = getattr(error, "headers", None) or {}, getattr(error, "body", None)
    match error:
        case ai.ModelContextWindowExceededError():
            return ModelTrouble("context", f"the conversation is too long for {model}: {said}")
        case ai.ModelRateLimitError():
            resets = resets_at(headers, body, time.time())
            return ModelTrouble("rate_limit", f"{model} takes no more requests for now: {said}", resets=resets)
        case ai.ModelQuotaExceededError():
            resets = resets_at(headers, body, time.time())
            return ModelTrouble("quota", f"the account's quota for {model} is used up: {said}", resets=resets)
        case ai.ModelAuthenticationError():
            return ModelTrouble("auth", f"{model} does not accept the API key: {said}")
        case ai.ModelRequestRejectedError():
            if "api key" in said.lower():  # Google's way to say it
                return ModelTrouble("auth", f"{model} does not accept the API key: {said}")
            return ModelTrouble("rejected", f"{model} rejected the request: {said}")
        case ai.ModelAPIError() | OSError() | TimeoutError():
            return ModelTrouble("passing", f"{model} could not answer: {said}")
    return ModelTrouble("rejected", f"{model} answered in a way that cannot be used: {said}")


def _said(error: BaseException) -> str:
    """The provider's own words, without the frame that a library puts around them."""
    body: Any = getattr(error, "body", None)
    for _ in range(3):
        if isinstance(body, dict) and isinstance(body.get("message"), str):
            return str(body["message"])
        if not isinstance(body, dict) or "error" not in body:
            break
        body = body["error"]
    return str(error) or type(error).__name__
