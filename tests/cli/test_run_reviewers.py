"""The reviewers of a review run at the same time; a setting bounds them."""

from pathlib import Path
from typing import Any

from tests.support.cli_stage import Stage
from tests.support.pipelines import SMALL, TEAM, file_of, review
from tests.support.wait import PATIENCE

KINDS = ("logic", "quality", "expert")
THREE = SMALL.replace("[reviewer]", "[" + ", ".join(f'"reviewer:{kind}"' for kind in KINDS) + "]")
OPTIONS = ("--set", "validators.detect=false", "--set", "approvals=given", "--set", "publish=nothing")


def reviewer(stage: Stage, kind: str, *, waits: bool) -> dict[str, Any]:
    """Says that it is there, waits until the others are, and passes the work."""
    here = {"run": f"touch {stage.folder}/{kind}"}
    others = [{"wait_for": {"path": f"{stage.folder}/{other}", "timeout": PATIENCE}} for other in KINDS if waits]
    return {"when": f"(reviewer of the {kind}|the {kind} reviewer)", "steps": [here, *others, review()]}


def most_at_once(stage: Stage, run: str) -> int:
    """The most reviewers that had a turn at the same time."""
    reviewers = {d["conversation"] for d in stage.data(run, "conversation.opened") if d["role"].startswith("reviewer:")}
    moves = {"turn.started": 1, "turn.ended": -1}
    at_once = [0]
    for event in stage.events(run):
        if event["type"] in moves and event["data"]["conversation"] in reviewers:
            at_once.append(at_once[-1] + moves[event["type"]])
    return max(at_once)


def test_reviewers_run_all_at_once(stage: Stage) -> None:
    """Each waits for the others, so the review ends only if all run; fewer tasks at a time change nothing."""
    agent = stage.book(*(reviewer(stage, kind, waits=True) for kind in KINDS), *TEAM)
    command = ("a note", "--workflow", file_of(stage, THREE, "three.yaml"), "--agent", agent, "--parallel", "1")
    run = stage.run(*command, *OPTIONS)
    assert all(Path(stage.folder, kind).exists() for kind in KINDS)
    assert most_at_once(stage, run) == len(KINDS)


def test_reviewers_can_be_bounded(stage: Stage) -> None:
    agent = stage.book(*(reviewer(stage, kind, waits=False) for kind in KINDS), *TEAM)
    bound = ("--set", "reviewers=1")
    run = stage.run("a note", "--workflow", file_of(stage, THREE, "three.yaml"), "--agent", agent, *bound, *OPTIONS)
    assert [d["passed"] for d in stage.data(run, "review.given")] == [True] * 3
    assert most_at_once(stage, run) == 1
