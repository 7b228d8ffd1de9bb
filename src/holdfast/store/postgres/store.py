"""The Postgres backend: one database for the runs of many machines. Worktrees and report files stay on each machine."""

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

from holdfast.core.day_spending import Spending
from holdfast.core.events.log import LogRepaired
from holdfast.leaf.clock import Clock, now
from holdfast.leaf.errors import BadInput, HoldfastError, NoSuchRun, RunExists, RunFenced
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.leaf.files.directories import remove_tree
from holdfast.leaf.files.disk import make_directories
from holdfast.leaf.files.watch import Watcher
from holdfast.store import snapshot
from holdfast.store.base import Head, Holder, Inbox, Leftover, Snapshot, WriterContext
from holdfast.store.files.layout import REPORTS, run_folder
from holdfast.store.files.report_files import ReportFiles
from holdfast.store.files.store import FileStore
from holdfast.store.postgres.address import shown
from holdfast.store.postgres.client import Client, client_of
from holdfast.store.postgres.connect import Connection
from holdfast.store.postgres.inbox import PostgresInbox
from holdfast.store.postgres.journal import PostgresJournal
from holdfast.store.postgres.lease import Claim, HeldLease, acquire, chosen_ttl_s, is_storable, read_claim
from holdfast.store.postgres.limits import PostgresLimits, count_run
from holdfast.store.postgres.listener import RUNS_CHANNEL
from holdfast.store.postgres.log import PostgresLog
from holdfast.store.postgres.watch import PostgresWatch

T = TypeVar("T")

_FAILPOINT_CREATE = failpoint_pair("postgres.create")
_FAILPOINT_DISCARD = failpoint_pair("postgres.discard")
_FAILPOINT_FILE = failpoint_pair("postgres.file")
_FAILPOINT_SNAPSHOT = failpoint_pair("postgres.snapshot")

_CREATE = """
WITH created AS (INSERT INTO run (id, token) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING serial),
opened AS (INSERT INTO inbox (run) SELECT serial FROM created)
SELECT serial, pg_notify($3, '') FROM created"""
_DISCARD = """
WITH discarded AS (DELETE FROM run WHERE serial = $1 AND epoch = $2 RETURNING serial)
SELECT serial, pg_notify($3, '') FROM discarded"""
_SAVE = """
INSERT INTO snapshot (run, data)
SELECT serial, $3::bytea FROM (SELECT serial FROM run WHERE serial = $1 AND epoch = $2 FOR NO KEY UPDATE) AS owned
ON CONFLICT (run) DO UPDATE SET data = excluded.data RETURNING run"""
_SAVE_FILE = """
INSERT INTO file (run, name, data) VALUES ($1, $2, $3) ON CONFLICT (run, name) DO UPDATE SET data = excluded.data"""
_LOAD_FILE = "SELECT data FROM file WHERE run = $1 AND name = $2"
_LOAD = "SELECT run.serial, snapshot.data FROM run LEFT JOIN snapshot ON snapshot.run = run.serial WHERE run.id = $1"


