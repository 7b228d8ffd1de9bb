"""SIGKILL at each pass of each of its points, and again while it comes back: what was saved is told to the model once.

Nothing is done twice, nothing that was done is forgotten, and no call is said to be unrun that had its effect.
"""

import os
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from acp.schema import McpServerStdio

from holdfast.agents.builtin.conversation import IN_FLIGHT, NOT_STARTED
from holdfast.leaf.crashing import FILE, RECORD, WHAT
from tests.agents.builtin.driving import Bench
from tests.support.model_server.script import Answer, Rule, Script, ToolUse
from tests.support.model_server.seen import Seen
from tests.support.model_server.server import ModelServer

_DEEDS = {  # each adds a line to a file
    "call-edit": ToolUse("edit", {"path": "edited.txt", "old": "end", "new": "edited\nend"}, id="call-edit"),
    "call-bash": ToolUse("bash", {"command": "echo ran >> ran.txt"}, id="call-bash"),
    "call-mcp": ToolUse("mcp__quick__note", {}, id="call-mcp"),
}
_LINES = {"call-edit": ("edited.txt", "edited"), "call-bash": ("ran.txt", "ran"), "call-mcp": ("noted.txt", "noted")}
_ANSWERS = {"call-edit": "edited edited.txt", "call-bash": "[no output]", "call-mcp": "it is noted"}
_SCRIPT = Script(
    [
        Rule(Answer(text="I see where we were."), user="go on"),
        Rule(Answer(text="Both.", tools=[_DEEDS["call-edit"], _DEEDS["call-bash"]]), times=1),
        Rule(Answer(tools=[_DEEDS["call-mcp"]]), times=1),
        Rule(Answer(text="It is done.")),
    ]
)
_SERVER = os.path.join(os.path.dirname(__file__), "quick_mcp_server.py")
POINTS = (
    "builtin.save.before",
    "builtin.save.after",
    "builtin.ask",
    "builtin.shell",
    "builtin.mcp",
    "builtin.mcp.spawn",
    "file.replace",
    pytest.param("builtin.save.torn", marks=pytest.mark.torture),
)


class Life:
    """One conversation, in one process after the other, each but the last under a doom."""

    def __init__(self, bench: Bench, model: ModelServer) -> None:
        os.mkdir(bench.cwd)
        Path(bench.cwd, "edited.txt").write_text("end\n", encoding="utf-8")
        self._bench = bench
        self._model = model
        self._deaths: list[Path] = []
        self.session: str | None = None
        self.told: list[Seen] = []  # what the model had seen of it when the last one died
        model.play(_SCRIPT)

    async def sit(self, doom: str) -> list[str]:
        """The points that it came by."""
        passes = Path(f"{self._bench.cwd}-passes-{len(self._deaths)}")
        passes.touch()
        self.told = self._model.requests
        variables: dict[str, Any] = {WHAT: doom, FILE: str(passes)}
        server = McpServerStdio(name="quick", command=sys.executable, args=["-IS", _SERVER], env=[])
        async with self._bench.agent(self._model, "openai", "--mode", "code", **variables) as agent:
            with suppress(ConnectionError):
                if self.session is None:
                    self.session = await agent.start([server])
                else:
                    await agent.come_back(self.session, "resume")
                stopped = await agent.say(self.session, "go on" if self._deaths else "do the work")
                assert stopped.stop_reason == "end_turn"
        self._deaths.append(passes)
        return [line.split()[0] for line in passes.read_text().splitlines()]

    @property
    def kept(self) -> Counter[str]:
        """What the session's file has of each kind of part, and its `lines`."""
        found = self._bench.kept(self.session) if self.session else []
        return Counter(kind for record in found for kind in ("lines", *record))

    @property
    def saves(self) -> int:
        return sum(passes.read_text().count("builtin.save.after ") for passes in self._deaths)

    def must_be_whole(self, kept: Counter[str]) -> None:
        """What the model was asked at last, against what was `kept` until then, what it was told, and the world."""
        last = self._model.requests[-1]
        said = "\n".join(last.users)
        assert said.count("do the work") + said.count("go on") == kept["user-prompt"] + 1
        assert said.count("do the work") <= 1
        assert len(last.assistants) == kept["text"]
        assert [call.id for call in last.calls] == [*_DEEDS][: kept["tool-call"]]
        assert [result.id for result in last.results] == [call.id for call in last.calls]
        for earlier in self.told:
            assert last.assistants[: len(earlier.assistants)] == earlier.assistants
            assert last.results[: len(earlier.results)] == earlier.results
        results = {result.id: result.text for result in last.results}
        assert sum(text in _ANSWERS.values() for text in results.values()) + self._settled(kept, results) == len(
            results
        )
        for call in _DEEDS:
            self._must_be_true(call, results.get(call, NOT_STARTED))

    def _settled(self, kept: Counter[str], results: dict[str, str]) -> int:
        """How many calls are said to be cut off; those whose results were kept are none of them."""
        cut_off = [text for text in results.values() if text in (IN_FLIGHT, NOT_STARTED)]
        if len(self._deaths) == 2:  # after more, some of what was kept may say just that
            assert len(cut_off) == kept["tool-call"] - kept["tool-return"]
        return len(cut_off)

    def _must_be_true(self, call: str, result: str) -> None:
        name, line = _LINES[call]
        file = Path(self._bench.cwd, name)
        times = file.read_text(encoding="utf-8").splitlines().count(line) if file.exists() else 0
        assert times in {IN_FLIGHT: (0, 1), NOT_STARTED: (0,)}.get(result, (1,)), f"{call}: {times} times, but {result}"


