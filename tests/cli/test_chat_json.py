"""`holdfast chat --json`: a chat for programs, one JSON object a line, in and out."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.cli.test_chat import new
from tests.support.cli_stage import HANG, Stage


class Lines:
    """A client that a program drives."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def put(self, **command: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command).encode() + b"\n")
        self.process.stdin.flush()

    def until(self, kind: str, **wanted: Any) -> dict[str, Any]:
        """The next object of a kind with these values."""
        assert self.process.stdout is not None
        for raw in self.process.stdout:
            found = json.loads(raw)
            value = found.get(kind)
            if isinstance(value, dict) and wanted.items() <= value.items():
                return dict(value)
        raise AssertionError(f"no {kind} with {wanted}")

    def until_event(self, kind: str, **data: Any) -> dict[str, Any]:
        while True:
            event = self.until("event", type=kind)
            if data.items() <= event["data"].items():
                return dict(event["data"])

    def end(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait()


@contextmanager
def lines(stage: Stage, *arguments: str) -> Iterator[Lines]:
    with stage.start("chat", *arguments, stdin=subprocess.PIPE) as process:
        try:
            yield Lines(process)
        finally:
            process.kill()
    for one in stage.holdfast("ls", "--json").objects:
        if one["status"] == "running":
            with stage.start("stop", one["id"]) as stopping:  # it may have ended by itself meanwhile
                stopping.communicate()
            stage.holdfast("wait", one["id"])


def test_message_is_answered_with_events_and_hints(stage: Stage) -> None:
    with lines(stage, *new(stage), "--name", "greeter") as program:
        assert program.process.stdout is not None
        run = json.loads(program.process.stdout.readline())["started"]
        assert run.startswith("greeter-")
        program.until("state", run=run, working=False, runner=True)
        program.put(say="now in capitals")
        program.until("done", command="say")
        program.until_event("turn.ended", stop_reason="end_turn")
        program.put(accept=True)
        program.until_event("iteration.accepted")
        assert program.end() == 0
    assert stage.file(run, "hello.txt") == "HELLO"


def test_request_is_answered(stage: Stage) -> None:
    with lines(stage, *new(stage)) as program:
        program.until_event("turn.ended")
        program.put(say="something dangerous")
        program.until_event("permission.requested")
        program.put(answer={"allow": True, "always": True})
        assert program.until_event("permission.answered")["option"] == "allow"
        program.put(quit=True)
        assert program.process.wait() == 0


def test_turn_is_cancelled(stage: Stage) -> None:
    with lines(stage, *new(stage, {"when": "wait", "steps": [{"say": "waiting"}, HANG]})) as program:
        program.until_event("turn.ended")
        program.put(say="wait")
        program.until("hint", text="waiting")
        program.put(cancel=True)
        program.until_event("turn.ended", stop_reason="cancelled")


def test_death_of_the_runner_is_a_state(stage: Stage) -> None:
    with lines(stage, *new(stage, {"when": "wait", "steps": [{"say": "waiting"}, HANG]})) as program:
        program.until_event("turn.ended")
        program.put(say="wait")
        program.until("hint", text="waiting")
        stage.hangs()
        run = stage.only_run()
        os.kill(stage.data(run, "session.start")[-1]["pid"], signal.SIGKILL)
        program.until("state", runner=False, working=False)
        program.put(say="now in capitals")
        program.until_event("turn.interrupted")
        program.until_event("turn.ended", stop_reason="end_turn")
    stage.holdfast("verify", run)


def test_invalid_lines_are_answered_with_errors(stage: Stage) -> None:
    with lines(stage, *new(stage)) as program:
        program.until_event("turn.ended")
        for line in (b"no json\n", b'{"sing": 1}\n', b'{"drop": "nothing"}\n', b'{"say": " "}\n', b'{"answer": 1}\n'):
            assert program.process.stdin is not None
            program.process.stdin.write(line)
            program.process.stdin.flush()
            assert program.until("error")["message"]
        assert program.end() == 0
