"""Keys of the dashboard, and what they do to real runs at work in other processes."""

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cli.boards import Screen, board
from tests.support.cli_stage import BLOCKED, HELLO, Stage, killed, outcome, wait_for_event, worker

ASK = {
    "permission": {
        "title": "Delete the notes",
        "kind": "delete",
        "allowed": [{"write": {"path": "answer.txt", "text": "allowed\n"}}],
        "rejected": [{"write": {"path": "answer.txt", "text": "rejected\n"}}],
    }
}
HANG = {"hang": {"how": "turn", "seconds": 3600}}


@pytest.fixture(autouse=True)
def _nothing_of_the_callers(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A runner that the dashboard starts has its environment."""
    for name, value in stage.holdfast.environment().items():
        monkeypatch.setenv(name, value)


@contextmanager
def at_work(stage: Stage, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A run in another process, which does not outlive a test that fails."""
    with stage.start("run", *arguments) as process:
        try:
            yield process
        finally:
            process.kill()


async def asked(screen: Screen) -> None:
    await screen.until("Delete the notes", "a approves, d denies")


@pytest.mark.parametrize(
    ("key", "answer"), [("a", "allowed"), pytest.param("d", "rejected", marks=pytest.mark.torture)]
)
async def test_an_answer_reaches_the_agent_that_waits_for_it(stage: Stage, key: str, answer: str) -> None:
    with at_work(stage, "tidy up", "--agent", stage.book(worker(ASK))) as process:
        wait_for_event(process, "permission.requested")
        run = stage.only_run()
        async with board(stage.home) as screen:
            await asked(screen)
            await screen.press(key)
            await screen.until("kind   delete", "cancel")
            await screen.press("n")
            await asked(screen)
            assert stage.data(run, "permission.answered") == []
            await screen.press(key, "y")
            await screen.until({"a": "approved", "d": "denied"}[key] + ": Delete the notes")
            await asyncio.to_thread(outcome, process)
            await screen.press(key)
            await screen.until(f"{run} has no open request")
    assert stage.file(run, "answer.txt") == answer
    (given,) = stage.data(run, "permission.answered")
    assert given["by"]


async def test_a_run_is_told_something_and_stopped_when_one_is_sure(stage: Stage) -> None:
    agent = stage.book(worker(HANG), HELLO, sessions={"interrupted": "again"})
    with at_work(stage, "take your time", "--agent", agent) as process:
        wait_for_event(process, "turn.started")
        run = stage.only_run()
        async with board(stage.home) as screen:
            await screen.until("1 running", "thinking")
            await screen.press("r")
            await screen.until(f"{run} is already running; Enter attaches")
            await screen.press("x", "escape")
            await screen.press("s")
            await screen.until("with its next prompt")
            await screen.type("mind the tests")
            await screen.press("enter")
            await screen.until("message queued: mind the tests")
            await screen.press("x")
            await screen.until(f"Stop {run}?")
            await screen.press("y")
            await screen.until(f"stopped {run}; r resumes it")
            await asyncio.to_thread(outcome, process)
            await screen.press("x")
            await screen.until(f"{run} is not running", f"{run}  stopped")
            await screen.press("enter")
            await screen.until(f"{run} is not running (stopped); r resumes it")
    assert [d["reason"] for d in stage.data(run, "session.end")] == ["planned", "stopped"]
    assert "mind the tests" in stage.holdfast("show", run).out


@pytest.mark.torture
async def test_a_killed_run_is_seen_to_be_and_goes_on_to_its_end(stage: Stage) -> None:
    agent = stage.book(worker(HANG), sessions={"interrupted": "again"})
    with at_work(stage, "say hello", "--agent", agent) as process:
        wait_for_event(process, "turn.started")
        run = stage.only_run()
        async with board(stage.home) as screen:
            await screen.until("1 running")
            killed(process)
            await screen.until("1 needs you", "interrupted")
            await screen.press("r")
            await screen.until(f"resumed {run} (pid ")
            await screen.until("last stop")
            await screen.press("x", "y")
            await screen.until(f"stopped {run}")
    assert [d["command"] for d in stage.data(run, "session.start")] == ["plan", "run", "resume"]


@pytest.mark.torture
async def test_a_run_that_needs_a_decision_asks_for_it_and_goes_that_way(stage: Stage) -> None:
    agent = stage.book(worker(BLOCKED))
    run = stage.run("say hello", "--agent", agent, code=1)
    stage.book(otherwise=HELLO["steps"])
    async with board(stage.home) as screen:
        await screen.until("no key", "and asks how")
        await screen.press("r")
        await screen.until("needs a decision", "Provide custom instructions")
        await screen.press("escape")
        await screen.until("and asks how")
        assert [d["command"] for d in stage.data(run, "session.start")] == ["plan", "run"]
        await screen.press("r", "c")
        await screen.until("Your instructions")
        await screen.press("enter")
        await screen.until("no instructions given; nothing changed")
        await screen.press("r", "a")
        await screen.until("session ended: all tasks done")
    assert stage.file(run, "hello.txt") == "hello"


async def test_run_is_rewound_forked_and_brought_back(stage: Stage) -> None:
    run = stage.run("write it", "--agent", stage.book(HELLO))
    async with board(stage.home) as screen:
        await screen.until(run)
        await screen.press("b")
        await screen.until(f"A point of {run}", "turn-1", "start")
        points = stage.holdfast("show", run, "--points", "--json").objects
        await screen.press(str([point["label"] for point in points].index("start") + 1))
        await screen.until("goes back to start", "hello.txt", "cancel")
        await screen.press("n")
        assert stage.data(run, "run.rewound") == []
        await screen.press("f")
        await screen.until(f"A point of {run}")
        await screen.press("1")
        await screen.until("forked as ")
        await screen.press("b")
        await screen.until(f"A point of {run}")
        await screen.press(str([point["label"] for point in points].index("start") + 1), "y")
        await screen.until("is at start")
        await screen.press("b")
        await screen.until("take back the last rewind")
        await screen.press("u", "y")
        await screen.until("is at before the rewind to start")
    assert stage.states(run) == {"T-1": "COMPLETE"}
