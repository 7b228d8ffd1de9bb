"""How a resume goes on past what went wrong: the choice is recorded first, acted on once, and never read as text."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from holdfast.engine.commands.detach import start_detached
from holdfast.engine.home import Home
from tests.cli.program import failpoint_environment
from tests.cli.terminal import CTRL_C, EOF, conversation
from tests.support.cli_stage import EVALUATE, SUBMIT, Stage, branch, worker
from tests.support.crash_suite.warm_programs import KILLED
from tests.support.wait import until

FIRST = worker({"write": {"path": "one.txt", "text": "1\n"}}, {"run": "git add one.txt"})
SECOND = worker({"run": "test ! -e one.txt"}, {"write": {"path": "two.txt", "text": "2\n"}}, SUBMIT)
NUDGED = {"when": "Task `T-1` is not done", "steps": [{"write": {"path": "two.txt", "text": "2\n"}}, SUBMIT]}

POINTS = (
    *(f"resume.choice.{side}:1" for side in ("before", "after")),
    *(f"effect.worktree.remove.{side}:1" for side in ("before", "after")),
    *(f"worktree.remove.{side}:1" for side in ("moved", "saved", "dropped")),
    *(f"effect.branch.delete.{side}:1" for side in ("before", "after")),
    *(f"journal.append.{side}:{number}" for number in range(2, 11) for side in ("torn", "after")),
)
TRIED_EACH_TIME = (
    "resume.choice.before:1",
    "resume.choice.after:1",
    "worktree.remove.saved:1",
    "effect.branch.delete.after:1",
    "journal.append.torn:9",
)


@pytest.fixture
def failed(stage: Stage) -> str:
    """A run whose only task failed, with `one.txt` as its partial work."""
    options = ("--workflow", "loop", stage.tasks("T-1"), "--set", "caps.iterations=1")
    run = stage.run(*options, "--agent", stage.book(EVALUATE, FIRST), code=1)
    stage.book(EVALUATE, NUDGED, SECOND)
    return run


def workers(stage: Stage, run: str) -> list[str]:
    return [d["conversation"] for d in stage.data(run, "conversation.opened") if d["role"] == "worker"]


def saved_files(stage: Stage) -> set[str]:
    listed = (stage.project.git("ls-tree", "-r", "--name-only", ref) for ref in stage.project.salvage())
    return {name for names in listed for name in names.split()}


def assert_restarted(stage: Stage, run: str) -> None:
    """As it ends without any crash: the new agent's work alone is on the branch, the old agent's is salvage."""
    old, new = workers(stage, run)
    assert stage.states(run) == {"T-1": "COMPLETE"}
    assert stage.project.git("diff", "--name-only", f"main...{branch(run)}") == "two.txt"
    assert stage.subjects(run) == ["make T-1", "Merge task T-1"]
    assert "one.txt" in saved_files(stage)
    resumed = [d for d in stage.data(run, "run.resumed") if d["decision"] is not None]
    assert [(d["decision"], d["restarted"], d["retried"]) for d in resumed] == [("restart", ["T-1"], [])]
    restarted = stage.data(run, "task.restarted")[-1]  # twice, where the write of the first was torn
    assert restarted["salvaged"] == resumed[0]["salvaged"] == stage.project.salvage()
    states = [(d["conversation"], d["state"]) for d in stage.data(run, "conversation.state_changed")]
    assert (old, "cancelled") in states
    turns = [d["conversation"] for d in stage.data(run, "turn.started")]
    assert turns.count(new) == 1
    stage.holdfast("verify", run)


def test_restart_begins_again_with_a_new_branch_and_a_new_agent(stage: Stage, failed: str) -> None:
    assert stage.resume(failed, "--on-issue", "restart")["ended"] == "all_done"
    assert_restarted(stage, failed)
    types = [event["type"] for event in stage.events(failed)]
    assert types.index("resume.chosen") < types.index("task.restarted")
    (chosen,) = stage.data(failed, "resume.chosen")
    assert chosen == {"choice": "restart", "tasks": ["T-1"], "instructions": None}


@pytest.mark.parametrize("policy", ["retry", "fix"])
def test_retry_keeps_the_work_and_the_conversation(stage: Stage, failed: str, policy: str) -> None:
    assert stage.resume(failed, "--on-issue", policy)["ended"] == "all_done"
    assert len(workers(stage, failed)) == 1
    assert stage.project.git("diff", "--name-only", f"main...{branch(failed)}").split() == ["one.txt", "two.txt"]
    (resumed,) = stage.data(failed, "run.resumed")
    assert (resumed["decision"], resumed["retried"], resumed["restarted"]) == ("retry", ["T-1"], [])
    assert stage.project.salvage() == []


@pytest.mark.parametrize(
    "point",
    [pytest.param(point, marks=[] if point in TRIED_EACH_TIME else pytest.mark.torture) for point in POINTS],
)
def test_killed_restart_is_finished_and_nobody_is_asked_again(stage: Stage, failed: str, point: str) -> None:
    killed = failpoint_environment(stage.folder, point)
    stage.holdfast("resume", failed, "--on-issue", "restart", "--quiet", env=killed, code=KILLED, cold=True)
    chosen = stage.holdfast("show", failed, "--json").object["state"]["choice"]
    done = stage.holdfast("analyze", failed, "--json").object["decision"]["case"] == "auto"
    if chosen is None and not done:
        stage.holdfast("resume", failed, code=6)
        stage.resume(failed, "--on-issue", "restart")
    else:
        stage.resume(failed)
    assert_restarted(stage, failed)


def test_other_choice_replaces_one_that_was_not_finished(stage: Stage, failed: str) -> None:
    killed = failpoint_environment(stage.folder, "effect.branch.delete.after:1")
    stage.holdfast("resume", failed, "--on-issue", "restart", "--quiet", env=killed, code=KILLED, cold=True)
    assert stage.resume(failed, "--on-issue", "skip")["ended"] == "all_done"
    assert stage.states(failed) == {"T-1": "SKIPPED"}
    assert "one.txt" in saved_files(stage)


def test_killed_skip_is_finished_and_nobody_is_asked_again(stage: Stage, failed: str) -> None:
    killed = failpoint_environment(stage.folder, "resume.choice.after:1")
    stage.holdfast("resume", failed, "--on-issue", "skip", "--quiet", env=killed, code=KILLED, cold=True)
    assert stage.resume(failed)["ended"] == "all_done"
    assert stage.data(failed, "run.resumed")[-1]["skipped"] == ["T-1"]


def test_instructions_that_read_like_a_choice_are_instructions(stage: Stage, failed: str) -> None:
    assert stage.resume(failed, "--instructions", "skip")["ended"] == "all_done"
    (resumed,) = stage.data(failed, "run.resumed")
    assert (resumed["decision"], resumed["instructions"], resumed["skipped"]) == ("custom", "skip", [])
    assert stage.states(failed) == {"T-1": "COMPLETE"}


def test_choice_reaches_a_detached_runner_as_data(stage: Stage, failed: str) -> None:
    stage.holdfast("resume", failed, "--detach", "--on-issue", "restart", "--instructions", "skip\n--on-issue=skip")
    asyncio.run(until(lambda: stage.data(failed, "session.end")[-1]["reason"] == "all_done"))
    (chosen,) = stage.data(failed, "resume.chosen")
    assert (chosen["choice"], chosen["instructions"]) == ("restart", "skip\n--on-issue=skip")
    assert "skip\n--on-issue=skip" in stage.prompts(failed, "worker")[-1]
    assert_restarted(stage, failed)


def test_instructions_are_no_argument_of_a_detached_runner(stage: Stage, failed: str) -> None:
    """Every user of the machine sees the arguments of a process."""
    stage.book(worker({"hang": {"how": "turn", "seconds": 3600}}))
    pid = asyncio.run(start_detached(Home(stage.home), failed, "--on-issue=restart", "--instructions=the key is kelp"))
    asyncio.run(until(lambda: "the key is kelp" in stage.prompts(failed, "worker")[-1]))
    arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    os.kill(pid, signal.SIGKILL)
    assert b"--instructions=-" in arguments
    assert not any(b"kelp" in argument for argument in arguments)


def test_instructions_are_told_though_nothing_went_wrong(stage: Stage) -> None:
    agent = stage.book(worker({"say": "done"}))
    run = stage.holdfast("plan", "say hello", "--agent", agent, "--set", "caps.wall_clock=0").out.strip()
    stage.holdfast("resume", run, "--quiet", code=3)
    stage.resume(run, "--instructions", "retry", "--set", "caps.wall_clock=1000")
    resumed = stage.data(run, "run.resumed")[-1]
    assert (resumed["decision"], resumed["instructions"]) == (None, "retry")
    assert "retry" in stage.prompts(run)[-1]


def test_choice_that_is_not_possible_changes_nothing(stage: Stage, failed: str) -> None:
    before = stage.events(failed)
    stage.holdfast("resume", failed, "--on-issue", "replan", code=2)
    stage.holdfast("resume", failed, "--on-issue", "ask", code=6)
    assert stage.events(failed) == before


def test_choice_may_be_a_setting(stage: Stage, failed: str) -> None:
    os.makedirs(f"{stage.home}/config/holdfast", exist_ok=True)
    with open(f"{stage.home}/config/holdfast/config.toml", "w", encoding="utf-8") as file:
        file.write('resume.on_issue = "restart"\n')
    stage.resume(failed)
    assert_restarted(stage, failed)


def test_wrong_letter_asks_again(stage: Stage, failed: str) -> None:
    with conversation(stage.holdfast, "resume", failed, "--quiet") as terminal:
        for wrong in ("x\n", "\n", "restart\n"):
            terminal.until("Your choice: ")
            terminal.type(wrong)
        terminal.until("Your choice: ")
        terminal.type("a\n")
        assert terminal.end() == 0
    assert_restarted(stage, failed)


@pytest.mark.parametrize(("answer", "code"), [(EOF, 6), (CTRL_C, 130)], ids=["end of input", "Ctrl-C"])
def test_no_answer_changes_nothing(stage: Stage, failed: str, answer: str, code: int) -> None:
    before = stage.events(failed)
    with conversation(stage.holdfast, "resume", failed, "--quiet") as terminal:
        terminal.until("Your choice: ")
        terminal.type("x\n")
        terminal.until("Your choice: ")
        terminal.type(answer)
        assert terminal.end() == code
    assert stage.events(failed) == before


def test_instructions_are_written_with_the_state_in_view(stage: Stage, failed: str) -> None:
    with conversation(stage.holdfast, "resume", failed, "--quiet") as terminal:
        terminal.until("Your choice: ")
        terminal.type("C\n")
        shown = terminal.until("Your instructions: ")
        assert branch(failed, "T-1") in shown
        assert "the worker never submitted its case" in shown
        assert "FAILED" in shown
        terminal.type("\n")
        terminal.until("Your instructions: ")
        terminal.type("skip\n")
        assert terminal.end() == 0
    (resumed,) = stage.data(failed, "run.resumed")
    assert (resumed["decision"], resumed["instructions"]) == ("custom", "skip")
    assert stage.states(failed) == {"T-1": "COMPLETE"}


def test_a_typo_of_a_choice_is_not_instructions(stage: Stage, failed: str) -> None:
    assert "did you mean retry?" in stage.holdfast("resume", failed, "--on-issue", "retyr", code=2).err
