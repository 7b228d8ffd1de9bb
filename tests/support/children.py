"""What child processes do in tests: write, take, hold, look, until somebody kills them."""

import asyncio
import os
import random
import signal
import sys
from collections.abc import Callable

import msgspec

from holdfast.core.events.session import SessionStart
from holdfast.core.redaction.redaction import Redactor
from holdfast.engine.config.edit import change_user_setting
from holdfast.engine.home import Home
from holdfast.leaf.errors import HoldfastError
from holdfast.leaf.failpoints import FAILPOINT_FILE_VARIABLE, FAILPOINT_VARIABLE, arm_failpoints
from holdfast.store.base import Message, Store
from holdfast.store.files.staging import Stage
from holdfast.store.files.store import FileStore
from holdfast.store.index import WorkerRow
from holdfast.store.postgres.stage import PostgresStage
from holdfast.store.postgres.workers import PostgresWorkers
from holdfast.store.run import OwnedRun, open_run
from tests.support.events import numbered
from tests.support.limits import ACCOUNT, account_limit
from tests.support.run_files import RUN
from tests.support.stores import database_url, store_at

Report = Callable[[str], None]


def append_for_ever(report: Report, home: str, next_numbers: dict[str, int], seed: int) -> None:
    """Own the run, and append as every producer that is named; report each event once `append` has returned."""
    asyncio.run(_append_for_ever(report, home, next_numbers, random.Random(seed)))


async def _append_for_ever(report: Report, home: str, next_numbers: dict[str, int], dice: random.Random) -> None:
    async def produce(run: OwnedRun, producer: str, number: int) -> None:
        while True:
            count = dice.choice((1, 1, 1, 3))
            size = dice.choice((0, 0, 100, 5_000, 200_000))
            await run.append(*(numbered(producer, number + index, size) for index in range(count)))
            for index in range(count):
                report(f"{producer} {number + index}")
            number += count

    report("opening")
    async with open_run(store_at(home), RUN) as run:
        await run.begin_session(SessionStart(command="resume"))
        await asyncio.gather(*(produce(run, producer, number) for producer, number in next_numbers.items()))


def act_on_database(report: Report, address: str, action: str, failpoint: str, passes: str) -> None:
    """Do one thing with a store, and die at a failpoint. Reports that it was done."""
    os.environ.update({FAILPOINT_VARIABLE: failpoint, FAILPOINT_FILE_VARIABLE: passes})
    arm_failpoints()
    if action == "publish":
        _publish(database_url(address), os.path.join(os.path.dirname(passes), "stages"))
    else:
        asyncio.run(_act_on_database(address, action))
    report("done")


def _publish(url: str, home: str) -> None:
    """Write a run out of sight, and make it one of the store."""
    stage = PostgresStage.on(url, Stage.create(home))

    async def write() -> None:
        staged = FileStore(stage.folder)
        await staged.create("staged-aaaaaa")
        async with open_run(staged, "staged-aaaaaa") as run:
            await run.begin_session(SessionStart(command="adopt"))

    asyncio.run(write())
    stage.publish("staged-aaaaaa")


def worker_row(name: str) -> WorkerRow:
    return WorkerRow(name, "machine", "host", "1", (), 3, (), is_draining=False, seen_s=0.0)


async def _act_on_database(address: str, action: str) -> None:
    store = store_at(address)
    match action:
        case "beat":
            await PostgresWorkers(database_url(address)).beat(worker_row("two"))
        case "drain":
            await PostgresWorkers(database_url(address)).drain("one")
        case "create":
            await store.create("new-aaaaaa")
        case "discard":
            await store.discard(RUN)
        case "put":
            await store.inbox(RUN).put(Message(id="m2", kind="say"))
        case "redact":
            await store.inbox(RUN).redact(Redactor({"WORD": "geheim-wort-7"}), 0)
        case "file":
            await store.save_file(RUN, "attachments/a", b"new")
        case "limit" | "clear" | "count":
            await _share(store, action)
        case _:
            async with open_run(store, RUN) as run:
                await run.begin_session(SessionStart(command="resume"), numbered("a", 1))
                await run.save_snapshot()


