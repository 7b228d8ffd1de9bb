"""Which run a bare `resume` takes: one of this repository, and none of another one unless it is told so."""

import os

import pytest

from holdfast.core.events.session import RunCreated, SessionStart
from tests.cli.runs import make_run
from tests.support.cli_stage import HELLO, Stage
from tests.support.projects import Project


@pytest.fixture
def other(tmp_path: os.PathLike[str]) -> Project:
    """Another repository of the same user."""
    os.mkdir(os.path.join(tmp_path, "other"))
    return Project.make(os.path.join(tmp_path, "other"))


def planned(stage: Stage, goal: str, *options: str) -> str:
    return str(stage.holdfast("plan", goal, "--agent", stage.book(HELLO), *options, "--json").object["run"])


def test_bare_resume_never_takes_a_run_of_another_repository(stage: Stage, other: Project) -> None:
    run = planned(stage, "say hello")
    before = stage.events(run)
    refused = stage.holdfast.elsewhere(cwd=other.path)("resume", "--json", code=6)
    assert [(row["run"], row["status"]) for row in refused.objects] == [(run, "planned")]
    assert refused.object["repo"] == stage.project.git_dir
    assert stage.events(run) == before
    for_people = stage.holdfast.elsewhere(cwd=other.path)("resume", code=6)
    assert f"holdfast resume {run}" in for_people.err
    assert stage.events(run) == before


def test_bare_resume_outside_a_repository_lists_the_runs(stage: Stage, tmp_path: os.PathLike[str]) -> None:
    outside = stage.holdfast.elsewhere(cwd=os.fspath(tmp_path))
    assert outside("resume", "--json", code=4).out == ""
    run = planned(stage, "say hello")
    assert [row["run"] for row in outside("resume", "--json", code=6).objects] == [run]


def test_bare_resume_takes_this_repositorys_run_though_another_is_newer(stage: Stage, other: Project) -> None:
    here = planned(stage, "say hello")
    there = planned(stage, "say hello there", "--repo", other.path)
    assert stage.resume()["run"] == here
    assert stage.data(there, "turn.started") == []


def test_anywhere_takes_the_newest_run_of_any_repository(stage: Stage, other: Project) -> None:
    planned(stage, "say hello")
    newest = planned(stage, "say hello again")
    resumed = stage.holdfast.elsewhere(cwd=other.path)("resume", "--anywhere", "--json")
    assert f"using {newest} (" in resumed.err
    ended = resumed.objects[-1]
    assert (ended["run"], ended["ended"]) == (newest, "all_done")
    assert stage.file(newest, "hello.txt") == "hello"


def test_runs_that_cannot_continue_are_not_offered(stage: Stage, other: Project) -> None:
    """One has no plan, one works on no repository, and the repository of one is gone."""
    created = RunCreated(run_id="unmade-abc234", goal="g", repo=stage.project.git_dir)
    make_run(stage.home, "unmade-abc234", SessionStart(command="plan"), created)
    make_run(stage.home, "nowhere-abc234")
    planned(stage, "say hello there", "--repo", other.path)
    os.rename(other.path, f"{other.path}-away")
    assert stage.holdfast("resume", "--json", code=4).out == ""
    assert "unmade" not in stage.holdfast("run", "say hello", "--agent", stage.book(HELLO), "--quiet").err
    assert "holdfast reset unmade-abc234" in stage.holdfast("show", "unmade").out
    assert stage.holdfast("analyze", "unmade", "--json").object["next_command"] == "holdfast reset unmade-abc234"
    assert "holdfast reset unmade-abc234" in stage.holdfast("resume", "unmade", code=4).err
