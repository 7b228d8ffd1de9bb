"""Collects the notifications of a run from its log, and delivers them at least once.

While a runner has a run, it sends; afterwards whoever supervises the run does. The lock of the outbox decides, so
nothing is sent by both. No problem here ever reaches the run: it is kept in the outbox, for `holdfast notify`.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress

from holdfast.core.config.operations import NotifyTarget
from holdfast.core.log.codec import Line, parse
from holdfast.core.notify.notification import Notification, digest_of, may_notify, notification_of
from holdfast.core.notify.schedule import is_quiet
from holdfast.engine.home import Home
from holdfast.engine.notify.channels import deliver
from holdfast.engine.notify.outbox import Entry, Outbox
from holdfast.leaf.errors import HoldfastError
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.leaf.wall_clock import WallClock
from holdfast.store.base import START, Batch, Log, Position

_log = logging.getLogger(__name__)
_FAILPOINT = failpoint_pair("notify.send")
_FIRST_RETRY_S = 5.0
_LONGEST_RETRY_S = 3600.0
_GIVE_UP_S = 3 * 24 * 3600.0
_DESKTOP_GIVE_UP_S = 600.0  # what happened an hour ago should not pop up now
_MAX_ENTRIES = 200  # of a run; more are dropped and counted
_LOOK_S = 30.0  # while something waits: the clock may be set, and the machine suspended
_LOCK_RETRY_S = 1.0
_READY_S = 2.0
FLUSH_S = 5.0  # how long the end of a session waits for its last notifications

Targets = Mapping[str, NotifyTarget]


class Notifier:
    """The notifications of one run (or of the home, without a run), for one process."""

    def __init__(self, home: Home, run_id: str | None, targets: Targets, clock: WallClock | None = None) -> None:
        self._home = home
        self._run_id = run_id
        self._targets = targets
        self._clock = clock or WallClock()
        self._outbox = Outbox(home.folder(run_id) if run_id is not None else home.path)
        self._sending: dict[str, asyncio.Task[None]] = {}  # by target: a slow one does not delay the others
        self._wake = asyncio.Event()

    async def run(self, stop: asyncio.Event, ready: asyncio.Event) -> None:
        """Collect and deliver while the run is worked on, until `stop` is set; then flush for a moment.

        `ready` is set once the start is known: what is recorded after that is notified.
        """
        delay_s = _FIRST_RETRY_S
        try:
            while not stop.is_set():
                try:
                    await self._run(stop, ready)
                except Exception as error:  # noqa: BLE001 - a run never fails by a notification
                    _log_failure("notifications are not sent now", error)
                    ready.set()
                    await self._cancel_sending()
                    await _first(stop.wait(), self._clock.sleep(delay_s))
                    delay_s = min(2 * delay_s, _LONGEST_RETRY_S)
        finally:
            ready.set()
            await self._cancel_sending()

    async def _run(self, stop: asyncio.Event, ready: asyncio.Event) -> None:
        while not stop.is_set():
            with self._outbox.owned() as is_owner:
                if not is_owner:
                    await _first(stop.wait(), asyncio.sleep(_LOCK_RETRY_S))
                    continue
                await self._begin()
                ready.set()
                following: asyncio.Future[object] = asyncio.ensure_future(self._follow())
                ending: asyncio.Future[object] = asyncio.ensure_future(stop.wait())
                try:
                    await self._deliver_until(ending, following)
                finally:
                    for task in (following, ending):
                        task.cancel()
                    await asyncio.gather(following, ending, return_exceptions=True)
                await self.collect()
                self._start_due()
                with suppress(TimeoutError):
                    async with asyncio.timeout(FLUSH_S):
                        await self._wait_for_attempts()
                self._outbox.save()
                return

    async def drain(self) -> None:
        """Collect what a dead or ended runner left, and return when everything is delivered or given up."""
        if not self._targets:
            return
        try:
            while True:
                with self._outbox.owned() as is_owner:
                    if is_owner:
                        if self._outbox.state.position is None:  # no runner of it ever notified
                            return
                        await self.collect()
                        while self._outbox.state.entries:
                            await self._step()
                        return
                await self._clock.sleep(_LOCK_RETRY_S)
        finally:
            await self._cancel_sending()

    async def begin(self) -> None:
        """Notify what is recorded from now on."""
        if not self._targets:
            return
        with self._outbox.owned() as is_owner:
            if is_owner:
                await self._begin()

    async def send_once_a_day(
        self, day: str, names: Sequence[str], make: Callable[[], Awaitable[Notification]]
    ) -> None:
        """Send one notification to each of these targets that has none of that day yet; attempt what is due once."""
        try:
            with self._outbox.owned() as is_owner:
                if not is_owner:
                    return
                state = self._outbox.state
                new = [name for name in names if state.days.get(name, "") < day]
                if new:
                    notification, now = await make(), self._clock.now()
                    state.entries += [Entry(notification, name, now) for name in new]
                    state.days.update(dict.fromkeys(new, day))
                    self._outbox.save()
                self._start_due()
                await self._wait_for_attempts()
        finally:
            await self._cancel_sending()

    async def collect(self) -> None:
        """Add what the log has since the last collection."""
        if self._run_id is None:
            return
        async for batch in self._home.store.log(self._run_id).read(self._outbox.state.position or 0):
            self._take(batch)

    # Collecting

    async def _begin(self) -> None:
        """Start at the end of the log the first time: what happened before is no news."""
        if self._run_id is not None and self._outbox.state.position is None:
            self._outbox.state.position = await _end_of(self._home.store.log(self._run_id))
            self._outbox.save()

    async def _follow(self) -> None:
        assert self._run_id is not None
        batches = self._home.store.log(self._run_id).follow(self._outbox.state.position or 0)
        async with aclosing(batches):  # type: ignore[type-var]
            async for batch in batches:
                if self._take(batch):
                    self._wake.set()

    def _take(self, batch: Batch) -> bool:
        state = self._outbox.state
        if batch.end <= (state.position or 0):
            return False
        found: list[Notification] = []
        if may_notify(batch.data):
            lines = (parse(raw) for raw in batch.data.split(b"\n"))
            each = (notification_of(self._run_id or "", line) for line in lines if isinstance(line, Line))
            found = [notification for notification in each if notification is not None]
        state.position = batch.end
        if found:
            self._add(*found)
        return bool(found)

    def _add(self, *notifications: Notification) -> None:
        now, state = self._clock.now(), self._outbox.state
        for notification in notifications:
            for name, target in self._targets.items():
                if notification.kind in target.kinds:
                    state.entries.append(Entry(notification, name, now))
        excess = len(state.entries) - _MAX_ENTRIES
        if excess > 0:
            del state.entries[:excess]
            state.given_up += excess
        self._outbox.save()

    # Delivering

    async def _deliver_until(self, ending: asyncio.Future[object], following: asyncio.Future[object]) -> None:
        while not ending.done():
            if following.done():
                following.result()
            self._wake.clear()
            left = self._start_due()
            waking: asyncio.Future[object] = asyncio.ensure_future(self._wake.wait())
            try:
                await asyncio.wait({waking, ending, following}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            finally:
                waking.cancel()

    async def _step(self) -> None:
        """Attempt what is due, then wait for the next."""
        left = self._start_due()
        await self._wait_for_attempts()
        if self._outbox.state.entries and left is not None:
            await self._clock.sleep(max(0.01, min(left, _LOOK_S)))

    def _start_due(self) -> float | None:
        """Start an attempt for each target with something due. Returns when to look again; None if nothing waits."""
        state, now = self._outbox.state, self._clock.now()
        state.entries[:] = [entry for entry in state.entries if entry.target in self._targets]
        if not state.entries:
            return None
        waits = [_LOOK_S]
        for name, target in self._targets.items():
            mine = [entry for entry in state.entries if entry.target == name]
            if name in self._sending or not mine:
                continue
            quiet = is_quiet(target.quiet, now)
            if quiet:
                for entry in mine:
                    entry.held = entry.notification.kind not in target.urgent
                mine = [entry for entry in mine if not entry.held]
            else:
                mine = self._join_held(name, mine)
            ready = next((entry for entry in mine if entry.due <= now or entry.due > now + _LONGEST_RETRY_S), None)
            if ready is not None:
                self._sending[name] = asyncio.create_task(self._attempt(name, target, ready))
            else:
                waits += [entry.due - now for entry in mine]
        return max(0.0, min(waits))

    def _join_held(self, name: str, mine: list[Entry]) -> list[Entry]:
        """Replace what was held back in quiet hours by one digest."""
        held = [entry for entry in mine if entry.held]
        if len(held) < 2:  # noqa: PLR2004 - one alone is sent as it is
            return mine
        digest = Entry(digest_of(name, [entry.notification for entry in held]), name, self._clock.now())
        entries = self._outbox.state.entries
        entries[:] = [*(entry for entry in entries if entry.target != name or not entry.held), digest]
        self._outbox.save()
        return [entry for entry in entries if entry.target == name]

    async def _attempt(self, name: str, target: NotifyTarget, entry: Entry) -> None:
        try:
            _FAILPOINT.before()
            problem = await deliver(target, entry.notification, os.fspath(self._home))
            _FAILPOINT.after()
            self._record(target, entry, problem)
        except Exception as error:  # noqa: BLE001 - it could not be recorded: it is sent again, with its id
            _log_failure(f"{name}: a notification will be sent again", error)
            entry.due, entry.problem = self._clock.now() + _FIRST_RETRY_S, str(error)
        finally:
            del self._sending[name]
            self._wake.set()

    def _record(self, target: NotifyTarget, entry: Entry, problem: str | None) -> None:
        state, now = self._outbox.state, self._clock.now()
        entry.attempts += 1
        entry.problem = problem
        limit_s = _DESKTOP_GIVE_UP_S if target.desktop else _GIVE_UP_S
        if problem is None or now - entry.since > limit_s:
            with suppress(ValueError):  # it was dropped meanwhile, because too many wait
                state.entries.remove(entry)
                state.given_up += problem is not None
        entry.due = now + min(_FIRST_RETRY_S * 2.0 ** min(entry.attempts - 1, 20), _LONGEST_RETRY_S)
        if problem is not None:
            state.last_problem = f"{entry.target}: {problem}"
        self._outbox.save()

    async def _wait_for_attempts(self) -> None:
        """Return when every attempt in progress, and what it leaves due, has ended."""
        while self._sending:
            await asyncio.wait(list(self._sending.values()))
            await asyncio.sleep(0)
            self._start_due()

    async def _cancel_sending(self) -> None:
        sending = list(self._sending.values())
        for task in sending:
            task.cancel()
        await asyncio.gather(*sending, return_exceptions=True)


@asynccontextmanager
async def notifying(home: Home, run_id: str, targets: Targets) -> AsyncIterator[None]:
    """Notify what is recorded meanwhile. The end waits for the last messages, but only for a moment."""
    if not targets:
        yield
        return
    stop, ready = asyncio.Event(), asyncio.Event()
    sending = asyncio.create_task(Notifier(home, run_id, targets).run(stop, ready))
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(_READY_S):
                await ready.wait()
        yield
    finally:
        stop.set()
        try:
            await sending
        finally:
            sending.cancel()


@asynccontextmanager
async def draining(notifier: Notifier) -> AsyncIterator[None]:
    """Deliver meanwhile what ended runners left."""
    delivering = asyncio.create_task(notifier.drain())
    try:
        yield
    finally:
        delivering.cancel()
        try:
            await delivering
        except asyncio.CancelledError:
            pass
        except Exception as error:  # noqa: BLE001 - a run never fails by a notification
            _log_failure("notifications were not sent", error)


def _log_failure(what: str, error: Exception) -> None:
    """Say what is a bug of ours. Of a full disk or a lost store, the run itself tells."""
    if not isinstance(error, HoldfastError | OSError):
        _log.error("%s, by a bug in Holdfast", what, exc_info=error)


async def _end_of(log: Log) -> Position:
    async for batch in log.read_backwards():
        return batch.end
    return START


async def _first(*awaitables: Awaitable[object]) -> None:
    tasks: list[asyncio.Future[object]] = [asyncio.ensure_future(each) for each in awaitables]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
