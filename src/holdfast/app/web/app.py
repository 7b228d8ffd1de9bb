"""The web application: who may, which endpoint, and the headers that every answer has."""

import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from holdfast.app.text.screen import printable
from holdfast.app.web.access import Refusal, headers_of
from holdfast.app.web.endpoint import PREFIX, Endpoint, respond
from holdfast.app.web.live_client import serve_live
from holdfast.app.web.problems import Problem, answer, problem_response, storage_problem
from holdfast.app.web.reading.metrics import CONTENT_TYPE, metrics_text
from holdfast.app.web.routes import ENDPOINTS
from holdfast.app.web.site import Site
from holdfast.app.web.static import missing_page, page_file
from holdfast.app.web.terminal_client import serve_terminal
from holdfast.leaf.errors import HoldfastError
from holdfast.leaf.ids import is_run_id

_POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
    "img-src 'self' data:; font-src 'self' data:; object-src 'none'; base-uri 'none'; frame-ancestors 'none'; "
    "form-action 'self'"
)
_HEADERS = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
]
_PROTECTED = ("/api", "/metrics")  # the rest is the page, which holds no secret
_SIGNED_IN = """<!doctype html><meta charset=utf-8><meta http-equiv=refresh content="0;url={path}">
<title>holdfast</title><p><a href="{path}">Continue</a>"""
_CODE_USED = """<!doctype html><meta charset=utf-8><title>holdfast</title>
<p>This link was used already. Open the page again with: <code>holdfast serve --open</code>"""


def create_app(site: Site, background: Callable[[], Any] | None = None) -> ASGIApp:
    """Return the application. `background` is an async context manager for what runs beside it."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        if background is None:
            yield
        else:
            async with background():
                yield

    api = [Route(f"{PREFIX}{each.path}", _handler(each, site), methods=[each.method]) for each in ENDPOINTS]
    websockets = [
        WebSocketRoute(f"{PREFIX}/live", _websocket(site, serve_live)),
        WebSocketRoute(f"{PREFIX}/terminal/{{run}}", _websocket(site, serve_terminal)),
    ]
    metrics = Route("/metrics", _metrics(site), methods=["GET"])
    sign_in = Route("/open", _sign_in(site), methods=["GET"])
    missing = Route("/api/{path:path}", _missing, methods=["GET", "POST", "PUT", "PATCH", "DELETE"])
    page = Route("/{path:path}", _page if site.options.page else _missing_page, methods=["GET"])
    return Guard(Starlette(routes=[*api, *websockets, metrics, sign_in, missing, page], lifespan=lifespan), site)


class Guard:
    """Refuses requests before anything of ours sees them, and adds the headers that protect the page."""

    def __init__(self, app: ASGIApp, site: Site) -> None:
        self._app = app
        self._access = site.access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return

        async def send_protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            await send(message)

        headers = headers_of(scope)
        is_api = scope["path"].startswith(_PROTECTED) or scope["type"] == "websocket"
        refusal = self._access.refuse(headers) if is_api else self._access.refuse_host(headers)
        if refusal is None:
            await self._app(scope, receive, send_protected)
        elif scope["type"] == "websocket":
            await _refuse_websocket(refusal, scope, receive, send)
        else:
            await _as_response(refusal)(scope, receive, send_protected)


def _as_response(refusal: Refusal) -> Response:
    return answer(refusal.status, Problem(refusal.error, refusal.hint, 5, refusal.reason))


async def _refuse_websocket(refusal: Refusal, scope: Scope, receive: Receive, send: Send) -> None:
    websocket = WebSocket(scope, receive, send)
    with suppress(WebSocketDisconnect, RuntimeError):
        if "websocket.http.response" in scope.get("extensions", {}):
            await websocket.send_denial_response(_as_response(refusal))
        else:
            await websocket.close(1008, refusal.error)


def _handler(endpoint: Endpoint, site: Site) -> Callable[[Request], Awaitable[Response]]:
    async def handle(request: Request) -> Response:
        try:
            return await respond(endpoint, site, request)
        except HoldfastError as error:
            return problem_response(error)
        except OSError as error:
            return storage_problem(error)
        except Exception as error:
            if os.environ.get("HOLDFAST_DEBUG"):
                raise
            text = f"a bug in Holdfast: {error!r}; nothing is lost"
            sys.stderr.write(f"holdfast: {endpoint.name}: {printable(text)}\n")
            return answer(500, Problem(text, "set HOLDFAST_DEBUG=1 for a traceback", 1))

    return handle


def _websocket(
    site: Site, serve: Callable[[Site, WebSocket], Awaitable[None]]
) -> Callable[[WebSocket], Awaitable[None]]:
    async def handle(websocket: WebSocket) -> None:
        with suppress(WebSocketDisconnect):
            await serve(site, websocket)

    return handle


def _sign_in(site: Site) -> Callable[[Request], Awaitable[Response]]:
    async def sign_in(request: Request) -> Response:
        """Give the browser its cookie. A link of our own loads the page: a redirect would not send the cookie."""
        if not site.access.redeem(request.query_params.get("code", "")):
            return HTMLResponse(_CODE_USED, 403)
        site.code_used()
        cookie = site.access.cookie_header(request.headers.get("host"))
        run_id = request.query_params.get("run", "")
        page = _SIGNED_IN.format(path=f"/runs/{run_id}" if is_run_id(run_id) else "/")
        return HTMLResponse(page, headers={"Set-Cookie": cookie, "Cache-Control": "no-store"})

    return sign_in


def _metrics(site: Site) -> Callable[[Request], Awaitable[Response]]:
    async def metrics(_: Request) -> Response:
        try:
            return Response(
                await metrics_text(site), headers={"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"}
            )
        except HoldfastError as error:
            return problem_response(error)
        except OSError as error:
            return storage_problem(error)

    return metrics


async def _missing(request: Request) -> Response:
    known = {endpoint.method for endpoint in ENDPOINTS if _same_path(endpoint.path, request.url.path)}
    if known:
        return answer(405, Problem(f"this takes {' and '.join(sorted(known))}", None, 2))
    return answer(404, Problem("there is no such endpoint", "docs/api.md lists them", 4))


def _same_path(pattern: str, path: str) -> bool:
    parts, given = pattern.strip("/").split("/"), path.removeprefix(PREFIX).strip("/").split("/")
    return len(parts) == len(given) and all(
        part.startswith("{") or part == found for part, found in zip(parts, given, strict=True)
    )


async def _page(request: Request) -> Response:
    return page_file(request.path_params["path"])


async def _missing_page(_: Request) -> Response:
    return missing_page()
