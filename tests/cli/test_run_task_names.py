"""A task may be called like anything else that a run acts on."""

import re

import pytest

from tests.cli.test_run_continued import PLANNED
from tests.support.cli_stage import EVALUATE, SUBMIT, Stage, worker
from tests.support.pipelines import file_of, plan

TASKS = ("phase 1", "research x", "wave 1")
MAKE = {"run": "t=$(git rev-parse --abbrev-ref HEAD | sed 's,.*/,,'); echo $t > $t.txt"}
PAID = {"end": {"reason": "end_turn", "usage": {"input": 1, "output": 1}}}


@pytest.mark.parametrize("workflow", ["loop", "waves"])
def test_each_task_is_prompted_once_whatever_its_id(stage: Stage, workflow: str) -> None:
    """The token cap ends a run that prompts a task again and again."""
    agent = stage.book(EVALUATE, worker(MAKE, SUBMIT, PAID))
    options = ("--agent", agent, "--set", "caps.tokens=40")
    run = stage.run("--workflow", workflow, stage.tasks(*TASKS), *options)
    assert stage.states(run) == dict.fromkeys(TASKS, "COMPLETE")
    prompted = [re.findall(r"on task `([^`]+)`", prompt)[0] for prompt in stage.prompts(run, "worker")]
    assert sorted(prompted) == sorted(TASKS)
    assert [d["reason"] for d in stage.data(run, "session.end")] == ["planned", "all_done"]


def test_a_planner_may_name_its_tasks_like_phases_and_research(stage: Stage) -> None:
    names = (*TASKS, "phase building", "research research-1", "main")
    planner = {"when": "You are the planner", "steps": [plan(*names)]}
    agent = stage.book(planner, EVALUATE, worker(MAKE, SUBMIT, PAID))
    options = ("--agent", agent, "--set", "caps.tokens=40")
    run = stage.run("plan it", "--workflow", file_of(stage, PLANNED), *options)
    assert stage.states(run) == dict.fromkeys(names, "COMPLETE")
    assert len(stage.prompts(run, "worker")) == len(names)
