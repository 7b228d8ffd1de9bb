"""A task is done only with the tree that was checked, whatever hooks, checks and evaluators make of its files."""

import json
import os
from pathlib import Path

import pytest

from tests.cli.program import failpoint_environment
from tests.support.cli_stage import ACCEPT, EVALUATE, SUBMIT, Stage, branch, worker
from tests.support.variants import every

KILLED = -9
WRITE = {"write": {"path": "a.py", "text": "x=1\n"}}
FORMAT = "sed -i 's/x=1/x = 1/' a.py && git add a.py"
LOOP = ("--workflow", "loop")


def hook(stage: Stage, script: str, name: str = "pre-commit") -> Path:
    path = Path(stage.project.git_dir, "hooks", name)
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def check(script: str, name: str = "own") -> tuple[str, str]:
    return "--set", f"validators.commands.{name}={json.dumps({'command': ['sh', '-c', script]})}"


def only(stage: Stage, run: str, kind: str) -> dict[str, object]:
    (data,) = stage.data(run, kind)
    return data


def merged_tree(stage: Stage, run: str) -> str:
    """The tree of the commit that was merged."""
    return stage.project.git("rev-parse", f"{branch(run)}^2^{{tree}}")


def checked_tree(stage: Stage, run: str) -> object:
    return stage.data(run, "validation.finished")[-1]["tree"]


# A commit hook that changes files


def formatted(stage: Stage) -> str:
    hook(stage, FORMAT)
    seen = os.path.join(stage.folder, "seen")
    agent = stage.book(EVALUATE, worker(WRITE, SUBMIT))
    counted = check(f"cat a.py >> {seen}")
    return stage.run(*LOOP, stage.tasks("T-1"), "--agent", agent, *counted)


def assert_formatted(stage: Stage, run: str) -> None:
    assert stage.file(run, "a.py") == "x = 1"
    assert merged_tree(stage, run) == checked_tree(stage, run)
    assert [d["passed"] for d in stage.data(run, "validation.finished")][-1]
    assert len(stage.data(run, "case.submitted")) == len(stage.data(run, "verdict.given")) == 1
    assert [s for s in stage.subjects(run) if not s.startswith("Merge")] == ["make T-1"]
    stage.holdfast("verify", run)
    stage.holdfast("resume", run, code=4)


def test_checks_run_again_on_what_a_commit_hook_made(stage: Stage) -> None:
    run = formatted(stage)
    changed = only(stage, run, "commit.changed")
    assert (changed["reason"], changed["files"]) == ("hook", ["a.py"])
    assert Path(stage.folder, "seen").read_text() == "x=1\nx = 1\n"
    assert_formatted(stage, run)
    assert stage.project.salvage() == []


@pytest.mark.parametrize(
    "point",
    every(
        3,
        [
            "commit.compared:1",
            "effect.commit.after:1",
            "effect.commit.before:2",
            "effect.commit.after:2",
            "effect.tree.capture.before:1",
            "effect.tree.capture.after:1",
            "effect.tree.capture.after:3",
            "validator.run.before:2",
        ],
    ),
)
def test_killed_around_a_commit_that_a_hook_changed_it_ends_the_same(stage: Stage, point: str) -> None:
    hook(stage, FORMAT)
    agent = stage.book(EVALUATE, worker(WRITE, SUBMIT))
    begun = ("run", *LOOP, stage.tasks("T-1"), "--agent", agent, *check("grep -q x a.py"), "--json")
    stage.holdfast(*begun, code=KILLED, env=failpoint_environment(stage.folder, point), cold=True)
    run = stage.only_run()
    stage.resume(run)
    assert_formatted(stage, run)


def test_a_hook_that_changes_something_every_time_does_not_go_on_for_ever(stage: Stage) -> None:
    hook(stage, "date +%N >> stamp && git add stamp")
    agent = stage.book(EVALUATE, worker(WRITE, SUBMIT))
    run = stage.run(*LOOP, stage.tasks("T-1"), "--agent", agent)
    assert len(stage.data(run, "commit.changed")) == 1
    assert len(stage.file(run, "stamp").splitlines()) == 1
    assert merged_tree(stage, run) == checked_tree(stage, run)


