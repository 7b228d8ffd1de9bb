"""A runner with nothing to do does nothing."""

import os
import signal
from typing import NamedTuple

import pytest

from holdfast.leaf.process.proc import stat_fields
from tests.support.cli_stage import Stage, outcome, wait_for_event, worker
from tests.support.pids import children_of

WAITED = 10  # seconds
BOUND = 0.3  # seconds of CPU


FAULTS_OF_CHILDREN, TIMES = 8, slice(11, 15)  # in /proc/<pid>/stat, from its state on


class Done(NamedTuple):
    """What a process did so far, and those whose end it waited for: none of them lives without a page fault."""

    seconds: float
    faults_of_children: int
    children: list[int]

    @classmethod
    def by(cls, pid: int) -> "Done":
        fields = stat_fields(pid)
        assert fields is not None
        seconds = sum(map(int, fields[TIMES])) / os.sysconf("SC_CLK_TCK")
        return cls(seconds, int(fields[FAULTS_OF_CHILDREN]), sorted(children_of(pid)))


@pytest.mark.torture
def test_a_runner_whose_agent_is_at_work_uses_no_cpu_and_starts_no_process(stage: Stage) -> None:
    hang = {"hang": {"how": "turn", "seconds": 3600}}
    agent = stage.book(worker({"write": {"path": "one.txt", "text": "1\n"}}, hang))
    with stage.start("run", "take your time", "--agent", agent) as process:
        wait_for_event(process, "tool.returned")
        stage.holdfast("wait", stage.only_run(), "--timeout", "1", code=3)
        before = Done.by(process.pid)
        stage.holdfast("wait", stage.only_run(), "--timeout", str(WAITED), code=3)
        after = Done.by(process.pid)
        process.send_signal(signal.SIGINT)
        outcome(process, code=130)
    assert after.seconds - before.seconds < BOUND
    assert after == before._replace(seconds=after.seconds), "somebody was started"
