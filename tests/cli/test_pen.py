"""The pen: whoever does not read holds up nobody."""

import asyncio
import fcntl
import os

import pytest

from holdfast.app.cli.live.async_writer import AsyncWriter, ReaderGone

F_SETPIPE_SZ = 1031
SMALL = 4096


@pytest.fixture
def pipe() -> tuple[int, int]:
    ours, theirs = os.pipe()
    fcntl.fcntl(theirs, F_SETPIPE_SZ, SMALL)
    return ours, theirs


async def test_what_is_written_arrives_in_order(pipe: tuple[int, int]) -> None:
    ours, theirs = pipe
    pen = AsyncWriter(theirs)
    for word in ("one ", b"two ", "dr\udcffei"):
        await pen.write(word)
    assert os.read(ours, 100) == b"one two dr\\udcffei"


@pytest.mark.parametrize("blocking", [True, False])
async def test_a_reader_that_waits_holds_up_only_the_writing(pipe: tuple[int, int], blocking: bool) -> None:
    ours, theirs = pipe
    os.set_blocking(theirs, blocking)
    pen = AsyncWriter(theirs)
    writing = asyncio.ensure_future(pen.write(b"x" * 3 * SMALL))
    for _ in range(100):
        await asyncio.sleep(0)  # the loop goes round
    assert not writing.done()
    found = b""
    while len(found) < 3 * SMALL:
        found += os.read(ours, SMALL)
    await writing


async def test_a_reader_that_is_gone_is_told_of(pipe: tuple[int, int]) -> None:
    ours, theirs = pipe
    os.close(ours)
    with pytest.raises(ReaderGone):
        await AsyncWriter(theirs).write("hello")


async def test_the_writing_can_be_given_up(pipe: tuple[int, int]) -> None:
    pen = AsyncWriter(pipe[1])
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(pen.write(b"x" * 3 * SMALL), 0.01)
