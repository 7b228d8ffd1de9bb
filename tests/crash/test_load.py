"""Many runs at once, their runners and agents killed at random: nothing is lost, and nothing is left behind.

`make torture` does it with HOLDFAST_LOAD_RUNS (100) for HOLDFAST_LOAD_SECONDS (600), by the dice of HOLDFAST_LOAD_SEED.
What became of each run is in `.torture/load.jsonl`: a load that is cut off goes on from there.
"""

import os
import subprocess
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

import pytest

from holdfast.core.events.session import SessionEnd
from holdfast.core.events.task import TaskCompleted
from holdfast.core.log.codec import Line
from holdfast.engine.home import Home
from holdfast.engine.queries.live.follow import Follower
from holdfast.leaf.process.env_markers import RUN_MARK, mark_of
from tests.support.crash_suite.leftover_processes import strays_in
from tests.support.crash_suite.scenarios import Scenario
from tests.support.crash_suite.suite import FailpointSuites
from tests.support.crash_suite.trial_log import LOAD, Finished, Lived, lives, shards
from tests.support.crash_suite.trial_place import Place, make_template
from tests.support.crash_suite.warm_programs import Nursery
from tests.support.load.many_runs import Crowd, Load
from tests.support.load.resources import Held, must_be_bounded

PACE = 0.15  # seconds between two kills, with all runs together: more than two cores can bring back gets nowhere

A_TASK = 30_000  # bytes that a runner may remember of each task


async def loaded(
    suites: FailpointSuites,
    nursery: Nursery,
    folder: str,
    load: Load,
    add: Callable[[Lived], None] = lambda _: None,
    at_its_end: Callable[[], None] = lambda: None,
) -> None:
    template = os.path.join(folder, "template")
    os.makedirs(template)
    make_template(template)

    undisturbed = {name: (await suites(name).undisturbed()).end for name in dict.fromkeys(load.names)}
    crowd = Crowd(folder, template, nursery, load, undisturbed, add)
    lived = await crowd.live()
    at_its_end()
    problems = [f"{one.number} ({one.scenario}): {one.problem}" for one in lived if one.problem is not None]
    assert not problems, "\n\n".join(problems)
    nothing_is_left(folder)
    must_be_bounded(crowd.held)
    assert sum(one.kills for one in lived) > 0


def nothing_is_left(folder: str) -> None:
    """Of all runs together: no process by whatever it is known, and no branch or worktree that is of none of them."""
    runs = set(os.listdir(os.path.join(folder, "home", "runs")))
    pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    assert not [pid for pid in pids if mark_of(pid, RUN_MARK) in runs]
    assert strays_in(os.path.join(folder, "home")) == []
    for repo in Path(folder).glob("shared-*"):
        refs = _git(repo, "for-each-ref", "--format=%(refname)", "refs/heads/holdfast", "refs/holdfast")
        assert {ref.split("/")[3] for ref in refs} <= runs
        assert not [line for line in _git(repo, "worktree", "list", "--porcelain") if line.startswith("prunable")]


def _git(repo: Path, *arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=repo, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


async def held_by_a_runner(warm: Nursery, folder: str, tasks: int) -> list[Held]:
    """What one runner holds whenever a task of it is done; each of its agents was killed once on the way."""
    names = [f"T-{number}" for number in range(tasks)]
    long = Scenario(
        name="long",
        workflow="solo",
        goal=[{"id": name, "title": f"Write {name}"} for name in names],
        turns=[
            {
                "when": f"worker on task `{name}`",
                "steps": [{"write": {"path": f"{name}.txt", "text": name}}, {"crash": {"how": "kill", "once": name}}],
            }
            for name in names
        ],
        files={},
    )
    place = Place(os.path.join(folder, "long"), long, warm)
    template = os.path.join(folder, "template")
    make_template(template)
    place.make(template)
    assert place.call("plan", *place.beginning()[1:-1]).code == 0
    follower = await Follower.create(Home(place.home), place.run_id)
    found: list[Held] = []
    with place.start(*place.going_on()) as born:
        async with aclosing(follower.updates()) as moves:
            async for moved in moves:
                kinds = [line.line.type for line in moved.lines if isinstance(line.line, Line)]
                if TaskCompleted.type in kinds:
                    found += filter(None, [Held.by(born.pid)])
                if SessionEnd.type in kinds:
                    break
    return found


def must_not_grow(held: list[Held]) -> None:
    """Those at the end are held against those at the beginning; the least of a few, for something is always at work."""
    early, late = held[2:7], held[-5:]
    assert min(one.descriptors for one in late) <= min(one.descriptors for one in early), held
    grown = min(one.memory for one in late) - min(one.memory for one in early)
    assert grown <= A_TASK * len(held), (grown, held)


@pytest.mark.torture
async def test_a_runner_that_lives_long_does_not_grow(warm: Nursery, home: str) -> None:
    must_not_grow(await held_by_a_runner(warm, home, 150))


async def test_a_few_runs_at_once_killed_at_random(suites: FailpointSuites, warm: Nursery, home: str) -> None:
    load = Load(seed=1, at_once=3, seconds=4, pace=0.4, names=("solo", "loop", "waves"))
    await loaded(suites, warm, home, load)


@pytest.mark.torture
async def test_a_hundred_runs_at_once_killed_at_random(suites: FailpointSuites, warm: Nursery, home: str) -> None:
    at_once = int(os.environ.get("HOLDFAST_LOAD_RUNS", "100"))
    seconds = float(os.environ.get("HOLDFAST_LOAD_SECONDS", "600"))
    seed = int(os.environ.get("HOLDFAST_LOAD_SEED", "1"))
    report = lives()
    before = [one for one in report.entries() if (one.seed, one.at_once) == (seed, at_once) and one.problem is None]
    spent, first = (
        max((one.seconds for one in before), default=0.0),
        max((one.number for one in before), default=-1) + 1,
    )
    load = Load(seed, at_once, seconds, pace=max(0.5, at_once * PACE), spent=spent, first=first)
    ends = shards()  # of the sources as they are now
    await loaded(suites, warm, home, load, report.add, lambda: ends.add(Finished(LOAD, str(at_once), seed, 1)))
