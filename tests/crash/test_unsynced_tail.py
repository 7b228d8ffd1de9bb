"""Lines of a killed writer that are whole, but that only the page cache holds."""

import os

from holdfast.core.events.session import SessionStart
from holdfast.leaf.files.disk import Disk
from holdfast.store.files.store import FileStore
from holdfast.store.run import open_run


async def test_what_an_opening_builds_on_is_on_the_disk_first(home: str) -> None:
    await FileStore(home).create("r1")
    async with open_run(FileStore(home), "r1") as run:
        await run.begin_session(SessionStart(command="run"))
    path = f"{home}/runs/r1/events.jsonl"
    with open(path, "ab") as log:  # as a writer does that is killed between its write and its sync
        log.write(b'{"sid":"dead","seq":0,"type":"task.started","data":{"taskId":"1"}}\n')
    synced: list[tuple[int, int]] = []

    def sync(fd: int) -> None:
        status = os.fstat(fd)
        synced.append((status.st_ino, status.st_size))
        os.fdatasync(fd)

    async with open_run(FileStore(home, disk=Disk(sync=sync)), "r1") as run:
        assert "1" in run.state.tasks
        status = os.stat(path)
        assert (status.st_ino, status.st_size) in synced
