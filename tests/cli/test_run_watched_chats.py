"""`watch` starts a runner for a chat whose message would otherwise wait: its sender was killed before it did."""

from pathlib import Path

import pytest

from tests.cli.program import failpoint_environment
from tests.cli.test_run_chat import CAPITALS, chat
from tests.cli.test_run_watched import watching
from tests.support.cli_stage import Stage, heard
from tests.support.crash_suite.warm_programs import KILLED


def send_and_die(stage: Stage, run: str) -> None:
    """Send a message, and be killed when it is in the inbox."""
    folder = Path(stage.folder, f"passes-{run}")
    folder.mkdir()
    environment = failpoint_environment(str(folder), "inbox.append.after:1")
    stage.holdfast("send", run, "now in capitals", code=KILLED, env=environment)


@pytest.mark.parametrize("when", ["before", "during"])
def test_message_of_a_killed_sender_is_delivered(stage: Stage, when: str) -> None:
    run = chat(stage)
    if when == "before":
        send_and_die(stage, run)
    with watching(stage) as process:
        if when == "during":
            send_and_die(stage, run)
        assert heard(process, lambda told: told["run"] == run)["told"].startswith("resumed")
        stage.holdfast("wait", run)
    assert stage.prompts(run) == ["write the greeting", "now in capitals"]
    assert len(stage.data(run, "inbox.consumed")) == 1


def test_chat_without_a_message_and_one_that_was_stopped_are_left_alone(stage: Stage) -> None:
    quiet = chat(stage)
    agent = stage.book(CAPITALS, name="other")
    stopped = stage.holdfast("run", "hello", "--workflow", "chat", "--agent", agent, "--detach", "--json").object["run"]
    stage.holdfast("stop", stopped)
    send_and_die(stage, stopped)
    other = chat(stage)
    send_and_die(stage, other)
    counts = [len(stage.events(run)) for run in (quiet, stopped)]
    with watching(stage) as process:
        assert heard(process, lambda told: told["run"] in (quiet, stopped, other))["run"] == other
        stage.holdfast("wait", other)
    assert [len(stage.events(run)) for run in (quiet, stopped)] == counts
