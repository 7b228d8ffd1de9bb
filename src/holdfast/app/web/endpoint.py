"""The endpoints of the API: a table of functions, from which requests are decoded and openapi.json is generated.

A function takes a `Call` with its query and its body, and returns a struct. The types in its signature are the schema.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import msgspec
from starlette.responses import Response

from holdfast.leaf.errors import BadInput

if TYPE_CHECKING:
    from starlette.requests import Request

    from holdfast.app.web.site import Site

Query = TypeVar("Query")
Body = TypeVar("Body")
T = TypeVar("T")

PREFIX = "/api/v1"
MAX_KEY_CHARS = 100
MAX_BODY_BYTES = 32 * 1024 * 1024


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No query, or no body."""


class Call(Generic[Query, Body]):
    """One request."""

    __slots__ = ("body", "key", "path", "query", "request", "site")

    def __init__(self, site: Site, request: Request, query: Query, body: Body) -> None:
        self.site = site
        self.request = request
        self.path: dict[str, str] = request.path_params
        self.query = query
        self.body = body
        self.key: str | None = request.headers.get("idempotency-key")

    def run_id(self) -> str:
        """The run that the path names: by its id, or the start of one. Raises `NoSuchRun`."""
        return self.site.home.find_run(self.path["run"])


class Endpoint(NamedTuple):
    method: str
    path: str
    summary: str
    handler: Callable[[Call[Any, Any]], Awaitable[Any]]
    query: type
    body: type
    answer: Any
    status: int

    @property
    def name(self) -> str:
        """The id of the operation: the name of its function."""
        return self.handler.__name__


ENDPOINTS: list[Endpoint] = []
_Handler = TypeVar("_Handler", bound=Callable[..., Awaitable[Any]])


def get(path: str, summary: str) -> Callable[[_Handler], _Handler]:
    return _endpoint("GET", path, summary, 200)


def post(path: str, summary: str, status: int = 202) -> Callable[[_Handler], _Handler]:
    """An endpoint that acts. 202: it is durable, and what follows from it may still happen."""
    return _endpoint("POST", path, summary, status)


def delete(path: str, summary: str, status: int = 202) -> Callable[[_Handler], _Handler]:
    return _endpoint("DELETE", path, summary, status)


def _endpoint(method: str, path: str, summary: str, status: int) -> Callable[[_Handler], _Handler]:
    def register(handler: _Handler) -> _Handler:
        hints = typing.get_type_hints(handler)
        (parameter,) = inspect.signature(handler).parameters
        query, body = typing.get_args(hints[parameter])
        ENDPOINTS.append(Endpoint(method, path, summary, handler, query, body, hints["return"], status))
        return handler

    return register


async def respond(endpoint: Endpoint, site: Site, request: Request) -> Response:
    """Decode a request, call its function, and encode what it returns."""
    query: Any = _decode_query(endpoint.query, request)
    if endpoint.method == "GET":
        return _response(endpoint, await endpoint.handler(Call(site, request, query, Nothing())))
    data = await _read_body(request)
    body: Any = _decode_body(endpoint.body, data)
    call = Call(site, request, query, body)
    if call.key is None:
        return _response(endpoint, await endpoint.handler(call))
    if not 0 < len(call.key) <= MAX_KEY_CHARS:
        raise BadInput(f"Idempotency-Key has 1 to {MAX_KEY_CHARS} characters")
    named = (endpoint.name, *sorted(call.path.items()), call.key)
    return _response(endpoint, await site.idempotent_requests.do(named, data, lambda: endpoint.handler(call)))


def _response(endpoint: Endpoint, answer: Any) -> Response:
    if isinstance(answer, Response):
        return answer
    headers = {"Cache-Control": "no-store"}
    return Response(msgspec.json.encode(answer), endpoint.status, headers, media_type="application/json")


def _decode_query(kind: type[T], request: Request) -> T:
    given = dict(request.query_params)
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise BadInput(f"the query is wrong: {error}") from None


async def _read_body(request: Request) -> bytes:
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > MAX_BODY_BYTES:
            raise BadInput(f"the body is longer than {MAX_BODY_BYTES} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


def _decode_body(kind: type[T], data: bytes) -> T:
    try:
        return msgspec.json.decode(data or b"{}", type=kind)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise BadInput(f"the body is wrong: {error}") from None
