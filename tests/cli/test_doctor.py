"""`holdfast doctor`: every ailment is found and explained; a repair loses nothing; and then no problems found."""

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.core.events.effect import EffectIntended
from holdfast.core.events.session import RunCreated, SessionEnd, SessionStart
from tests.cli.owner import owner_of
from tests.cli.program import Program
from tests.cli.runs import DONE, log_of, make_run
from tests.support.projects import Project, do_task, leave_interrupted, new_run, task_begun, workspace_of, write


@pytest.fixture
def doctor(holdfast: Program, project: Project) -> Program:
    """The program, started inside of the repository."""
    return holdfast.elsewhere(cwd=project.path)


def found(doctor: Program, *arguments: str, code: int = 1) -> list[tuple[str, str, bool]]:
    """What it tells, and whether it could repair it."""
    objects = doctor("doctor", "--json", *arguments, code=code).objects
    return [(one["subject"], one["told"], one["repairable"]) for one in objects]


def assert_repaired(doctor: Program, *arguments: str) -> None:
    """`--fix` repairs everything, and afterwards there is nothing to tell."""
    outcome = doctor("doctor", "--fix", *arguments)
    assert outcome.lines
    assert all(line.startswith("repaired") for line in outcome.lines), outcome
    after = doctor("doctor")
    assert (after.out, after.err) == ("", "no problems found\n")


def test_when_all_is_well_it_says_so_and_prints_nothing(doctor: Program, project: Project) -> None:
    assert doctor("doctor").err == "no problems found\n"
    new_run(doctor.home, project)
    make_run(doctor.home, "demo-abc234")
    before = project.footprint()
    assert doctor("doctor", "--fix", "--json").out == ""
    assert project.footprint() == before


def test_more_runs_than_files_may_be_open_are_checked(doctor: Program, project: Project) -> None:
    for number in range(90):
        make_run(doctor.home, f"run-{number:02d}-abcdef", DONE, repo=os.path.join(project.path, ".git"))
    few = ("-c", "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)); import holdfast.__main__")
    command = [sys.executable, "-P", *few, "doctor"]
    found = subprocess.run(
        command, cwd=doctor.cwd, env=doctor.environment(), capture_output=True, text=True, check=False
    )
    assert (found.stdout, found.stderr, found.returncode) == ("", "no problems found\n", 0)


def test_what_is_left_of_a_merged_task_can_go(doctor: Program, project: Project) -> None:
    run_id = new_run(doctor.home, project)
    do_task(doctor.home, run_id)
    before = project.footprint()
    told = [(told, can) for _, told, can in found(doctor)]
    assert told == [
        (f"holdfast/{run_id}/T-1 was merged, so it can be deleted", True),
        ("tasks/T-1 belongs to a finished task, so it can be deleted", True),
    ]
    assert project.footprint() == before
    assert_repaired(doctor)
    assert project.branches() == [f"holdfast/{run_id}/main"]
    assert doctor("show", run_id, "--json").object["id"] == run_id


def test_several_ailments_of_a_run_are_repaired_in_one_session(doctor: Program, project: Project) -> None:
    run_id = new_run(doctor.home, project)
    do_task(doctor.home, run_id)
    do_task(doctor.home, run_id, "T-2")
    before = log_of(doctor.home, run_id).read_bytes().count(b'"session.start"')
    assert_repaired(doctor)
    assert log_of(doctor.home, run_id).read_bytes().count(b'"session.start"') == before + 1


def test_a_lost_worktree_is_made_again(doctor: Program, project: Project) -> None:
    run_id = new_run(doctor.home, project)
    shutil.rmtree(workspace_of(doctor.home, run_id))
    assert found(doctor) == [(run_id, "workspace is missing; it is created again", True)]
    assert_repaired(doctor)
    assert Path(workspace_of(doctor.home, run_id), "a.txt").exists()


def test_a_stale_entry_of_a_stranger_is_dropped_and_its_merged_branch_too(doctor: Program, project: Project) -> None:
    run_id = new_run(doctor.home, project)
    shutil.rmtree(os.path.dirname(log_of(doctor.home, run_id)))
    folder = workspace_of(doctor.home, run_id)
    assert found(doctor) == [
        (folder, f"is missing, but git still has an entry for it, on holdfast/{run_id}/main", True),
        (f"holdfast/{run_id}/main", "is of a run that is not in this home, and branches of yours have all of it", True),
    ]
    assert_repaired(doctor)
    assert (project.worktrees(), project.branches()) == ([], [])