def test_what_a_hook_made_goes_back_to_the_worker_when_it_does_not_pass(stage: Stage) -> None:
    """And is one commit in the end."""
    hook(stage, "sed -i 's/x=1/x ==/' a.py && git add a.py")
    again = {"when": "Validators that do not pass", "steps": [{"write": {"path": "a.py", "text": "x = 2\n"}}, SUBMIT]}
    agent = stage.book(EVALUATE, again, worker(WRITE, SUBMIT))
    run = stage.run(*LOOP, stage.tasks("T-1"), "--agent", agent, *check("! grep -q == a.py"))
    assert [d["passed"] for d in stage.data(run, "validation.finished")] == [True, False, True]
    assert [d["iteration"] for d in stage.data(run, "case.submitted")] == [1, 2]
    assert stage.file(run, "a.py") == "x = 2"
    assert [s for s in stage.subjects(run) if not s.startswith("Merge")] == ["make T-1"]
    assert merged_tree(stage, run) == checked_tree(stage, run)


# A commit hook that refuses


def test_a_hook_that_changes_files_and_refuses_is_told_to_the_worker(stage: Stage) -> None:
    hook(stage, "if grep -q x=1 a.py; then sed -i 's/x=1/x = 1/' a.py; echo reformatted a.py; exit 1; fi")
    again = {"when": "reformatted a.py", "steps": [SUBMIT]}
    agent = stage.book(EVALUATE, again, worker(WRITE, SUBMIT))
    run = stage.run(*LOOP, stage.tasks("T-1"), "--agent", agent)
    assert only(stage, run, "commit.refused")["output"] == "reformatted a.py\n"
    assert stage.file(run, "a.py") == "x = 1"
    assert [d["iteration"] for d in stage.data(run, "case.submitted")] == [1, 2]


def test_a_hook_that_goes_on_refusing_the_same_waits_for_a_person(stage: Stage) -> None:
    refusing = hook(stage, "echo no such program >&2; exit 1")
    agent = stage.book(EVALUATE, {"when": "no such program", "steps": [SUBMIT]}, worker(WRITE, SUBMIT))
    run = stage.run(*LOOP, stage.tasks("T-1"), "--agent", agent, code=1)
    assert stage.data(run, "session.end")[-1]["reason"] == "parked"
    assert len(stage.data(run, "commit.refused")) == 1
    assert "no such program" in stage.data(run, "session.end")[-1]["summary"]
    refusing.unlink()
    stage.resume(run)
    assert stage.data(run, "session.end")[-1]["reason"] == "all_done"
    assert stage.file(run, "a.py") == "x=1"


# What comes into the worktree after the capture


def test_what_checks_and_evaluators_leave_behind_is_in_no_commit_and_not_lost(stage: Stage) -> None:
    sloppy = {
        "when": "You are the evaluator",
        "steps": [
            {"write": {"path": "notes.txt", "text": "mine\n"}},
            {"write": {"path": "a.py", "text": "tried something\n"}},
            ACCEPT,
        ],
    }
    agent = stage.book(sloppy, worker(WRITE, SUBMIT))
    run = stage.run(*LOOP, stage.tasks("T-1"), "--agent", agent, *check("echo report > report.xml"))
    assert stage.file(run, "a.py") == "x=1"
    names = stage.project.git("ls-tree", "-r", "--name-only", branch(run)).split()
    assert names == ["a.py", "a.txt"]
    (saved,) = stage.project.salvage()
    assert [stage.project.show(f"{saved}:{name}") for name in ("notes.txt", "report.xml", "a.py")] == [
        "mine",
        "report",
        "tried something",
    ]
    assert merged_tree(stage, run) == checked_tree(stage, run)


def test_what_a_worker_commits_after_its_checks_is_not_merged(stage: Stage) -> None:
    """The evaluator's turn stands for any process that goes on in the worktree."""
    meddling = "echo late > late.txt; git add -A; git -c user.name=a -c user.email=a@b commit -qm late"
    late = {"when": "You are the evaluator", "steps": [{"run": meddling}, ACCEPT]}
    agent = stage.book(late, worker(WRITE, SUBMIT))
    run = stage.run(*LOOP, stage.tasks("T-1"), "--agent", agent)
    assert stage.project.git("ls-tree", "-r", "--name-only", branch(run)).split() == ["a.py", "a.txt"]
    assert "late" not in stage.subjects(run)
    assert merged_tree(stage, run) == checked_tree(stage, run)


