"""Runs without a terminal: started, followed, waited for, stopped, and owned by one at a time."""

import asyncio
import json
import os
import signal
from collections.abc import Mapping

import pytest

from holdfast.leaf.process.env_markers import CONVERSATION_MARK, RUN_MARK
from tests.cli.terminal import conversation
from tests.support.cli_stage import BLOCKED, HANG, HELLO, Stage, alive, killed, outcome, wait_for_event, worker
from tests.support.wait import until

WROTE = {"write": {"path": "one.txt", "text": "1\n"}}


def detached(stage: Stage, *turns: Mapping[str, object]) -> str:
    begun = stage.holdfast("run", "say hello", "--agent", stage.book(*turns), "--detach", "--json").object
    return str(begun["run"])


def test_it_works_on_without_a_terminal(stage: Stage) -> None:
    run = detached(stage, HELLO)
    assert stage.holdfast("wait", run).out == "done\n"
    assert stage.holdfast("wait", run, "--json").object == {"run": run, "status": "done"}
    assert stage.file(run, "hello.txt") == "hello"
    assert alive(stage) == []


@pytest.mark.torture
def test_a_playbook_is_found_by_a_path_from_here(stage: Stage) -> None:
    name = os.path.relpath(stage.book(HELLO).removeprefix("playbook:"), stage.project.path)
    run = stage.holdfast("plan", "say hello", "--json").object["run"]
    assert stage.holdfast("resume", run, "--agent", f"playbook:{name}", "--detach", "--json").object["run"] == run
    assert stage.holdfast("wait", run).out == "done\n"


def test_what_keeps_it_from_starting_is_told(stage: Stage) -> None:
    complaint = stage.holdfast("run", "say hello", "--agent", "nobody", "--detach", code=2).complaint
    assert "nobody" in complaint


def test_it_is_followed_and_stopped_from_elsewhere(stage: Stage) -> None:
    run = detached(stage, worker(WROTE, HANG))
    with stage.start("logs", "-f", run) as following:
        wait_for_event(following, "tool.returned")
        assert "still running" in stage.holdfast("wait", run, "--timeout", "0", code=3).complaint
        before = stage.project.footprint()
        assert "resume" not in stage.holdfast("resume", run, code=5).out  # it is owned
        assert stage.project.footprint() == before
        assert "continue with: holdfast resume" in stage.holdfast("stop", run).out
        following.kill()
        outcome(following, -9)
    asyncio.run(until(lambda: alive(stage) == []))  # it lets go of the run a moment before it ends
    assert stage.holdfast("wait", run).out == "stopped\n"
    assert "is not at work" in stage.holdfast("stop", run, code=4).complaint
    assert [d["stop_reason"] for d in stage.data(run, "turn.ended")] == ["cancelled"]


@pytest.mark.torture
def test_a_choice_that_was_asked_for_goes_along(stage: Stage) -> None:
    run = stage.run("say hello", "--agent", stage.book(worker(BLOCKED)), code=1)
    stage.book(otherwise=HELLO["steps"])
    with conversation(stage.holdfast, "resume", run, "--detach") as terminal:
        terminal.until("Your choice: ")
        terminal.type("A\n")
        assert terminal.end() == 0
    assert stage.holdfast("wait", run).out == "done\n"
    assert stage.file(run, "hello.txt") == "hello"


@pytest.mark.torture
def test_of_two_resumes_at_once_one_works_and_the_other_touches_nothing(stage: Stage) -> None:
    agent = stage.book(worker(WROTE, HANG, {"say": "done"}))
    with stage.start("run", "say hello", "--agent", agent) as process:
        wait_for_event(process, "tool.returned")
        stage.hangs()
        process.kill()
        process.wait()
    run = stage.only_run()
    with stage.start("resume", run) as one, stage.start("resume", run) as two:
        codes = sorted((one.wait(), two.wait()))
    assert codes in ([0, 5], [0, 4])  # 4: the first was done before the second looked
    assert len([d for d in stage.data(run, "session.start") if d["command"] == "resume"]) == 1
    assert stage.subjects(run) == ["say hello", "Merge task T-1"]


def test_a_request_to_stop_is_for_the_runner_that_was_asked(stage: Stage) -> None:
    agent = stage.book(worker(WROTE, HANG, {"say": "done"}))
    with stage.start("run", "say hello", "--agent", agent) as process:
        wait_for_event(process, "tool.returned")
        stage.hangs()
        process.send_signal(signal.SIGSTOP)
        run = stage.only_run()
        assert "it still will" in stage.holdfast("stop", run, "--timeout", "0", code=3).complaint
        killed(process)  # it never came to it
    assert stage.resume(run)["ended"] == "all_done"


@pytest.mark.parametrize("how", ["done", "failed"])
def test_wait_tells_how_it_ended_by_its_code(stage: Stage, how: str) -> None:
    submits_nothing = ("--workflow", "loop", "--set", "caps.iterations=1")
    run = stage.run(
        "say hello", "--agent", stage.book(HELLO), *(submits_nothing if how == "failed" else ()), code=how == "failed"
    )
    stage.holdfast("wait", run, code=how == "failed")


def test_it_may_be_started_by_an_agent_of_the_run_itself(stage: Stage) -> None:
    """It carries the mark by which that agent's processes are found; what it starts for others does not."""
    inherited = os.path.join(stage.folder, "inherited")
    hook = json.dumps([["sh", "-c", f"env > {inherited}"]])
    with stage.start("run", "say hello", "--agent", stage.book(worker(WROTE, HANG, {"say": "done"}))) as process:
        wait_for_event(process, "tool.returned")
        stage.hangs()
        killed(process)
    run = stage.only_run()
    (opened,) = stage.data(run, "conversation.opened")
    marks = {RUN_MARK: run, CONVERSATION_MARK: f"{run}/{opened['conversation']}"}
    stage.holdfast("resume", run, "--detach", "--set", f"hooks.session_end={hook}", env=marks)
    assert stage.holdfast("wait", run).out == "done\n"
    with open(inherited, encoding="utf-8") as file:
        assert CONVERSATION_MARK not in file.read()
