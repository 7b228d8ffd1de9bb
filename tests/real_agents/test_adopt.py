"""Sessions that the real Claude Code and Codex made by themselves continue as runs, with what was said in them.

What proves it is not what the agent says, but what its model was sent.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cli.foreign_sessions import fingerprint
from tests.real_agents.conftest import AGENTS
from tests.real_agents.setups import SETUPS
from tests.real_agents.stage import DREAM, PATIENCE, WORDS, WRITE
from tests.real_agents.users import make_user
from tests.support.model_server.script import Answer, Rule, Script
from tests.support.model_server.seen import Seen
from tests.support.model_server.server import ModelServer

pytestmark = [pytest.mark.real_agents, pytest.mark.timeout(480)]

WHICH = "Which words did I tell you?"
_CLI = {
    "claude": (["claude", "--permission-mode", "bypassPermissions", "-p"], ["--continue"]),
    "codex": (["codex", "exec", "--dangerously-bypass-approvals-and-sandbox"], ["resume", "--last"]),
}


class Person(NamedTuple):
    """Someone who uses the agent's own command line, and then Holdfast."""

    name: str
    model: ModelServer
    folder: Path
    environment: dict[str, str]

    @property
    def repo(self) -> Path:
        return self.folder / "project"

    @property
    def sessions(self) -> Path:
        return self.folder / "agent-home" / f".{self.name}" / ("projects" if self.name == "claude" else "sessions")

    def start(self, prompt: str, *, again: bool = False) -> subprocess.Popen[bytes]:
        command, continued = _CLI[self.name]
        options = continued if again else []
        return subprocess.Popen(
            [*command, *options, prompt],
            cwd=self.repo,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    def holdfast(self, *arguments: str) -> list[Any]:
        command = [sys.executable, "-m", "holdfast", *arguments, "--json"]
        ended = subprocess.run(command, cwd=self.repo, env=self.environment, capture_output=True, check=False)
        assert ended.returncode == 0, ended.stderr.decode()
        return [json.loads(line) for line in ended.stdout.splitlines()]

    def session(self) -> Path:
        (path,) = [path for path in self.sessions.rglob("*.jsonl") if "subagents" not in path.parts]
        return path

    def events(self, run: str, kind: str) -> list[Any]:
        return [line["data"] for line in self.holdfast("logs", run, "--type", kind)]


@pytest.fixture(params=[name for name in AGENTS if name in _CLI])
def person(request: pytest.FixtureRequest, model: ModelServer, tmp_path: Path) -> Person:
    found = Person(request.param, model, tmp_path, make_user(request.param, model, tmp_path))
    edit = SETUPS[request.param].edit(str(found.repo / "notes.txt"), "kelp-0000aa")
    model.play(
        Script(
            [
                Rule(Answer(recall=WORDS), user="Which words"),
                Rule(Answer(tools=[edit]), user=WRITE, times=1),
                Rule(Answer(text="It is written."), user=WRITE),
                Rule(Answer(text="I dream of it. " * 20, after=8, hang=True), user=DREAM, times=1),
                Rule(Answer(text="I go on.")),
            ]
        )
    )
    return found


def must_be_in_a_copy(person: Person, run: str) -> None:
    (attached,) = person.events(run, "conversation.attached")
    assert attached["notice"] == "continued in a copy of the agent's own session (session/fork)"


def must_know_what_was_said(seen: Seen) -> None:
    assert WRITE in seen.all_text
    assert "It is written." in seen.all_text


def test_session_that_ended_waits_for_its_user_and_answers_from_memory(person: Person) -> None:
    assert person.start(WRITE).wait(PATIENCE) == 0
    assert (person.repo / "notes.txt").read_text() == "kelp-0000aa"
    before = fingerprint(person.sessions)
    (found,) = person.holdfast("adopt", str(person.session()), "--allow", "allow-all")
    assert (found["tool"].partition("-")[0], found["state"]) == (person.name, "waiting for its user")
    assert fingerprint(person.sessions) == before
    original = person.session()
    person.holdfast("send", found["run"], WHICH)
    while len(person.events(found["run"], "turn.ended")) < 2:  # the adopted turn, and this one
        pass
    person.holdfast("stop", found["run"])
    must_know_what_was_said(next(seen for seen in reversed(person.model.requests) if WHICH in seen.last_user))
    said = [event["text"] for event in person.events(found["run"], "message.recorded") if event["speaker"] == "agent"]
    assert "kelp-0000aa" in said[-1]
    assert original.read_bytes() == before[str(original)][0]
    must_be_in_a_copy(person, found["run"])


def test_calls_at_once_have_their_results(person: Person) -> None:
    """Claude Code writes each result as a branch of its own."""
    names = ("one.txt", "two.txt", "three.txt")
    edits = [SETUPS[person.name].edit(str(person.repo / name), name) for name in names]
    written = Rule(Answer(text="It is written."), user=WRITE)
    person.model.play(Script([Rule(Answer(tools=edits), user=WRITE, times=1), written]))
    assert person.start(WRITE).wait(PATIENCE) == 0
    assert all((person.repo / name).exists() for name in names)
    (found,) = person.holdfast("adopt", str(person.session()), "--allow", "allow-all")
    assert found["state"] == "waiting for its user"
    assert [event["status"] for event in person.events(found["run"], "tool.returned")] == ["completed"] * 3
    assert found["spent"]["tokens"] > 0
    assert (found["spent"]["dollars"] is not None) == (person.name == "claude")


def test_session_that_was_killed_in_a_turn_continues_it(person: Person) -> None:
    assert person.start(WRITE).wait(PATIENCE) == 0
    process = person.start(DREAM, again=True)
    while not any(DREAM in seen.last_user for seen in person.model.requests):
        assert process.poll() is None
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    (found,) = person.holdfast("adopt", str(person.session()), "--allow", "allow-all")
    assert found["state"] == "interrupted"
    asked = len(person.model.requests)
    person.holdfast("resume", found["run"])
    (first, *_) = [seen for seen in person.model.requests[asked:] if not seen.side]
    must_know_what_was_said(first)
    assert DREAM in first.all_text
    must_be_in_a_copy(person, found["run"])