def test_an_evaluator_that_switches_the_branch_does_not_lose_the_work(stage: Stage) -> None:
    away = {"when": "You are the evaluator", "steps": [{"run": "git checkout -q -b look && rm a.py"}, ACCEPT]}
    agent = stage.book(away, worker(WRITE, SUBMIT))
    run = stage.run(*LOOP, stage.tasks("T-1"), "--agent", agent)
    assert stage.file(run, "a.py") == "x=1"


def test_a_check_that_formats_is_run_again_and_what_it_made_is_committed(stage: Stage) -> None:
    runs = os.path.join(stage.folder, "runs")
    formatting = check(f"echo >> {runs}; sed -i 's/x=1/x = 1/' a.py; echo new > new.txt")
    agent = stage.book(EVALUATE, worker(WRITE, SUBMIT))
    run = stage.run(*LOOP, stage.tasks("T-1"), "--agent", agent, *formatting)
    assert stage.file(run, "a.py") == "x = 1"
    assert stage.project.git("ls-tree", "-r", "--name-only", branch(run)).split() == ["a.py", "a.txt"]
    assert Path(runs).read_text() == "\n" * 3, "on the base, on the work, and on what it made of that"
    assert merged_tree(stage, run) == checked_tree(stage, run)


def test_without_checks_or_an_evaluator_what_was_captured_is_committed(stage: Stage) -> None:
    agent = stage.book(worker(WRITE, {"say": "done"}))
    run = stage.run("write a.py", "--agent", agent)
    assert stage.file(run, "a.py") == "x=1"
    assert merged_tree(stage, run) == checked_tree(stage, run)


def test_commits_that_somebody_adds_before_the_merge_are_checked_and_judged_first(stage: Stage) -> None:
    agent = stage.book(EVALUATE, worker(WRITE, SUBMIT))
    begun = ("run", *LOOP, stage.tasks("T-1"), "--agent", agent, *check("! grep -rq bad ."), "--json")
    stage.holdfast(*begun, code=KILLED, env=failpoint_environment(stage.folder, "effect.merge.before:1"), cold=True)
    run = stage.only_run()
    tree = os.path.join(stage.home_of(run), "tasks", "T-1")
    Path(tree, "mine.txt").write_text("mine\n")
    stage.project.git("add", "--all", at=tree)
    stage.project.git("commit", "--quiet", "--message=Mine", at=tree)
    stage.resume(run)
    assert only(stage, run, "commit.changed")["reason"] == "moved"
    assert (len(stage.data(run, "verdict.given")), len(stage.data(run, "case.submitted"))) == (2, 1)
    assert (stage.file(run, "mine.txt"), stage.file(run, "a.py")) == ("mine", "x=1")
    assert merged_tree(stage, run) == checked_tree(stage, run)


def test_what_was_left_behind_is_not_in_the_way_of_conflicts(stage: Stage) -> None:
    """The second of two tasks at the same lines, in whose worktree its evaluator changed files."""
    sloppy = {"when": "You are the evaluator", "steps": [{"run": "echo sloppy | tee -a a.txt notes.txt"}, ACCEPT]}
    resolve = {"when": "it conflicts with yours", "steps": [{"write": {"path": "a.txt", "text": "A and B\n"}}]}
    agent = stage.book(
        sloppy, resolve, *(worker({"write": {"path": "a.txt", "text": f"{t}\n"}}, SUBMIT, task=t) for t in ("A", "B"))
    )
    run = stage.run("--workflow", "waves", stage.tasks("A", "B"), "--agent", agent)
    assert len(stage.data(run, "merge.conflicted")) == 1
    assert stage.file(run, "a.txt") == "A and B"
    assert stage.project.git("ls-tree", "-r", "--name-only", branch(run)).split() == ["a.txt"]
    assert len(stage.project.salvage()) == 2
