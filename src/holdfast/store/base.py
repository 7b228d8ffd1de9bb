"""What a store can do, whichever backend does it: files, memory, and later a database.

A log is bytes: JSONL, whole lines. A *position* is an offset into those bytes, in every backend, so a cursor
means the same everywhere and a log can be exported by copying it. One owner writes a log, by a lease that
carries a fencing *epoch*; everyone reads. The inbox is the other way round: everyone writes, the owner reads.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol

import msgspec

from holdfast.core.events import Draft, Event
from holdfast.core.events.base import NOTHING
from holdfast.core.events.log import LogRepaired
from holdfast.core.log.chain import GENESIS
from holdfast.core.redaction.redaction import SHAPES, Redactor
from holdfast.core.state import RunState
from holdfast.leaf.clock import Clock

Position = int

START: Position = 0
MESSAGE_TYPE = "inbox.message"
SNAPSHOT_EVERY = 1024 * 1024  # bytes of log: what the next opening has to read at the most


class Batch(msgspec.Struct, frozen=True, gc=False):
    """Whole lines of a log, and the position where they begin."""

    start: Position
    data: bytes

    @property
    def end(self) -> Position:
        return self.start + len(self.data)


class Head(NamedTuple):
    """The end of a log: the position after its last line, and that line's link in the chain."""

    position: Position = START
    chain: str = GENESIS


class Snapshot(NamedTuple):
    """A fold and the point of the log that it covers. A cache: losing it costs time and nothing else."""

    head: Head
    state: RunState


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """Something for a run, from a person or an agent. Its id makes sending it twice the same as once."""

    id: str
    kind: str
    sender: str | None = None
    body: msgspec.Raw = NOTHING


class Received(NamedTuple):
    """A line of the inbox as its owner reads it: a message, or why it is none. `cursor` is the place after it."""

    cursor: Position
    message: Message | None
    reason: str | None = None


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Who owns a run. The epoch grows with every owner, so that a late writer can be told from the present one."""

    epoch: int
    pid: int
    start_time: int
    boot_id: str
    host: str
    since: str


class Log(Protocol):
    """Reading. Anyone may, at any time, also while the owner writes."""

    def read(self, after: Position = START) -> AsyncIterator[Batch]:
        """Whole lines from a position to the present end, in batches of bounded size (a line is never split).

        The end is that of the last whole call: of an `append` of several events that is half written, none is read.
        """
        ...

    def read_back(self, before: Position | None = None) -> AsyncIterator[Batch]:
        """Whole lines from the end (or a position) to the beginning, the newest batch first."""
        ...

    def follow(self, after: Position = START) -> AsyncIterator[Batch]:
        """As `read`, and then each new batch as it comes, until the caller stops."""
        ...

    async def fragment(self) -> bytes:
        """What stands after the last whole call: nothing, or a torn write."""
        ...


class Journal(Protocol):
    """Writing: the owner's pen."""

    @property
    def head(self) -> Head: ...

    async def append(self, *drafts: Draft | Event, expect: Position | None = None) -> Batch:
        """Write events and return the lines they became, once they are on the disk: all of them, in this order.

        Whatever dies meanwhile, the log then has all of them or none.

        `expect` is where the caller believes the log ends; `PositionMismatch` when it does not.
        """
        ...

    async def close(self) -> None: ...


class Inbox(Protocol):
    async def put(self, message: Message) -> None:
        """Durable before this returns. Any process may call it."""
        ...

    async def put_first(self, message: Message) -> Message | None:
        """As `put`, unless a message with its id is there: then that one is returned, and nothing is put.

        Of several processes that put the same id at once, one succeeds.
        """
        ...

    async def must_take(self) -> None:
        """`StorageFailed` when it would not take a message now."""
        ...

    def read(self, after: Position = START) -> AsyncIterator[Received]:
        """What came after a position. A message whose id came before is given with its reason, not again."""
        ...

    async def still_holds(self, cursor: Position, last: str | None) -> bool:
        """Whether what was read up to a cursor is there; `last` is the message that ended there, if it was one.

        It is not when somebody cut the inbox short, emptied it, or put an older one in its place.
        """
        ...

    async def blank(self, redactor: Redactor, after: Position) -> None:
        """Make the user's own secrets in what came after a position unreadable. Positions stay as they are."""
        ...

    def follow(self, after: Position = START) -> AsyncIterator[Received]: ...

    async def report_file(self, conversation: str) -> str:
        """A file, new and empty, to which a confined agent of this conversation writes its reports. For the owner."""
        ...

    async def collect_reports(self) -> None:
        """Put in what is in those files, each report once, as one of the conversation whose file it is."""
        ...

    def changes(self) -> AsyncIterator[None]:
        """At once, and whenever there may be something new in it, be it that it is not the one that was read so far."""
        ...


class Desk(NamedTuple):
    """What a session's pen needs to know: whose events it writes, where the log ends, who wants to see each line.

    `milestone` is awaited each time that so many bytes were written that a snapshot is due. `agent_of` names the agent
    an event is about, for its envelope. `redactor` removes secrets from each event before it is written.
    """

    sid: str
    feature: str | None
    head: Head
    clock: Clock
    written: Callable[[bytes], None]
    milestone: Callable[[], Awaitable[None]]
    agent_of: Callable[[Event], str | None] = lambda _: None
    redactor: Redactor = SHAPES


class Lease(Protocol):
    """The right to write a run, and what can be done with it. Lost with the process, at once."""

    @property
    def epoch(self) -> int: ...

    async def repair(self) -> Sequence[LogRepaired]:
        """Set a torn tail aside. Returns every repair that the log does not tell of yet."""
        ...

    async def journal(self, desk: Desk) -> Journal:
        """A pen for one session, placed at the end of the log, which must be at the desk's head."""
        ...

    async def save(self, snapshot: Snapshot) -> None: ...


class Store(Protocol):
    async def create(self, run_id: str) -> None:
        """Make an empty run, durably; `RunExists` when there is one."""
        ...

    async def runs(self) -> Sequence[str]: ...

    async def discard(self, run_id: str) -> None:
        """Delete a run and everything in it, for good; `Owned` while somebody has it."""
        ...

    def own(self, run_id: str) -> AbstractAsyncContextManager[Lease]:
        """Own a run for as long as the context lasts; `Owned` when another does, `NoSuchRun` when there is none."""
        ...

    async def holder(self, run_id: str) -> Holder | None:
        """Who owns the run now, if anyone."""
        ...

    def log(self, run_id: str) -> Log: ...

    def inbox(self, run_id: str) -> Inbox: ...

    async def snapshot(self, run_id: str) -> Snapshot | None:
        """The newest snapshot that fits the log; None when there is none, or it is stale or damaged."""
        ...
