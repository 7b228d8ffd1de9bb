"""Commands of the user are told what happened, and cannot hold the run up."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import failpoint_environment
from tests.support.cli_stage import EVALUATE, HELLO, SUBMIT, Stage, alive, killed, wait_for_event, worker
from tests.support.crash_suite.warm_programs import KILLED
from tests.support.wait import until

START, DONE, END, NOTIFY = HOOKS = ("session_start", "task_done", "session_end", "notify")
NOTHING_TO_DO = 4
CLIENT = worker({"write": {"path": "hello.txt", "text": "hello\n", "via": "client"}}, {"say": "done"})


def listening(stage: Stage) -> list[str]:
    """Hooks that write down what they are told."""
    log = f"{stage.folder}/hooks"
    command = json.dumps([["sh", "-c", f"cat >> {log}; echo >> {log}"]])
    return [part for hook in HOOKS for part in ("--set", f"hooks.{hook}={command}")]


def heard(stage: Stage) -> list[dict[str, Any]]:
    log = Path(stage.folder, "hooks")
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def test_each_gets_its_event_as_json(stage: Stage) -> None:
    run = stage.run("say hello", "--agent", stage.book(HELLO), *listening(stage))
    lines = heard(stage)
    assert [line["hook"] for line in lines] == list(HOOKS)
    assert {line["run"] for line in lines} == {run}
    assert lines[1]["task"] == "T-1"
    assert [d["exit_code"] for d in stage.data(run, "hook.ran")] == [0, 0, 0, 0]


def told_to(stage: Stage, hook: str, *more: str) -> list[str]:
    """Settings by which a hook writes down what it is told, and then does more."""
    command = json.dumps(
        [["sh", "-c", "; ".join((f"cat >> {stage.folder}/hooks; echo >> {stage.folder}/hooks", *more))]]
    )
    return ["--set", f"hooks.{hook}={command}"]


def test_hooks_run_in_the_worktree(stage: Stage) -> None:
    """Of the task, or of the run itself."""
    here = f"pwd >> {stage.folder}/where"
    hooks = [part for hook in (START, "pre_tool", "post_edit", DONE, END) for part in told_to(stage, hook, here)]
    run = stage.run("say hello", "--agent", stage.book(CLIENT), *hooks)
    task, own = f"{stage.home_of(run)}/tasks/T-1", f"{stage.home_of(run)}/workspace"
    assert Path(stage.folder, "where").read_text().split() == [own, task, task, task, own]
    assert [line["cwd"] for line in heard(stage)] == [own, task, task, task, own]


def test_every_hook_call_is_an_event(stage: Stage) -> None:
    """Also one that allows. What it is told has the run, the task, the conversation and the tool's input."""
    run = stage.run("say hello", "--agent", stage.book(CLIENT), *told_to(stage, "pre_tool"))
    (opened,) = stage.data(run, "conversation.opened")
    (line,) = heard(stage)
    known = {"hook": "pre_tool", "run": run, "task": "T-1", "conversation": opened["conversation"]}
    assert line.items() >= known.items()
    assert line["input"] == {"path": f"{stage.home_of(run)}/tasks/T-1/hello.txt", "content": "hello\n"}
    (event,) = stage.events(run, "hook.ran")
    assert event["agent"] == "worker of T-1"
    ran = event["data"]
    assert (ran["outcome"], ran["reason"], ran["exit_code"]) == ("allow", None, 0)
    assert (ran["tool"], ran["task"], ran["conversation"]) == (line["tool"], "T-1", opened["conversation"])
    assert "input" not in ran


def test_hook_that_blocks_gives_its_reason(stage: Stage) -> None:
    hook = told_to(stage, "pre_tool", "echo not on a Sunday", "exit 1")
    run = stage.run("say hello", "--agent", stage.book(CLIENT), *hook, code=1)
    ran, *_ = stage.data(run, "hook.ran")
    blocked, *_ = stage.data(run, "tool.blocked")
    assert (ran["outcome"], ran["reason"]) == ("block", "not on a Sunday")
    assert (blocked["tool"], blocked["reason"]) == (ran["tool"], ran["reason"])


def test_hook_is_asked_again_when_the_runner_dies_before_the_agent_hears(stage: Stage) -> None:
    """The first answer is not in the log, so nobody acts on it."""
    hook, book = told_to(stage, "pre_tool"), stage.book(CLIENT)
    env = failpoint_environment(stage.folder, "hook.run.after:1")
    stage.holdfast("run", "say hello", "--agent", book, *hook, env=env, code=KILLED)
    run = stage.only_run()
    assert stage.data(run, "hook.ran") == []
    stage.resume(run)
    assert [d["outcome"] for d in stage.data(run, "hook.ran")] == ["allow"]
    assert len(heard(stage)) == 2
    assert stage.file(run, "hello.txt") == "hello"


