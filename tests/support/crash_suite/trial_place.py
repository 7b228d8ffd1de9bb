"""A user's repository and a home for one run of a scenario, as cheap to make as a copy."""

import json
import os
import shutil
import subprocess
from contextlib import AbstractContextManager, suppress
from typing import NamedTuple

from holdfast.core.decide.tasks import was_interrupted
from holdfast.core.end_reason import EndReason
from holdfast.core.log.chain import has_more_to_come
from holdfast.core.state import RunState
from holdfast.core.task_state import TaskStage
from holdfast.leaf.errors import RunOwned
from tests.support.crash_suite.program import FAILPOINT, FAILPOINT_FILE
from tests.support.crash_suite.remote_services import NOBODY, Outside
from tests.support.crash_suite.scenarios import BEGIN, Scenario
from tests.support.crash_suite.warm_programs import Born, Ended, Nursery
from tests.support.logs import fold_of
from tests.support.repositories import put

_FORKED = "forked"  # the name that scenarios give to a fork


class Passed(NamedTuple):
    """A point, and the process that came by."""

    point: str
    pid: int


class Place:
    """`repo` and `home` may be those of others too; then `name` tells which run is meant."""

    def __init__(
        self,
        folder: str,
        scenario: Scenario,
        nursery: Nursery,
        *,
        repo: str | None = None,
        home: str | None = None,
        name: str = "trial",
    ) -> None:
        self.folder = folder
        self.scenario = scenario
        self.name = name
        self.is_shared = repo is not None or any(command[0] == "fork" for command in scenario.then)
        self.repo = repo or os.path.join(folder, "repo")
        self.home = home or os.path.join(folder, "home")
        self.outside = Outside(folder, self.repo)
        self._nursery = nursery
        self._plan = os.path.join(folder, "plan.json")
        self._book = os.path.join(folder, "book.json")

    def make(self, template: str) -> None:
        for path in (self.folder, self.home):
            os.makedirs(path, exist_ok=True)
        if not os.path.exists(self.repo):
            shutil.copytree(template, self.repo)
            if self.scenario.publishes:
                self.outside.make()
        self.write()

    def write(self) -> None:
        """What is to be done, and what the agents do."""
        tasks = self.scenario.goal
        put(self.folder, {"book.json": self.scenario.book, "plan.json": json.dumps({"tasks": tasks})})

    def begin(self, failpoint: str | None = None, passes: str = "passes", **world: str) -> Ended:
        """`holdfast run`, from nothing; or `plan` and `send` before it, when somebody has something to say."""
        if self.scenario.words is None:
            return self.call(*self.beginning(), failpoint=failpoint, passes=passes, **world)
        _, *how = self.beginning()
        assert self.call("plan", *how[:-1]).code == 0
        assert self.call("send", self.run_id, self.scenario.words).code == 0
        return self.resume(failpoint, passes, **world)

    def beginning(self) -> list[str]:
        goal = self.scenario.goal if isinstance(self.scenario.goal, str) else self._plan
        wanted = (*self.scenario.settings, "disk.reserve=0")  # disks are filled to the last page
        settings = [part for pair in wanted for part in ("--set", pair)]
        phases = [part for name in self.scenario.wanted for part in ("--with", name)]
        how = ("--workflow", self.scenario.workflow, *self._agent(), *settings, *phases)
        return ["run", goal, *how, "--name", self.name, "--quiet"]

    def _agent(self) -> list[str]:
        if self.scenario.model is None:
            return ["--agent", f"playbook:{self._book}"]
        assert self._nursery.model is not None, "a nursery with a model"
        model = ["--model", "openai:scripted", "--base-url", self._nursery.model, "--mode", "code"]
        own = [self._nursery.stand_in, "-m", "holdfast", "agent", "builtin", *model]
        return ["--agent", "builtin", "--set", f"agents.builtin.command={json.dumps(own)}"]

    def resume(self, failpoint: str | None = None, passes: str = "passes", **world: str) -> Ended:
        return self.call(*self.going_on(), failpoint=failpoint, passes=passes, **world)

    def going_on(self) -> list[str]:
        return ["resume", self.run_id, "--on-issue", self.scenario.on_issue, "--quiet"]

    # What a person does with a run that is done

    def has_done_the_rest(self) -> bool:
        """Whether every command was given, and what it left to do is done."""
        return not self.scenario.then or (self._commands_given() == len(self.scenario.then) and self._is_done())

    def next_command(self) -> tuple[str, ...] | None:
        given = self._commands_given() if self.scenario.then else 0
        return self.scenario.then[given] if given < len(self.scenario.then) and self._is_done() else None

    def do_more(self, failpoint: str | None = None, passes: str = "passes", **world: str) -> Ended:
        what, *how = self.next_command() or ("show",)
        return self.call(what, self.run_id, *how, failpoint=failpoint, passes=passes, **world)

    def _commands_given(self) -> int:
        """Those that happened, whoever was killed: a rewind that is in the log, a fork that has its past."""
        return self._log().count(b'"type":"run.rewound"') + len(self.runs(_FORKED))

    def _is_done(self) -> bool:
        session = self._state().newest_session()
        return session is not None and session.ended and session.end_reason == EndReason.ALL_DONE

    # A chat

    def has_more_to_say(self) -> bool:
        """Whether the person of a chat has something to say, or the chat waits for a runner."""
        if not self.scenario.chat:
            return False
        return self._next_words() is not None or self._has_undelivered() or self._is_cut_off()

    def say_more(self, failpoint: str | None = None, passes: str = "passes", **world: str) -> Ended:
        """The next message, whose sender starts a runner; then wait until that has ended.

        A message that is in the inbox is not sent again, whatever became of its sender.
        """
        words = self._next_words()
        if words is None:
            ended = self.resume(failpoint, passes, **world)
            if ended.code == RunOwned.exit_code:  # by the runner that a killed sender had started
                self.call("wait", self.run_id)
                ended = self.resume(failpoint, passes, **world)
            return ended
        what, *rest = words
        ended = self.call(what, self.run_id, *rest, failpoint=failpoint, passes=passes, **world)
        self.call("wait", self.run_id)
        return ended

    def _next_words(self) -> tuple[str, ...] | None:
        """An interrupted turn waits for its user, who lets it go on before anything else is said."""
        if self._has_undelivered():
            return None
        said, state = self._said(), self._state()
        if any(was_interrupted(one) for one in state.conversations.values()):
            return ("send", f"Please go on ({len(said)}).")
        left = list(self.scenario.chat)
        for one in said:
            if left and one == left[0]:
                left.pop(0)
        return left[0] if left else None

    def _has_undelivered(self) -> bool:
        state = self._state()
        accepting = any(task.stage is not TaskStage.WORK for task in state.tasks.values())
        return bool(state.messages) or state.inbox_consumed < len(self._said()) or accepting

    def _is_cut_off(self) -> bool:
        """Whether the runner died after it had done everything: the next start repairs its log."""
        session = self._state().newest_session()
        return session is not None and not session.ended

    def _said(self) -> list[tuple[str, ...]]:
        with open(self.of_run("inbox.jsonl"), "rb") as inbox:
            messages = [json.loads(line)["data"] for line in inbox.read().split(b"\n")[:-1] if line]
        people = [one for one in messages if one["kind"] in ("user", "accept")]
        return [("accept",) if one["kind"] == "accept" else ("send", one["body"]["text"]) for one in people]

    def _state(self) -> RunState:
        return fold_of(self._log()).state

    def _log(self) -> bytes:
        """Without a call of which only a part is there: it did not happen."""
        return b"".join(line + b"\n" for line in _whole_calls(self.of_run("events.jsonl")))

    def answer(self, ended: Ended) -> None:
        """A person says what is to be said to what the run asks now: how often it has asked, its log knows."""
        with open(os.path.join(self.home, "runs", self.run_id, "events.jsonl"), "rb") as log:
            asked = log.read().count(b'"type":"approval.requested"')
        assert 0 < asked <= len(self.scenario.answers), f"it waits, and nobody has an answer: {ended.err}"
        what, *words = self.scenario.answers[asked - 1]
        ended = self.call(what, self.run_id, *words)
        assert ended.code == 0, ended.err

    def call(self, *arguments: str, failpoint: str | None = None, passes: str = "passes", **world: str) -> Ended:
        """`world` is the one that it lives in: its clock, its rights, its room."""
        environment = {**self._environment(), **world}
        if failpoint is not None:
            file = os.path.join(self.folder, passes)
            with open(file, "ab"):
                environment |= {FAILPOINT: failpoint, FAILPOINT_FILE: file}
        return self._nursery.run(list(arguments), self.repo, environment)

    def start(self, *arguments: str) -> AbstractContextManager[Born]:
        return self._nursery.start(list(arguments), self.repo, self._environment())

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": self.folder,
            "LC_ALL": "C.UTF-8",
            "HOLDFAST_HOME": self.home,
            "HOLDFAST_PLAYBOOK_STATE": os.path.join(self.folder, "memory"),
            **NOBODY,
            **(self.outside.gh.environment if self.scenario.publishes else {}),
        }

    def passes(self, name: str = "passes") -> list[Passed]:
        """The points that were passed, in their order."""
        with open(os.path.join(self.folder, name), encoding="utf-8") as file:
            return [Passed(point, int(pid)) for point, pid in (line.split() for line in file)]

    def of_run(self, *names: str) -> str:
        """A place in the run's own folder."""
        return os.path.join(self.home, "runs", self.run_id, *names)

    @property
    def run_id(self) -> str:
        """The run that it is about: the fork, once there is one."""
        (only,) = self.runs(_FORKED) or self.runs()
        return only

    def runs(self, name: str | None = None) -> list[str]:
        """Those that can be resumed: whoever is killed before a run has its plan begins anew."""
        runs = os.path.join(self.home, "runs")
        names = os.listdir(runs) if os.path.isdir(runs) else []
        ours = [each for each in names if each.startswith(f"{name or self.name}-")]
        return [each for each in ours if _is_planned(os.path.join(runs, each, "events.jsonl"))]

    def git(self, *arguments: str) -> str:
        environment = {**os.environ, **NOBODY}
        done = subprocess.run(
            ["git", *arguments], cwd=self.repo, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def _is_planned(path: str) -> bool:
    """It has its plan, or a workflow in which one is made; not in a call of which only a part is there."""
    with suppress(FileNotFoundError):
        lines = _whole_calls(path)
        return any(b'"type":"plan.created"' in line or b'"type":"workflow.chosen"' in line for line in lines)
    return False


def _whole_calls(path: str) -> list[bytes]:
    with open(path, "rb") as file:
        lines = file.read().split(b"\n")[:-1]
    while lines and has_more_to_come(lines[-1]):
        lines.pop()
    return lines


def make_template(folder: str) -> None:
    """The repository that every place begins with."""
    put(folder, BEGIN)

    def git(*arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=folder, env={**os.environ, **NOBODY}, check=True, capture_output=True)

    git("init", "--quiet", "--initial-branch=main", "--template=")
    git("config", "user.name", "Ada")
    git("config", "user.email", "ada@example.com")
    git("add", "--all")
    git("commit", "--quiet", "--message=Begin")
