"""A file system that loses its power for real: ext4 on a loop device, shut down without a flush, mounted again.

    unshare --mount python -m tests.support.real_power_cut FOLDER ROUNDS SEED      needs root

Ends with 77 and says why where the machine does not allow it.
"""

import asyncio
import fcntl
import os
import random
import shutil
import struct
import subprocess
import sys

from holdfast.store.files.store import FileStore
from holdfast.store.run import open_run
from tests.support.children import append_for_ever, put_for_ever
from tests.support.events import START, Label, by_producer, labels_in
from tests.support.logs import assert_whole, folded, whole
from tests.support.processes import Child, child
from tests.support.run_files import RUN

NOT_POSSIBLE = 77

_SHUTDOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN
_NO_LOG_FLUSH = 2
_MOST_AT_ONCE = 3


class Machine:
    def __init__(self, folder: str, *options: str) -> None:
        self._image = os.path.join(folder, "disk.img")
        self.mounted = os.path.join(folder, "mounted")
        self.home = os.path.join(self.mounted, "home")
        os.mkdir(self.mounted)
        with open(self._image, "wb") as file:
            file.truncate(512 * 1024 * 1024)
        _command("mkfs.ext4", "-q", "-F", *options, self._image)

    def power_on(self) -> None:
        _command("mount", "-o", "loop", self._image, self.mounted)

    def cut_power(self) -> None:
        fd = os.open(self.mounted, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, _SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
        finally:
            os.close(fd)

    def power_off(self) -> None:
        _command("umount", self.mounted)


class NotPossible(Exception):
    pass


def _command(*command: str) -> None:
    """Where a user's PATH does not lead, too: mkfs is an administrator's program."""
    program = shutil.which(command[0]) or shutil.which(command[0], path="/usr/sbin:/sbin") or command[0]
    try:
        subprocess.run([program, *command[1:]], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise NotPossible(f"{' '.join(command)}: {getattr(error, 'stderr', None) or error}") from error


def switched_on(folder: str) -> Machine:
    """Ends with 77 where the machine does not allow it; what fails later has failed."""
    try:
        machine = Machine(folder)
        machine.power_on()
    except NotPossible as reason:
        sys.stderr.write(str(reason))
        sys.exit(NOT_POSSIBLE)
    return machine


async def main(machine: Machine, rounds: int, seed: int) -> None:
    dice = random.Random(seed)
    store = FileStore(machine.home)
    await store.create(RUN)
    runs = {RUN}
    messages: set[str] = set()
    written = {f"p{index}": 0 for index in range(8)}
    for turn in range(rounds):
        with (
            child(append_for_ever, machine.home, written, dice.randrange(2**32)) as writer,
            child(put_for_ever, machine.home, f"w{turn}", dice.randrange(2**32)) as sender,
        ):
            heard = writer.hear_some(dice.choice((2, 5, 30, 100)))
            put = sender.hear_some(dice.choice((1, 3, 10)))
            runs.add(f"run-{turn}")
            await store.create(f"run-{turn}")
            heard += writer.hear_now()
            messages.update(put, sender.hear_now())
            machine.cut_power()
            unsure = _rest(writer)
            sender.kill()
        machine.power_off()
        machine.power_on()
        assert set(await store.run_ids()) >= runs, "a run that was created is gone"
        written = await _checked(store, written, _labels(heard[1:]), _labels(unsure))
    consumed = await _consumed(store)
    assert messages <= consumed, f"messages lost: {messages - consumed}"
    machine.power_off()


def _rest(process: Child) -> list[str]:
    """What it says after the cut, when a real machine would say nothing: ext4 lets a sync succeed that it gave up."""
    process.kill()
    return process.hear_all()


def _labels(heard: list[str]) -> list[Label]:
    return [(name, int(number)) for name, number in map(str.split, heard)]


async def _checked(
    store: FileStore, before: dict[str, int], acknowledged: list[Label], unsure: list[Label]
) -> dict[str, int]:
    async with open_run(store, RUN) as run:
        data = await whole(store, RUN)
        assert run.state == folded(data)
        assert run.state.malformed == []
        await run.begin_session(START)
    assert_whole(data)
    found = labels_in(data)
    assert set(acknowledged) <= set(found), f"events lost: {set(acknowledged) - set(found)}"
    sent, in_log = by_producer(acknowledged + unsure), by_producer(found)
    for name, numbers in in_log.items():
        assert numbers == list(range(len(numbers)))
        assert len(numbers) <= before[name] + len(sent.get(name, [])) + _MOST_AT_ONCE
    return {name: len(in_log.get(name, [])) for name in before}


async def _consumed(store: FileStore) -> set[str]:
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        taken = [message.id for message in await run.consume_inbox()]
    assert len(set(taken)) == len(taken)
    return set(taken)


if __name__ == "__main__":
    asyncio.run(main(switched_on(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
