"""Trials one after the other, each in a place of its own, held against the run that nobody disturbed."""

import os
import random
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from tests.support.crash_suite.judge import Done, Work, attempts_in, different
from tests.support.crash_suite.projections import must_have_projections_as_rendered
from tests.support.crash_suite.scenarios import Scenario
from tests.support.crash_suite.trial import FAULTS, MOST, RECORD, Trial, play
from tests.support.crash_suite.trial_place import Passed, Place, make_template
from tests.support.crash_suite.warm_programs import Nursery


class NotReached(Exception):
    """Nobody came by where somebody was to be killed: so it shows nothing."""


class Undisturbed(NamedTuple):
    end: dict[str, Any]
    passed: list[list[Passed]]  # of each session
    log: bytes
    work: dict[str, Work]
    late: set[str]  # tasks that begin when others are merged

    @property
    def sessions(self) -> list[list[str]]:
        """The points of each, with their numbers."""
        return [numbered(passed) for passed in self.passed]

    @property
    def passes(self) -> list[str]:
        """Of the first session."""
        return numbered(self.passed[0])

    @property
    def of_runner(self) -> list[str]:
        """Of these, what the runner itself came by."""
        return of_first(self.passed[0])

    def named(self, *names: str) -> list[str]:
        return [failpoint for failpoint in self.passes if failpoint.rpartition(":")[0] in names]

    def one_of_each(self, dice: random.Random) -> list[str]:
        return one_of_each(self.passes, dice)


class FailpointSuite:
    """Where the trials of a scenario are held."""

    def __init__(self, folder: str, scenario: Scenario, nursery: Nursery) -> None:
        self._folder = os.path.join(folder, scenario.name)
        self._scenario = scenario
        self._nursery = nursery
        self._count = 0
        self._known: Undisturbed | None = None
        self._after: dict[tuple[str, ...], list[Passed]] = {}

    @cached_property
    def _template(self) -> str:
        template = os.path.join(self._folder, "template")
        os.makedirs(template)
        make_template(template)
        return template

    def place(self) -> Place:
        self._count += 1
        place = Place(os.path.join(self._folder, str(self._count)), self._scenario, self._nursery)
        place.make(self._template)
        return place

    async def undisturbed(self) -> Undisturbed:
        if self._known is None:
            place = self.place()
            trial = play(place, *[RECORD] * MOST)
            done = await Done.look(place)
            done.must_hold()
            passed = [place.passes(f"passes-{number}") for number in range(len(trial.ended))]
            self._known = Undisturbed(done.end(), passed, done.data, done.work(), done.begun_late())
            place.remove()
        return self._known

    def passed_after(self, *failpoints: str) -> list[str]:
        """The points of the session that comes back from these deaths, each with its number."""
        return numbered(self._after_these(*failpoints))

    def of_runner_after(self, *failpoints: str) -> list[str]:
        """Of these, what the runner itself came by."""
        return of_first(self._after_these(*failpoints))

    def _after_these(self, *failpoints: str) -> list[Passed]:
        if failpoints not in self._after:
            place = self.place()
            play(place, *failpoints, RECORD)
            self._after[failpoints] = place.passes(f"passes-{len(failpoints)}")
            place.remove()
        return self._after[failpoints]

    async def survives(self, *failpoints: str | None) -> Trial:
        """Kill there, resume until it is done, and see that all is as if nothing had been. `NotReached` is no proof."""
        place = self.place()
        trial = play(place, *failpoints)
        if not trial.struck:
            place.remove()
            raise NotReached(f"nobody came by at {failpoints}\n{trial}")
        on_a_good_disk = not any(failpoint is not None and failpoint.endswith(FAULTS) for failpoint in failpoints)
        told = f"killed at {failpoints}, it ends otherwise\n{trial}"
        await self.must_end_alike(place, told, readable=on_a_good_disk, later=not on_a_good_disk)
        return trial

    async def must_end_alike(self, place: Place, told: str, *, readable: bool = False, later: bool = False) -> None:
        """As the undisturbed run, also in what is `readable` beside its log; then the place is not needed any more.

        `later` is for what failed and is tried again: a task may have begun when others of its wave were merged. Who
        has seen those has no conflict with them, and may write over them: then only what became of the tasks is the
        same.
        """
        known = await self.undisturbed()
        expected, done = known.end, await Done.look(place)
        if later and done.begun_late() - known.late:
            done.must_be_sound()
            wrong = different(task_outcomes(done.end()), task_outcomes(expected))
        else:
            done.must_hold()
            wrong = different(*map(beside_main, (done.end(), expected))) if later else different(done.end(), expected)
        if readable:
            must_have_projections_as_rendered(place.home, place.run_id, done.state)
        assert not wrong, f"{told}\n{wrong}"
        place.remove()


def task_outcomes(end: Mapping[str, Any]) -> dict[str, Any]:
    """What each task came to, and in how many attempts."""
    attempts = attempts_in(end)
    return {name: (status, error, attempts[name]) for name, (status, error, _) in end["tasks"].items()}


def beside_main(end: Mapping[str, Any]) -> dict[str, Any]:
    """Of the branches of tasks, what the run's own has not: that they have of it depends on when they began."""
    own = {}
    for what in ("history", "files"):
        main, tasks = end[what]["main"], {name: found for name, found in end[what].items() if name != "main"}
        own[what] = {"main": main, **{name: _without(found, main) for name, found in tasks.items()}}
    return {**end, **own}


def _without(found: Any, main: Any) -> Any:
    """Subjects of commits, or files by their names."""
    if isinstance(found, dict):
        return {name: content for name, content in found.items() if name not in main}
    return [subject for subject in found if subject not in main]


FailpointSuites = Callable[[str], FailpointSuite]  # what the fixture gives: the suite of a scenario


def numbered(passed: list[Passed]) -> list[str]:
    count = Counter[str]()
    found = []
    for one in passed:
        count[one.point] += 1
        found.append(f"{one.point}:{count[one.point]}")
    return found


def of_first(passed: list[Passed]) -> list[str]:
    """What the runner came by, with the numbers that others count too: it was the first."""
    return [failpoint for failpoint, one in zip(numbered(passed), passed, strict=True) if one.pid == passed[0].pid]


def one_of_each(failpoints: list[str], dice: random.Random) -> list[str]:
    """For each point that is passed, one of its passes; not the last of many, which not every run comes to."""
    passes: dict[str, list[str]] = {}
    for failpoint in failpoints:
        passes.setdefault(failpoint.rpartition(":")[0], []).append(failpoint)
    return [dice.choice(of_one[: max(3, len(of_one) * 3 // 4)]) for of_one in passes.values()]
