"""Facts of the pipe: what comes out of it keeps its order, and nothing that comes through it breaks it."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast.agents.acp.transport import MAX_FRAME_BYTES, Transport
from holdfast.agents.process.tree import spawn
from tests.agents.company import resident, shell
from tests.support.wait import ticks, until

REQUEST = b'{"jsonrpc":"2.0","id":"r","method":"fs/read_text_file","params":{}}\n'


def update(text: str) -> bytes:
    params = {"sessionId": "s", "update": {"sessionUpdate": "agent_message_chunk", "content": {"text": text}}}
    return json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}).encode() + b"\n"


class Ear:
    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []
        self.odd: list[tuple[str, str]] = []

    async def tell(self, session: str, update: dict[str, Any]) -> None:
        self.told.append(update)

    async def wonder(self, what: str, piece: str) -> None:
        self.odd.append((what, piece))


@pytest.fixture
def cwd(tmp_path: os.PathLike[str]) -> str:
    return os.fspath(tmp_path)


@asynccontextmanager
async def pipe(cwd: str, ear: Ear, script: str) -> AsyncIterator[Transport]:
    async with spawn(shell(cwd, script)) as tree:
        yield Transport(tree, ear.tell, ear.wonder)


@asynccontextmanager
async def saying(cwd: str, ear: Ear, *lines: bytes) -> AsyncIterator[Transport]:
    with open(os.path.join(cwd, "said"), "wb") as file:
        file.write(b"".join(lines))
    async with pipe(cwd, ear, "cat said") as transport:
        yield transport


async def test_a_hundred_thousand_updates_come_in_order_and_take_no_memory(cwd: str) -> None:
    count, heard, most = 100_000, 0, 0
    before = resident()

    class Counting(Ear):
        async def tell(self, session: str, update: dict[str, Any]) -> None:
            nonlocal heard, most
            assert update["content"]["text"] == str(heard)
            heard += 1
            if heard % 5_000 == 0:
                most = max(most, resident() - before)

    script = (
        """seq 0 99999 | sed 's/.*/{"method":"session\\/update","params":{"sessionId":"s","update":"""
        """{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"&"}}}}/'"""
    )
    async with pipe(cwd, Counting(), script) as transport:
        assert await transport.receive() is None
        assert transport.frames_received == count
    assert heard == count
    assert most < 24 * 1024 * 1024


async def test_a_flood_waits_in_the_pipe_while_one_update_is_written(cwd: str) -> None:
    gate = asyncio.Event()

    class Slow(Ear):
        async def tell(self, session: str, update: dict[str, Any]) -> None:
            await super().tell(session, update)
            await gate.wait()

    ear = Slow()
    async with saying(cwd, ear, *(update("x" * 1000) for _ in range(10_000))) as transport:
        receiving = asyncio.ensure_future(transport.receive())
        await until(lambda: bool(ear.told))
        await ticks(2000)
        assert len(ear.told) == 1
        assert len(transport._tree.stdout._buffer) < 4 * 1024 * 1024  # type: ignore[attr-defined]
        gate.set()
        assert await receiving is None
    assert len(ear.told) == 10_000


async def test_an_answer_comes_after_all_that_was_said_before_it(cwd: str) -> None:
    ear = Ear()
    async with saying(cwd, ear, update("one"), update("two"), REQUEST, update("three")) as transport:
        message = await transport.receive()
        assert message is not None
        assert [one["content"]["text"] for one in ear.told] == ["one", "two"]
        assert await transport.receive() is None
        assert len(ear.told) == 3


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (b"Welcome to the agent!\n", "a line that is not JSON"),
        (b'{"jsonrpc":"2.0","method":"session/upd\n', "a line that is not JSON"),
        (b'{"jsonrpc":"2.0","method":"\xff\xfe"}\n', "a line that is not JSON"),
        (b"[" * 100_000 + b"\n", "a line that is not JSON"),
        (b"[1, 2]\n", "a line that is not a message"),
        (b"null\n", "a line that is not a message"),
        (b"{}\n", "an answer without a request"),
        (b'{"id":99,"result":{}}\n', "an answer without a request"),
        (b'{"id":[0],"result":{}}\n', "an answer without a request"),
        (b'{"id":null,"error":{"code":-32700}}\n', "an answer without a request"),
        (b'{"method":["session/update"],"id":1}\n', "a message whose method is not a string"),
        (b'{"method":"news","params":{}}\n', "an unknown notification"),
        (b'{"method":"fs/read_text_file","id":[]}\n', "a request that cannot be answered"),
        (b'{"method":"fs/read_text_file","id":null}\n', "a request that cannot be answered"),
        (b'{"method":"fs/read_text_file","id":1,"result":{}}\n', "a request that cannot be answered"),
        (b'{"method":"session/update"}\n', "an update without a session"),
        (b'{"method":"session/update","params":[]}\n', "an update without a session"),
        (b'{"method":"session/update","params":{"sessionId":1,"update":{}}}\n', "an update without a session"),
        (b'{"method":"session/update","params":{"sessionId":"s","update":"x"}}\n', "an update without a session"),
    ],
)
async def test_what_is_no_message_is_told_of_once_and_passed_over(cwd: str, line: bytes, what: str) -> None:
    ear = Ear()
    async with saying(cwd, ear, line, REQUEST, update("on")) as transport:
        message = await transport.receive()
        assert message is not None
        assert message["id"] == "r"
        assert await transport.receive() is None
    assert [odd for odd, _ in ear.odd] == [what]
    assert len(ear.odd[0][1]) <= 400
    assert len(ear.told) == 1


