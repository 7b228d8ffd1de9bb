"""`holdfast pr`: one pull request a run, whatever is killed on the way."""

import signal
import sys
from pathlib import Path

import pytest

from tests.cli.program import Program, finished
from tests.cli.runs import make_run
from tests.support.programs import DeadlyGit, Gh
from tests.support.projects import Project, do_task, new_run

GITHUB = "git@github.com:me/my.git"


@pytest.fixture
def run_id(holdfast: Program, project: Project) -> str:
    """The remote is one of GitHub, by its address; what goes there goes to the folder beside."""
    project.git("remote", "set-url", "origin", GITHUB)
    project.git("config", f"url.{project.remote}.insteadOf", GITHUB)
    run_id = new_run(holdfast.home, project, "Add OAuth login\n\nWith Google.")
    do_task(holdfast.home, run_id)
    return run_id


@pytest.fixture
def gh(tmp_path: Path) -> Gh:
    return Gh(tmp_path / "bin", sys.executable)


def test_it_is_opened_once_with_what_the_run_says(holdfast: Program, project: Project, run_id: str, gh: Gh) -> None:
    branch = f"holdfast/{run_id}/main"
    first = holdfast("pr", run_id, "--draft", env=gh.environment)
    assert first.out == "https://github.com/me/my/pull/1\n"
    again = holdfast("pr", run_id, "--json", env=gh.environment).object
    assert (again["url"], again["opened"], again["pushed"]["already"]) == (first.out.strip(), True, True)
    (request,) = gh.requests
    assert request == {
        "url": "https://github.com/me/my/pull/1",
        "draft": True,
        "head": branch,
        "base": "main",
        "title": "Add OAuth login",
        "body": "Add OAuth login\n\nWith Google.",
        "repo": "github.com/me/my",
    }
    assert project.git("rev-parse", branch, at=project.remote) == project.tip(branch)


def test_its_words_can_be_given(holdfast: Program, run_id: str, gh: Gh) -> None:
    holdfast("pr", run_id, "--title", "T", "--body", "", "--base", "develop", env=gh.environment)
    (request,) = gh.requests
    assert (request["title"], request["body"], request["base"]) == ("T", "", "develop")


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_at_the_opening_it_is_opened_once_all_the_same(
    holdfast: Program, run_id: str, gh: Gh, when: str
) -> None:
    with holdfast.start("pr", run_id, env={**gh.environment, "GH_KILLS": when}) as process:
        finished(process, -signal.SIGKILL)
    assert len(gh.requests) == (when == "after")
    assert holdfast("pr", run_id, env=gh.environment).out == "https://github.com/me/my/pull/1\n"
    assert len(gh.requests) == 1
    assert not any("may or may not" in line for line in holdfast("doctor", code=1).lines)


def test_killed_between_push_and_opening_it_goes_on(
    holdfast: Program, project: Project, run_id: str, gh: Gh, tmp_path: Path
) -> None:
    git = DeadlyGit(tmp_path / "deadly")
    env = {**gh.environment, **git.environment(at=1)}
    with holdfast.start("pr", run_id, env=env) as process:
        finished(process, -signal.SIGKILL)
    assert project.git("for-each-ref", "--format=%(refname)", "refs/heads/holdfast", at=project.remote)
    assert gh.calls == []
    assert holdfast("pr", run_id, "--json", env=gh.environment).object["pushed"]["already"] is True
    assert len(gh.requests) == 1


def test_when_gh_says_no_its_words_are_told_and_the_next_call_asks_again(
    holdfast: Program, run_id: str, gh: Gh
) -> None:
    env = {**gh.environment, "GH_FAILS": "you are not logged in"}
    assert "you are not logged in" in holdfast("pr", run_id, code=1, env=env).complaint
    assert holdfast("pr", run_id, env=gh.environment).out == "https://github.com/me/my/pull/1\n"
    assert len(gh.requests) == 1


def test_without_gh_the_page_is_told_on_which_to_open_it(holdfast: Program, project: Project, run_id: str) -> None:
    page = f"https://github.com/me/my/compare/main...holdfast/{run_id}/main?expand=1"
    outcome = holdfast("pr", run_id)
    assert (outcome.out, outcome.err) == (f"{page}\n", "pushed; open the pull request on this page:\n")
    told = holdfast("pr", run_id, "--json").object
    assert (told["url"], told["opened"]) == (page, False)


def test_a_remote_that_is_no_web_host_is_pushed_nothing(holdfast: Program, project: Project, run_id: str) -> None:
    project.git("remote", "set-url", "origin", project.remote)
    assert "not a web host" in holdfast("pr", run_id, code=2).complaint
    assert project.git("for-each-ref", "refs/heads/holdfast", at=project.remote) == ""


def test_runs_that_cannot_have_one_say_why(holdfast: Program, run_id: str) -> None:
    make_run(holdfast.home, "demo-abc234")
    assert holdfast("pr", "demo", code=4).complaint == "run demo-abc234 works on no repository"
    assert "there is no run 'nobody'" in holdfast("pr", "nobody", code=4).complaint
    holdfast("archive", run_id)
    assert "is archived" in holdfast("pr", run_id, code=4).complaint
