"""Commands without RUN take the newest run of the repository, and say which one."""

from pathlib import Path

import pytest

from tests.cli.program import Program
from tests.support.projects import Project, do_task, new_run


@pytest.fixture
def here(holdfast: Program, project: Project) -> Program:
    return holdfast.elsewhere(cwd=project.path)


def test_commands_without_a_run_take_the_newest_of_this_repository(here: Program, project: Project) -> None:
    new_run(here.home, project, goal="Older")
    run_id = new_run(here.home, project, goal="Newer")
    do_task(here.home, run_id)
    for command in ("show", "logs", "diff", "verify"):
        found = here(command)
        assert found.err.startswith(f"using {run_id} (")
        assert found.err.splitlines()[0].endswith(": Newer")


def test_merge_without_a_run_takes_the_newest_finished_one(here: Program, project: Project) -> None:
    finished = new_run(here.home, project, goal="Finished")
    do_task(here.home, finished)
    new_run(here.home, project, goal="Newer, at work")
    assert here("merge").err == f"using {finished} (done): Finished\n"
    assert project.tip("main") == project.tip(f"holdfast/{finished}/main")


@pytest.mark.parametrize("command", ["merge", "push", "show", "attach"])
def test_repository_without_a_run_says_so(here: Program, command: str) -> None:
    complaint = here(command, code=4).complaint
    assert "this repository has no run" in complaint
    assert "or ;" not in complaint


def test_outside_of_a_repository_the_folder_is_named(holdfast: Program, tmp_path: Path) -> None:
    complaint = holdfast.elsewhere(cwd=str(tmp_path))("show", code=4).complaint
    assert complaint == f"{tmp_path} is in no git repository; name a run, or list all with: holdfast ls"


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [(("show", "x", "--jsn"), "--json"), (("merge", "x", "--in-to", "main"), "--into"), (("mrge",), "'merge'")],
)
def test_unknown_command_or_option_suggests_the_nearest(
    holdfast: Program, arguments: tuple[str, ...], meant: str
) -> None:
    assert f"did you mean {meant}?" in holdfast(*arguments, code=2).complaint


def test_home_that_cannot_be_made_is_one_line(holdfast: Program, project: Project) -> None:
    there = f"{project.path}/a.txt/home"
    complaint = holdfast.elsewhere(home=there)(
        "run", "do it", "--agent", "claude", code=2, env={"XDG_CONFIG_HOME": f"{project.path}/none"}
    ).complaint
    assert there in complaint
    assert "set HOLDFAST_HOME" in complaint
