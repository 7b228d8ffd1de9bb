"""An agent that says anything at all, heard as a run hears it: pipe, protocol, rules, recorder, log.

It may do what an agent may do in a run where everything is allowed, in folders of its own.
"""

import asyncio
import gc
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from holdfast.agents.acp.client import AcpClient, PermissionQuestion
from holdfast.agents.acp.recorder import EventRecorder
from holdfast.agents.acp.transport import Transport
from holdfast.agents.jsonrpc.connection import JsonRpcConnection
from holdfast.agents.launch import Launch
from holdfast.agents.process.terminals import Terminals
from holdfast.core.conversation.permission import PermissionConfig, Policy
from holdfast.core.conversation.tool_call import ToolCall
from holdfast.core.events import Event
from holdfast.core.events.base import Envelope
from holdfast.core.events.conversation import AgentMisbehaved, ConversationOpened
from holdfast.core.events.session import SessionStart
from holdfast.core.fold.fold import Fold
from holdfast.core.log.codec import encode
from holdfast.core.state import RunState
from holdfast.engine.agents.permissions import AgentPermissions, PermissionBroker
from tests.fuzz.guarded_folders import COMMAND, GuardedFolders, must_be_answers
from tests.fuzz.writing import must_be_writable
from tests.support.memory import in_memory
from tests.support.wait import PATIENCE

_LIMIT = 1024 * 1024
_CONVERSATION = "c"
_AFTER = (
    b'{"jsonrpc":"2.0","id":"after","method":"fs/read_text_file","params":{"sessionId":"s","path":"folder/kept"}}\n'
)


class _Pipe(NamedTuple):
    """Both ends of a process that said all it has to say."""

    stdout: asyncio.StreamReader
    stdin: Any


class _Ear:
    """Takes whatever is written, as a pipe does."""

    def __init__(self) -> None:
        self.heard = b""

    def write(self, data: bytes) -> None:
        assert data.endswith(b"\n")
        self.heard += data

    async def drain(self) -> None:
        return

    def close(self) -> None:
        return


class _Run:
    """A run's log, in memory, and what it amounts to."""

    def __init__(self) -> None:
        self._fold = Fold()
        self._seq = 0
        self.noted = 0  # lines that were no message

    @property
    def state(self) -> RunState:
        return self._fold.state

    async def append(self, *events: Event) -> None:
        for event in events:
            must_be_writable(event)
            line = Envelope(
                ts="2026-02-14T10:00:00.000Z", sid="f4e3d2c1b5a4", seq=self._seq, type=event.type, data=event
            )
            self._fold.feed(encode(line) + b"\n")
            self._seq += 1
            if isinstance(event, AgentMisbehaved) and event.what == "a line that is not JSON":
                self.noted += event.times or 1
        assert not self.state.malformed


class _Careful:
    """Decides as the rules of a run do, and keeps commands that chance made from this machine."""

    def __init__(self, counsel: AgentPermissions) -> None:
        self._counsel = counsel

    async def permit(self, asked: PermissionQuestion) -> str | None:
        return await self._counsel.permit(asked)

    async def veto(self, call: ToolCall) -> str | None:
        if call.kind == "execute" and call.title != COMMAND:
            return "not on this machine"
        return await self._counsel.veto(call)


async def hear(data: bytes) -> set[str]:
    """It is heard to its end, answered, written down, and did no more than it asked for: that is what changed."""
    with in_memory() as folder, _nothing_to_complain_of():
        folders = GuardedFolders(folder)
        said = folders.placed(data)
        if said.endswith(b"\n"):
            said += _AFTER  # whatever it was, what comes next is heard
        run = _Run()
        must_be_answers(said, await _heard(said, folders, run), run.noted)
        return folders.must_be_as_asked(said)


async def _heard(said: bytes, folders: GuardedFolders, run: Any) -> bytes:
    """What it was answered."""
    await run.append(SessionStart(command="run"), ConversationOpened(conversation=_CONVERSATION))
    broker = PermissionBroker(run, PermissionConfig(Policy.ALLOW_ALL))
    ear = _Ear()
    pipe = _Pipe(asyncio.StreamReader(_LIMIT), ear)
    pipe.stdout.feed_data(said)
    pipe.stdout.feed_eof()
    scribe = EventRecorder(_CONVERSATION, run.append, lambda *_: None)
    scribe.turn_id = "turn"

    async def tell(_: str, update: dict[str, Any]) -> None:
        await scribe.update(update)

    tree: Any = pipe
    transport = Transport(tree, tell, scribe.record_oddity)
    launch = Launch(command=("true",), cwd=folders.work, environment={}, mark=_CONVERSATION, stderr=None)
    terminals = Terminals(launch)
    client = AcpClient(
        folders.work,
        _Careful(broker.for_agent(_CONVERSATION, folders.work)),
        terminals,
        scribe.record_allowed_call,
        scribe.look_up_call,
        scribe.flush,
    )
    connection = JsonRpcConnection(client.handle, transport.send)
    serving = asyncio.ensure_future(connection.serve(transport.receive, ConnectionError("the pipe ended")))
    asked = asyncio.ensure_future(connection.request("initialize", {}))
    try:
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait({asked})
            while not pipe.stdout.at_eof() or transport.unanswered_requests:
                await asyncio.sleep(0.001)
                await broker.withdraw(_CONVERSATION, "nobody is there to answer")
            for name in terminals._open:
                await terminals[name].wait_for_exit()  # what it does is seen
    finally:
        serving.cancel()
        await asyncio.wait({serving, asked})
        await connection.stop()
        await terminals.close()
        asked.exception()
    if transport.failure is not None:
        raise transport.failure
    await run.append(*scribe.final_events())
    return ear.heard


@contextmanager
def _nothing_to_complain_of() -> Iterator[None]:
    """Defects are logged, some only when an object is collected."""
    gc.collect()  # what others left behind complains now, or not here
    complaints = _Complaints()
    logging.getLogger().addHandler(complaints)
    try:
        yield
        gc.collect()
    finally:
        logging.getLogger().removeHandler(complaints)
    assert not complaints.said, complaints.said


class _Complaints(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(f"{record.getMessage()}: {record.exc_info[1]!r}" if record.exc_info else record.getMessage())
