"""Where the kernel has no watch left to give, changes are told all the same."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from holdfast.leaf.errors import StorageFailed
from holdfast.leaf.files.inotify import Inotify
from holdfast.leaf.files.watch import Watcher
from tests.support.wait import PATIENCE


@pytest.fixture
def all_given_away(alone_with_watches: None) -> Iterator[None]:
    """Every instance that this user may have. Others who need one meanwhile look for themselves as well."""
    with ExitStack() as held:
        try:
            while True:
                held.callback(Inotify().close)
        except OSError:
            pass
        yield


@pytest.mark.usefixtures("all_given_away")
async def test_a_change_is_told_though_no_watch_is_left(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_bytes(b"")
    async with Watcher().changes(os.fspath(file)) as changed, asyncio.timeout(PATIENCE):
        for line in (b"one\n", b"two\n"):
            with file.open("ab") as opened:
                opened.write(line)
            await changed.wait()
            changed.clear()


@pytest.mark.usefixtures("all_given_away")
async def test_a_new_name_in_a_folder_is_told_though_no_watch_is_left(tmp_path: Path) -> None:
    async with Watcher().changes(os.fspath(tmp_path)) as changed, asyncio.timeout(PATIENCE):
        (tmp_path / "new").mkdir()
        await changed.wait()


@pytest.mark.usefixtures("alone_with_watches")
async def test_what_is_not_there_cannot_be_watched(tmp_path: Path) -> None:
    with pytest.raises(StorageFailed, match=r"cannot watch .*: No such file"):
        async with Watcher().changes(os.fspath(tmp_path / "none")):
            pass
