"""Ownership of a run: a lease that ends with its time, unless its holder renews it.

The server's clock decides when a lease has ended. Its holder counts from the moment before it asked, so it sees the end
earlier than anyone else, and it stops at three quarters of the time: what it works with is dead before another machine
may own the run. Every write names the epoch, so a holder that was frozen and wakes up writes nothing.

A holder whose process is proved dead, by a process on the same machine, need not be waited for.
"""

import asyncio
import os
import socket
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from datetime import timedelta
from typing import NamedTuple

import msgspec

from holdfast.leaf.clock import Clock
from holdfast.leaf.errors import BadInput, HoldfastError, NoSuchRun, RunFenced, RunOwned
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.leaf.process.identity import ProcessIdentity, boot_id, own_identity
from holdfast.leaf.process.proc import is_dying
from holdfast.store.base import Holder
from holdfast.store.postgres.client import Client
from holdfast.store.postgres.connect import Connection
from holdfast.store.postgres.listener import run_channel

TTL_VARIABLE, DEFAULT_TTL_S = "HOLDFAST_LEASE", 15.0
_MIN_TTL_S, _MAX_TTL_S = 1.0, 3600.0
_FENCE_PART = 0.75  # of the time, after which the holder stops
_RENEWALS = 3  # in that time
_RETRY_DELAY_S = 0.2
_DYING_WAIT_S = 1.0  # for a holder on this machine that is exiting
_NO_EPOCH = -1
_FAILPOINT_OWN, _FAILPOINT_RELEASE = failpoint_pair("postgres.own"), failpoint_pair("postgres.release")

_ACQUIRE = """
UPDATE run SET epoch = epoch + 1, holder = $2, claim = $3, expires = now() + $4
WHERE id = $1 AND (expires IS NULL OR expires <= now() OR claim = $3 OR epoch = $5)
RETURNING serial, epoch, head"""
_RENEW = "UPDATE run SET expires = now() + $3 WHERE serial = $1 AND epoch = $2 RETURNING epoch"
_RELEASE = """
WITH released AS (
    UPDATE run SET holder = NULL, claim = NULL, expires = NULL WHERE serial = $1 AND epoch = $2 RETURNING serial
)
SELECT pg_notify($3, '') FROM released"""
_HOLDER = """
SELECT serial, epoch, holder, expires > now() AS is_held, extract(epoch FROM expires - now())::float8 AS remaining_s
FROM run WHERE id = $1"""

_HELD = "SELECT id, holder FROM run WHERE id = ANY($1::text[]) AND expires > now()"


class Claim(NamedTuple):
    """What a run's row says about its owner."""

    serial: int
    epoch: int
    holder: Holder | None  # None when the run is free
    remaining_s: float = 0.0
    is_dead: bool = False  # its last holder did not release it, and is dead


class _Acquired(NamedTuple):
    serial: int
    epoch: int
    head: int
    asked_at: float


def machine_id() -> str:
    """Identify what a pid is unique in: this boot of the kernel, and this container's processes."""
    with suppress(OSError):
        return f"{boot_id()} {os.readlink('/proc/self/ns/pid')}"
    return boot_id()


async def read_claim(connection: Connection, run_id: str) -> Claim | None:
    """Return who owns a run; None when there is no such run."""
    row = await connection.fetchrow(_HOLDER, run_id) if is_storable(run_id) else None
    if row is None:
        return None
    if not row["is_held"]:
        return Claim(row["serial"], row["epoch"], None)
    holder = msgspec.structs.replace(msgspec.json.decode(row["holder"], type=Holder), epoch=row["epoch"])
    is_dead = is_proved_dead(holder)
    return Claim(row["serial"], row["epoch"], None if is_dead else holder, row["remaining_s"], is_dead)


async def owned_runs(connection: Connection, run_ids: Sequence[str]) -> set[str]:
    """Return which of these runs have an owner."""
    rows = await connection.fetch(_HELD, run_ids)
    return {row["id"] for row in rows if not is_proved_dead(msgspec.json.decode(row["holder"], type=Holder))}


def is_storable(run_id: str) -> bool:
    """True for text that the database can hold: any other is the id of no run."""
    return "\0" not in run_id and run_id.isprintable()


