"""`holdfast salvage`: what was saved is found, looked at and brought back, from anywhere."""

import os
import re
import shutil

import pytest

from tests.cli.program import Program
from tests.cli.runs import make_run
from tests.cli.terminal import shown
from tests.support.projects import Project, do_task, new_run, workspace_of, write


@pytest.fixture
def saved(holdfast: Program, project: Project) -> str:
    """The name of what was saved of a run that is archived: one task's commit, and a file in no commit."""
    run_id = new_run(holdfast.home, project)
    do_task(holdfast.home, run_id)
    write(workspace_of(holdfast.home, run_id), {"draft.txt": "d\n"})
    refs = holdfast("archive", run_id, "--json").object["salvaged"]
    names: list[str] = [ref.removeprefix("refs/holdfast/salvage/") for ref in refs]
    return next(name for name in names if "draft.txt" in project.git("ls-tree", "--name-only", _ref(name)))


def _ref(name: str) -> str:
    return f"refs/holdfast/salvage/{name}"


def test_what_was_saved_is_listed(holdfast: Program, project: Project, saved: str) -> None:
    listed = holdfast("salvage", "ls", "--json").objects
    assert sorted(one["ref"] for one in listed) == project.salvage()
    (one,) = (one for one in listed if one["name"] == saved)
    run_id = saved.partition("/")[0]
    assert (one["run"], one["repo"], one["what"]) == (
        run_id,
        project.git_dir,
        "Files of workspace when it was removed",
    )
    assert one["commit"] == project.tip(_ref(saved))
    assert [line.split()[0] for line in holdfast("salvage", "ls", run_id[:5]).lines] == [one["name"] for one in listed]
    assert holdfast("salvage", "ls", "another").lines == []


def test_it_is_found_from_inside_and_outside_of_the_repository_and_after_the_run_is_gone(
    holdfast: Program, project: Project, saved: str
) -> None:
    names = [line.split()[0] for line in holdfast("salvage", "ls").lines]
    assert saved in names
    holdfast("reset", saved.partition("/")[0], "-y")
    outside = holdfast("salvage", "ls")
    assert (outside.out, outside.err) == ("", "nothing was salvaged\n")
    for here in (project.path, project.git_dir):
        assert [line.split()[0] for line in holdfast("salvage", "ls", cwd=here).lines] == names
    assert [line.split()[0] for line in holdfast("salvage", "ls", "--repo", project.path).lines] == names


def test_it_is_shown_against_head(holdfast: Program, saved: str) -> None:
    outcome = holdfast("salvage", "show", saved)
    assert {"+T-1", "+d"} <= set(outcome.lines)
    assert outcome.err.startswith(f"{saved}  ")
    assert [file["path"] for file in holdfast("salvage", "show", saved, "--json").objects] == ["T-1.txt", "draft.txt"]


def test_it_is_brought_back_as_a_branch_and_nothing_else_is_touched(
    holdfast: Program, project: Project, saved: str
) -> None:
    before = project.footprint()
    first = holdfast("salvage", "restore", saved, "--branch", "rescued")
    assert first.out == f"{saved}  restored as rescued\n"
    assert f"switch to it with: git switch rescued, in {project.path}" in first.err
    assert project.show("rescued:draft.txt") == "d"
    assert project.show("rescued:T-1.txt") == "T-1"
    after = project.footprint()
    assert after._replace(refs=before.refs) == before
    assert holdfast("salvage", "restore", saved, "--branch", "rescued", "--json").object == {
        "name": saved,
        "repo": project.git_dir,
        "branch": "rescued",
    }
    assert project.footprint() == after
    assert f"salvaged/{saved}" in holdfast("salvage", "restore", saved).out


def test_the_beginning_of_a_name_will_do_when_it_is_clear(holdfast: Program, project: Project, saved: str) -> None:
    effect = saved.rpartition("/")[2]
    for name in (effect[:8], saved[:-4], _ref(saved)):
        assert holdfast("salvage", "show", name).err.startswith(saved)
    project.git("update-ref", f"{_ref(saved)}2", _ref(saved))
    assert holdfast("salvage", "show", saved).err.startswith(saved)
    complaint = holdfast("salvage", "restore", saved[:-1], code=2).complaint
    assert f"could be any of {saved}, {saved}2" in complaint or f"could be any of {saved}2, {saved}" in complaint
    assert project.git("branch", "--list", "salvaged/*") == ""


def test_the_same_name_in_two_repositories_is_told_apart_by_the_repository(
    holdfast: Program, project: Project, saved: str
) -> None:
    copy = f"{project.path}-copy"
    shutil.copytree(project.path, copy, symlinks=True)
    complaint = holdfast("salvage", "show", saved, cwd=copy, code=2).complaint
    assert "is in several repositories" in complaint
    assert "--repo" in complaint
    assert holdfast("salvage", "show", saved, "--repo", copy).err.startswith(saved)


def test_wrong_input_is_told_and_makes_no_branch(holdfast: Program, project: Project, saved: str) -> None:
    before = project.footprint()
    for arguments, code, told in (
        (("show",), 2, "show needs a NAME"),
        (("restore",), 2, "restore needs a NAME"),
        (("drop", saved), 2, "invalid choice"),
        (("show", "nothing"), 4, "nothing was saved by the name 'nothing'"),
        (("show", ""), 4, "nothing was saved by the name ''"),
        (("restore", saved, "--branch", "a..b"), 2, "is not a valid branch name"),
        (("restore", saved, "--branch", "main~0"), 2, "is not a valid branch name"),
        (("restore", saved, "--branch", "main"), 2, "the branch main exists already"),
        (("ls", "--repo", os.path.join(holdfast.cwd, "nowhere")), 2, "is not a folder"),
        (("ls", "--repo", holdfast.cwd), 2, "is not in a git repository"),
    ):
        assert told in holdfast("salvage", *arguments, code=code).complaint
    assert project.footprint() == before


def test_runs_without_a_repository_and_lost_repositories_are_passed_over(
    holdfast: Program, project: Project, saved: str
) -> None:
    make_run(holdfast.home, "demo-abc234")
    assert saved in holdfast("salvage", "ls").out
    os.rename(project.path, f"{project.path}-moved")
    assert holdfast("salvage", "ls").lines == []
    assert saved in holdfast("salvage", "ls", cwd=f"{project.path}-moved").out


def test_a_terminal_shows_nothing_that_drives_it(holdfast: Program, project: Project, saved: str) -> None:
    evil = project.git("commit-tree", "-m", "e\x1b[2Jvil", f"{_ref(saved)}^{{tree}}")
    project.git("update-ref", f"{_ref('x-abc234')}/main/1", evil)
    for arguments in (("ls",), ("show", "x-abc234", "--stat")):
        screen = shown(holdfast, "salvage", *arguments, NO_COLOR="1")
        assert "\x1b" not in re.sub("\x1b\\[[0-9;]*m", "", screen)
        assert "e·[2Jvil" in screen
