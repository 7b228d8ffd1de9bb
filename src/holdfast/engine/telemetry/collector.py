"""Sends OTLP to a collector, as the standard variables of OpenTelemetry and the settings say."""

import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import NamedTuple
from urllib.parse import unquote

from holdfast.core.config.operations import TelemetrySettings
from holdfast.engine.http_post import PostFailed, post
from holdfast.leaf.errors import BadInput

_DEFAULT = "http://127.0.0.1:4318"
_RETRIED = frozenset({408, 429, 502, 503, 504})
TIMEOUT_S = 10.0


class Rejected(Exception):
    """The collector does not take this, and will not take it later."""


class Collector(NamedTuple):
    base: str
    headers: Mapping[str, str]

    async def send_traces(self, body: bytes) -> None:
        await self._send("traces", body)

    async def send_metrics(self, body: bytes) -> None:
        await self._send("metrics", body)

    async def _send(self, what: str, body: bytes) -> None:
        """Raises `PostFailed` if it may be tried again."""
        headers = {**self.headers, "Content-Type": "application/x-protobuf"}
        status = await post(f"{self.base.rstrip('/')}/v1/{what}", body, headers, TIMEOUT_S)
        if status in _RETRIED:
            raise PostFailed(f"it answered {status}")
        if not 200 <= status < 300:  # noqa: PLR2004 - success
            raise Rejected(f"it answered {status}")


def find_collector(settings: TelemetrySettings, environment: Mapping[str, str] = os.environ) -> Collector:
    base = settings.endpoint or environment.get("OTEL_EXPORTER_OTLP_ENDPOINT") or _DEFAULT
    pairs = (pair.partition("=") for pair in environment.get("OTEL_EXPORTER_OTLP_HEADERS", "").split(","))
    return Collector(base, {name.strip(): unquote(value.strip()) for name, equals, value in pairs if equals})


def has_packages() -> bool:
    return find_spec("opentelemetry") is not None and find_spec("opentelemetry.proto") is not None


def require_packages() -> None:
    if not has_packages():
        raise BadInput("an export by OpenTelemetry needs packages; install them with: pip install 'holdfast[otel]'")
