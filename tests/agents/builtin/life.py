"""A conversation with the built-in agent in which something is cut off, and what must be true of it afterwards.

Its turn edits a file, runs a command and calls an MCP tool, each of which adds a line to a file: so whatever the model
is told of them can be held against the world.
"""

import os
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from acp.schema import McpServerStdio

from holdfast.agents.builtin.conversation import IN_FLIGHT, NOT_STARTED
from holdfast.leaf.failpoints import FAILPOINT_FILE_VARIABLE, FAILPOINT_VARIABLE
from tests.agents.builtin.driving import Bench, Driven
from tests.support.model_server.script import Answer, Rule, Script, ToolUse
from tests.support.model_server.seen import Seen
from tests.support.model_server.server import ModelServer

_EDIT = ToolUse("edit", {"path": "edited.txt", "old": "end", "new": "edited\nend"}, id="call-edit")
_BASH = ToolUse("bash", {"command": "echo ran >> ran.txt"}, id="call-bash")
_MCP = ToolUse("mcp__quick__note", {}, id="call-mcp")
_LINES = {"call-edit": ("edited.txt", "edited"), "call-bash": ("ran.txt", "ran"), "call-mcp": ("noted.txt", "noted")}
_RESULTS = ("edited edited.txt", "[no output]", "it is noted")
_SCRIPT = Script(
    [
        Rule(Answer(text="I see where we were."), user="go on"),
        Rule(Answer(text="Both.", tools=[_EDIT, _BASH]), times=1),
        Rule(Answer(tools=[_MCP]), times=1),
        Rule(Answer(text="It is done.")),
    ]
)
_SERVER = os.path.join(os.path.dirname(__file__), "quick_mcp_server.py")


class Life:
    """One conversation, in one process after the other, each under a failpoint; `words` of the user begin each turn."""

    def __init__(self, bench: Bench, model: ModelServer, name: str) -> None:
        self._bench = replace(bench, cwd=f"{bench.cwd}-{name}")
        os.mkdir(self._bench.cwd)
        Path(self._bench.cwd, "edited.txt").write_text("end\n", encoding="utf-8")
        self._model = model
        self._passes: list[Path] = []
        self._open_in: Driven | None = None
        self._words: list[str] = []
        self.session: str | None = None
        self.told: list[Seen] = []  # what the model had seen when the user spoke last
        model.play(_SCRIPT)

    @asynccontextmanager
    async def agent(self, failpoint: str) -> AsyncIterator[Driven]:
        passes = Path(f"{self._bench.cwd}-passes-{len(self._passes)}")
        passes.touch()
        self._passes.append(passes)
        variables: dict[str, Any] = {FAILPOINT_VARIABLE: failpoint, FAILPOINT_FILE_VARIABLE: str(passes)}
        async with self._bench.agent(self._model, "openai", "--mode", "code", **variables) as agent:
            yield agent

    async def speak(self, agent: Driven) -> None:
        """One turn, after whatever it takes to have the conversation here."""
        self.told = self._model.requests
        self._words.append("go on" if self._words else "do the work")
        if self.session is None:
            server = McpServerStdio(name="quick", command=sys.executable, args=["-IS", _SERVER], env=[])
            self.session = await agent.start([server])
        elif self._open_in is not agent:
            await agent.come_back(self.session, "resume")
        self._open_in = agent
        assert (await agent.say(self.session, self._words[-1])).stop_reason == "end_turn"

    async def sit(self, failpoint: str) -> list[str]:
        """A process to its end; the points that it came by."""
        async with self.agent(failpoint) as agent:
            with suppress(ConnectionError):
                await self.speak(agent)
        return [line.split()[0] for line in self._passes[-1].read_text().splitlines()]

    @property
    def kept(self) -> Counter[str]:
        """What the session's file has of each kind of part, and its `lines`."""
        found = self._bench.kept(self.session) if self.session else []
        return Counter(kind for record in found for kind in ("lines", *record))

    @property
    def saves(self) -> int:
        return sum(passes.read_text().count("builtin.save.after ") for passes in self._passes)

    def must_be_whole(self, kept: Counter[str]) -> None:
        """What the model was asked last, against what was `kept` before, what it had been told, and the world."""
        last = self._model.requests[-1]
        said = "\n".join(last.users)
        assert said.count("do the work") + said.count("go on") == kept["user-prompt"] + 1
        assert said.count("do the work") <= 1
        assert len(last.assistants) == kept["text"]
        assert [call.id for call in last.calls] == [*_LINES][: kept["tool-call"]]
        assert [result.id for result in last.results] == [call.id for call in last.calls]
        for earlier in self.told:
            assert last.assistants[: len(earlier.assistants)] == earlier.assistants
            assert last.results[: len(earlier.results)] == earlier.results
        cut_off = [result for result in last.results if result.text in (IN_FLIGHT, NOT_STARTED)]
        assert len(cut_off) + sum(result.text in _RESULTS for result in last.results) == len(last.results)
        if len(self._words) == 2:  # later, some of what was kept may say that it was cut off
            assert len(cut_off) == kept["tool-call"] - kept["tool-return"]
        results = {result.id: result.text for result in last.results}
        for call in _LINES:
            self._must_be_true(call, results.get(call, NOT_STARTED))

    def _must_be_true(self, call: str, result: str) -> None:
        name, line = _LINES[call]
        file = Path(self._bench.cwd, name)
        times = file.read_text(encoding="utf-8").splitlines().count(line) if file.exists() else 0
        assert times in {IN_FLIGHT: (0, 1), NOT_STARTED: (0,)}.get(result, (1,)), f"{call}: {times} times, but {result}"


def each(passed: list[str], point: str = "") -> list[str]:
    """The passes of one point, by its name or that of its family, or of all."""
    count = Counter(name for name in passed if point in ("", name, name.rpartition(".")[0]))
    return [f"{name}:{number}" for name, times in count.items() for number in range(1, times + 1)]
