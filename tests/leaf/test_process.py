"""Facts of processes: who carries a mark is found by it, from the moment at which whoever started it knows of it."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.leaf.process import identify, is_orphan_without, mark_of, marked

MARK, TIMES = "HOLDFAST_TEST_MARK", 20


@contextmanager
def just_started(value: str) -> Iterator[int]:
    """Its pid is known when its program is called; the kernel gives it an environment a little later."""
    with subprocess.Popen(["sleep", "600"], env={MARK: value}, start_new_session=True) as process:
        try:
            yield process.pid
        finally:
            process.kill()


def test_a_process_is_found_by_its_mark_from_its_very_beginning() -> None:
    for number in range(TIMES):
        with just_started(str(number)) as pid:
            assert marked(MARK, str(number)) == [identify(pid)]


def test_what_a_process_inherited_is_told_from_its_very_beginning() -> None:
    for number in range(TIMES):
        with just_started(str(number)) as pid:
            assert mark_of(pid, MARK) == str(number)


def test_a_child_that_is_just_becoming_its_program_is_no_orphan() -> None:
    for _ in range(TIMES):
        with just_started("ours") as pid:
            assert not is_orphan_without([MARK], pid)


def test_the_kernel_s_own_processes_have_no_mark_and_are_not_waited_for() -> None:
    assert mark_of(2, MARK) is None
