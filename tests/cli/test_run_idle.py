"""A runner with nothing to do does nothing."""

import os
import signal
from pathlib import Path

import pytest

from tests.support.stage import Stage, outcome, told, worker

WAITED = 10  # seconds
BOUND = 0.3  # seconds of CPU


@pytest.mark.torture
def test_a_runner_whose_agent_is_at_work_uses_no_cpu(stage: Stage) -> None:
    hang = {"hang": {"how": "turn", "seconds": 200}}
    agent = stage.book(worker({"write": {"path": "one.txt", "text": "1\n"}}, hang))
    with stage.start("run", "take your time", "--agent", agent) as process:
        told(process, "tool.returned")
        stage.holdfast("wait", stage.only_run(), "--timeout", "1", code=3)
        before = cpu_of(process.pid)
        stage.holdfast("wait", stage.only_run(), "--timeout", str(WAITED), code=3)
        assert cpu_of(process.pid) - before < BOUND
        process.send_signal(signal.SIGINT)
        outcome(process, code=130)


def cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
