"""A selftest ends within its time, whatever hangs: what is not done by then is in doubt."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from holdfast.engine.commands.selftest import runs as working
from holdfast.engine.commands.selftest.base import SelftestFinding, SelftestVerdict, holds
from holdfast.engine.commands.selftest.calibrate import (
    MAX_TIME_S,
    MIN_TIME_S,
    Deadline,
    MachineCosts,
    measure_costs,
    time_limit,
)
from holdfast.engine.commands.selftest.child import child_process, read_line
from holdfast.engine.commands.selftest.deadline import OutOfTime, deadline_at
from holdfast.engine.commands.selftest.selftest import NamedCheck, run_checks, run_selftest
from holdfast.leaf.process.identity import ProcessIdentity, identify
from tests.support.wait import PATIENCE

A_MOMENT, LONG = 0.3, PATIENCE  # seconds


def unheard(_: str) -> None:
    pass


@pytest.mark.parametrize(
    ("costs", "limit"),
    [
        (MachineCosts(start_s=0.3, sync_s=0.001), MIN_TIME_S),
        (MachineCosts(start_s=2.5, sync_s=0.001), 152.0),
        (MachineCosts(start_s=0.3, sync_s=0.1), 218.0),
        (MachineCosts(start_s=60.0, sync_s=0.1), MAX_TIME_S),
    ],
)
def test_a_slower_machine_has_more_time(costs: MachineCosts, limit: float) -> None:
    assert time_limit(costs) == pytest.approx(limit)


def test_what_things_cost_here_is_measured(tmp_path: Path) -> None:
    costs = measure_costs(str(tmp_path))
    assert costs.start_s > 0
    assert costs.sync_s >= 0


def test_what_there_is_no_time_for_is_in_doubt_and_nothing_is_left_behind(tmp_path: Path) -> None:
    found = list(run_selftest(str(tmp_path), None, quick=True, report=unheard, seconds=0))
    assert len(found) == 13
    assert {one.finding.verdict for one in found} == {SelftestVerdict.DOUBT}
    assert os.listdir(tmp_path) == []


def wait_for_a_process(seen: list[ProcessIdentity | None]) -> SelftestFinding:
    with child_process("hold", __file__) as process:
        seen.append(identify(process.pid))
        read_line(process)
        process.wait()
    return holds("it ended")


def wait_for_an_event() -> SelftestFinding:
    asyncio.run(asyncio.wait_for(asyncio.Event().wait(), None))
    return holds("it came")


def wait_in_a_file(path: str) -> SelftestFinding:
    with open(path, encoding="utf-8") as file:  # a pipe that nobody opens to write
        return holds(file.read())


def test_a_check_that_hangs_is_cut_off_and_so_is_each_that_comes_after_it(tmp_path: Path) -> None:
    """Be it over a process that it started, a file or an event: all have one end."""
    pipe, seen = str(tmp_path / "pipe"), list[ProcessIdentity | None]()
    os.mkfifo(pipe)
    for hanging in (partial(wait_for_a_process, seen), partial(wait_in_a_file, pipe), wait_for_an_event):
        found = {}
        for slower in (1, 10, 100):  # a busy machine may need longer to come to what hangs
            checks: list[NamedCheck] = [
                *(("quick", partial(holds, "yes")), ("hangs", hanging), ("never", partial(holds, "yes")))
            ]
            rows = run_checks("here", checks, unheard, Deadline.after(A_MOMENT * slower))
            found = {one.name: one.finding.verdict for one in rows}
            if found["quick"] is SelftestVerdict.HOLDS and seen:
                break
        assert found == {"quick": SelftestVerdict.HOLDS, "hangs": SelftestVerdict.DOUBT, "never": SelftestVerdict.DOUBT}
    process = seen[-1]
    assert process is not None
    assert identify(process.pid) != process, "what it started is dead"


def test_who_is_done_in_time_hears_nothing_later() -> None:
    """An alarm that somebody else had set is theirs again."""
    before, other = signal.getsignal(signal.SIGALRM), signal.setitimer(signal.ITIMER_REAL, 2 * LONG)
    try:
        with deadline_at(time.monotonic() + LONG):
            assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= LONG
        assert signal.getitimer(signal.ITIMER_REAL)[0] > LONG
        assert signal.getsignal(signal.SIGALRM) is before
    finally:
        signal.setitimer(signal.ITIMER_REAL, *other)


def soon_over_when(told: str) -> Callable[[str], None]:
    """The alarm that is set comes a moment after somebody is told this, and again as often as it would have."""

    def tell(words: str) -> None:
        if words == told:
            _, again = signal.getitimer(signal.ITIMER_REAL)
            signal.setitimer(signal.ITIMER_REAL, A_MOMENT, again)

    return tell


def test_a_run_that_does_not_end_leaves_the_check_in_doubt(tmp_path: Path) -> None:
    """The first run came back; the second hangs until the time is over."""
    program = tmp_path / "program"
    first = f'mkdir {tmp_path}/first && exec {sys.executable} -m holdfast "$@"'
    program.write_text(f"#!/bin/sh\n{first}\nexec sleep 1000\n", encoding="utf-8")
    program.chmod(0o700)
    trial = working.ResumeTrial(str(tmp_path), str(tmp_path), (str(program),), soon_over_when("run 2 of 2"))
    with pytest.raises(OutOfTime), deadline_at(time.monotonic() + LONG):
        working.check_resume(trial, [(), ()])
    again = tmp_path / "again"
    again.mkdir()
    with pytest.raises(OutOfTime), deadline_at(time.monotonic() + A_MOMENT):
        working.check_resume(trial._replace(folder=str(again), repositories=str(again)), [()])
