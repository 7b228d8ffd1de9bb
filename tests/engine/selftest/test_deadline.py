"""A selftest ends within its minute, whatever hangs: what is not done by then is in doubt."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from holdfast.engine.selftest import working
from holdfast.engine.selftest.base import Finding, Verdict, holds
from holdfast.engine.selftest.child import child, told
from holdfast.engine.selftest.deadline import MINUTE, WHOLE, OutOfTime, until
from holdfast.engine.selftest.examining import Check, examine, made
from holdfast.leaf.process import ProcessIdentity, identify

A_MOMENT, LONG = 0.3, 60.0  # seconds


def unheard(_: str) -> None:
    pass


def test_all_checks_together_have_less_than_a_minute() -> None:
    """With as much again as tidying up takes on a slow disk."""
    assert WHOLE <= MINUTE - 10


def test_what_there_is_no_time_for_is_in_doubt_and_nothing_is_left_behind(tmp_path: Path) -> None:
    found = list(examine(str(tmp_path), None, quick=True, tell=unheard, seconds=0))
    assert len(found) == 13
    assert {one.finding.verdict for one in found} == {Verdict.DOUBT}
    assert os.listdir(tmp_path) == []


def wait_for_a_process(seen: list[ProcessIdentity | None]) -> Finding:
    with child("hold", __file__) as process:
        seen.append(identify(process.pid))
        told(process)
        process.wait()
    return holds("it ended")


def wait_for_an_event() -> Finding:
    asyncio.run(asyncio.wait_for(asyncio.Event().wait(), None))
    return holds("it came")


def wait_in_a_file(path: str) -> Finding:
    with open(path, encoding="utf-8") as file:  # a pipe that nobody opens to write
        return holds(file.read())


def test_a_check_that_hangs_is_cut_off_and_so_is_each_that_comes_after_it(tmp_path: Path) -> None:
    """Be it over a process that it started, a file or an event: all have one end."""
    pipe, seen = str(tmp_path / "pipe"), list[ProcessIdentity | None]()
    os.mkfifo(pipe)
    for hanging in (partial(wait_for_a_process, seen), partial(wait_in_a_file, pipe), wait_for_an_event):
        checks: list[Check] = [("quick", partial(holds, "yes")), ("hangs", hanging), ("never", partial(holds, "yes"))]
        found = list(made("here", checks, unheard, time.monotonic() + A_MOMENT))
        verdicts = {one.name: one.finding.verdict for one in found}
        assert verdicts == {"quick": Verdict.HOLDS, "hangs": Verdict.DOUBT, "never": Verdict.DOUBT}
    (process,) = seen
    assert process is not None
    assert identify(process.pid) != process, "what it started is dead"


def test_who_is_done_in_time_hears_nothing_later() -> None:
    """An alarm that somebody else had set is theirs again."""
    before, other = signal.getsignal(signal.SIGALRM), signal.setitimer(signal.ITIMER_REAL, 2 * LONG)
    try:
        with until(time.monotonic() + LONG):
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


def test_a_run_that_does_not_end_takes_nothing_from_those_that_did(tmp_path: Path) -> None:
    """The time is over when the second has begun. Alone it would say nothing."""
    program = tmp_path / "program"
    first = f'mkdir {tmp_path}/first && exec {sys.executable} -m holdfast "$@"'
    program.write_text(f"#!/bin/sh\n{first}\nexec sleep 1000\n", encoding="utf-8")
    program.chmod(0o700)
    trial = working.Trial(str(tmp_path), str(tmp_path), (str(program),), soon_over_when("run 2 of 2"))
    with until(time.monotonic() + LONG):
        found = working.resuming(trial, [(), ()])
    assert (found.verdict, found.measured.partition(";")[0]) == (Verdict.HOLDS, "runs done: 1, kills: 0")
    again = tmp_path / "again"
    again.mkdir()
    with pytest.raises(OutOfTime), until(time.monotonic() + A_MOMENT):
        working.resuming(trial._replace(folder=str(again), repositories=str(again)), [()])
