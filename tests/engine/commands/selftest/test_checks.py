"""Each check of `selftest` says yes where its promise is kept, and no where it is broken."""

import errno
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from holdfast.agents.launch import Launch
from holdfast.agents.process.tree import ProcessTree, spawn
from holdfast.engine.commands.selftest import disk, file_system, kernel
from holdfast.engine.commands.selftest import runs as working
from holdfast.engine.commands.selftest.base import SelftestVerdict
from holdfast.engine.commands.selftest.folder import delete_abandoned, home_path, marker_environment, temporary_folder
from holdfast.leaf.process.env_markers import RUN_MARK
from holdfast.leaf.process.identity import own_identity
from tests.crash.test_full_disk import MOUNTED
from tests.support.run_files import log_file, put_content

HOLDS, DOUBT, FAILS = SelftestVerdict
ROOT = "20 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw"


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path)


# What a folder stands on


@pytest.mark.parametrize(
    ("row", "verdict"),
    [
        ("21 20 0:30 / {} rw - tmpfs none rw", FAILS),
        ("21 20 8:2 / {} rw - ext4 /dev/sdb rw,nobarrier", FAILS),
        ("21 20 8:2 / {} rw,barrier=0 - ext4 /dev/sdb rw", FAILS),
        ("21 20 0:31 / {} rw - nfs4 server:/export rw,hard", DOUBT),
        ("21 20 0:32 / {} rw - overlay overlay rw,lowerdir=/l", DOUBT),
        ("21 20 8:2 / {} rw shared:1 - xfs /dev/sdb rw", HOLDS),
        ("21 20 0:33 / {}-beside rw - tmpfs none rw", HOLDS),
    ],
)
def test_a_file_system_by_its_mount(folder: str, row: str, verdict: SelftestVerdict) -> None:
    found = file_system.check_file_system(folder, table=f"{ROOT}\n{row.format(os.path.realpath(folder))}\n")
    assert found.verdict is verdict
    assert (found.advice is None) is (verdict is HOLDS)


def test_the_mount_of_a_folder_with_a_blank_in_its_name(folder: str) -> None:
    place = os.path.join(folder, "my disk")
    os.mkdir(place)
    escaped = os.path.realpath(place).replace(" ", "\\040")
    assert file_system.mount_of(place, f"{ROOT}\n21 20 8:2 / {escaped} rw - btrfs /dev/sdb rw\n").kind == "btrfs"


def test_a_real_file_system_in_memory_that_is_small(folder: str) -> None:
    """Asked as a user asks, for only the process that is in the mount sees it."""
    program = (
        "import sys; from holdfast.engine.commands.selftest import file_system; "
        "print(file_system.check_file_system(sys.argv[1]).verdict, file_system.check_free_space(sys.argv[1]).verdict)"
    )
    command = [*MOUNTED, folder, sys.executable, "-c", program, folder]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"NOT TESTED: a real small file system (no mount namespace here: {done.stderr.strip()})")
    assert done.stdout.split() == ["fails", "fails"]


@pytest.mark.parametrize(
    ("free", "inodes", "verdict"),
    [
        (10_000_000, 1_000_000, HOLDS),
        (100_000, 1_000_000, DOUBT),
        (10, 1_000_000, FAILS),
        (10_000_000, 5_000, DOUBT),
        (10_000_000, 5, FAILS),
    ],
)
def test_room(folder: str, free: int, inodes: int, verdict: SelftestVerdict) -> None:
    seen = os.statvfs_result((4096, 4096, free, free, free, 10_000_000, inodes, inodes, 0, 255))
    assert file_system.check_free_space(folder, statvfs=lambda _: seen).verdict is verdict


def test_a_file_system_that_counts_no_inodes_has_enough(folder: str) -> None:
    seen = os.statvfs_result((4096, 4096, 10_000_000, 10_000_000, 10_000_000, 0, 0, 0, 0, 255))
    assert file_system.check_free_space(folder, statvfs=lambda _: seen).verdict is HOLDS


