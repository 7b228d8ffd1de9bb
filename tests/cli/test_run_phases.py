"""Workflows of phases, as users run them."""

from pathlib import Path

from tests.support.pipelines import NEVER, STRICT, TEAM, small, told
from tests.support.stage import Stage

GIVEN = ("--set", "approvals=given")


def test_a_pipeline_goes_from_a_plan_over_a_failed_review_and_its_fix_to_the_end(stage: Stage) -> None:
    agent = stage.book(STRICT, NEVER, *TEAM)
    run = str(stage.ended(*small(stage, agent, *GIVEN))["run"])

    assert told(stage, run) == [
        "planning 1",
        "planning 1 done",
        "implementing 1",
        "implementing 1 done",
        "reviewing 1",
        "reviewing 1 failed",
        "fixing 1",
        "fixing 1 done",
        "reviewing 2",
        "reviewing 2 passed",
        "completing 1",
        "completing 1 done",
    ]
    assert stage.states(run) == {"A": "COMPLETE", "fix-1": "COMPLETE"}
    (fix,) = [prompt for prompt in stage.prompts(run, "worker") if "`fix-1`" in prompt]
    assert "there is no note" in fix
    assert stage.subjects(run) == ["make A", "Merge task A", "Fix what the review found", "Merge task fix-1"]
    artifacts = Path(stage.home_of(run), "artifacts")
    assert "## A: make A" in (artifacts / "planning" / "planning.md").read_text()
    assert "**fix-1**" in (artifacts / "completing" / "summary.md").read_text()
    assert [d["problem"] for d in stage.data(run, "work.published")] == ["the repository has no remote"]
    stage.holdfast("verify", run)
    stage.holdfast("resume", run, code=4)
