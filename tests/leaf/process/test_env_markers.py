"""Facts of marks: who carries one is found by it, from the moment at which whoever started it knows of it."""

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.leaf.process import env_markers as marks
from holdfast.leaf.process import proc
from holdfast.leaf.process.env_markers import is_unmarked_orphan, mark_of, marked_processes
from holdfast.leaf.process.identity import identify
from holdfast.leaf.process.proc import pids
from tests.support.hopping_process import hopping
from tests.support.lingering_threads import FIRST_THREAD_LEAVES

FOR_EVER = 1e6  # seconds: who waited for a moment of this length would not come to the end of the test
MARK, VALUES = "HOLDFAST_TEST_MARK", [f"{os.getpid()}-{number}" for number in range(20)]


@contextmanager
def just_started(value: str) -> Iterator[int]:
    """Its pid is known when its program is called; the kernel gives it an environment a little later."""
    with subprocess.Popen(["sleep", "600"], env={MARK: value}, start_new_session=True) as started:
        try:
            yield started.pid
        finally:
            started.kill()


def test_a_process_is_found_by_its_mark_from_its_very_beginning() -> None:
    for value in VALUES:
        with just_started(value) as pid:
            assert marked_processes(MARK, value) == [identify(pid)]


def test_a_mark_may_be_no_text() -> None:
    value = os.fsdecode(b"\xff") + VALUES[0]
    with just_started(value) as pid:
        assert marked_processes(MARK, value) == [identify(pid)]
        assert mark_of(pid, MARK) == value


def test_what_a_process_inherited_is_told_from_its_very_beginning() -> None:
    for value in VALUES:
        with just_started(value) as pid:
            assert mark_of(pid, MARK) == value


def test_a_child_that_is_just_becoming_its_program_is_no_orphan() -> None:
    for _ in VALUES:
        with just_started("ours") as pid:
            assert not is_unmarked_orphan([MARK], pid)


def test_who_shows_no_environment_for_a_moment_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    real, shown = proc.read_at_once, itertools.count()
    monkeypatch.setattr(marks, "read_at_once", lambda path: real(path) if next(shown) > 2 else b"")
    with just_started(VALUES[0]) as pid:
        assert mark_of(pid, MARK) == VALUES[0]


def test_a_child_in_a_session_of_its_own_without_a_mark_is_an_orphan() -> None:
    with just_started("another's") as pid:
        assert is_unmarked_orphan(["HOLDFAST_OTHER_MARK"], pid)
    with subprocess.Popen(["sleep", "600"], env={}) as ours:
        assert not is_unmarked_orphan([MARK], ours.pid)
        ours.kill()


def test_what_has_no_environment_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marks, "_EXEC_WAIT_S", FOR_EVER)
    with subprocess.Popen(["sleep", "600"], env={}) as bare:
        try:
            assert [mark_of(pid, MARK) for pid in (bare.pid, 2)] == [None, None]  # the kernel's own have none either
        finally:
            bare.kill()
        os.waitid(os.P_PID, bare.pid, os.WEXITED | os.WNOWAIT)
        assert mark_of(bare.pid, MARK) is None


LETS_GO_OF_ITS_ENVIRONMENT = """
import ctypes, mmap, signal
with open("/proc/self/stat") as stat, open("/proc/self/maps") as maps:
    start = int(stat.read().rpartition(")")[2].split()[47]) // mmap.PAGESIZE * mmap.PAGESIZE
    end = next(int(line.split()[0].split("-")[1], 16) for line in maps if "[stack]" in line)
assert ctypes.CDLL(None).munmap(ctypes.c_void_p(start), ctypes.c_size_t(end - start)) == 0
print(flush=True)
signal.pause()
"""


@pytest.mark.parametrize(
    ("program", "environment"),
    [(LETS_GO_OF_ITS_ENVIRONMENT, {MARK: "long" * 10_000}), (FIRST_THREAD_LEAVES, {})],
    ids=["it let go of it", "it had none, and its first thread left"],
)
def test_who_shows_no_environment_any_more_is_not_waited_for(
    program: str, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marks, "_EXEC_WAIT_S", FOR_EVER)
    command = [sys.executable, "-IS", "-c", program, "an argument" * 2_000]  # which fills the page before
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as started:
        try:
            assert started.stdout is not None
            assert started.stdout.readline()
            assert mark_of(started.pid, MARK) is None
        finally:
            started.kill()


def test_who_is_another_process_every_moment_is_found_all_the_same(tmp_path: Path) -> None:
    with hopping(tmp_path) as hopper:
        subprocess.run(hopper, env={**os.environ, MARK: VALUES[0]}, check=True)
        assert sum(not _environments_with(VALUES[0]) for _ in range(20)) < 5


def _environments_with(value: str) -> list[int]:
    """Who has been found may be gone before it is identified."""
    return [pid for pid, inherited in marks._environments(pids()) if f"{MARK}={value}".encode() in inherited]


@pytest.mark.parametrize("size", [10, 20_000, 120_000])
def test_a_process_that_becomes_a_program_again_and_again_has_its_mark_all_the_time(tmp_path: Path, size: int) -> None:
    script = tmp_path / "again"
    script.write_text('#!/bin/sh\nexec "$0"\n', encoding="utf-8")
    script.chmod(0o700)
    environment = {"A_LONG_ONE": "x" * size, MARK: VALUES[0]}
    with subprocess.Popen([script], env=environment) as program:
        try:
            for _ in range(1_000):
                assert mark_of(program.pid, MARK) == VALUES[0]
        finally:
            program.kill()