class PostgresStore:
    def __init__(self, url: str, home: str, *, clock: Clock = now, ttl_s: float | None = None) -> None:
        self.home = os.path.abspath(home)
        self._url = url
        self._clock = clock
        self._ttl_s = chosen_ttl_s() if ttl_s is None else ttl_s
        self._watcher = Watcher()

    async def create(self, run_id: str) -> None:
        if not is_valid_run_id(run_id):
            raise BadInput(f"{run_id!r} is not a valid run id: it must be a name that a folder can have")
        token = uuid.uuid4()

        async def create(connection: Connection) -> bool:
            if await connection.fetchrow(_CREATE, run_id, token, RUNS_CHANNEL) is not None:
                return True
            return bool(await connection.fetchval("SELECT token = $2 FROM run WHERE id = $1", run_id, token))

        _FAILPOINT_CREATE.before()
        if not await self._client.run(create):
            raise RunExists(f"run {run_id} exists already; choose another name, or resume it")
        _FAILPOINT_CREATE.after()

    async def run_ids(self) -> Sequence[str]:
        rows = await self._client.run(lambda connection: connection.fetch("SELECT id FROM run ORDER BY id"))
        return [row["id"] for row in rows]

    async def discard(self, run_id: str) -> None:
        """Delete the run everywhere, then what this machine has of it."""
        held_lease = await acquire(self._client, run_id, self._ttl_s, self._clock)
        try:
            _FAILPOINT_DISCARD.before()
            arguments = (held_lease.serial, held_lease.epoch, RUNS_CHANNEL)
            await self._client.run(lambda connection: connection.execute(_DISCARD, *arguments))
            _FAILPOINT_DISCARD.after()
        finally:
            await held_lease.release()
        with suppress(OSError):
            remove_tree(run_folder(self.home, run_id))

    @asynccontextmanager
    async def own(self, run_id: str) -> AsyncIterator["PostgresLease"]:
        held_lease = await acquire(self._client, run_id, self._ttl_s, self._clock)
        try:
            make_directories(run_folder(self.home, run_id))
            yield PostgresLease(self._client, self._url, held_lease)
        finally:
            await held_lease.release()

    async def holder(self, run_id: str) -> Holder | None:
        return self._require(await self._claim(run_id), run_id).holder

    async def wait_until_released(self, run_id: str) -> None:
        claim = await self._claim(run_id)
        if claim is None or claim.holder is None:
            return
        changed = asyncio.Event()
        async with self._client.listener.waiting(changed, serial=claim.serial):
            while (claim := await self._claim(run_id)) is not None and claim.holder is not None:
                with suppress(TimeoutError):  # its holder died, or renewed it
                    async with asyncio.timeout(max(claim.remaining_s, 0.05)):
                        await changed.wait()
                changed.clear()

    @asynccontextmanager
    async def watch_runs(self) -> AsyncIterator[PostgresWatch]:
        async with PostgresWatch(self._client) as watch:
            yield watch

    def log(self, run_id: str) -> PostgresLog:
        return PostgresLog(self._client, self._serial(run_id))

    def inbox(self, run_id: str) -> PostgresInbox:
        reports = ReportFiles(os.path.join(run_folder(self.home, run_id), REPORTS))
        return PostgresInbox(self._client, self._serial(run_id), run_id, reports, self._clock, self._watcher)

    async def save_file(self, run_id: str, name: str, data: bytes) -> None:
        arguments = (self._serial(run_id), _file_name(name), data)
        _FAILPOINT_FILE.before()
        await self._client.run(lambda connection: connection.execute(_SAVE_FILE, *arguments))
        _FAILPOINT_FILE.after()

    async def load_file(self, run_id: str, name: str) -> bytes | None:
        arguments = (self._serial(run_id), _file_name(name))
        data: bytes | None = await self._client.run(lambda connection: connection.fetchval(_LOAD_FILE, *arguments))
        return data

    @property
    def limits(self) -> PostgresLimits:
        return PostgresLimits(self._client)

    async def count_spending(self, run_id: str, repository: str) -> Spending:
        return await count_run(self._client, await self._load_serial(run_id), repository)

    def open_report_file(self, path: str) -> Inbox:
        return FileStore(self.home, clock=self._clock).open_report_file(path)

    async def snapshot(self, run_id: str) -> Snapshot | None:
        serial, data = await self._load_snapshot(run_id)
        return await snapshot.from_bytes(data, PostgresLog(self._client, serial)) if data is not None else None

    async def covered_head(self, run_id: str) -> Head | None:
        _, data = await self._load_snapshot(run_id)
        return snapshot.covered_head(data) if data is not None else None

    def leftovers(self) -> Sequence[Leftover]:
        return []

    @property
    def _client(self) -> Client:
        return client_of(self._url)

    def _serial(self, run_id: str) -> int:
        claim = self._client.run_blocking(lambda connection: _read_serial(connection, run_id))
        return self._require(claim, run_id)

    async def _load_serial(self, run_id: str) -> int:
        return self._require(await self._client.run(lambda connection: _read_serial(connection, run_id)), run_id)

    async def _claim(self, run_id: str) -> Claim | None:
        return await self._client.run(lambda connection: read_claim(connection, run_id))

    async def _load_snapshot(self, run_id: str) -> tuple[int, bytes | None]:
        row = self._require(
            await self._client.run(lambda connection: connection.fetchrow(_LOAD, run_id))
            if is_storable(run_id)
            else None,
            run_id,
        )
        return row["serial"], row["data"]

    def _require(self, found: T | None, run_id: str) -> T:
        if found is None:
            raise NoSuchRun(f"there is no run {run_id!r} in {shown(self._url)}; `holdfast ls` lists them")
        return found


def _file_name(name: str) -> bytes:
    return name.encode(errors="surrogateescape")


async def _read_serial(connection: Connection, run_id: str) -> int | None:
    return await connection.fetchval("SELECT serial FROM run WHERE id = $1", run_id) if is_storable(run_id) else None


def is_valid_run_id(run_id: str) -> bool:
    """Its files on each machine are in a folder of this name."""
    return bool(run_id) and not run_id.startswith(".") and "/" not in run_id and "\0" not in run_id


class PostgresLease:
    def __init__(self, client: Client, url: str, held_lease: HeldLease) -> None:
        self._client = client
        self._url = url
        self._held_lease = held_lease

    @property
    def epoch(self) -> int:
        return self._held_lease.epoch

    async def wait_until_lost(self) -> str:
        return await self._held_lease.wait_until_lost()

    @property
    def is_lost(self) -> bool:
        return self._held_lease.is_lost

    @property
    def may_have_another_owner(self) -> bool:
        return self._held_lease.may_have_another_owner

    async def repair(self) -> Sequence[LogRepaired]:
        """A statement is executed completely or not at all: nothing is torn."""
        return []

    async def open_journal(self, context: WriterContext) -> PostgresJournal:
        if context.head.position != self._held_lease.head:
            raise RunFenced(
                f"the log ends at {self._held_lease.head}, not at {context.head.position}: nothing was written. "
                "Resume the run again"
            )
        return await PostgresJournal.open(self._url, self._held_lease, context)

    async def save_snapshot(self, snapshot_: Snapshot) -> None:
        """Best effort: without a snapshot, opening the run takes longer, nothing else."""
        with suppress(HoldfastError, OverflowError):
            self._held_lease.check()
            arguments = (self._held_lease.serial, self._held_lease.epoch, snapshot.to_bytes(snapshot_))
            _FAILPOINT_SNAPSHOT.before()
            await self._client.run(lambda connection: connection.execute(_SAVE, *arguments))
            _FAILPOINT_SNAPSHOT.after()
