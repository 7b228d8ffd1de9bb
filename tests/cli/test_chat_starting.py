"""`holdfast chat` while its agent starts, and when it cannot start."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.cli.terminal import CTRL_C, EOF
from tests.cli.test_chat import ENTER, LONG, client, wait_for
from tests.cli.test_chat_json import lines
from tests.support.cli_stage import Stage

_HELLO = {"when": "hello", "steps": [{"say": "hello to you\n"}]}
_BROKEN: dict[str, Any] = {"start": [{"stderr": "no model: give --model\n"}, {"crash": {"how": "exit", "code": 2}}]}


def _gated(stage: Stage) -> tuple[Path, list[str]]:
    """An agent that starts when the file is there."""
    gate = Path(stage.folder, "gate")
    agent = stage.book(_HELLO, LONG, start=[{"wait_for": {"path": os.fspath(gate)}}])
    return gate, ["--agent", agent, "--set", "chat.idle=60"]


def _stop(stage: Stage) -> None:
    run = stage.only_run()
    stage.holdfast("stop", run)
    stage.holdfast("wait", run)


def test_ctrl_c_before_the_first_turn_says_that_nothing_is_cancelled_and_the_next_one_cancels(stage: Stage) -> None:
    gate, options = _gated(stage)
    with client(stage, *options, "-m", "take long") as terminal:
        terminal.until("starting")
        terminal.type(CTRL_C)
        terminal.until("nothing was cancelled")
        terminal.until(stage.only_run())
        gate.touch()
        terminal.until("it takes long")
        terminal.type(CTRL_C)
        terminal.until("turn cancelled by")
    _stop(stage)


def test_ctrl_c_before_a_later_turn_says_how_to_take_the_message_back(stage: Stage) -> None:
    gate, options = _gated(stage)
    gate.touch()
    with client(stage, *options, "-m", "hello") as terminal:
        terminal.until("hello to you")
        terminal.until("waiting for you")
        _stop(stage)
        run = stage.only_run()
        gate.unlink()
        terminal.type(f"take long{ENTER}")
        wait_for(lambda: any(one["kind"] == "user" for one in stage.data(run, "inbox.consumed")))
        terminal.type(CTRL_C)
        terminal.until("/drop 1")
        terminal.type(f"/drop 1{ENTER}")
        terminal.until("taken back: take long")
        wait_for(lambda: stage.data(run, "inbox.deleted"))
        gate.touch()
        terminal.type(f"hello again{ENTER}")
        terminal.until("hello to you")
    assert not any("take long" in prompt for prompt in stage.prompts(run))
    _stop(stage)


def test_cancel_without_a_turn_is_an_error_for_programs(stage: Stage) -> None:
    gate, options = _gated(stage)
    with lines(stage, *options, "-m", "hello") as program:
        program.until("state", runner=True)
        program.put(cancel=True)
        assert "nothing was cancelled" in program.until("error", command="cancel")["message"]
        gate.touch()
        program.until_event("turn.ended")
        program.put(cancel=True)
        program.until("error", command="cancel", message="no turn is in progress")
        assert program.end() == 0


def test_agent_that_cannot_start_is_said_once(stage: Stage) -> None:
    with client(stage, "--agent", stage.book(_HELLO, **_BROKEN), "-m", "hello") as terminal:
        shown = terminal.until("session ended: parked") + terminal.until("not delivered")
        terminal.type(EOF)
        terminal.end()
    assert shown.count("failed to start") == 1
    assert shown.count("exited with code 2") == 0


def test_program_whose_agent_cannot_start_fails(stage: Stage) -> None:
    agent = stage.book(_HELLO, **_BROKEN)
    with stage.start("chat", "--agent", agent, "-m", "hello", stdin=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        run = json.loads(process.stdout.readline())["started"]
        stage.holdfast("wait", run, code=1)
        process.stdin.close()
        assert process.wait() == 1
    with stage.start("chat", run, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        assert process.wait() == 0, "a client that only looked"
