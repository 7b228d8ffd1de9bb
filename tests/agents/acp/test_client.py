"""Facts of files that an agent asks us for: in order, in nobody's way, and none of them after its time."""

import asyncio
import os

import pytest
from acp import RequestError

from holdfast.agents.acp.client import AcpClient
from holdfast.agents.process.terminals import Terminals
from tests.agents.company import Company, shell
from tests.support.wait import until


@pytest.fixture
def client(company: Company) -> AcpClient:
    scribe = company.scribe()
    terminals = Terminals(shell(company.cwd, "true"))
    return AcpClient(company.cwd, company.person, terminals, scribe.record_allowed_call, scribe.look_up_call)


async def test_a_long_file_keeps_nobody_waiting(client: AcpClient, company: Company) -> None:
    with open(company.path("long"), "wb") as file:
        file.truncate(100 * 1024 * 1024)
    reading = asyncio.ensure_future(client.read_text_file("long", line=2, limit=1))
    turns = 0
    while not reading.done():
        await asyncio.sleep(0)
        turns += 1
    assert (await reading).content == ""
    assert turns > 10


async def test_what_is_refused_is_told_in_the_protocols_words(client: AcpClient) -> None:
    with pytest.raises(RequestError, match="Invalid params") as raised:
        await client.write_text_file("../outside", "x")
    assert "outside of" in str(raised.value.data)
    with pytest.raises(RequestError, match="Resource not found"):
        await client.read_text_file("nowhere")


async def test_files_are_read_and_written_in_the_order_of_the_questions(client: AcpClient) -> None:
    writes = [asyncio.ensure_future(client.write_text_file("a", str(number) * 100_000)) for number in range(9)]
    read = await asyncio.ensure_future(client.read_text_file("a"))
    await asyncio.gather(*writes)
    assert read.content == "8" * 100_000


async def test_a_write_that_is_called_off_is_done_by_then_or_never(client: AcpClient, company: Company) -> None:
    """What came later would fall upon the work of the next agent."""
    writes = [asyncio.ensure_future(client.write_text_file(name, "x" * 20_000_000)) for name in "abc"]
    await until(client._files_lock.locked)
    for write in writes:
        write.cancel()
    await asyncio.wait(writes)
    assert os.listdir(company.cwd) == ["a"]
    assert os.path.getsize(company.path("a")) == 20_000_000
