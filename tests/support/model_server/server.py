"""A model on loopback that plays a script, in the formats of OpenAI, Anthropic and Google.

In a test:        with ModelServer(in_turn(Answer(text="hello"))) as model: … model.base_url("openai") …
As a process:     python -m tests.support.model_server.server --script script.json
                  prints its address; GET /_control/requests, POST /_control/{script,open,reset}
"""

import argparse
import asyncio
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from tests.support.model_server.anthropic_messages import AnthropicMessages
from tests.support.model_server.gemini import Gemini
from tests.support.model_server.openai_chat import OpenAIChat
from tests.support.model_server.openai_responses import OpenAIResponses
from tests.support.model_server.script import Answer, Rule, Script
from tests.support.model_server.seen import Seen
from tests.support.model_server.wire import Refused, Wire
from tests.support.wait import PATIENCE

_PATHS = {"openai": "/v1", "openai-responses": "/v1", "anthropic": "", "google": ""}


class _Broken(Exception):
    """The connection is closed in the middle of an answer."""


class ModelServer:
    def __init__(self, script: Script | None = None, port: int = 0) -> None:
        self._script = script or Script()
        self._used: dict[int, int] = {}
        self._seen: list[Seen] = []
        self._unexpected: list[Seen] = []
        self._open: set[str] = set()
        self._changed = threading.Condition()
        self._wakers: list[asyncio.Event] = []
        self._stopping = False
        self._era = 0
        self._socket = socket.create_server(("127.0.0.1", port))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._routes = self._app()
        config = uvicorn.Config(
            self._of_this_era, interface="asgi3", log_config=None, log_level="critical", lifespan="off", ws="none"
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._serve, name="model server", daemon=True)

    # --- for tests ----------------------------------------------------------------------------------

    @property
    def address(self) -> str:
        """Until the next `reset`: a late request of a program that was told before is not this test's."""
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}/{self._era}"

    def base_url(self, provider: str) -> str:
        """What a client of this provider is to be given."""
        return self.address + _PATHS[provider]

    @property
    def requests(self) -> list[Seen]:
        """Every request of the conversation, oldest first; side calls apart."""
        with self._changed:
            return [seen for seen in self._seen if not seen.side]

    @property
    def side_calls(self) -> list[Seen]:
        with self._changed:
            return [seen for seen in self._seen if seen.side]

    @property
    def unexpected(self) -> list[Seen]:
        with self._changed:
            return list(self._unexpected)

    def play(self, script: Script) -> None:
        with self._changed:
            self._script = script
            self._used = {}
            self._seen = []
            self._unexpected = []

    def reset(self) -> None:
        """Forget everything; whoever still waits for an answer is cut off."""
        self.play(Script())
        with self._changed:
            self._open = set()
            self._era += 1
        self._wake()

    def open(self, gate: str) -> None:
        """Let the answers go on that wait at this gate, now and later."""
        with self._changed:
            self._open.add(gate)
        self._wake()

    async def asked(self, times: int) -> Seen:
        """The nth request of the conversation, as soon as it is there."""
        return await asyncio.to_thread(self._wait, lambda: len(self.requests) >= times, times)

    def _wait(self, ready: Callable[[], bool], times: int) -> Seen:
        with self._changed:
            assert self._changed.wait_for(ready, PATIENCE), f"only {len(self.requests)} requests came, not {times}"
        return self.requests[times - 1]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._changed:
            self._stopping = True
        self._wake()
        self._server.should_exit = True
        self._server.force_exit = True
        self._thread.join(PATIENCE)
        self._socket.close()

    # --- inside -------------------------------------------------------------------------------------

    def _serve(self) -> None:
        async def serve() -> None:
            self._loop = asyncio.get_running_loop()
            await self._server.serve(sockets=[self._socket])

        asyncio.run(serve())

    def _wake(self) -> None:
        def wake() -> None:
            for waker in self._wakers:
                waker.set()

        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits
                self._loop.call_soon_threadsafe(wake)

    async def _until(self, ready: Callable[[], bool]) -> None:
        waker = asyncio.Event()
        era = self._era
        self._wakers.append(waker)
        try:
            while not ready() and not self._stopping and self._era == era:
                await waker.wait()
                waker.clear()
        finally:
            self._wakers.remove(waker)
        if self._stopping or self._era != era:
            raise _Broken

    async def _of_this_era(self, scope: Scope, receive: Receive, send: Send) -> None:
        era, _, path = str(scope["path"])[1:].partition("/")
        if era != str(self._era):
            await Response(status_code=410)(scope, receive, send)
        else:
            await self._routes({**scope, "path": f"/{path}"}, receive, send)

    def _app(self) -> Starlette:
        post = ["POST"]
        return Starlette(
            routes=[
                Route("/v1/chat/completions", self._endpoint(OpenAIChat()), methods=post),
                Route("/v1/responses", self._endpoint(OpenAIResponses()), methods=post),
                Route("/v1/messages", self._endpoint(AnthropicMessages()), methods=post),
                Route("/v1/messages/count_tokens", _count_anthropic, methods=post),
                Route("/v1/models", _models),
                Route("/v1beta/models/{call:path}", self._gemini, methods=post),
                Route("/v1/models/{call:path}", self._gemini, methods=post),
                Route("/_control/requests", self._control_requests),
                Route("/_control/{verb}", self._control, methods=post),
            ]
        )

    def _endpoint(self, wire: Wire) -> Any:
        async def endpoint(request: Request) -> Response:
            body = await request.json()
            return await self._answer(wire, request, body, body.get("model", ""), streamed=bool(body.get("stream")))

        return endpoint

    async def _gemini(self, request: Request) -> Response:
        model, _, verb = request.path_params["call"].partition(":")
        if verb == "countTokens":
            return JSONResponse({"totalTokens": 10})
        body = await request.json()
        return await self._answer(Gemini(), request, body, model, streamed=verb == "streamGenerateContent")

    async def _answer(self, wire: Wire, request: Request, body: Any, model: str, *, streamed: bool) -> Response:
        seen = wire.read(body, dict(request.headers), model, streamed=streamed)
        with self._changed:
            self._seen.append(seen)
            number = len(self._seen)
            answer = self._choose(seen)
            self._changed.notify_all()
        if answer is None:
            return JSONResponse({"error": {"message": "the script has no answer to this call"}}, status_code=400)
        if answer.after == 0 or not streamed:
            try:
                await self._trouble(answer)
            except _Broken:
                return Response(status_code=500) if self._stopping else _BrokenResponse()
            if answer.fault is not None and not (answer.fault.in_stream and streamed):
                return _refused(wire.refusal(answer.fault, number))
        if streamed:
            return StreamingResponse(self._stream(wire, seen, answer, number), media_type="text/event-stream")
        return JSONResponse(wire.whole(seen, answer, number))

    def _choose(self, seen: Seen) -> Answer | None:
        call = sum(not earlier.side for earlier in self._seen)
        for index, rule in enumerate(self._script.rules):
            used = self._used.get(index, 0)
            if (rule.times is None or used < rule.times) and rule.fits(seen, call):
                self._used[index] = used + 1
                return rule.answer.to(seen)
        if seen.side:
            return self._script.side
        if self._script.otherwise is None:
            self._unexpected.append(seen)
        return self._script.otherwise

    async def _trouble(self, answer: Answer) -> None:
        if answer.gate is not None:
            gate = answer.gate
            await self._until(lambda: gate in self._open)
        if answer.hang:
            await self._until(lambda: False)
        if answer.broken:
            raise _Broken

    async def _stream(self, wire: Wire, seen: Seen, answer: Answer, number: int) -> AsyncIterator[bytes]:
        for index, piece in enumerate(wire.pieces(seen, answer, number)):
            if answer.delay:
                await asyncio.sleep(answer.delay)
            if index == answer.after and index > 0:
                await self._trouble(answer)
            if index == max(answer.after, 1) and answer.fault is not None:
                yield wire.refusal_in_stream(answer.fault, number)
                return
            yield piece

    async def _control_requests(self, request: Request) -> Response:
        with self._changed:
            data = msgspec.json.encode({"requests": self._seen, "unexpected": self._unexpected})
        return Response(data, media_type="application/json")

    async def _control(self, request: Request) -> Response:
        verb, body = request.path_params["verb"], await request.body()
        if verb == "script":
            self.play(msgspec.json.decode(body, type=Script))
        elif verb == "open":
            self.open(msgspec.json.decode(body, type=str))
        elif verb == "reset":
            self.reset()
        else:
            return Response(f"no such control: {verb}", status_code=404)
        return JSONResponse({"ok": True})


class _BrokenResponse(Response):
    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        raise _Broken


def _refused(refusal: Refused) -> Response:
    return JSONResponse(refusal.body, status_code=refusal.status, headers=refusal.headers)


async def _count_anthropic(request: Request) -> Response:
    return JSONResponse({"input_tokens": 10})


async def _models(request: Request) -> Response:
    model = {"id": "scripted", "object": "model", "created": 0, "owned_by": "tests"}
    return JSONResponse({"object": "list", "data": [model]})


def main() -> None:
    parser = argparse.ArgumentParser(description="A scripted model on loopback.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", help="a JSON file: {rules: [{answer: {text: …}, user: …}], otherwise: {…}}")
    options = parser.parse_args()
    script = Script([Rule(Answer(text="hello"))])
    if options.script:
        with open(options.script, "rb") as file:
            script = msgspec.json.decode(file.read(), type=Script)
    with ModelServer(script, options.port) as server:
        sys.stdout.write(f"{server.address}\n")
        sys.stdout.flush()
        with suppress(KeyboardInterrupt):
            while True:
                time.sleep(3600)


if __name__ == "__main__":
    main()