async def test_what_is_nested_too_deep_and_waited_for_is_answered(cwd: str) -> None:
    """A request loses its parameters, and is refused; an answer becomes an error."""
    ear, deep = Ear(), b"[" * 300 + b"]" * 300
    question = b'{"id":"q","method":"fs/read_text_file","params":{"path":' + deep + b"}}\n"
    wide = b'{"id":"w","method":"fs/read_text_file","params":{"path":[' + b"[]," * 300 + b"[]]}}\n"
    async with saying(cwd, ear, question, wide) as transport:
        assert await transport.receive() == {"id": "q", "method": "fs/read_text_file"}
        assert (await transport.receive() or {})["params"]["path"] == [[]] * 301
        assert await transport.receive() is None
    assert [odd for odd, _ in ear.odd] == ["a message that is nested too deeply"]


async def test_empty_lines_and_a_vendors_own_notifications_are_nothing_odd(cwd: str) -> None:
    ear = Ear()
    async with saying(cwd, ear, b"\n", b"  \r\n", b'{"method":"_vendor/news"}\n', REQUEST) as transport:
        assert await transport.receive() is not None
    assert ear.odd == []


async def test_the_second_answer_to_a_question_is_told_of(cwd: str) -> None:
    ear = Ear()
    async with pipe(cwd, ear, """read line; echo '{"id":0,"result":1}'; echo '{"id":0,"result":2}'""") as transport:
        await transport.send({"id": 0, "method": "initialize", "params": {}})
        assert await transport.receive() == {"id": 0, "result": 1}
        assert await transport.receive() is None
    assert [what for what, _ in ear.odd] == ["an answer without a request"]


async def test_a_long_line_is_read_whole(cwd: str) -> None:
    ear = Ear()
    async with saying(cwd, ear, update("x" * 5_000_000)) as transport:
        assert await transport.receive() is None
    assert len(ear.told[0]["content"]["text"]) == 5_000_000


async def test_a_line_that_is_too_long_is_passed_over_and_told_of(cwd: str) -> None:
    ear = Ear()
    script = f"head -c {MAX_FRAME_BYTES + 3_000_000} /dev/zero | tr '\\0' x; echo; cat said"
    with open(os.path.join(cwd, "said"), "wb") as file:
        file.write(REQUEST)
    async with pipe(cwd, ear, script) as transport:
        assert await transport.receive() is not None
    assert [what for what, _ in ear.odd] == ["a line that is too long"]


async def test_half_a_line_at_the_end_is_told_of(cwd: str) -> None:
    ear = Ear()
    async with saying(cwd, ear, REQUEST, REQUEST[:20]) as transport:
        assert await transport.receive() is not None
        assert await transport.receive() is None
    assert [what for what, _ in ear.odd] == ["an incomplete last line"]


async def test_an_agent_that_takes_no_more_ends_the_connection(cwd: str) -> None:
    async with pipe(cwd, Ear(), "exec <&-; echo; sleep 600") as transport:
        await transport._tree.stdout.readline()  # its input is closed
        with pytest.raises(ConnectionError):
            await transport.send({"id": 0, "method": "m", "params": {"text": "x" * 1_000_000}})


async def test_our_own_failure_in_hearing_is_kept_for_whoever_waits(cwd: str) -> None:
    class Broken(Ear):
        async def tell(self, session: str, update: dict[str, Any]) -> None:
            raise OSError("the disk is full")

    async with saying(cwd, Broken(), update("x")) as transport:
        assert await transport.receive() is None
        assert isinstance(transport.failure, OSError)


async def test_an_answer_to_an_agent_that_takes_no_more_is_nobodys_trouble(cwd: str) -> None:
    async with pipe(cwd, Ear(), "exec <&-; echo; sleep 600") as transport:
        await transport._tree.stdout.readline()  # its input is closed
        await transport.send({"id": 0, "result": {"text": "x" * 1_000_000}})


async def test_an_answer_that_names_a_path_which_is_no_utf8_is_sent(cwd: str) -> None:
    """Without it the agent would wait for ever. The name is that of a file as the kernel gives it."""
    ear = Ear()
    path = os.fsdecode(b"caf\xe9")
    async with pipe(cwd, ear, "read line; echo $line > got; echo '" + REQUEST.decode().strip() + "'") as one:
        await one.send({"jsonrpc": "2.0", "id": "r", "error": {"code": -32002, "message": f"not found: {path}"}})
        assert await one.receive() is not None
    with open(os.path.join(cwd, "got"), "rb") as file:
        assert json.loads(file.read())["error"]["message"] == "not found: caf?"
