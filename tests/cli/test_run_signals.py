"""Ctrl-C, SIGTERM, SIGHUP and a reader that goes away."""

import os
import signal

import pytest

from tests.support.cli_stage import HANG, HELLO, Stage, alive, outcome, wait_for_event, worker

WROTE = {"write": {"path": "one.txt", "text": "1\n"}}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_stops_cleanly_and_the_run_can_go_on(stage: Stage, number: signal.Signals) -> None:
    agent = stage.book(worker(WROTE, HANG, {"say": "done"}))
    with stage.start("run", "take your time", "--agent", agent) as process:
        wait_for_event(process, "tool.returned")
        stage.hangs()
        process.send_signal(number)
        end = outcome(process, code=130)
    run = end.objects[-1]["run"]
    assert end.objects[-1]["ended"] == "interrupted"
    assert [d["stop_reason"] for d in stage.data(run, "turn.ended")] == ["cancelled"]  # the agent was asked to
    assert alive(stage) == []
    assert stage.resume(run)["ended"] == "all_done"
    assert stage.file(run, "one.txt") == "1"


@pytest.mark.parametrize(
    ("number", "last_stop"),
    [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "interrupted"), (signal.SIGKILL, "killed")],
)
def test_resume_records_why_the_last_session_stopped(stage: Stage, number: signal.Signals, last_stop: str) -> None:
    with stage.start("run", "take your time", "--agent", stage.book(worker(WROTE, HANG))) as process:
        wait_for_event(process, "tool.returned")
        stage.hangs()
        process.send_signal(number)
        outcome(process, code=-number if number == signal.SIGKILL else 130)
    run = stage.only_run()
    stage.resume(run)
    assert [resumed["last_stop"] for resumed in stage.data(run, "run.resumed")] == [last_stop]


def test_people_are_told_how_to_go_on(stage: Stage) -> None:
    agent = stage.book(worker(WROTE, HANG))
    with stage.holdfast.start("run", "take your time", "--agent", agent) as process:
        assert process.stderr is not None
        while b"one.txt" not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGINT)
        assert f"nothing is lost. Continue with: holdfast resume {stage.only_run()}" in outcome(process, code=130).err


def test_the_second_signal_does_not_wait_for_a_deaf_agent(stage: Stage) -> None:
    agent = stage.book(worker(WROTE, {"hang": {"how": "stubborn", "seconds": 3600, "once": True}}))
    with stage.holdfast.start("run", "take your time", "--agent", agent) as process:
        assert process.stderr is not None
        while b"one.txt" not in process.stderr.readline():
            pass
        stage.hangs()
        process.send_signal(signal.SIGINT)
        while b"again to stop at once" not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGINT)
        outcome(process, code=130)
    assert alive(stage) == []
    run = stage.only_run()
    assert [end["reason"] for end in stage.data(run, "session.end")] == ["planned", "interrupted"]
    assert stage.resume(run)["ended"] == "all_done"
    assert [resumed["last_stop"] for resumed in stage.data(run, "run.resumed")] == ["interrupted"]


def test_a_terminal_that_goes_does_not_end_the_run(stage: Stage) -> None:
    agent = stage.book(worker(WROTE, {"wait_for": f"{stage.folder}/go"}))
    with stage.start("run", "go on", "--agent", agent) as process:
        wait_for_event(process, "tool.returned")
        process.send_signal(signal.SIGHUP)
        open(f"{stage.folder}/go", "w").close()
        outcome(process)


@pytest.mark.torture
def test_a_reader_that_goes_does_not_end_the_run(stage: Stage) -> None:
    reading, writing = os.pipe()
    agent = stage.book(HELLO)
    with stage.start("run", "say hello", "--agent", agent, stdout=writing) as process:
        os.close(writing)
        os.read(reading, 1)
        os.close(reading)
        outcome(process)
    assert stage.file(stage.only_run(), "hello.txt") == "hello"
