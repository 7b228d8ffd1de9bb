"""Agents that make branches or repositories of their own, or delete the `.git` of their worktree, lose no work."""

import os
import re
import shutil
import subprocess
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import failpoint_environment
from tests.cli.test_run_continued import PLANNED
from tests.support.cli_stage import EVALUATE, HANG, SUBMIT, Stage, branch, killed, worker
from tests.support.pipelines import file_of, plan
from tests.support.variants import every

KILLED = -9
ME = "git config user.name Agent; git config user.email agent@example.com"
WORK = "echo done > work.txt"
COMMIT = "git add -A && git -c user.name=a -c user.email=a@b commit -qm work"
LOOP = ("--workflow", "loop")


def run_of(*commands: str) -> dict[str, str]:
    return {"run": " && ".join(commands)}


def ended(stage: Stage, run: str) -> Any:
    return stage.data(run, "session.end")[-1]["reason"]


def files(stage: Stage, run: str) -> list[str]:
    return stage.project.git("ls-tree", "-r", "--name-only", branch(run)).split()


def warnings(stage: Stage, run: str) -> str:
    return "\n".join(d["message"] for d in stage.data(run, "warning.logged"))


def tree_of(stage: Stage, run: str, task: str = "T-1") -> str:
    return os.path.join(stage.home_of(run), "tasks", task)


# Commits elsewhere


ELSEWHERE = {
    "a branch of its own": ["git checkout -q -b feature/x", WORK, COMMIT],
    "a branch of its own, and more": ["git checkout -q -b feature/x", "echo 1 > one.txt", COMMIT, WORK],
    "nothing committed": ["git checkout -q -b feature/x", WORK],
    "detached": ["git checkout -q --detach", WORK, COMMIT],
    "renamed": ["git branch -m feature/x", WORK, COMMIT],
    "its own branch deleted": [
        "b=$(git branch --show-current)",
        "git checkout -q -b feature/x",
        "git branch -q -D $b",
        WORK,
        COMMIT,
    ],
}


@pytest.mark.parametrize("how", ELSEWHERE)
def test_commits_on_a_branch_of_the_agents_own_are_taken_over(stage: Stage, how: str) -> None:
    agent = stage.book(EVALUATE, worker(run_of(*ELSEWHERE[how]), SUBMIT))
    seen = ("--set", 'validators.commands.seen={"command": ["test", "-e", "work.txt"]}')
    run = stage.run(*LOOP, stage.tasks("T-1"), "--agent", agent, *seen)
    assert stage.file(run, "work.txt") == "done"
    assert ended(stage, run) == "all_done"
    assert [d["iteration"] for d in stage.data(run, "case.submitted")] == [1]
    assert [s for s in stage.subjects(run) if not s.startswith("Merge")] == ["make T-1"]
    if how != "detached":
        assert "feature/x" in warnings(stage, run)
        assert stage.project.tip("feature/x") is not None


@pytest.mark.parametrize(
    "point", ["effect.branch.take_over.before", "branch.take-over.moved", "effect.branch.take_over.after"]
)
def test_killed_while_commits_are_taken_over_it_ends_the_same(stage: Stage, point: str) -> None:
    agent = stage.book(EVALUATE, worker(run_of(*ELSEWHERE["a branch of its own"]), SUBMIT))
    begun = ("run", *LOOP, stage.tasks("T-1"), "--agent", agent, "--json")
    stage.holdfast(*begun, code=KILLED, env=failpoint_environment(stage.folder, f"{point}:1"), cold=True)
    run = stage.only_run()
    stage.resume(run)
    assert stage.file(run, "work.txt") == "done"
    assert [d["iteration"] for d in stage.data(run, "case.submitted")] == [1]
    assert [s for s in stage.subjects(run) if not s.startswith("Merge")] == ["make T-1"]
    stage.holdfast("verify", run)


ORPHAN = ["git checkout -q --orphan fresh", WORK, COMMIT]


def test_a_history_of_its_own_is_told_to_the_agent_which_puts_it_right(stage: Stage) -> None:
    note = "git branch --show-current > ../b && git rev-parse HEAD > ../at"
    fix = "git symbolic-ref HEAD refs/heads/$(cat ../b) && git reset -q $(cat ../at)"
    told = {"when": "symbolic-ref HEAD", "steps": [{"run": fix}, SUBMIT]}
    agent = stage.book(EVALUATE, told, worker(run_of(note, *ORPHAN), SUBMIT))
    run = stage.run(*LOOP, stage.tasks("T-1"), "--agent", agent)
    assert stage.file(run, "work.txt") == "done"
    assert [d["failed"] for d in stage.data(run, "validation.finished")] == [["branch of the worktree"], []]
    assert files(stage, run) == ["a.txt", "work.txt"]