def test_an_entry_that_its_user_locked_is_left_alone(doctor: Program, project: Project) -> None:
    run_id = new_run(doctor.home, project)
    folder = workspace_of(doctor.home, run_id)
    project.git("worktree", "lock", "--reason", "on a stick", folder)
    shutil.rmtree(os.path.dirname(log_of(doctor.home, run_id)))
    ((subject, told, can),) = found(doctor, "--fix")
    assert (subject, told, can) == (folder, "is not there, and locked (on a stick); it is left alone", False)
    assert (project.worktrees(), project.branches()) == ([folder], [f"holdfast/{run_id}/main"])


def test_unmerged_work_of_a_stranger_is_never_deleted(doctor: Program, project: Project) -> None:
    orphan = "holdfast/stranger-abc234/main"
    project.git("switch", "--quiet", "--create", orphan)
    tip = project.commit({"theirs.txt": "t\n"}, "Theirs")
    project.git("switch", "--quiet", "main")
    ((subject, told, can),) = found(doctor, "--fix")
    assert (subject, can) == (orphan, False)
    assert f"git log {orphan}" in told
    assert project.tip(orphan) == tip


def test_a_worktree_of_a_run_in_another_home_is_left_alone(doctor: Program, project: Project, tmp_path: Path) -> None:
    run_id = new_run(str(tmp_path / "another-home"), project)
    before = project.footprint()
    ((_, told, can),) = found(doctor, "--fix")
    assert told == f"is a worktree on holdfast/{run_id}/main, of a run that is not in this home; unchanged"
    assert not can
    assert project.footprint() == before


def test_a_run_whose_owner_is_dead_is_told_of_and_one_at_work_is_not(doctor: Program, project: Project) -> None:
    run_id = new_run(doctor.home, project)
    with owner_of(doctor.home, run_id):
        shutil.rmtree(workspace_of(doctor.home, run_id))
        assert found(doctor, "--fix", code=0) == []
    subjects = found(doctor)
    assert subjects[0][:2] == (
        run_id,
        f"was interrupted: its runner is dead. Continue with: holdfast resume {run_id}",
    )


def test_a_run_that_a_signal_ended_has_no_dead_runner(doctor: Program, project: Project) -> None:
    run_id = new_run(doctor.home, project)
    leave_interrupted(doctor.home, run_id, SessionEnd(reason="interrupted"))
    said = f"was interrupted: by a signal. Continue with: holdfast resume {run_id}"
    assert (run_id, said) in [one[:2] for one in found(doctor)]


def test_an_effect_that_was_cut_off_is_settled(doctor: Program, project: Project) -> None:
    run_id = new_run(doctor.home, project)
    tip = project.tip("main")
    intent = EffectIntended(effect="e1", kind="push", arguments={"remote": "origin", "commit": tip})
    leave_interrupted(doctor.home, run_id, intent)
    assert (run_id, "push may or may not have happened: it was cut off", True) in found(doctor)
    (_, settled) = doctor("doctor", "--fix", code=1).lines
    assert settled.startswith("repaired")
    assert not any("push" in told for _, told, _ in found(doctor))


def test_an_effect_that_cannot_be_told_is_not_called_repaired(doctor: Program, project: Project) -> None:
    run_id = new_run(doctor.home, project)
    leave_interrupted(doctor.home, run_id, EffectIntended(effect="e1", kind="moonshot", arguments={}))
    outcome = doctor("doctor", "--fix", "--json", code=1)
    (one,) = (one for one in outcome.objects if one["repairable"])
    assert one["outcome"] == "this version of Holdfast does not know how to ask"
    assert any("moonshot may or may not" in told for _, told, _ in found(doctor))