def test_the_clock(folder: str) -> None:
    assert file_system.check_clock(folder).verdict is HOLDS
    assert file_system.check_clock(folder, now=lambda: 0.0).verdict is FAILS
    assert file_system.check_clock(folder, now=lambda: 4e9).verdict is DOUBT


# What a file system promises


def test_a_sync_that_does_not_wait_is_doubted_and_one_that_is_refused_fails(folder: str) -> None:
    def refused(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    assert disk.check_sync(folder, sync=lambda _: None).verdict is DOUBT
    found = disk.check_sync(folder, sync=refused)
    assert (found.verdict, found.measured) == (FAILS, "a sync was refused: Input/output error")


def test_a_killed_writer_loses_nothing_that_it_was_promised(folder: str) -> None:
    assert disk.check_killed_writer(folder, rounds=1).verdict is HOLDS


def test_a_writer_whose_lines_are_lost_is_seen(folder: str) -> None:
    liar = "import itertools\nfor n in itertools.count(): print(f'line {n} that nobody wrote', flush=True)"
    found = disk.check_killed_writer(folder, rounds=1, writer=(sys.executable, "-c", liar), lines_before_kill=3)
    assert found.verdict is FAILS
    assert "lost" in found.measured


def test_a_rename(folder: str) -> None:
    def copied(source: str, target: str) -> None:
        shutil.copyfile(source, target)
        os.unlink(source)

    def refused(_source: str, _target: str) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    assert disk.check_rename(folder, count=20, reads=50).verdict is HOLDS
    assert disk.check_rename(folder, count=3, reads=3, rename=copied).verdict is FAILS
    assert disk.check_rename(folder, count=3, reads=3, rename=os.link).verdict is FAILS
    assert disk.check_rename(folder, count=3, reads=3, rename=refused).verdict is FAILS


def test_appends_of_several_processes(folder: str) -> None:
    assert disk.check_append(folder, count=50).verdict is HOLDS
    assert disk.check_append(folder, count=50, flags=0).verdict is FAILS


# What is asked of the kernel


def test_a_lock(folder: str) -> None:
    def never(_fd: int, _how: int) -> None:
        raise BlockingIOError

    assert kernel.check_lock(folder).verdict is HOLDS
    assert "at once" in kernel.check_lock(folder, lock=lambda _fd, _how: None).measured
    assert "outlived" in kernel.check_lock(folder, lock=never).measured


def test_word_of_a_change(folder: str) -> None:
    assert kernel.check_file_watch(folder).verdict is HOLDS
    assert kernel.check_file_watch(folder, change=lambda _: None, timeout=0.05).verdict is FAILS


def test_who_a_process_is(folder: str) -> None:
    assert kernel.check_process_identity(folder).verdict is HOLDS
    assert kernel.check_process_identity(folder, identify_process=lambda _: None).verdict is FAILS
    assert kernel.check_process_identity(folder, identify_process=lambda _: own_identity()).verdict is FAILS
    assert kernel.check_process_identity(folder, find=lambda _name, _value: []).verdict is FAILS


class _OnlyTheRoot:
    """What a program does that kills the pid it knows."""

    def __init__(self, tree: ProcessTree) -> None:
        self.stdout = tree.stdout
        self._pid = tree.identity.pid

    async def kill(self) -> None:
        os.kill(self._pid, 9)


def test_a_tree_is_killed_to_its_last_leaf(folder: str) -> None:
    @asynccontextmanager
    async def careless(launch: Launch) -> AsyncIterator[ProcessTree]:
        async with spawn(launch) as tree:
            yield _OnlyTheRoot(tree)  # type: ignore[misc]

    assert kernel.check_tree_kill(folder).verdict is HOLDS
    assert kernel.check_tree_kill(folder, spawn_tree=careless).verdict is FAILS


# What all of it is for


def test_git(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert working.check_git(folder, folder).verdict is HOLDS
    for says, expected in (("echo git version 2.30.1", "2.38"), ("exit 3", "exit code 3")):
        _stand_in(folder, "git", says)
        monkeypatch.setenv("PATH", folder, prepend=os.pathsep)
        found = working.check_git(folder, os.path.join(folder, says))
        assert found.verdict is FAILS
        assert expected in found.measured


def _stand_in(folder: str, name: str, does: str) -> str:
    path = os.path.join(folder, name)
    Path(path).write_text(f"#!/bin/sh\n{does}\n", encoding="utf-8")
    os.chmod(path, stat.S_IRWXU)
    return path


HARM = {
    "does nothing": ("exit 0", "branch is not as it should be"),
    "fails": ("echo no >&2; exit 9", "code 9: no"),
    "breaks the log": ('{holdfast} "$@"; sed -i 3d $HOLDFAST_HOME/runs/*/events.jsonl', "the log is not whole"),
    "leaves a branch": (
        '{holdfast} "$@"; git -C {folder}/notes-1 branch holdfast/$2/T-9 main',
        "/T-9'",
    ),
}


@pytest.mark.parametrize("what", ["does nothing", "fails"])
def test_a_resume_that_is_none(folder: str, what: str) -> None:
    _harmed(folder, what)


def test_a_run_that_was_never_killed_proves_nothing(folder: str) -> None:
    found = working.check_resume(
        working.ResumeTrial(folder, folder, (sys.executable, "-m", "holdfast")), [("effect.merge.before:9",)]
    )
    assert found.verdict is FAILS
    assert "to be killed at effect.merge.before:9, and never reached it" in found.measured


def test_runs_for_which_there_is_no_time_are_not_begun_and_told(folder: str) -> None:
    trial = working.ResumeTrial(folder, folder, (sys.executable, "-m", "holdfast"), last_start=0.0)
    found = working.check_resume(trial, [(), ("effect.merge.before:9",)])
    assert (found.verdict, found.measured.partition(";")[0]) == (HOLDS, "runs done: 1 (1 more: no time), kills: 0")


@pytest.mark.torture
@pytest.mark.parametrize("what", ["breaks the log", "leaves a branch"])
def test_a_resume_that_does_harm(folder: str, what: str) -> None:
    _harmed(folder, what)


def _harmed(folder: str, what: str) -> None:
    does, expected = HARM[what]
    program = _stand_in(folder, "program", does.format(holdfast=f"{sys.executable} -m holdfast", folder=folder))
    found = working.check_resume(working.ResumeTrial(folder, folder, (program,)), [()])
    assert found.verdict is FAILS
    assert expected in found.measured


# Nothing is left behind


def test_a_folder_that_had_to_be_made_goes_again(folder: str) -> None:
    with temporary_folder(os.path.join(folder, "a", "b")) as place:
        assert os.path.isdir(place)
    assert os.listdir(folder) == []


def test_what_is_only_called_like_ours_is_not_touched(folder: str) -> None:
    theirs = ("selftest-results", "selftest-2024-01-01", "selftest-", "selftest-0123abcd-x-y")
    for name in theirs:
        os.mkdir(os.path.join(folder, name))
        os.utime(os.path.join(folder, name), (0, 0))
    with temporary_folder(folder):
        pass
    assert sorted(os.listdir(folder)) == sorted(theirs)


def test_what_the_dead_left_is_taken_away_and_what_the_living_use_is_not(folder: str) -> None:
    with temporary_folder(folder) as mine:
        dead = os.path.join(folder, f"selftest-{own_identity().boot_id[:8]}-{2**22 + 1}-1")
        log = log_file(home_path(dead), "notes-aaaaaa")  # an agent starts only after the log of its run exists
        os.makedirs(os.path.dirname(log))
        put_content(log, b"")
        runner, agent = {**os.environ, **marker_environment(dead)}, {**os.environ, RUN_MARK: "notes-aaaaaa"}
        with (
            subprocess.Popen(["sleep", "600"], env=runner) as one,
            subprocess.Popen(["sleep", "600"], env=agent) as other,
        ):
            delete_abandoned(folder)
            assert (one.wait(), other.wait()) == (-9, -9)
        assert sorted(os.listdir(folder)) == [os.path.basename(mine)]
