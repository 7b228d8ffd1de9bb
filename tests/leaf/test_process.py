"""Facts of processes: who carries a mark is found by it, from the moment at which whoever started it knows of it."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

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


def test_the_kernel_s_own_processes_have_no_mark_and_are_not_waited_for() -> None:
    assert mark_of(2, MARK) is None


def test_all_that_came_of_a_process_is_found_at_once() -> None:
    script = "sleep 600 & echo $!; wait"
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, start_new_session=True) as shell:
        try:
            assert shell.stdout is not None
            sleep = int(shell.stdout.readline())
            families = Families()
            assert families.below(shell.pid) == [identify(sleep)]
            assert identify(shell.pid) in families.children_of(os.getpid())
            assert {identify(shell.pid), identify(sleep)} <= {*families.below(os.getpid())}
            assert myself() not in families.below(os.getpid())
        finally:
            os.killpg(shell.pid, 9)
