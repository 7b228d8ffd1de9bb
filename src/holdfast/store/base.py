"""The interface of a store, the same for every backend.

A log is bytes: complete JSONL lines. A *position* is an offset into those bytes in every backend, so a cursor means the
same everywhere, and copying a log exports it. One owner writes a log, under a lease that carries a fencing *epoch*;
every process can read it. The inbox is the opposite: every process can write to it, only the owner reads.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol

import msgspec

from holdfast.core.day_spending import Spending
from holdfast.core.events import Draft, Event
from holdfast.core.events.base import JSON_NULL
from holdfast.core.events.log import LogRepaired
from holdfast.core.log.chain import GENESIS
from holdfast.core.messages.schema import Body, encode_body
from holdfast.core.redaction.redaction import SHAPES_ONLY_REDACTOR, Redactor
from holdfast.core.state import RunState
from holdfast.core.telemetry.ids import TraceIds
from holdfast.leaf.clock import Clock

Position = int

START: Position = 0
MESSAGE_TYPE = "inbox.message"
SNAPSHOT_EVERY_BYTES = 1024 * 1024  # the most log that opening a run has to read after its snapshot


class Batch(msgspec.Struct, frozen=True, gc=False):
    """Complete lines of a log, and the position where they start."""

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
    """A state and the log position that it covers. It is a cache: losing it only costs time."""

    head: Head
    state: RunState


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message to a run, from a person or an agent. A second message with the same id is ignored."""

    id: str
    kind: str
    sender: str | None = None
    body: msgspec.Raw = JSON_NULL

    @classmethod
    def of(cls, body: Body, *, message_id: str, sender: str | None) -> "Message":
        return cls(id=message_id, kind=body.kind, sender=sender, body=encode_body(body))


class InboxEntry(NamedTuple):
    """A line of the inbox: a message, or the reason why it is not one. `cursor` is the position after it."""

    cursor: Position
    message: Message | None
    reason: str | None = None


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """The owner of a run. Each new owner has a higher epoch, which identifies a late writer.

    `machine` identifies what the pid is unique in; None where all owners are on this machine.
    """

    epoch: int
    pid: int
    start_time: int
    boot_id: str
    host: str
    since: str
    machine: str | None = None


class Log(Protocol):
    """Reads a log. Any process can, at any time, also while the owner writes."""

    def read(self, after: Position = START) -> AsyncIterator[Batch]:
        """Yield complete lines from a position to the current end, in batches of bounded size (a line is never split).

        The end is after the last complete `append`: no event of a half-written one is read.
        """
        ...

    def read_backwards(self, before: Position | None = None) -> AsyncIterator[Batch]:
        """Yield complete lines from the end (or a position) to the start, newest batch first."""
        ...

    def follow(self, after: Position = START) -> AsyncIterator[Batch]:
        """Like `read`, then yield each new batch when it arrives, until the caller stops."""
        ...

    async def torn_tail(self) -> bytes:
        """Return the bytes after the last complete `append`: empty, or a torn write."""
        ...


class Journal(Protocol):
    """Writes a log, for its owner."""

    @property
    def head(self) -> Head: ...

    async def append(self, *drafts: Draft | Event, expect: Position | None = None) -> Batch:
        """Write events in this order and return their lines, once all of them are on the disk.

        After a crash during the call, the log has all of them or none.

        `expect` is the expected end of the log; raises `PositionMismatch` when the log ends elsewhere.
        """
        ...

    async def close(self) -> None: ...


class Inbox(Protocol):
    async def put(self, message: Message) -> None:
        """Add a message; it is durable when this returns. Any process can call it."""
        ...

    async def put_if_absent(self, message: Message) -> Message | None:
        """Add a message unless one with its id exists; return the existing one, else None.

        When several processes add the same id at once, one succeeds.
        """
        ...

    async def check_writable(self) -> None:
        """Raise `StorageFailed` when a message could not be written now."""
        ...

    def read(self, after: Position = START) -> AsyncIterator[InboxEntry]:
        """Yield the entries after a position. A duplicate message is yielded as a reason, without the message."""
        ...

    async def is_cursor_valid(self, cursor: Position, last_message_id: str | None) -> bool:
        """True when the inbox still has what was read up to a cursor; `last_message_id` is the message that ends there.

        False when the inbox was truncated, emptied or replaced by an older copy.
        """
        ...

    async def redact(self, redactor: Redactor, after: Position) -> None:
        """Overwrite the user's secrets in the entries after a position. Positions do not change."""
        ...

    def follow(self, after: Position = START) -> AsyncIterator[InboxEntry]: ...

    async def create_report_file(self, conversation_id: str) -> str:
        """Create an empty file for the reports of this conversation's confined agent. Only for the owner."""
        ...

    async def collect_reports(self) -> None:
        """Move the reports from those files into the inbox, each once, as messages of the file's conversation."""
        ...

    def changes(self) -> AsyncIterator[None]:
        """Yield at once, and again whenever the inbox may have changed or was replaced."""
        ...


class WriterContext(NamedTuple):
    """What a session's journal needs: the session's ids, the end of the log, and callbacks.

    `on_written` gets all written lines. `on_snapshot_due` is awaited after every `SNAPSHOT_EVERY_BYTES`. `agent_of`
    returns the agent that an event is about, for its envelope. `redactor` removes secrets from events before they are
    written. `trace` has the trace and span ids of events.
    """

    sid: str
    feature: str | None
    head: Head
    clock: Clock
    on_written: Callable[[bytes], None]
    on_snapshot_due: Callable[[], Awaitable[None]]
    agent_of: Callable[[Event], str | None] = lambda _: None
    redactor: Redactor = SHAPES_ONLY_REDACTOR
    trace: TraceIds | None = None