def test_post_edit_sees_what_a_shell_wrote(stage: Stage) -> None:
    """By the worktree: an agent may not show its call, and a shell names no file."""
    command = "mkdir -p sub; echo one > sub/new.txt; echo more >> a.txt"
    steps: list[dict[str, Any]] = [
        {"run": command},
        {"wait_for": f"{stage.folder}/over"},
        {"run": {"command": "git mv a.txt b.txt && git commit -qam moved && rm sub/new.txt", "shown": False}},
    ]
    hook = told_to(stage, "post_edit", f"touch {stage.folder}/over")
    run = stage.run("write", "--agent", stage.book(worker(*steps)), *hook)
    first, last = heard(stage)
    assert (first["paths"], first["input"]) == (["a.txt", "sub/new.txt"], {"command": command})
    assert (last["paths"], last["input"]) == (["a.txt", "b.txt", "sub/new.txt"], None)
    ran = [(d["hook"], d["outcome"], d["task"]) for d in stage.data(run, "hook.ran")]
    assert ran == [("post_edit", "ran", "T-1")] * 2


def test_post_edit_is_not_told_what_holdfast_changes(stage: Stage) -> None:
    """What a check leaves behind comes between two turns."""
    command = ["sh", "-c", "date > left.txt; grep -q good note.txt"]
    check = f"validators.commands={json.dumps({'check': {'command': command, 'required': True}})}"
    agent = stage.book(
        EVALUATE,
        worker({"write": {"path": "note.txt", "text": "bad\n"}}, SUBMIT),
        {"when": "do not pass", "steps": [{"write": {"path": "note.txt", "text": "good\n"}}, SUBMIT]},
    )
    options = ("--workflow", "loop", stage.tasks("T-1"), "--agent", agent, "--set", check)
    stage.run(*options, *told_to(stage, "post_edit"))
    assert [line["paths"] for line in heard(stage)] == [["note.txt"], ["note.txt"]]


def test_one_that_is_not_there_is_told_and_passed_over(stage: Stage) -> None:
    run = stage.run("say hello", "--agent", stage.book(HELLO), "--set", 'hooks.task_done=[["/no/such/hook"]]')
    (ran,) = stage.data(run, "hook.ran")
    assert "cannot be run" in ran["problem"]


def test_one_that_outlives_its_runner_is_ended_before_the_run_goes_on(stage: Stage) -> None:
    begun = Path(stage.folder, "begun")
    hook = json.dumps([["sh", "-c", f"[ -e {begun} ] && exit; touch {begun}; exec sleep 100"]])
    with stage.start("run", "say hello", "--agent", stage.book(HELLO), "--set", f"hooks.post_edit={hook}") as process:
        wait_for_event(process, "tool.returned")
        asyncio.run(until(begun.exists))
        killed(process)
    stage.resume(stage.only_run())
    assert alive(stage) == []


@pytest.mark.parametrize(
    ("at", "first", "then"),
    [
        ("before:1", [], [START, DONE, END, NOTIFY]),
        ("after:1", [START], [START, DONE, END, NOTIFY]),
        pytest.param("before:2", [START], [START, END, NOTIFY], marks=pytest.mark.torture),
        ("after:2", [START, DONE], [START, END, NOTIFY]),
        ("before:3", [START, DONE], []),
        pytest.param("after:3", [START, DONE, END], [], marks=pytest.mark.torture),
        pytest.param("before:4", [START, DONE, END], [], marks=pytest.mark.torture),
        ("after:4", [START, DONE, END, NOTIFY], []),
    ],
)
def test_none_is_told_of_a_thing_twice_whenever_the_runner_dies(
    stage: Stage, at: str, first: list[str], then: list[str]
) -> None:
    env = failpoint_environment(stage.folder, f"hook.run.{at}")
    stage.holdfast("run", "say hello", "--agent", stage.book(HELLO), *listening(stage), env=env, code=KILLED)
    assert [line["hook"] for line in heard(stage)] == first
    stage.holdfast("resume", stage.only_run(), code=0 if then else NOTHING_TO_DO)
    assert [line["hook"] for line in heard(stage)] == first + then
    assert alive(stage) == []


def test_what_tells_of_the_end_goes_on_when_the_runner_dies_though_the_run_goes_on_too(stage: Stage) -> None:
    """It kills the runner, which waits for it."""
    begun, gate, said = (Path(stage.folder, name) for name in ("begun", "gate", "said"))
    waiting = f"until [ -e {gate} ]; do sleep 0.05; done; echo over > {said}"
    hook = json.dumps([["sh", "-c", f"[ -e {begun} ] && exit; touch {begun}; kill -9 $PPID; {waiting}"]])
    book = stage.book(HELLO)
    stage.holdfast("run", "say hello", "--agent", book, "--set", f"hooks.notify={hook}", code=KILLED)
    run = stage.only_run()
    stage.holdfast("send", run, "and say it again")
    stage.resume(run)
    gate.touch()
    asyncio.run(until(said.exists))
    assert len(stage.data(run, "hook.ran")) == 1, "that of the second session"
    assert alive(stage) == []


@pytest.mark.torture
def test_one_that_hangs_is_ended(stage: Stage) -> None:
    run = stage.run("say hello", "--agent", stage.book(HELLO), "--set", 'hooks.session_start=[["sleep", "200"]]')
    (ran,) = stage.data(run, "hook.ran")
    assert "did not answer within" in ran["problem"]
    assert alive(stage) == []