async def held(bench: Bench, model: ModelServer, *dooms: str) -> None:
    life = Life(bench, model)
    for doom in dooms:
        passed = await life.sit(doom)
        name, number = doom.split(":")
        assert passed.count(name) == int(number), f"nobody came by at {doom}"
    kept = life.kept
    assert life.session is None or kept["lines"] == life.saves, "saved, and not there"
    lost = life.saves - kept["lines"]  # of a session of which nobody was told
    await life.sit(RECORD)
    life.must_be_whole(kept)
    assert life.kept["lines"] == life.saves - lost, "what was torn spoils what comes after it"


def each(passed: list[str], point: str = "") -> list[str]:
    """The passes of one point, by its name or that of its family, or of all."""
    count = Counter(name for name in passed if point in ("", name, name.rpartition(".")[0]))
    return [f"{name}:{number}" for name, times in count.items() for number in range(1, times + 1)]


@pytest.mark.parametrize("point", POINTS)
async def test_killed_at_each_pass_of_a_point_it_goes_on_from_what_was_saved(
    bench: Bench, model: ModelServer, point: str
) -> None:
    dooms = each(await Life(replace(bench, cwd=f"{bench.cwd}-whole"), model).sit(RECORD), point)
    assert dooms
    for doom in dooms:
        await held(replace(bench, cwd=f"{bench.cwd}-{doom}"), model, doom)


async def test_killed_again_over_the_half_of_a_line_it_goes_on_from_what_was_saved(
    bench: Bench, model: ModelServer
) -> None:
    for doom in ("builtin.repair.before:1", "builtin.repair.after:1"):
        await held(replace(bench, cwd=f"{bench.cwd}-{doom}"), model, "builtin.save.torn:7", doom)


@pytest.mark.torture
@pytest.mark.parametrize("first", ["builtin.shell.after:1", "builtin.save.torn:7"])
async def test_killed_again_wherever_it_comes_by_it_goes_on_from_what_was_saved(
    bench: Bench, model: ModelServer, first: str
) -> None:
    life = Life(replace(bench, cwd=f"{bench.cwd}-whole"), model)
    await life.sit(first)
    for doom in each(await life.sit(RECORD)):
        await held(replace(bench, cwd=f"{bench.cwd}-{doom}"), model, first, doom)