def test_a_history_of_its_own_that_stays_is_put_right_by_what_is_printed(stage: Stage) -> None:
    agent = stage.book(EVALUATE, {"when": "symbolic-ref HEAD", "steps": [SUBMIT]}, worker(run_of(*ORPHAN), SUBMIT))
    run = stage.run(*LOOP, stage.tasks("T-1"), "--agent", agent, code=1)
    assert ended(stage, run) == "parked"
    stage.resume(run, code=1)  # nothing is lost by trying again before that
    said = stage.data(run, "session.end")[-1]["summary"]
    (command,) = re.findall(r"git -C \S+ symbolic-ref HEAD \S+ && git -C \S+ reset [0-9a-f]+", said)
    subprocess.run(command, shell=True, check=True)
    stage.resume(run)
    assert ended(stage, run) == "all_done"
    assert stage.file(run, "work.txt") == "done"
    assert files(stage, run) == ["a.txt", "work.txt"]


def test_commits_on_a_branch_that_was_left_again_are_told_to_the_agent(stage: Stage) -> None:
    left = run_of("git checkout -q -b feature/x", WORK, COMMIT, "git checkout -q -")
    told = {"when": "commits were made in", "steps": [{"run": "git merge -q feature/x"}, SUBMIT]}
    agent = stage.book(EVALUATE, told, worker(left, SUBMIT))
    run = stage.run(*LOOP, stage.tasks("T-1"), "--agent", agent)
    assert [d["failed"] for d in stage.data(run, "validation.finished")] == [["commits left behind"], []]
    assert stage.file(run, "work.txt") == "done"


def test_an_agent_that_says_again_that_nothing_is_to_be_changed_is_believed(stage: Stage) -> None:
    tried = run_of("git checkout -q -b try", WORK, COMMIT, "git checkout -q -")
    agent = stage.book(EVALUATE, {"when": "commits were made in", "steps": [SUBMIT]}, worker(tried, SUBMIT))
    run = stage.run(*LOOP, stage.tasks("T-1"), "--agent", agent)
    assert ended(stage, run) == "all_done"
    assert files(stage, run) == ["a.txt"]


def test_a_task_that_fails_on_a_branch_of_its_own_keeps_its_work(stage: Stage) -> None:
    blocked = {"mcp": {"tool": "report_blocker", "arguments": {"reason": "No key."}}}
    on = {"when": "You are the worker on task", "steps": [SUBMIT]}
    agent = stage.book(EVALUATE, worker(run_of(*ELSEWHERE["a branch of its own"]), blocked))
    run = stage.run(*LOOP, stage.tasks("T-1"), "--agent", agent, code=1)
    assert stage.project.show(f"{branch(run, 'T-1')}:work.txt") == "done"
    stage.book(EVALUATE, {"when": "", "steps": [SUBMIT]}, on)
    stage.resume(run, "--on-issue", "fix")
    assert stage.file(run, "work.txt") == "done"
    assert not any(s.startswith("FAILED") for s in stage.subjects(run))


# A worktree without its .git


GIT_GONE = {
    "deleted": ["rm .git"],
    "replaced": ["rm .git", "git init -q", ME, "git add -A", "git commit -qm own"],
    "leads nowhere": ["echo 'gitdir: /nowhere' > .git"],
}


@pytest.mark.parametrize("how", GIT_GONE)
def test_an_agent_that_takes_the_git_of_its_worktree_loses_no_work(stage: Stage, how: str) -> None:
    agent = stage.book(EVALUATE, worker(run_of(WORK, *GIT_GONE[how]), SUBMIT))
    run = stage.run(*LOOP, stage.tasks("T-1"), "--agent", agent)
    assert ended(stage, run) == "all_done"
    assert stage.file(run, "work.txt") == "done"
    assert files(stage, run) == ["a.txt", "work.txt"]
    assert "lost its .git" in warnings(stage, run)
    assert len(stage.project.salvage()) == (how == "replaced")