async def _share(store: Store, action: str) -> None:
    match action:
        case "limit":
            await store.limits.put(ACCOUNT, account_limit(since=2))
        case "clear":
            await store.limits.clear(ACCOUNT, account_limit(since=2).since)
        case "count":
            await store.count_spending(RUN, "repo")


def put_for_ever(report: Report, home: str, writer: str, seed: int) -> None:
    """Put messages of all lengths, some of them twice; report each once `put` has returned."""
    asyncio.run(_put_for_ever(report, home, writer, random.Random(seed)))


async def _put_for_ever(report: Report, home: str, writer: str, dice: random.Random) -> None:
    inbox = store_at(home).inbox(RUN)
    number = 0
    while True:
        body = msgspec.Raw(msgspec.json.encode("x" * dice.choice((0, 100, 100, 5_000, 5_000, 100_000))))
        message = Message(id=f"{writer}-{number}", kind="say", sender=writer, body=body)
        for _ in range(dice.choice((1, 1, 2))):
            await inbox.put(message)
        report(message.id)
        number += 1


def take_in_for_ever(report: Report, home: str) -> None:
    """Own the run and consume its inbox as it fills."""
    asyncio.run(_take_in_for_ever(report, home))


async def _take_in_for_ever(report: Report, home: str) -> None:
    store = FileStore(home)
    report("opening")
    async with open_run(store, RUN) as run:
        await run.begin_session(SessionStart(command="resume"))
        await run.consume_inbox()
        async for _ in store.inbox(RUN).follow(run.state.inbox_cursor):
            for message in await run.consume_inbox():
                report(message.id)


def own_until_killed(report: Report, address: str, memory: int = 0) -> None:
    """The more memory it has to give back, the longer it takes to die, and holds the lock all the while."""

    async def own() -> None:
        async with store_at(address).own(RUN) as lease:
            held = b"x" * memory
            report(f"{os.getpid()} {lease.epoch} {len(held)}")
            await asyncio.Event().wait()

    asyncio.run(own())


def own_once(report: Report, home: str) -> None:
    """Try to own the run; report the epoch, or the refusal."""

    async def own() -> None:
        try:
            async with FileStore(home).own(RUN) as lease:
                report(f"epoch {lease.epoch}")
        except HoldfastError as refusal:
            report(f"{type(refusal).__name__}: {refusal}")

    asyncio.run(own())


def look_for_ever(report: Report, home: str) -> None:
    """Ask who owns the run, as often as the machine allows."""

    async def look() -> None:
        store = FileStore(home)
        await store.holder(RUN)
        report("looking")
        while True:
            await store.holder(RUN)

    asyncio.run(look())


def follow_for_ever(report: Report, home: str) -> None:
    """Report every line of the log, and the size of those too long to send."""

    async def follow() -> None:
        report("following")
        async for batch in FileStore(home).log(RUN).follow():
            for line in batch.data.splitlines():
                report(line.decode() if len(line) < 10_000 else f"{len(line)} bytes")

    asyncio.run(follow())


def discard_and_die(report: Report, home: str) -> None:
    """Discard the run, and be killed where its files would be deleted: at the first call that removes one."""

    def die(event: str, _: object) -> None:
        if event in ("os.remove", "os.rmdir", "shutil.rmtree"):
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(die)
    asyncio.run(FileStore(home).discard(RUN))


def change_setting(_: Report, config: str, failpoint: str, passes: str) -> None:
    """Set `caps.iterations` to 9 in a config, and die at a failpoint."""
    os.environ.update({"HOLDFAST_CONFIG": config, FAILPOINT_VARIABLE: failpoint, FAILPOINT_FILE_VARIABLE: passes})
    arm_failpoints()
    change_user_setting(Home("home"), "caps.iterations", 9)
