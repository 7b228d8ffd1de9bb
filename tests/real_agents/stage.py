"""A real agent in a real conversation: on a home of its own, with the scripted model as its only correspondent."""

import asyncio
import os
import signal
import subprocess
import time
from typing import NamedTuple

from holdfast.agents.acp.driver import Deadlines
from holdfast.core.conversation.permission import PermissionConfig, Policy
from tests.real_agents.setups import SETUPS, Setup
from tests.support.conversations import Place, Report
from tests.support.model_server.script import Answer, Rule, Script
from tests.support.model_server.seen import Seen
from tests.support.model_server.server import ModelServer

WILLING = PermissionConfig(Policy.ALLOW_ALL)
PATIENT = Deadlines(start=60, session=60, silence=100)
PATIENCE = 120.0  # seconds after which a test that waits is a test that fails
WORDS = "kelp-[0-9a-f]{6}"

# What is said, and what the model makes of it. Each is a part of the prompt by which the model knows it.
WRITE = "Write this word down: kelp-0000aa"
DREAM = "Dream of this word: kelp-0000bb"
RUN = "Run the command for this word: kelp-0000cc"
WHICH = "Which words did I tell you?"
WENT_ON = "Your last turn was interrupted"


class Stage(NamedTuple):
    name: str
    setup: Setup
    model: ModelServer
    place: Place

    @classmethod
    async def make(cls, name: str, model: ModelServer, folder: str) -> "Stage":
        setup = SETUPS[name]
        home = os.path.join(folder, "agent-home")
        os.makedirs(home)
        place = await Place.make(folder, {name: setup.entry(name, home, model.address)})
        subprocess.run(["git", "init", "--quiet", place.cwd], check=True)
        stage = cls(name, setup, model, place)
        model.play(stage._script())
        return stage

    def file(self, name: str) -> str:
        return os.path.join(self.place.cwd, name)

    def content(self, name: str) -> str:
        with open(self.file(name), encoding="utf-8") as file:
            return file.read().strip()

    def kill_everything(self) -> None:
        """SIGKILL to every process of the agent, in no order."""
        for process in self.place.processes():
            os.kill(process.pid, signal.SIGKILL)

    async def grow_old(self) -> None:
        """Let the session be one that can be loaded."""
        if self.place.agents[self.name].by_the_minute:
            await asyncio.sleep(60 - time.time() % 60)

    def make_gates(self) -> None:
        """The command tells that it runs at the first, and waits at the second before it writes."""
        for gate in ("up", "go"):
            os.mkfifo(self.file(gate))

    async def command_runs(self) -> None:
        loop, runs = asyncio.get_running_loop(), asyncio.Event()
        gate = os.open(self.file("up"), os.O_RDONLY | os.O_NONBLOCK)
        loop.add_reader(gate, runs.set)
        try:
            await asyncio.wait_for(runs.wait(), PATIENCE)
        finally:
            loop.remove_reader(gate)
            os.close(gate)

    def is_anybody_at_the_gate(self) -> bool:
        """True when a command waits there; false proves that none does, for only a reader lets it be opened."""
        try:
            os.close(os.open(self.file("go"), os.O_WRONLY | os.O_NONBLOCK))
        except OSError:
            return False
        return True

    def heard(self, words: str) -> Seen:
        """The newest request of the model's in which the user says this last."""
        return [seen for seen in self.model.requests if words in seen.last_user][-1]

    def _script(self) -> Script:
        edit = self.setup.edit(self.file("notes.txt"), "kelp-0000aa")
        command = self.setup.shell("echo runs > up; read word < go; echo late > late.txt")
        return Script(
            [
                Rule(Answer(recall=WORDS), user=WHICH),
                Rule(Answer(text="I go on."), user=WENT_ON),
                Rule(Answer(tools=[edit]), user=WRITE, times=1),
                Rule(Answer(text="It is written."), user=WRITE),
                Rule(Answer(text="I dream of it, slowly and at length. " * 20, after=8, hang=True), user=DREAM),
                Rule(Answer(tools=[command]), user=RUN, times=1),
            ]
        )


def run_a_command_until_killed(report: Report, place: Place, agent: str) -> None:
    """A session with two turns, in the second of which a command waits at a gate."""

    async def run_conversation() -> None:
        async with place.session(consent=WILLING, deadlines=PATIENT) as (_, _, conversations):
            name = await conversations.open(agent)
            report(name)
            report((await conversations.send_prompt(name, WRITE, place.cwd)).reason)
            report((await conversations.send_prompt(name, RUN, place.cwd)).reason)

    asyncio.run(run_conversation())