def interrupted(stage: Stage, how: str) -> str:
    """A run that was killed in the turn of an agent that took the `.git`."""
    agent = stage.book(
        EVALUATE, worker(run_of(WORK, *GIT_GONE[how]), HANG, SUBMIT), sessions={"interrupted": "continue"}
    )
    with stage.start("run", *LOOP, stage.tasks("T-1"), "--agent", agent) as process:
        stage.hangs()
        killed(process)
    return stage.only_run()


@pytest.mark.parametrize("how", GIT_GONE)
def test_a_run_is_resumed_where_the_git_of_a_worktree_is_gone(stage: Stage, how: str) -> None:
    run = interrupted(stage, how)
    stage.resume(run)
    assert ended(stage, run) == "all_done"
    assert stage.file(run, "work.txt") == "done"


@pytest.mark.parametrize("how", GIT_GONE)
@pytest.mark.parametrize("command", ["archive", "reset"])
def test_a_run_can_be_retired_where_the_git_of_a_worktree_is_gone(stage: Stage, how: str, command: str) -> None:
    run = interrupted(stage, how)
    stage.holdfast(command, run, *(["-y"] if command == "reset" else []))
    saved = [ref for ref in stage.project.salvage() if "-own/" not in ref]
    assert [stage.project.show(f"{ref}:work.txt") for ref in saved] == ["done"]
    assert stage.project.worktrees() == []
    assert stage.project.branches() == []


@pytest.mark.parametrize("how", GIT_GONE)
def test_the_doctor_links_a_worktree_whose_git_is_gone(stage: Stage, how: str) -> None:
    run = interrupted(stage, how)
    stage.holdfast("doctor", "--fix", "--json", code=1)
    assert stage.project.git("status", "--porcelain", at=tree_of(stage, run)) == "?? work.txt"
    assert tree_of(stage, run) in stage.project.worktrees()


@pytest.mark.parametrize(
    "point",
    every(
        3,
        [
            "effect.worktree.link.before",
            "worktree.link.set-aside",
            "worktree.link.entered",
            "effect.worktree.link.after",
        ],
    ),
)
def test_killed_while_a_worktree_is_linked_it_ends_the_same(stage: Stage, point: str) -> None:
    agent = stage.book(EVALUATE, worker(run_of(WORK, *GIT_GONE["replaced"]), SUBMIT))
    begun = ("run", *LOOP, stage.tasks("T-1"), "--agent", agent, "--json")
    stage.holdfast(*begun, code=KILLED, env=failpoint_environment(stage.folder, f"{point}:1"), cold=True)
    run = stage.only_run()
    stage.resume(run)
    assert ended(stage, run) == "all_done"
    assert files(stage, run) == ["a.txt", "work.txt"]


@pytest.mark.parametrize(
    "point",
    every(2, ["worktree.remove.moved", "worktree.link.set-aside", "worktree.link.entered", "worktree.remove.saved"]),
)
def test_killed_while_a_run_with_such_a_worktree_is_reset_it_is_reset_the_next_time(stage: Stage, point: str) -> None:
    run = interrupted(stage, "replaced")
    stage.holdfast("reset", run, "-y", code=KILLED, env=failpoint_environment(stage.folder, f"{point}:1"), cold=True)
    stage.holdfast("reset", run, "-y")
    saved = [ref for ref in stage.project.salvage() if "-own/" not in ref]
    assert {stage.project.show(f"{ref}:work.txt") for ref in saved} == {"done"}
    assert stage.project.worktrees() == []


def interrupted_planner(stage: Stage, how: str) -> str:
    """A run that was killed in the turn of a planner that took the `.git` of the integration worktree."""
    planner = {"when": "You are the planner", "steps": [run_of(*GIT_GONE[how]), HANG, plan("A")]}
    agent = stage.book(planner, EVALUATE, worker(run_of(WORK), SUBMIT), sessions={"interrupted": "continue"})
    with stage.start("run", "plan it", "--workflow", file_of(stage, PLANNED), "--agent", agent) as process:
        stage.hangs()
        killed(process)
    return stage.only_run()


@pytest.mark.parametrize(("how", "command"), every(3, product(GIT_GONE, ["resume", "archive", "reset", "doctor"])))
def test_the_integration_worktree_may_lose_its_git_too(stage: Stage, how: str, command: str) -> None:
    run = interrupted_planner(stage, how)
    if command == "doctor":
        stage.holdfast("doctor", "--fix", "--json", code=1)
        assert os.path.join(stage.home_of(run), "workspace") in stage.project.worktrees()
    elif command == "resume":
        stage.resume(run)
        assert ended(stage, run) == "all_done"
        assert stage.file(run, "work.txt") == "done"
    else:
        stage.holdfast(command, run, *(["-y"] if command == "reset" else []))
        assert stage.project.worktrees() == []
        assert stage.project.branches() == []