def test_a_stale_lock_is_removed_and_one_of_a_living_git_is_not(doctor: Program, project: Project) -> None:
    lock = os.path.join(project.git_dir, "packed-refs.lock")
    with open(lock, "wb") as file:
        assert found(doctor, code=0) == []
        file.close()
    with subprocess.Popen(
        ["git", "cat-file", "--batch"], cwd=project.path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as living:
        assert living.stdin is not None
        assert living.stdout is not None
        living.stdin.write(b"HEAD\n")
        living.stdin.flush()
        living.stdout.readline()
        assert found(doctor, "--fix", code=0) == []
        living.stdin.close()
    assert found(doctor) == [(lock, "was left by a git process that died, and blocks all git commands", True)]
    assert_repaired(doctor)
    assert not os.path.exists(lock)


def test_a_moved_home_is_followed(doctor: Program, project: Project) -> None:
    run_id = new_run(doctor.home, project)
    asyncio.run(task_begun(doctor.home, run_id, "T-1"))
    moved = doctor.elsewhere(home=f"{doctor.home}-moved")
    os.rename(doctor.home, moved.home)
    folder = workspace_of(moved.home, run_id, "T-1")
    write(folder, {"draft.txt": "d\n"})
    ((subject, told, can),) = found(moved)
    assert (subject, told, can) == (
        run_id,
        "tasks/T-1, workspace are registered in git at another path: this folder was moved",
        True,
    )
    assert_repaired(moved)
    assert project.git("status", "--porcelain", at=folder) == "?? draft.txt"
    assert "+d" in moved("diff", run_id, "T-1").lines


@pytest.mark.parametrize("how", ["named", "here"])
def test_a_moved_repository_is_followed(doctor: Program, project: Project, tmp_path: Path, how: str) -> None:
    run_id = new_run(doctor.home, project)
    do_task(doctor.home, run_id)
    place = str(tmp_path / "moved")
    os.rename(project.path, place)
    away = doctor.elsewhere(cwd=str(tmp_path))
    ((_, told, can),) = found(away)
    assert told.endswith("which is not there; if it was moved: holdfast doctor --repo NEW-PLACE --fix")
    assert not can
    program, arguments = (away, ("--repo", place)) if how == "named" else (doctor.elsewhere(cwd=place), ())
    assert "repaired" in program("doctor", "--fix", *arguments, code=0).out
    assert_repaired(program)
    assert "+T-1" in away("diff", run_id).lines


def test_the_trash_of_a_cut_off_reset_is_emptied(doctor: Program) -> None:
    trash = os.path.join(doctor.home, "trash")
    write(os.path.join(trash, "gone-abc234.0"), {"events.jsonl": ""})
    assert found(doctor) == [(trash, "holds runs that were reset, and whose deletion was interrupted", True)]
    assert_repaired(doctor)
    assert not os.path.exists(trash)


def test_one_run_that_cannot_be_looked_into_does_not_hide_the_others(doctor: Program, project: Project) -> None:
    make_run(doctor.home, "odd-abc234", RunCreated(run_id="odd-abc234", goal="g", repo=doctor.home))
    run_id = new_run(doctor.home, project)
    shutil.rmtree(workspace_of(doctor.home, run_id))
    told = {subject: told for subject, told, _ in found(doctor)}
    assert told["odd-abc234"].startswith("could not be checked: ")
    assert told[run_id] == "workspace is missing; it is created again"


def test_without_git_that_is_what_is_told(doctor: Program, tmp_path: Path) -> None:
    outcome = doctor("doctor", "--json", code=1, env={"PATH": str(tmp_path)})
    assert [one["subject"] for one in outcome.objects] == ["git"]


def test_a_named_place_that_is_no_repository_is_wrong_input(doctor: Program, tmp_path: Path) -> None:
    assert "is not a folder" in doctor("doctor", "--repo", str(tmp_path / "nowhere"), code=2).complaint
    assert "is not in a git repository" in doctor("doctor", "--repo", str(tmp_path), code=2).complaint


def test_the_marks_say_what_can_be_done(doctor: Program, project: Project) -> None:
    run_id = new_run(doctor.home, project)
    leave_interrupted(doctor.home, run_id, SessionStart(command="resume"))
    shutil.rmtree(workspace_of(doctor.home, run_id))
    outcome = doctor("doctor", code=1)
    assert [line.split("  ")[0].strip() for line in outcome.lines] == ["check", "can fix"]
    assert outcome.err == "repair with: holdfast doctor --fix\n"
