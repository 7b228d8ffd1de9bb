"""`holdfast diff`: what a run changed, committed or not; it changes nothing itself."""

import os
import re
import shutil

import pytest

from tests.cli.owner import owner_of
from tests.cli.program import Program
from tests.cli.runs import make_run
from tests.cli.terminal import shown
from tests.support.projects import Project, do_task, new_run, workspace_of, write

_ESCAPE = re.compile(r"\x1b(?!\[[0-9;]*m)")  # anything but a colour


@pytest.fixture
def run_id(holdfast: Program, project: Project) -> str:
    """One task merged, and one file in no commit yet."""
    run_id = new_run(holdfast.home, project)
    do_task(holdfast.home, run_id, files={"a.txt": "1\nX\n3\n", "n.txt": "n\n"})
    write(workspace_of(holdfast.home, run_id), {"draft.txt": "d\n"})
    return run_id


def test_everything_is_shown_committed_or_not(holdfast: Program, run_id: str) -> None:
    out = holdfast("diff", run_id).out
    assert {"-2", "+X", "+n", "+d"} <= set(out.splitlines())


def test_a_run_may_be_named_by_its_beginning(holdfast: Program, run_id: str) -> None:
    assert holdfast("diff", "add-oauth", "--json").lines == holdfast("diff", run_id, "--json").lines


def test_the_patch_applies_to_the_users_own_checkout(holdfast: Program, project: Project, run_id: str) -> None:
    patch = os.path.join(holdfast.cwd, "patch")
    with open(patch, "w", encoding="utf-8") as file:
        file.write(holdfast("diff", run_id).out)
    project.git("apply", patch)
    assert project.git("status", "--porcelain").split("\n") == ["M a.txt", "?? draft.txt", "?? n.txt"]


def test_json_is_one_object_a_file(holdfast: Program, run_id: str) -> None:
    assert holdfast("diff", run_id, "--json").objects == [
        {"path": "a.txt", "added": 1, "removed": 1},
        {"path": "draft.txt", "added": 1, "removed": 0},
        {"path": "n.txt", "added": 1, "removed": 0},
    ]


def test_one_task_and_one_line_a_file(holdfast: Program, run_id: str) -> None:
    outcome = holdfast("diff", run_id, "T-1", "--stat")
    assert (outcome.lines, outcome.err) == (["a.txt  +1 -1", "n.txt  +1 -0"], "2 files\n")


def test_between_two_points(holdfast: Program, project: Project, run_id: str) -> None:
    branch = f"holdfast/{run_id}/main"
    changed = holdfast("diff", run_id, "--from", f"{branch}~1", "--to", branch, "--json").objects
    assert [file["path"] for file in changed] == ["a.txt", "n.txt"]
    same = holdfast("diff", run_id, "--to", "main")
    assert (same.out, same.err) == ("", "nothing changed\n")
    assert "there is no commit, branch or snapshot 'x'" in holdfast("diff", run_id, "--from", "x", code=2).complaint


def test_nothing_is_changed_by_looking(holdfast: Program, project: Project, run_id: str) -> None:
    folder = workspace_of(holdfast.home, run_id)
    before = project.footprint(), project.git("status", "--porcelain", at=folder), holdfast("show", run_id).out
    holdfast("diff", run_id)
    assert (
        project.footprint(),
        project.git("status", "--porcelain", at=folder),
        holdfast("show", run_id).out,
    ) == before


def test_a_run_at_work_can_be_looked_at(holdfast: Program, run_id: str) -> None:
    with owner_of(holdfast.home, run_id):
        assert len(holdfast("diff", run_id, "--json").objects) == 3


def test_wrong_names_are_told(holdfast: Program, run_id: str) -> None:
    assert "its tasks with branches are T-1" in holdfast("diff", run_id, "T-9", code=2).complaint
    assert "no run 'nobody'" in holdfast("diff", "nobody", code=4).complaint


def test_a_run_without_a_repository_has_nothing_to_show(holdfast: Program) -> None:
    make_run(holdfast.home, "demo-abc234")
    assert holdfast("diff", "demo", code=4).complaint == "run demo-abc234 works on no repository"


def test_after_the_repository_was_moved_the_remedy_is_told(holdfast: Program, project: Project, run_id: str) -> None:
    os.rename(project.path, f"{project.path}-moved")
    assert "holdfast doctor --repo NEW-PLACE --fix" in holdfast("diff", run_id, code=2).complaint


def test_a_task_whose_branch_went_with_its_merge_is_in_the_runs_own(
    holdfast: Program, project: Project, run_id: str
) -> None:
    holdfast("doctor", "--fix", cwd=project.path)
    assert f"`holdfast diff {run_id}` has its work" in holdfast("diff", run_id, "T-1", code=4).complaint


def test_an_archived_run_has_only_what_was_saved(holdfast: Program, run_id: str) -> None:
    holdfast("archive", run_id)
    assert "holdfast salvage ls" in holdfast("diff", run_id, code=4).complaint


def test_a_deleted_worktree_leaves_the_branch_to_look_at(holdfast: Program, run_id: str) -> None:
    shutil.rmtree(workspace_of(holdfast.home, run_id))
    assert [file["path"] for file in holdfast("diff", run_id, "--json").objects] == ["a.txt", "n.txt"]


@pytest.mark.parametrize(("no_color", "term"), [("", "xterm"), ("1", "xterm"), ("", "dumb")])
def test_neither_a_diff_nor_a_file_name_can_drive_the_terminal(
    holdfast: Program, run_id: str, no_color: str, term: str
) -> None:
    """Not even one that takes no colours."""
    write(workspace_of(holdfast.home, run_id), {"e\x1b]0;owned\x07vil": "\x1b[2J\x1b]52;c;b3duZWQ=\x07\r\x9b2J\n"})
    for arguments in (("diff", run_id), ("diff", run_id, "--stat"), ("diff", run_id, "--json")):
        screen = shown(holdfast, *arguments, NO_COLOR=no_color, TERM=term)
        assert not _ESCAPE.search(screen)
        assert not {"\x07", "\x9b", "\r"} & set(screen)
        assert "owned" in screen


def test_a_pipe_gets_every_byte_as_it_is(holdfast: Program, run_id: str) -> None:
    with open(os.path.join(workspace_of(holdfast.home, run_id), "latin"), "wb") as file:
        file.write(b"\xe9\x1b[2J\r\n")
    with holdfast.start("diff", run_id) as process:
        assert b"+\xe9\x1b[2J\r\n" in process.communicate()[0]


def test_a_terminal_gets_colour(holdfast: Program, run_id: str) -> None:
    screen = shown(holdfast, "diff", run_id)
    assert "\x1b[32m+X\x1b[0m" in screen
    assert "\x1b[31m-2\x1b[0m" in screen
