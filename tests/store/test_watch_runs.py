"""Whoever watches the folder of runs hears of each when it is one, and not only when its folder is made."""

import asyncio
import os

from holdfast.leaf.files.watch import Watcher
from holdfast.store.files.layout import runs_folder
from holdfast.store.files.store import FileStore
from tests.support.wait import PATIENCE


async def test_a_run_is_heard_of_though_its_folder_was_there_before(tmp_path: os.PathLike[str]) -> None:
    """As after an attempt that was cut off, or for one who looked between the folder and the log."""
    home = os.fspath(tmp_path)
    os.makedirs(os.path.join(runs_folder(home), "auth-abc234"))
    async with Watcher().changes(runs_folder(home)) as changed:
        await FileStore(home).create("auth-abc234")
        await asyncio.wait_for(changed.wait(), PATIENCE)
