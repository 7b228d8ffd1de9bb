"""Two machines with one database: what a run on one of them meets or spends holds for the runs on the other."""

import os
from pathlib import Path

import pytest

from tests.cli.program import Program
from tests.cli.test_run_budgets import endless
from tests.cli.test_run_limits import WROTE, ended_at_limit, limited, once
from tests.support.cli_stage import Stage, worker
from tests.support.crash_suite.warm_programs import Nursery


@pytest.fixture
def other_machine(stage: Stage, tmp_path: Path, warm: Nursery) -> Stage:
    """The same checkout and database, and nothing of the first home."""
    home = os.path.join(tmp_path, "other-home")
    return Stage(Program(home, stage.folder, warm, stage.holdfast.store), stage.project, stage.folder, warm)


def test_a_limit_met_on_one_machine_costs_a_run_on_another_no_prompt(stage: Stage, other_machine: Stage) -> None:
    first, _ = ended_at_limit(stage, once(limited(7500)), worker(WROTE))
    (met,) = stage.data(first, "quota.hit")
    agent = f"playbook:{stage.folder}/book.json"
    ended = other_machine.ended("run", "--workflow", "solo", stage.tasks("A"), "--agent", agent, code=1)
    second = str(ended["run"])
    assert ended["ended"] == "quota"
    assert other_machine.data(second, "turn.started") == []
    (heeded,) = other_machine.data(second, "quota.hit")
    assert (heeded["until"], heeded["resets_at"]) == (met["until"], met["resets_at"])
    assert f"learnt from run {first}" in other_machine.holdfast("show", second).out

    assert stage.resume(first, "--now")["ended"] == "all_done"  # its turn shows that the limit is over
    stage.book(worker(WROTE))
    third = other_machine.run("--workflow", "solo", stage.tasks("A"), "--agent", agent)
    assert other_machine.data(third, "quota.hit") == []


def test_the_budget_of_a_day_is_spent_by_all_machines(stage: Stage, other_machine: Stage) -> None:
    budget = ("--set", "budgets.day_tokens=1000")
    assert stage.ended("run", "go on", "--agent", endless(stage), *budget, code=1)["ended"] == "day_budget"
    ended = other_machine.ended("run", "something else", "--agent", endless(stage), *budget, code=1)
    assert ended["ended"] == "day_budget"
    assert other_machine.data(str(ended["run"]), "turn.started") == []
    assert not list(Path(stage.folder).rglob("spending.json"))
    assert not list(Path(stage.folder).rglob("quota.json"))
