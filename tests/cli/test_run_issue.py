"""From an issue to a pull request that closes it, once, whatever is killed on the way."""

import sys
from pathlib import Path

import pytest

from tests.support.cli_stage import HELLO, Stage, branch
from tests.support.pipelines import file_of
from tests.support.programs import Gh

GITHUB = "git@github.com:me/my.git"
FLOW = """\
name: direct
about: the tasks, and a pull request
phases:
- {name: building, kind: tasks}
- {name: completing, kind: complete, publish: pr}
"""


@pytest.fixture
def gh(stage: Stage, tmp_path: Path) -> Gh:
    stage.project.git("remote", "set-url", "origin", GITHUB)
    stage.project.git("config", f"url.{stage.project.remote}.insteadOf", GITHUB)
    return Gh(tmp_path / "bin", sys.executable)


@pytest.mark.parametrize("killed", [None, "after"])
def test_an_issue_becomes_a_draft_pull_request_that_closes_it(stage: Stage, gh: Gh, killed: str | None) -> None:
    agent = stage.book(HELLO)
    command = ("--workflow", file_of(stage, FLOW), "--issue", "7", "--agent", agent, "--set", "validators.detect=false")
    if killed is None:
        run = stage.run(*command, env=gh.environment)
    else:
        stage.holdfast("run", *command, env={**gh.environment, "GH_KILLS": killed}, code=-9)
        run = stage.only_run()
        stage.resume(run, env=gh.environment)
    (created,) = stage.data(run, "run.created")
    assert created["goal"] == "Issue 7\n\nWords are counted wrongly."
    (request,) = gh.requests
    assert (request["title"], request["head"], request["draft"]) == ("Issue 7", branch(run), True)
    assert request["body"].endswith("Closes #7\n")
    assert [d["url"] for d in stage.data(run, "work.published")] == [request["url"]]
