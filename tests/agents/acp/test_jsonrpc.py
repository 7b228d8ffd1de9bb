"""Facts of JSON-RPC: every request gets one response or one error, whatever the other side sends."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast.agents.jsonrpc.connection import INTERNAL_ERROR_CODE, AlreadyResponded, JsonRpcConnection, JsonRpcError
from tests.support.wait import ticks, until


class Wire:
    """The other side: what it received, and what it sends."""

    def __init__(self) -> None:
        self.received: list[dict[str, Any]] = []
        self.to_send: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self.accepts = True

    async def send(self, frame: dict[str, Any]) -> None:
        if not self.accepts:
            raise ConnectionError("closed")
        self.received.append(frame)


@pytest.fixture
async def wire() -> Wire:
    return Wire()


async def handle(method: str, params: Any, request_id: Any) -> Any:
    match method:
        case "echo":
            return params
        case "refuse":
            raise JsonRpcError(-32000, "no", {"why": 1})
        case "break":
            raise RuntimeError("a bug")
        case _:
            return AlreadyResponded


@pytest.fixture
async def connection(wire: Wire) -> AsyncIterator[JsonRpcConnection]:
    made = JsonRpcConnection(handle, wire.send)
    serving = asyncio.ensure_future(made.serve(wire.to_send.get, ConnectionError("the end")))
    yield made
    wire.to_send.put_nowait(None)
    await serving
    await made.stop()


async def test_response_resolves_its_request(connection: JsonRpcConnection, wire: Wire) -> None:
    first, second = (asyncio.ensure_future(connection.request("m", {"n": n})) for n in range(2))
    wire.to_send.put_nowait({"id": 1, "result": "b"})
    wire.to_send.put_nowait({"id": 0, "result": "a"})
    assert (await first, await second) == ("a", "b")
    assert wire.received[1] == {"jsonrpc": "2.0", "id": 1, "method": "m", "params": {"n": 1}}


@pytest.mark.parametrize("error", ["no", 5, {"code": "x", "message": ["no"]}, {}, {"code": -32000, "data": [1]}])
async def test_error_of_any_shape_is_readable(connection: JsonRpcConnection, wire: Wire, error: Any) -> None:
    wire.to_send.put_nowait({"id": 0, "error": error})
    with pytest.raises(JsonRpcError) as raised:
        await connection.request("m", {})
    expected = error["code"] if isinstance(error, dict) and type(error.get("code")) is int else INTERNAL_ERROR_CODE
    assert raised.value.code == expected
    assert raised.value.data == (error.get("data") if isinstance(error, dict) else None)


async def test_null_error_beside_a_result_is_no_error(connection: JsonRpcConnection, wire: Wire) -> None:
    wire.to_send.put_nowait({"id": 0, "result": {}, "error": None})
    assert await connection.request("m", {}) == {}


async def test_responses_to_nothing_are_ignored(connection: JsonRpcConnection, wire: Wire) -> None:
    ids: tuple[object, ...] = ([0], {}, None, "0", 99, False)
    for request_id in ids:
        wire.to_send.put_nowait({"id": request_id, "result": "wrong"})
    wire.to_send.put_nowait({"id": 0, "result": "right"})
    wire.to_send.put_nowait({"id": 0, "result": "late"})
    assert await connection.request("m", {}) == "right"


async def test_disconnect_ends_pending_and_later_requests(connection: JsonRpcConnection, wire: Wire) -> None:
    pending = asyncio.ensure_future(connection.request("m", {}))
    await until(lambda: bool(wire.received))
    wire.to_send.put_nowait(None)
    with pytest.raises(ConnectionError, match="the end"):
        await pending
    with pytest.raises(ConnectionError, match="the end"):
        await connection.request("m", {})
    with pytest.raises(ConnectionError, match="the end"):
        await connection.notify("m", {})
    wire.to_send.put_nowait(None)


async def test_request_that_cannot_be_sent_fails(connection: JsonRpcConnection, wire: Wire) -> None:
    wire.accepts = False
    with pytest.raises(ConnectionError, match="closed"):
        await connection.request("m", {})


async def test_requests_get_results_and_errors(
    connection: JsonRpcConnection, wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    for number, method in enumerate(("echo", "refuse", "break", "later")):
        wire.to_send.put_nowait({"id": f"r{number}", "method": method, "params": [number]})
        wire.to_send.put_nowait({"method": method, "params": {}})  # a notification is not answered
    with caplog.at_level(logging.CRITICAL):
        await until(wire.to_send.empty)
        await connection.finish()
    assert wire.received[:2] == [
        {"jsonrpc": "2.0", "id": "r0", "result": [0]},
        {"jsonrpc": "2.0", "id": "r1", "error": {"code": -32000, "message": "no", "data": {"why": 1}}},
    ]
    (broken,) = wire.received[2:]
    assert broken["id"] == "r2"
    assert broken["error"]["code"] == INTERNAL_ERROR_CODE


async def test_requests_start_in_order_and_run_together(wire: Wire) -> None:
    started: list[str] = []

    async def wait(method: str, _: Any, __: Any) -> Any:
        started.append(method)
        await asyncio.Event().wait()

    connection = JsonRpcConnection(wait, wire.send)
    for number in range(5):
        await connection.process({"id": number, "method": f"m{number}"})
        assert started[-1] == f"m{number}"
    await ticks(5)
    await connection.stop()
    assert wire.received == []
