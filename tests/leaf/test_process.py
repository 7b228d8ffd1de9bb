"""Facts of processes: who carries a mark is found by it, from the moment at which whoever started it knows of it."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.leaf.process import Families, identify, is_orphan_without, mark_of, marked, myself

MARK, VALUES = "HOLDFAST_TEST_MARK", [f"{os.getpid()}-{number}" for number in range(20)]


@contextmanager
def just_started(value: str) -> Iterator[int]:
    """Its pid is known when its program is called; the kernel gives it an environment a little later."""
    with subprocess.Popen(["sleep", "600"], env={MARK: value}, start_new_session=True) as process:
        try:
            yield process.pid
        finally:
            process.kill()


def test_a_process_is_found_by_its_mark_from_its_very_beginning() -> None:
    for value in VALUES:
        with just_started(value) as pid:
            assert marked(MARK, value) == [identify(pid)]


def test_what_a_process_inherited_is_told_from_its_very_beginning() -> None:
    for value in VALUES:
        with just_started(value) as pid:
            assert mark_of(pid, MARK) == value


def test_a_child_that_is_just_becoming_its_program_is_no_orphan() -> None:
    for _ in VALUES:
        with just_started("ours") as pid:
            assert not is_orphan_without([MARK], pid)


def test_what_has_no_environment_is_not_waited_for() -> None:
    with subprocess.Popen(["sleep", "600"], env={}) as process:
        begun = time.monotonic()
        assert [mark_of(pid, MARK) for pid in (process.pid, 2)] == [None, None]  # the kernel's own have the others
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert mark_of(process.pid, MARK) is None
        assert time.monotonic() - begun < 0.9


@pytest.mark.parametrize("size", [10, 20_000, 120_000])
def test_a_process_that_becomes_a_program_again_and_again_has_its_mark_all_the_time(tmp_path: Path, size: int) -> None:
    script = tmp_path / "again"
    script.write_text('#!/bin/sh\nexec "$0"\n', encoding="utf-8")
    script.chmod(0o700)
    environment = {"A_LONG_ONE": "x" * size, MARK: VALUES[0]}
    with subprocess.Popen([script], env=environment) as process:
        try:
            for _ in range(1_000):
                assert mark_of(process.pid, MARK) == VALUES[0]
        finally:
            process.kill()


def test_all_that_came_of_a_process_is_found_at_once() -> None:
    script = "sleep 600 & echo $!; wait"
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, start_new_session=True) as shell:
        try:
            assert shell.stdout is not None
            sleep = int(shell.stdout.readline())
            families, root = Families(), identify(shell.pid)
            assert root is not None
            assert families.below(root) == [identify(sleep)]
            assert root in families.children_of(myself())
            assert {root, identify(sleep)} <= {*families.below(myself())}
            assert families.below(root._replace(start_time=root.start_time - 1)) == [], "another had that pid before"
        finally:
            os.killpg(shell.pid, 9)