def is_proved_dead(holder: Holder) -> bool:
    """True when the holder was a process of this machine, and is none any more. Works without a view of `/proc`."""
    if holder.machine != machine_id():
        return False
    try:
        os.kill(holder.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    identity = ProcessIdentity(holder.pid, holder.start_time, holder.boot_id)
    return not identity.is_alive()


class HeldLease:
    """A lease that this process holds: renewed in the client's thread, checked before every write."""

    def __init__(self, client: Client, acquired: _Acquired, ttl_s: float) -> None:
        self.serial, self.epoch, self.head, asked_at = acquired
        self._client = client
        self._ttl_s = ttl_s
        self._fence_at = asked_at + _FENCE_PART * ttl_s
        self._reason: str | None = None  # why it is lost
        self._is_taken = False  # the server has a newer owner, or no such run
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
        self._renewing = client.start(self._renew())

    @property
    def is_lost(self) -> bool:
        if self._reason is None and now_s() > self._fence_at:
            self._lose("its lease could not be renewed in time")
        return self._reason is not None

    @property
    def may_have_another_owner(self) -> bool:
        return self._is_taken or now_s() > self._fence_at + (1 - _FENCE_PART) * self._ttl_s

    def check(self) -> None:
        """Raise `RunFenced` unless the run is ours for some time to come."""
        if self.is_lost:
            raise RunFenced(f"the run is not ours any more: {self._reason}; nothing more is written. Run: holdfast ls")

    @property
    def remaining_s(self) -> float:
        """How long the run is still ours, if the lease is not renewed."""
        return self._fence_at - now_s()

    async def wait_until_lost(self) -> str:
        """Return the reason, as soon as the lease is lost."""
        lost = asyncio.Event()
        waiter = (asyncio.get_running_loop(), lost)
        self._waiting.append(waiter)
        try:
            while self._reason is None:
                await lost.wait()
            return self._reason
        finally:
            self._waiting.remove(waiter)

    @property
    def ttl(self) -> timedelta:
        return timedelta(seconds=self._ttl_s)

    def extend(self, asked_at: float) -> None:
        """Note that a statement of this moment gave the lease its whole time again."""
        self._fence_at = max(self._fence_at, asked_at + _FENCE_PART * self._ttl_s)

    def fence(self, reason: str) -> None:
        """Treat the lease as lost: the server has a newer owner, or no such run."""
        self._is_taken = True
        self._lose(reason)

    async def release(self) -> None:
        """Free the run. If the server cannot be reached, or the lease is lost already, it ends by itself."""
        if self.is_lost:
            self._renewing.cancel()
            return
        with suppress(HoldfastError):
            await asyncio.shield(asyncio.wrap_future(self._start_release()))

    def release_soon(self) -> None:
        self._start_release()

    def abandon(self) -> None:
        """Stop renewing and writing, as a dead process does."""
        self._renewing.cancel()
        self._lose("it was abandoned")

    def _start_release(self) -> Future[None]:
        self._renewing.cancel()
        self._lose("it was released")
        return self._client.start(self._release())

    async def _release(self) -> None:
        _FAILPOINT_RELEASE.before()
        await self._client.attempts(
            lambda connection: connection.execute(_RELEASE, self.serial, self.epoch, run_channel(self.serial)),
            retry_s=self._ttl_s,
        )
        _FAILPOINT_RELEASE.after()

    def _lose(self, reason: str) -> None:
        self._reason = self._reason or reason
        for loop, lost in list(self._waiting):
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(lost.set)

    async def _renew(self) -> None:
        """Renew the lease again and again, until it is lost. It is lost at once if that fails in an unknown way."""
        try:
            await self._renew_until_lost()
        except Exception as error:  # noqa: BLE001 - nobody else would hear of it before the next write
            self._lose(f"its lease is not renewed any more, by a bug in Holdfast: {error!r}")

    async def _renew_until_lost(self) -> None:
        interval_s = self._ttl_s * _FENCE_PART / (_RENEWALS + 1)
        delay_s = interval_s
        while self._reason is None:
            await asyncio.sleep(delay_s)
            with suppress(RunFenced):
                self.check()
                if self.remaining_s > _FENCE_PART * self._ttl_s - interval_s:  # an append renewed it
                    delay_s = interval_s
                    continue
                is_renewed = await self._renew_once(min(interval_s, self.remaining_s))
                delay_s = interval_s if is_renewed else min(_RETRY_DELAY_S, interval_s)

    async def _renew_once(self, timeout_s: float) -> bool:
        """Ask for more time. False without an answer."""
        asked_at = now_s()
        try:
            async with asyncio.timeout(timeout_s):
                epoch = await self._client.attempts(
                    lambda connection: connection.fetchval(_RENEW, self.serial, self.epoch, self.ttl),
                    retry_s=0.0,
                    urgent=True,
                )
        except (TimeoutError, HoldfastError):
            return False
        if epoch is None:
            self.fence("it has another owner, or was deleted")
        else:
            self.extend(asked_at)
        return True


def chosen_ttl_s() -> float:
    """Return the time of new leases: `HOLDFAST_LEASE` in seconds, or 15."""
    text = os.environ.get(TTL_VARIABLE, "")
    try:
        ttl_s = float(text) if text else DEFAULT_TTL_S
    except ValueError:
        ttl_s = 0.0
    if not _MIN_TTL_S <= ttl_s <= _MAX_TTL_S:
        raise BadInput(f"{TTL_VARIABLE}={text!r} must be a number of seconds, from {_MIN_TTL_S:g} to {_MAX_TTL_S:g}")
    return ttl_s


async def acquire(client: Client, run_id: str, ttl_s: float, clock: Clock) -> HeldLease:
    """Own a run, or raise `RunOwned` with a message that names its owner."""
    claim_id = uuid.uuid4()  # when an answer is lost, the next attempt finds that it is ours
    deadline = time.monotonic() + _DYING_WAIT_S
    while True:
        asking = client.start(
            client.attempts(lambda connection: _try_acquire(connection, run_id, claim_id, ttl_s, clock))
        )
        try:
            result = await asyncio.shield(asyncio.wrap_future(asking))
        except asyncio.CancelledError:
            asking.add_done_callback(lambda done: _release_unused(client, done, ttl_s))
            raise
        if isinstance(result, _Acquired):
            return HeldLease(client, result, ttl_s)
        if not (_is_dying_here(result) and time.monotonic() < deadline):
            raise RunOwned(
                f"run {run_id} is owned by pid {result.pid} on {result.host} since {result.since}; "
                f"follow it with `holdfast logs -f {run_id}`, or stop it with `holdfast stop {run_id}`"
            )
        await asyncio.sleep(0.01)


async def _try_acquire(
    connection: Connection, run_id: str, claim_id: uuid.UUID, ttl_s: float, clock: Clock
) -> _Acquired | Holder:
    """Return the lease, or the holder of a run that has one."""
    while True:
        claim = await read_claim(connection, run_id)
        if claim is None:
            raise NoSuchRun(f"there is no run {run_id!r}; `holdfast ls` lists them")
        me = own_identity()
        holder = Holder(epoch=0, **me._asdict(), host=socket.gethostname(), since=clock(), machine=machine_id())
        dead_epoch = claim.epoch if claim.is_dead else _NO_EPOCH
        asked_at = now_s()
        _FAILPOINT_OWN.before()
        row = await connection.fetchrow(
            _ACQUIRE, run_id, msgspec.json.encode(holder), claim_id, timedelta(seconds=ttl_s), dead_epoch
        )
        _FAILPOINT_OWN.after()
        if row is not None:
            return _Acquired(row["serial"], row["epoch"], row["head"], asked_at)
        if claim.holder is not None:
            return claim.holder


def now_s() -> float:
    """A clock that nobody sets, and that goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _is_dying_here(holder: Holder) -> bool:
    """Whether the holder is dying, or has died since its claim was read."""
    return holder.machine == machine_id() and (is_dying(holder.pid) or is_proved_dead(holder))


def _release_unused(client: Client, asked: Future[_Acquired | Holder], ttl_s: float) -> None:
    if not asked.cancelled() and asked.exception() is None:
        result = asked.result()
        if isinstance(result, _Acquired):
            HeldLease(client, result, ttl_s).release_soon()
