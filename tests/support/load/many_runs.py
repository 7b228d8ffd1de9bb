"""Many runs at once, for so long; those that are done make room for others, and at the end all are done."""

import asyncio
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

from tests.support.crash_suite.scenarios import CASE, SCENARIOS, Scenario
from tests.support.crash_suite.trial_log import Lived
from tests.support.crash_suite.trial_place import Place
from tests.support.crash_suite.warm_programs import Nursery
from tests.support.load.one_run import WORDS, Life
from tests.support.load.resources import Held

NAMES = ("solo", "loop", "waves", "solo", "pipeline", "loop", "again", "waves")
_SHARED = 3  # of so many runs, one is in a repository of its own
_HEARING = ("solo", "loop", "waves")


def hearing(scenario: Scenario) -> Scenario:
    """Agents who know what to do when somebody conversations to them in between."""
    report = [] if scenario.workflow == "solo" else [CASE]
    heard = {"when": rf"(?s)\A\s*{WORDS}", "steps": [{"say": "I mind it."}, *report]}
    return scenario._replace(turns=[*scenario.turns, heard])


class Load(NamedTuple):
    seed: int
    at_once: int
    seconds: float
    pace: float
    spent: float = 0.0  # by a load that was cut off
    first: int = 0
    names: Sequence[str] = NAMES


@dataclass
class Crowd:
    folder: str
    template: str
    nursery: Nursery
    load: Load
    undisturbed: Mapping[str, Mapping[str, Any]]  # how each scenario ends when nobody is killed
    add: Callable[[Lived], None]
    lived: list[Lived] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)  # by runners at work

    async def live(self) -> list[Lived]:
        """All of it; each run that came to its end is looked at."""
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2 * self.load.at_once))
        self._begun = time.monotonic()
        self._numbers = count(self.load.first)
        async with asyncio.TaskGroup() as group:
            for _ in range(self.load.at_once):
                group.create_task(self._one_after_the_other())
        return self.lived

    def _seconds(self) -> float:
        return self.load.spent + time.monotonic() - self._begun

    def _is_peace(self) -> bool:
        return self._seconds() >= self.load.seconds

    async def _one_after_the_other(self) -> None:
        await self._life(next(self._numbers))
        while not self._is_peace():
            await self._life(next(self._numbers))

    async def _life(self, number: int) -> None:
        dice = random.Random(f"{self.load.seed} {number}")
        name = self.load.names[number % len(self.load.names)]
        hears = name in _HEARING and dice.random() < 0.5
        place = self._place(number, SCENARIOS[name], hears=hears)
        life = Life(place, dice, self.load.pace, hears, self._is_peace, self.held.append)
        problem = None
        try:
            await life.lived()
            await asyncio.to_thread(asyncio.run, life.must_have_ended_as(self.undisturbed[name]))
        except AssertionError as error:
            problem = str(error)[:3000]
        told = Lived(
            self.load.seed,
            number,
            name,
            life.kills,
            len(life.sessions),
            life.messages,
            self.load.at_once,
            round(self._seconds(), 1),
            problem,
        )
        self.lived.append(told)
        self.add(told)
        if problem is None and not life.place.is_shared:
            life.place.remove()

    def _place(self, number: int, scenario: Scenario, *, hears: bool) -> Place:
        """Two of three are in one repository with others."""
        alone = number % _SHARED == 0
        place = Place(
            os.path.join(self.folder, str(number)),
            hearing(scenario) if hears else scenario,
            self.nursery,
            repo=None if alone else os.path.join(self.folder, f"shared-{number % 4}"),
            home=os.path.join(self.folder, "home"),
            name=f"load-{number}",
        )
        place.make(self.template)
        return place
