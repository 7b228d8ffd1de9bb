"""Facts of files that an agent asks us for: in order, in nobody's way, and none of them after its time."""

import asyncio
import os
from collections.abc import Awaitable
from typing import Any

import pytest

from holdfast.agents.acp.client import AcpClient
from holdfast.agents.jsonrpc.connection import INVALID_PARAMS_CODE, METHOD_NOT_FOUND_CODE, JsonRpcError
from holdfast.agents.process.terminals import Terminals
from tests.agents.company import Company, shell
from tests.support.wait import until


@pytest.fixture
def client(company: Company) -> AcpClient:
    scribe = company.scribe()
    terminals = Terminals(shell(company.cwd, "true"))
    return AcpClient(
        company.cwd, company.person, terminals, scribe.record_allowed_call, scribe.look_up_call, scribe.flush
    )


def read_file(client: AcpClient, path: str, **more: int) -> Awaitable[dict[str, Any]]:
    return client.handle("fs/read_text_file", {"sessionId": "s", "path": path, **more})


def write_file(client: AcpClient, path: str, content: str) -> Awaitable[dict[str, Any]]:
    return client.handle("fs/write_text_file", {"sessionId": "s", "path": path, "content": content})


async def test_a_long_file_keeps_nobody_waiting(client: AcpClient, company: Company) -> None:
    with open(company.path("long"), "wb") as file:
        file.truncate(100 * 1024 * 1024)
    reading = asyncio.ensure_future(read_file(client, "long", line=2, limit=1))
    turns = 0
    while not reading.done():
        await asyncio.sleep(0)
        turns += 1
    assert (await reading)["content"] == ""
    assert turns > 10


async def test_what_is_refused_is_told_in_the_protocols_words(client: AcpClient) -> None:
    with pytest.raises(JsonRpcError, match="Invalid params") as raised:
        await write_file(client, "../outside", "x")
    assert "outside of" in str(raised.value.data)
    with pytest.raises(JsonRpcError, match="Resource not found"):
        await read_file(client, "nowhere")


async def test_files_are_read_and_written_in_the_order_of_the_questions(client: AcpClient) -> None:
    writes = [asyncio.ensure_future(write_file(client, "a", str(number) * 100_000)) for number in range(9)]
    answer = await asyncio.ensure_future(read_file(client, "a"))
    await asyncio.gather(*writes)
    assert answer["content"] == "8" * 100_000


async def test_a_write_that_is_called_off_is_done_by_then_or_never(client: AcpClient, company: Company) -> None:
    """What came later would fall upon the work of the next agent."""
    writes = [asyncio.ensure_future(write_file(client, name, "x" * 20_000_000)) for name in "abc"]
    await until(client._files_lock.locked)
    for write in writes:
        write.cancel()
    await asyncio.wait(writes)
    assert os.listdir(company.cwd) == ["a"]
    assert os.path.getsize(company.path("a")) == 20_000_000


async def test_unknown_methods_and_malformed_parameters_are_refused(client: AcpClient) -> None:
    malformed: tuple[object, ...] = (None, [], {}, {"sessionId": "s"}, {"sessionId": "s", "path": 5})
    for params in malformed:
        with pytest.raises(JsonRpcError) as refused:
            await client.handle("fs/read_text_file", params)
        assert refused.value.code == INVALID_PARAMS_CODE
    with pytest.raises(JsonRpcError) as unknown:
        await client.handle("_vendor/method", {})
    assert unknown.value.code == METHOD_NOT_FOUND_CODE


async def test_meta_and_unknown_parameters_are_ignored(client: AcpClient, company: Company) -> None:
    params = {"sessionId": "s", "path": "a", "content": "x", "_meta": {"path": "b"}, "vendor": 1}
    await client.handle("fs/write_text_file", params)
    assert os.listdir(company.cwd) == ["a"]


async def test_malformed_optional_parameters_count_as_missing(client: AcpClient) -> None:
    await write_file(client, "a", "text")
    params = {"sessionId": "s", "path": "a", "line": "one", "limit": None}
    assert await client.handle("fs/read_text_file", params) == {"content": "text"}
