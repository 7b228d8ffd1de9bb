"""`demo`: a run of five tasks, an agent and a runner killed on the way, and nothing lost."""

import os
import re
import shlex
import sys

import pytest

from holdfast.leaf.process.env_markers import RUN_MARK, marked_processes
from tests.cli.program import Program


def test_the_demo_tells_its_story_and_leaves_a_run_to_look_at(holdfast: Program) -> None:
    outcome = holdfast("demo", cold=True)
    out = outcome.out
    assert outcome.err == ""
    assert re.search(r"kill -9 \d+: the agent, during its turn", out)
    assert re.search(r"kill -9 \d+: the runner, in the middle of a merge", out)
    assert "rejected, iteration 1: top() is only tested with n = 1." in out
    assert re.search(r"2 kills; 5 tasks merged, none twice; 0 processes left; log intact: \d+ events", out)
    (run_id,) = os.listdir(os.path.join(holdfast.home, "runs"))

    assert holdfast("ls", "--json").object.items() >= {"id": run_id, "status": "done", "tasks_done": 5}.items()
    assert holdfast("verify", run_id).out.startswith(f"intact  {run_id}")
    assert "class Top" in holdfast("diff", run_id).out
    assert marked_processes(RUN_MARK, run_id) == []
    for step in out.partition("Look at the run:\n")[2].partition("\n\n")[0].splitlines():  # they work as they stand
        program, _, arguments = step.strip().partition("holdfast ")
        assert program in ("", f"{sys.executable} -m "), step
        holdfast(*shlex.split(arguments))


@pytest.mark.torture
def test_json_is_one_object(holdfast: Program) -> None:
    found = holdfast("demo", "--json", cold=True).object
    assert (found["kills"], found["whole"], found["ok"]) == (2, True, True)
    assert set(found["merged"].values()) == {1}


@pytest.mark.torture
def test_the_pipeline_is_played_to_its_end_over_a_failed_review(holdfast: Program) -> None:
    """It stops once for an approval, shows what for, and answers itself where there is no terminal."""
    out = holdfast("demo", "pipeline", cold=True).out
    (run_id,) = os.listdir(os.path.join(holdfast.home, "runs"))
    types = [one["type"] for one in holdfast("logs", run_id, "--type", "approval.*", "--json").objects]
    assert types == ["approval.requested", "approval.answered"]
    assert out.index("completing asks for your approval") < out.index("## What was done") < out.index("The proof")
    assert re.search(r"kill -9 \d+: the agent, during its turn", out)
    assert re.search(r"kill -9 \d+: the runner, in the moment in which a review failed", out)
    assert out.index("phase ended (failed)") < out.index("fixing") < out.index("phase ended (passed)")
    assert re.search(r"2 kills; 3 tasks merged, none twice; 0 processes left; log intact: \d+ events", out)
