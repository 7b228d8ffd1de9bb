"""A chat with a real agent: it is killed, its runner is killed, it is rewound, and one talks on.

What proves it is not what the agent says, but what its model was sent.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from holdfast.leaf.process.env_markers import RUN_MARK, marked_processes
from tests.real_agents.conftest import AGENTS
from tests.real_agents.setups import SETUPS
from tests.real_agents.stage import WHICH, WORDS
from tests.real_agents.users import make_user
from tests.support.model_server.script import Answer, Rule, Script
from tests.support.model_server.seen import Seen
from tests.support.model_server.server import ModelServer

pytestmark = [pytest.mark.real_agents, pytest.mark.timeout(480)]

FIRST, SECOND, THIRD = (f"Note word {n}: kelp-0000{n * 2}" for n in ("a", "b", "c"))
COPIES_AT_A_MESSAGE = ("claude", "codex")


class Talker(NamedTuple):
    """A person who chats."""

    agent: str
    model: ModelServer
    repo: Path
    environment: dict[str, str]

    def holdfast(self, *arguments: str) -> list[Any]:
        command = [sys.executable, "-m", "holdfast", *arguments]
        ended = subprocess.run(command, cwd=self.repo, env=self.environment, capture_output=True, check=False)
        assert ended.returncode == 0, ended.stderr.decode()
        return [json.loads(line) for line in ended.stdout.splitlines() if line.startswith(b"{")]

    def begin(self) -> str:
        how = ("--workflow", "chat", "--agent", self.agent, "--allow", "allow-all", "--set", "chat.idle=120")
        self.holdfast("run", FIRST, *how, "--detach", "--json")
        (run,) = self.holdfast("ls", "--json")
        self.turn(str(run["id"]), 1)
        return str(run["id"])

    def say(self, run: str, text: str) -> None:
        """Send a message, and wait until its turn has ended."""
        turns = len(self.events(run, "turn.ended"))
        self.holdfast("send", run, text)
        self.turn(run, turns + 1)

    def turn(self, run: str, number: int) -> None:
        """Wait until so many turns have ended."""
        command = [sys.executable, "-m", "holdfast", "logs", run, "--follow", "--json", "--type", "turn.ended"]
        ended = 0
        with subprocess.Popen(command, cwd=self.repo, env=self.environment, stdout=subprocess.PIPE) as following:
            assert following.stdout is not None
            for _ in following.stdout:
                ended += 1
                if ended == number:
                    break
            following.kill()
        assert self.events(run, "turn.ended")[-1]["stop_reason"] == "end_turn"

    def events(self, run: str, kind: str) -> list[Any]:
        return [line["data"] for line in self.holdfast("logs", run, "--type", kind, "--json")]

    def kill_agent(self, run: str) -> None:
        """SIGKILL to every process that the run has started."""
        found = [process for process in marked_processes(RUN_MARK, run) if process.pid != self.runner(run)]
        assert found
        for process in found:
            with suppress(ProcessLookupError):  # it went with the one before
                os.kill(process.pid, signal.SIGKILL)

    def kill_runner(self, run: str) -> None:
        os.kill(self.runner(run), signal.SIGKILL)

    def runner(self, run: str) -> int:
        return int(self.events(run, "session.start")[-1]["pid"])

    def heard(self, words: str) -> Seen:
        """The newest request of the model in which the user says this last."""
        return [seen for seen in self.model.requests if words in seen.last_user][-1]


@pytest.fixture(params=AGENTS)
def talker(request: pytest.FixtureRequest, model: ModelServer, tmp_path: Path) -> Iterator[Talker]:
    environment = make_user(request.param, model, tmp_path)
    note = SETUPS[request.param].shell("echo kelp > notes.txt")
    model.play(
        Script(
            [
                Rule(Answer(recall=WORDS), user=WHICH),
                Rule(Answer(tools=[note]), user=SECOND, times=1),
                Rule(Answer(text="It is noted.")),
            ]
        )
    )
    found = Talker(request.param, model, tmp_path / "project", environment)
    yield found
    for run in found.holdfast("ls", "--json"):
        if run["status"] == "running":
            found.holdfast("stop", str(run["id"]))


def test_one_talks_on_when_the_agent_and_then_the_runner_was_killed(talker: Talker) -> None:
    run = talker.begin()
    talker.kill_agent(run)
    talker.say(run, SECOND)
    talker.kill_runner(run)
    talker.say(run, WHICH)
    seen = talker.heard(WHICH)
    assert FIRST in seen.all_text
    assert SECOND in seen.all_text
    said = [event["text"] for event in talker.events(run, "message.recorded") if event["speaker"] == "agent"]
    assert "kelp-0000aa" in said[-1]
    assert "kelp-0000bb" in said[-1]
    delivered = [event["message"] for event in talker.events(run, "inbox.consumed")]
    assert len(delivered) == len(set(delivered)) == 2


def test_rewound_turn_is_not_in_the_context_of_the_model(talker: Talker) -> None:
    run = talker.begin()
    talker.say(run, SECOND)
    notes = Path(talker.environment["HOLDFAST_HOME"], "runs", run, "tasks", "T-1", "notes.txt")
    assert notes.exists()
    talker.holdfast("rewind", run, "--yes")
    assert not notes.exists()
    talker.say(run, THIRD)
    talker.say(run, WHICH)
    seen = talker.heard(WHICH)
    assert FIRST in seen.all_text
    assert THIRD in seen.all_text
    assert SECOND not in seen.all_text
    strategy = talker.events(run, "conversation.attached")[-1]["rung"]
    assert strategy == ("session/fork" if talker.agent in COPIES_AT_A_MESSAGE else "history injection")