# Repositories inside


NESTED = ["mkdir -p lib", "git init -q lib", "echo inside > lib/code.txt"]
NESTED_HOW = {
    "untracked": NESTED,
    "committed inside": [*NESTED, f"(cd lib && {COMMIT})"],
    "added as a link": [*NESTED, f"(cd lib && {COMMIT})", COMMIT],
}


@pytest.mark.parametrize("how", NESTED_HOW)
def test_an_agent_is_told_of_a_nested_repository_before_anybody_judges(stage: Stage, how: str) -> None:
    flat = {"run": "rm -rf lib/.git; git rm -q --cached lib 2>/dev/null; true"}
    told = {"when": "git repositories of their own", "steps": [flat, SUBMIT]}
    agent = stage.book(EVALUATE, told, worker(run_of(*NESTED_HOW[how]), SUBMIT))
    run = stage.run(*LOOP, stage.tasks("T-1"), "--agent", agent)
    assert [d["failed"] for d in stage.data(run, "validation.finished")] == [["nested repositories"], []]
    assert len(stage.data(run, "verdict.given")) == 1
    assert stage.file(run, "lib/code.txt") == "inside"


def test_a_nested_repository_that_stays_is_for_a_person(stage: Stage) -> None:
    again = {"when": "git repositories of their own", "steps": [{"say": "I keep it"}]}
    agent = stage.book(again, worker(run_of(*NESTED), {"say": "done"}))
    run = stage.run("make a library", "--agent", agent, code=1)
    assert ended(stage, run) == "parked"
    (tree,) = Path(stage.home_of(run), "tasks").iterdir()
    shutil.rmtree(tree / "lib" / ".git")
    stage.resume(run)
    assert ended(stage, run) == "all_done"
    assert stage.file(run, "lib/code.txt") == "inside"


def add_submodule(stage: Stage) -> str:
    """The command that adds a library as a submodule."""
    library = os.path.join(stage.folder, "library")
    stage.project.git("init", "--quiet", library)
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    stage.project.git(*who, "commit", "--quiet", "--allow-empty", "--message=One", at=library)
    return f"git -c protocol.file.allow=always submodule --quiet add {library} lib"


def test_a_registered_submodule_stays_one(stage: Stage) -> None:
    agent = stage.book(EVALUATE, worker(run_of(add_submodule(stage)), SUBMIT))
    run = stage.run(*LOOP, stage.tasks("T-1"), "--agent", agent)
    assert ended(stage, run) == "all_done"
    assert stage.project.git("ls-tree", branch(run), "lib").startswith("160000 commit")
    assert [d["passed"] for d in stage.data(run, "validation.finished")] == [True]


def test_changes_inside_a_submodule_are_told_to_the_agent_before_the_verdict(stage: Stage) -> None:
    told = {"when": "have changes that are in no commit", "steps": [run_of("cd lib", COMMIT), SUBMIT]}
    agent = stage.book(EVALUATE, told, worker(run_of(add_submodule(stage), "cd lib", WORK), SUBMIT))
    run = stage.run(*LOOP, stage.tasks("T-1"), "--agent", agent)
    assert [d["failed"] for d in stage.data(run, "validation.finished")] == [["changes inside submodules"], []]
    assert len(stage.data(run, "verdict.given")) == 1
    pinned = stage.project.git("rev-parse", f"{branch(run)}:lib")
    assert stage.project.git("show", f"{pinned}:work.txt", at=os.path.join(tree_of(stage, run), "lib")) == "done"


def test_changes_inside_a_submodule_that_stay_are_kept_in_the_worktree(stage: Stage) -> None:
    """A build may write there: the agent that says again that it is done is believed, and nothing is deleted."""
    again = {"when": "have changes that are in no commit", "steps": [SUBMIT]}
    agent = stage.book(EVALUATE, again, worker(run_of(add_submodule(stage), "cd lib", WORK), SUBMIT))
    run = stage.run(*LOOP, stage.tasks("T-1"), "--agent", agent)
    assert ended(stage, run) == "all_done"
    assert "(lib)" in warnings(stage, run)
    assert Path(tree_of(stage, run), "lib", "work.txt").read_text() == "done\n"
