"""What agents say, before it is in the log: hints from the runner, and the text of open turns from the log."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import msgspec

from holdfast.core.conversation.live_text import Hint, LiveText
from holdfast.core.events import Event
from holdfast.core.events.conversation import MessageRecorded, TurnStarted
from holdfast.core.log.codec import CODEC, InvalidEventData, Line
from holdfast.core.state import RunState
from holdfast.engine.home import Home
from holdfast.engine.live_socket import connect
from holdfast.engine.queries.logs import LogLine, parse_batch
from holdfast.leaf.errors import StorageFailed
from holdfast.leaf.files.watch import Watcher
from holdfast.store.base import Log, Position

_RETRY_S = 0.05  # before connecting again
_READ_BYTES = 64 * 1024

_decode = msgspec.json.Decoder(Hint).decode


async def live_text(home: Home, run_id: str) -> AsyncGenerator[Hint, None]:
    """Yield hints of what the run's agents say, from this and all later runners, until it is closed.

    It ends by itself when the run is deleted. Without a runner it waits: each session begins with a line in the log.
    """
    folder, changed = home.folder(run_id), asyncio.Event()
    try:
        async with Watcher().changes(folder, changed):
            while True:
                changed.clear()
                connection = connect(folder)
                if connection is None:
                    await changed.wait()
                else:
                    async with aclosing(_hints(connection)) as hints:
                        async for hint in hints:
                            yield hint
                await asyncio.sleep(_RETRY_S)
    except StorageFailed:
        return


async def _hints(connection: socket.socket) -> AsyncGenerator[Hint, None]:
    loop, rest = asyncio.get_running_loop(), b""
    with connection:
        while True:
            try:
                data = await loop.sock_recv(connection, _READ_BYTES)
            except OSError:
                return
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                try:
                    yield _decode(line)
                except msgspec.DecodeError:
                    continue  # from another version


async def open_turns(log: Log, state: RunState, position: Position) -> LiveText:
    """Return the text of the turns that are open in this state, which is that of the log up to this position."""
    missing = {conversation.turn.turn for conversation in state.conversations.values() if conversation.turn is not None}
    events: list[Event] = []
    if missing:
        async for batch in log.read_backwards(position):
            for event in reversed(events_in(parse_batch(batch))):
                if getattr(event, "turn", None) in missing or not isinstance(event, MessageRecorded | TurnStarted):
                    events.append(event)
                if isinstance(event, TurnStarted):
                    missing.discard(event.turn)
            if not missing:
                break
    return LiveText(reversed(events))


def events_in(lines: Sequence[LogLine]) -> list[Event]:
    """Return the events of these lines that concern a conversation."""
    found = (_event(line.line) for line in lines if isinstance(line.line, Line))
    return [event for event in found if event is not None and getattr(event, "conversation", None) is not None]


def _event(line: Line) -> Event | None:
    try:
        return CODEC.event(line)
    except InvalidEventData:
        return None
