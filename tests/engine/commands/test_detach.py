"""A runner of its own is not said to have begun when nobody saw it begin."""

import asyncio
import os
import re
from pathlib import Path

import pytest

from holdfast.core.events.session import RunCreated, SessionStart
from holdfast.engine.commands.detach import RUNNER_LOG, start_detached
from holdfast.engine.home import Home
from holdfast.leaf.errors import HoldfastError
from holdfast.leaf.process.death import wait_for_exit
from holdfast.store.files.layout import run_folder
from holdfast.store.files.store import FileStore
from holdfast.store.run import open_run
from tests.support.wait import until

RUN = "auth-abc234"


async def test_one_whose_log_cannot_be_followed_is_told_with_its_pid(tmp_path: Path) -> None:
    home = os.fspath(tmp_path / "home")
    await FileStore(home).create(RUN)
    async with open_run(FileStore(home), RUN) as run:
        await run.begin_session(SessionStart(command="run"), RunCreated(run_id=RUN, goal="g"))
    starting = asyncio.create_task(start_detached(Home(home), RUN))
    folder = Path(run_folder(home, RUN))
    await until((folder / RUNNER_LOG).exists)
    (folder / "events.jsonl").rename(folder / "elsewhere.jsonl")  # long before a program can begin to read it
    with pytest.raises(HoldfastError, match="its start could not be observed") as told:
        await starting
    pid = re.search(r"a runner was started \(pid (\d+)\)", str(told.value))
    assert pid is not None
    await wait_for_exit(int(pid[1]))
