"""Making a run, and what may be its name."""

import fcntl
import os
import re
import shutil
import subprocess
import sys

import pytest

from holdfast.leaf.errors import BadInput, NoSuchRun, RunExists, StorageFailed
from holdfast.store.files.create import delete_incomplete, incomplete_run_folders
from holdfast.store.files.layout import run_folder, runs_folder
from holdfast.store.files.store import FileStore
from holdfast.store.run import open_run
from tests.support.events import START
from tests.support.faults import run_with_faults
from tests.support.logs import whole
from tests.support.run_files import RUN, inbox_file, lock_file, log_file, put_content

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))

CREATE = f"""
import asyncio, sys
from holdfast.store.files.store import FileStore
asyncio.run(FileStore(sys.argv[1]).create({RUN!r}))
"""


def test_every_new_name_is_synced(home: str) -> None:
    """Seen by strace: whatever folder or file is made, the folder that holds its name is synced afterwards."""
    strace = shutil.which("strace")
    if strace is None or subprocess.run([strace, "-o", os.devnull, "true"], check=False).returncode:
        pytest.skip("NOT TESTED: that names are synced (no strace, or it may not trace)")
    trace = f"{home}.trace"
    command = [strace, "-f", "-y", "-e", "trace=fsync,openat,mkdir,mkdirat", "-o", trace]
    subprocess.run([*command, sys.executable, "-c", CREATE, home], cwd=ROOT, check=True)
    with open(trace) as file:
        calls = file.read().splitlines()
    made = {
        found[1]: number
        for number, call in enumerate(calls)
        if ("mkdir" in call or "O_CREAT" in call) and (found := re.search(rf'"({re.escape(home)}[^"]*)"', call))
    }
    folder = run_folder(home, RUN)
    assert set(made) == {home, runs_folder(home), folder, log_file(home), inbox_file(home)}
    for path, number in made.items():
        synced = f"<{os.path.dirname(path)}>)"
        assert any("fsync" in call and synced in call for call in calls[number:]), f"the name of {path} was not synced"


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../escaped", "a/b", "/etc", "a/../../b", ".hidden", "a\0b", "./a", "../runs/run-aaaaaa"]
)
async def test_a_run_id_cannot_leave_its_folder(home: str, name: str) -> None:
    store = FileStore(home)
    await store.create(RUN)
    before = sorted(os.walk(os.path.dirname(home)))
    with pytest.raises(BadInput):
        await store.create(name)
    with pytest.raises(BadInput):
        store.log(name)
    with pytest.raises(BadInput):
        store.inbox(name)
    with pytest.raises(BadInput):
        await store.holder(name)
    with pytest.raises(BadInput):
        await store.snapshot(name)
    with pytest.raises(BadInput):
        async with store.own(name):
            pass
    assert sorted(os.walk(os.path.dirname(home))) == before


async def test_a_name_that_is_too_long_is_no_run(home: str) -> None:
    store = FileStore(home)
    with pytest.raises(StorageFailed, match="too long"):
        await store.create("x" * 300)
    with pytest.raises(NoSuchRun):
        store.log("x" * 300)


async def test_strangers_among_the_runs_are_no_runs(home: str) -> None:
    store = FileStore(home)
    await store.create(RUN)
    put_content(os.path.join(runs_folder(home), ".DS_Store"), b"")
    put_content(os.path.join(runs_folder(home), "notes.txt"), b"")
    os.mkdir(os.path.join(runs_folder(home), ".trash"))
    os.mkdir(os.path.join(runs_folder(home), "empty-aaaaaa"))
    assert list(await store.run_ids()) == [RUN]


@pytest.mark.parametrize("stage", ["folder", "inbox"])
async def test_a_run_whose_making_was_cut_off_can_be_made_again(home: str, stage: str) -> None:
    """Killed in the middle, or a full disk: there is no run yet, and its name is not lost."""
    store = FileStore(home)
    os.makedirs(run_folder(home, RUN))
    if stage == "inbox":
        put_content(inbox_file(home), b"")
    assert list(await store.run_ids()) == []
    await store.create(RUN)
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
    with pytest.raises(RunExists):
        await store.create(RUN)


REFUSED = """
import asyncio, os, sys
from holdfast.leaf.errors import StorageFailed
from holdfast.store.files.store import FileStore
os.makedirs(os.path.join(sys.argv[1], "runs"))
try:
    asyncio.run(FileStore(sys.argv[1]).create(sys.argv[2]))
except StorageFailed:
    pass
else:
    raise AssertionError("it was to fail")
"""


@pytest.mark.parametrize("call", ["inbox.jsonl", "events.jsonl", "fsync 1", "fsync 2"])
async def test_a_run_that_cannot_be_made_leaves_nothing_behind(home: str, call: str) -> None:
    if call.startswith("fsync"):
        run_with_faults(REFUSED, home, RUN, trace="fsync", faults=f"fsync:error=EIO:when={call[-1]}")
    else:
        paths = (os.path.join(run_folder(home, RUN), call),)
        run_with_faults(REFUSED, home, RUN, trace="openat", faults="openat:error=ENOSPC:when=1", paths=paths)
    assert os.listdir(runs_folder(home)) == []
    await FileStore(home).create(RUN)


async def test_what_a_kill_left_of_a_run_is_taken_away_and_nothing_else(home: str) -> None:
    store = FileStore(home)
    await store.create(RUN)
    folders = {name: os.path.join(runs_folder(home), name) for name in ("bare", "early", "written", "strange")}
    for folder in folders.values():
        os.mkdir(folder)
    put_content(inbox_file(home, "early"), b"")
    put_content(inbox_file(home, "written"), b"words\n")
    put_content(os.path.join(folders["strange"], "notes"), b"")
    assert incomplete_run_folders(home) == [folders["bare"], folders["early"]]
    for folder in (*folders.values(), run_folder(home, RUN)):
        delete_incomplete(folder)
    assert sorted(os.listdir(runs_folder(home))) == [RUN, "strange", "written"]
    assert list(await store.run_ids()) == [RUN]
    await store.inbox(RUN).check_writable()


def test_a_run_that_is_being_made_is_not_taken_away(home: str) -> None:
    folder = run_folder(home, RUN)
    os.makedirs(folder)
    put_content(inbox_file(home), b"")
    with open(inbox_file(home), "r+b") as maker:
        fcntl.flock(maker, fcntl.LOCK_EX)
        delete_incomplete(folder)
    assert os.listdir(folder) == ["inbox.jsonl"]


async def test_a_relative_home_works_from_anywhere(tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = FileStore("data")
    await store.create(RUN)
    monkeypatch.chdir("/")
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
    assert (await whole(store, RUN)).count(b"\n") == 1


async def test_only_its_user_can_read_a_run(home: str) -> None:
    """Conversations with agents are in it."""
    store = FileStore(home)
    await store.create(RUN)
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
    folder = run_folder(home, RUN)
    assert os.stat(folder).st_mode & 0o077 == 0
    for name in os.listdir(folder):
        assert os.stat(os.path.join(folder, name)).st_mode & 0o077 == 0, name
    assert {os.path.basename(path) for path in (log_file(home), inbox_file(home), lock_file(home))} <= set(
        os.listdir(folder)
    )