class Lease(Protocol):
    """The right to write a run. It ends with the process; in a store of many machines also with its time."""

    @property
    def epoch(self) -> int: ...

    async def wait_until_lost(self) -> str:
        """Return the reason when the right is lost while the process lives. Another process may then own the run soon.

        What works for the run must be ended at once. Never returns where a lease only ends with the process.
        """
        ...

    @property
    def is_lost(self) -> bool: ...

    @property
    def may_have_another_owner(self) -> bool:
        """True when the right was lost so long ago that another process may own the run."""
        ...

    async def repair(self) -> Sequence[LogRepaired]:
        """Move a torn tail to a file of its own. Returns every repair that was ever made to the log."""
        ...

    async def open_journal(self, context: WriterContext) -> Journal:
        """Open the journal for one session. The log must end at the context's head."""
        ...

    async def save_snapshot(self, snapshot: Snapshot) -> None: ...


class LogCompressor(Protocol):
    """Compresses the log of an archived run, for its owner. A log that is opened to write is a plain one again."""

    def generation(self) -> int | None:
        """Return the number that the log was compressed with; None when it is not compressed."""
        ...

    def compress(self, generation: int, rewrite: Callable[[Iterable[bytes]], Iterable[bytes]]) -> None:
        """Compress the log. `rewrite` may replace lines by others of the same length."""
        ...

    def size(self) -> int:
        """Return the bytes that the log takes on the disk."""
        ...


class AccountLimit(msgspec.Struct, frozen=True):
    """The usage limit of an account, as a run met it at `since`. Times are as in events."""

    until: str
    since: str
    run: str
    resets_at: str | None = None
    provider: str | None = None


class AccountLimits(Protocol):
    """The usage limits of accounts that runs met. It is a hint: losing it costs prompts that are refused."""

    async def put(self, account: str, limit: AccountLimit) -> None:
        """Replace the limit of an account. Limits that were over when this one was met are deleted."""
        ...

    async def find(self, account: str) -> AccountLimit | None: ...

    async def clear(self, account: str, until: str) -> None:
        """Delete the limit of an account if it was met until then, not later."""
        ...


class Leftover(NamedTuple):
    """What a killed command left in the store. It contains nothing of a run that exists; `delete` deletes it."""

    subject: str
    description: str
    delete: Callable[[], None]


class Stage(Protocol):
    """A place where a run is written out of sight. It belongs to the process that holds its lock."""

    @property
    def folder(self) -> str: ...

    def write_note(self, note: bytes) -> None:
        """Record durably what is about to be done elsewhere for the run."""
        ...

    def read_note(self) -> bytes | None:
        """Return the note; None when there is none. Raises `OSError` if it cannot be read."""
        ...

    def publish(self, run_id: str) -> None:
        """Make the run one of the home: whole, and at once."""
        ...

    def delete(self) -> None: ...

    def close(self) -> None:
        """Release the lock."""
        ...


class RunWatch(Protocol):
    """Reports changes: of the set of runs, and of the runs that it was told to watch.

    `changed` is set at every change; its user clears it. `unwatched` counts the runs whose changes are seen late,
    because the kernel refuses to watch more.
    """

    @property
    def changed(self) -> asyncio.Event: ...

    @property
    def unwatched(self) -> int: ...

    async def watch_only(self, run_ids: Sequence[str]) -> None:
        """Watch these runs, and no others."""
        ...


class Store(Protocol):
    async def create(self, run_id: str) -> None:
        """Create an empty run, durably; raises `RunExists`."""
        ...

    async def run_ids(self) -> Sequence[str]: ...

    async def discard(self, run_id: str) -> None:
        """Delete a run and everything in it; raises `RunOwned` while it has an owner."""
        ...

    def own(self, run_id: str) -> AbstractAsyncContextManager[Lease]:
        """Own a run while the context lasts; raises `RunOwned` or `NoSuchRun`."""
        ...

    async def holder(self, run_id: str) -> Holder | None:
        """Return the current owner of the run, if any."""
        ...

    async def wait_until_released(self, run_id: str) -> None:
        """Return when no process owns the run. An owner that dies releases it. A missing run has no owner."""
        ...

    def watch_runs(self) -> AbstractAsyncContextManager[RunWatch]:
        """Watch the set of runs while the context lasts; its `watch_only` adds runs."""
        ...

    def log(self, run_id: str) -> Log: ...

    def inbox(self, run_id: str) -> Inbox: ...

    async def save_file(self, run_id: str, name: str, data: bytes) -> None:
        """Keep a file of the run durably, where every owner finds it. `name` is its path below the run's folder."""
        ...

    async def load_file(self, run_id: str, name: str) -> bytes | None:
        """Return a file of the run; None when there is none."""
        ...

    @property
    def limits(self) -> AccountLimits: ...

    async def count_spending(self, run_id: str, repository: str) -> Spending:
        """Count what a run recorded since it was last counted: each recorded usage once, whatever is killed.

        Returns what all runs spent: by recent days, and in (at least) this repository.
        """
        ...

    def open_report_file(self, path: str) -> Inbox:
        """Open a report file for a confined agent to write; the owner collects it (`Inbox.collect_reports`)."""
        ...

    async def snapshot(self, run_id: str) -> Snapshot | None:
        """Return the newest snapshot that matches the log; None when it is missing, outdated or damaged."""
        ...

    async def covered_head(self, run_id: str) -> Head | None:
        """Return the head that an undamaged snapshot covers, whether or not it matches the current log."""
        ...

    def leftovers(self) -> Sequence[Leftover]:
        """Return what killed commands left in the store."""
        ...
