"""A long run is rewound without reading its log twice."""

import asyncio
import os

import pytest

from holdfast.core.events.conversation import MessageRecorded, TurnEnded, TurnStarted
from holdfast.core.events.rewind import RewindAxis
from holdfast.core.events.session import SessionEnd, SessionStart
from holdfast.engine.commands.rewind import RewindRequest, prepare_rewind, rewind_run
from holdfast.engine.home import Home
from holdfast.leaf.files.disk import Disk
from holdfast.store.files.layout import LOG, run_folder
from holdfast.store.files.store import FileStore
from holdfast.store.run import open_run
from tests.cli.test_run_chat import chat, say
from tests.support.cli_stage import Stage

EVENTS = 100_000
COUNTER = "/proc/self/io"  # what this process read, also from the page cache; with the git processes that it waited for
TEXT = "The failing test expects the refresh token to be rotated on every use, but the handler returns the old one. "


def bytes_read() -> int:
    with open(COUNTER, encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("rchar:"))


async def lengthen(home: str, run_id: str, events: int) -> None:
    """Add a turn of so many messages. Only the sync is left out."""
    store = FileStore(home, disk=Disk(sync=lambda fd: None))
    async with open_run(store, run_id) as run:
        await run.begin_session(SessionStart(command="resume", pid=os.getpid()))
        (conversation,) = run.state.conversations
        turn = f"turn-of-{events}-at-{run.head.position}"
        await run.append(TurnStarted(conversation=conversation, turn=turn))
        message = MessageRecorded(conversation=conversation, speaker="agent", turn=turn, text=TEXT)
        for _ in range(events // 20):
            await run.append(*[message] * 20)
        await run.append(TurnEnded(conversation=conversation, turn=turn, stop_reason="end_turn"))
        await run.append(SessionEnd(reason="idle"))


@pytest.mark.skipif(not os.path.exists(COUNTER), reason="NOT TESTED: how much is read; the system does not count it")
def test_rewind_of_a_long_run_reads_its_log_once(stage: Stage) -> None:
    run = chat(stage)
    asyncio.run(lengthen(stage.home, run, EVENTS // 2))
    say(stage, run, "now in capitals")
    asyncio.run(lengthen(stage.home, run, EVENTS // 2))
    say(stage, run, "and the farewell")
    size = os.path.getsize(os.path.join(run_folder(stage.home, run), LOG))

    async def rewind(request: RewindRequest) -> float:
        """As the command does it, with what it shows before it asks; return what it read, in lengths of the log."""
        home, before = Home(stage.home), bytes_read()
        await rewind_run(home, run, request, await prepare_rewind(home, run, request))
        return (bytes_read() - before) / size

    undo = RewindRequest(undo=True)
    read = [asyncio.run(rewind(each)) for each in (RewindRequest("-1"), undo, RewindRequest("start"), undo)]
    read += [asyncio.run(rewind(each)) for each in (RewindRequest("-1", only=RewindAxis.FILES), undo)]
    assert max(read) < 1.5, read
