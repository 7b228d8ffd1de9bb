"""The six properties that recovery rests on, each shown on the log or the deaths of a real run."""

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from msgspec import structs

from holdfast.core.config.settings import Settings
from holdfast.core.decide.actions import Action
from holdfast.core.decide.analysis import analyze
from holdfast.core.decide.resume import ResumeDecision
from holdfast.core.events import Event
from holdfast.core.events.branch import BranchMerged
from holdfast.core.events.checkpoint import Checkpoint
from holdfast.core.events.conversation import TurnStarted
from holdfast.core.events.effect import EffectHappened, EffectIntended
from holdfast.core.events.inbox import InboxConsumed, InboxHandled
from holdfast.core.events.issue import BlockerReported, WarningLogged
from holdfast.core.events.session import RunResumed, SessionStart
from holdfast.core.events.task import TaskCompleted, TaskFailed, TaskStarted, WaveCompleted
from holdfast.core.events.work import (
    CaseSubmitted,
    IterationEnded,
    TaskCommitted,
    TaskReopened,
    ValidationFinished,
    VerdictGiven,
)
from holdfast.core.log import chain
from holdfast.core.work.tasks import TaskList, TaskSpec
from holdfast.core.work.workflow import Bounds, PlanShape, build_plan
from holdfast.engine.config.run_config import new_run_config
from holdfast.engine.home import Home
from holdfast.engine.queries.verify import verify_run
from holdfast.store.files.store import FileStore
from holdfast.store.fold import fold_log
from holdfast.store.run import open_run
from holdfast.store.sequencer import CONTINUATION_MARK
from tests.support.crash_suite.suite import FailpointSuite, FailpointSuites
from tests.support.crash_suite.trial import play
from tests.support.crash_suite.trial_place import Place
from tests.support.crash_suite.warm_programs import KILLED, Ended
from tests.support.events import events_in
from tests.support.log_properties import PARALLEL, decisions, ends_of_lines, folded
from tests.support.logs import fold_of, heads, whole
from tests.support.run_files import RUN, content, log_file, put_content
from tests.support.simulation import LUCK, Simulation, World

SIDES = ("before", "torn", "after")
LONG = pytest.mark.torture
LONGER = [pytest.param(name, marks=LONG) for name in ("chatting", "forking")]


def ends_of_calls(log: bytes) -> list[int]:
    return [0, *(end for end in ends_of_lines(log) if not chain.has_more_to_come(log[end - chain.TAIL_BYTES : end]))]


# --- deaths at a commit that holds something, and what they leave ------------------------------------


def commits(log: bytes) -> list[list[str]]:
    """Of each commit, the types of its events."""
    found: list[list[str]] = []
    for raw, line in zip(log.splitlines(), heads(log), strict=True):
        if not raw.endswith(CONTINUATION_MARK):
            found.append([])
        found[-1].append(line.type)
    return found


def ordinal(kind: type[Event], of: list[list[str]], nth: int = 1) -> int:
    """Which of these commits holds the n-th event of a kind, counted from 1."""
    return [number for number, types in enumerate(of, 1) for one in types if one == kind.type][nth - 1]


async def log_of(place: Place) -> bytes:
    """Its whole calls."""
    return await whole(FileStore(place.home), place.run_id)


async def killed_at(suite: FailpointSuite, kind: type[Event], nth: int, side: str, whom: str = "self") -> Place:
    """A place whose runner was killed before, in or after the commit that holds the n-th event of a kind."""
    known = await suite.undisturbed()
    every = commits(known.log)
    at = ordinal(kind, every, nth)
    last, count = (every[at - 1][-1], nth) if side == "after" else (every[at - 2][-1], nth - 1)
    own = sum(failpoint.startswith("journal.append.after:") for passes in known.sessions for failpoint in passes)

    def begun(failpoint: str) -> tuple[Place, Ended]:
        place = suite.place()
        return place, place.begin(f"{failpoint}:{whom}")

    return await killed(
        begun,
        f"journal.append.{side}",
        at - (len(every) - own),
        lambda left: (left[-1], left.count(kind.type)) == (last, count),
    )


async def killed(
    begun: Callable[[str], tuple[Place, Ended]], point: str, at: int, is_meant: Callable[[list[str]], bool]
) -> Place:
    """Killed on that pass of a point, or near it: not every run makes as many commits. What it left tells."""
    seen = []
    for shift in (0, 0, -1, 1, -2, 2):
        place, ended = begun(f"{point}:{at + shift}")
        if ended.code == KILLED and is_meant([line.type for line in heads(await log_of(place))]):
            return place
        place.remove()
        seen.append(ended)
    raise AssertionError(f"nobody was killed as it was meant, at {point}:{at}: {seen}")


class Remains:
    """What a death left, kept aside. Nobody may be alive there; what comes of it can be tried again and again."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._kept = f"{place.folder}-kept"
        shutil.copytree(place.folder, self._kept, symlinks=True)

    def put_back(self) -> Place:
        """In the same place: git's worktrees know where they are."""
        self._place.remove()
        shutil.copytree(self._kept, self._place.folder, symlinks=True)
        return self._place

    def remove(self) -> None:
        self._place.remove()
        shutil.rmtree(self._kept)


# --- the properties ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["loop", "rewinding", *LONGER])
async def test_prefix_continuation(suites: FailpointSuites, home: str, name: str) -> None:
    """Whatever part of a log there is, a session opens on it and goes on, and the whole is in order."""
    log = (await suites(name).undisturbed()).log
    store = FileStore(home)
    for end in random.Random(1).sample(range(1, len(log)), 60):
        run_id = f"{RUN}-{end}"
        await store.create(run_id)
        with open(log_file(home, run_id), "wb") as file:
            file.write(log[:end])
        async with open_run(store, run_id) as run:
            decided = decisions(run.state)
            begun = await run.begin_session(SessionStart(command="resume"))
        kept = await whole(store, run_id)
        assert kept.startswith(log[: max(place for place in ends_of_calls(log) if place <= end)])
        assert decided == decisions(fold_of(kept.removesuffix(begun.data)).state)
        assert (await verify_run(Home(home), run_id)).is_intact


@pytest.mark.parametrize(
    "kind", [TurnStarted, *(pytest.param(one, marks=LONG) for one in (InboxConsumed, BranchMerged))]
)
async def test_prefix_continuation_of_a_run_to_its_end(suites: FailpointSuites, kind: type[Event]) -> None:
    """Cut at any byte of its last call, as a torn write leaves it, a log is gone on with to the undisturbed end.

    A log without what came before that call is not what a death leaves: the world would be ahead of it.
    """
    suite = suites("spoken")
    place = await killed_at(suite, kind, 1, "after", whom="everyone")
    remains, path = Remains(place), log_file(place.home, place.run_id)
    log = content(path)
    start, end = ends_of_calls(log)[-2:]
    first_line, anywhere = log.index(b"\n", start) + 1, random.Random(kind.type).randrange(start + 1, end - 1)
    for cut in sorted({anywhere, first_line, end - 1} - {end}):
        remains.put_back()
        put_content(path, log[:cut])
        play(place)
        assert (await log_of(place)).startswith(log[:start])
        await suite.must_end_alike(place, f"with its log cut at {cut} of {start} to {end}, it ends otherwise")
    remains.remove()


async def test_effects_exactly_once(suites: FailpointSuites) -> None:
    """Killed before and after each effect of a run, it is in the world once, and once in the log."""
    suite = suites("solo")
    passed = [failpoint for failpoint in (await suite.undisturbed()).passes if failpoint.startswith("effect.")]
    assert len(passed) > 10
    for failpoint in passed:
        assert (await suite.survives(failpoint)).struck == 1


async def test_effects_exactly_once_whoever_dies_when_one_is_written_down(suites: FailpointSuites) -> None:
    """Killed right after the outcome of a merge is in the log: what the merge means is there with it."""
    suite = suites("solo")
    merge = nth_that_happened("merge", (await suite.undisturbed()).log)
    place = await killed_at(suite, EffectHappened, merge, "after")
    play(place)
    await suite.must_end_alike(place, "killed after the outcome of a merge, it ends otherwise")


def nth_that_happened(kind: str, log: bytes) -> int:
    """Which of the effects that happened is the first of this kind, counted from 1."""
    kinds = {event.effect: event.kind for event in events_in(log) if isinstance(event, EffectIntended)}
    happened = [kinds[event.effect] for event in events_in(log) if isinstance(event, EffectHappened)]
    return happened.index(kind) + 1


@pytest.mark.parametrize("name", ["loop", *LONGER])  # over rewinds: property/test_rewinding.py
async def test_fork_determinism(suites: FailpointSuites, name: str) -> None:
    """The same beginning of a log leads to the same state and the same decisions, however it was read."""
    log = (await suites(name).undisturbed()).log
    dice = random.Random(2)
    for end in ends_of_lines(log):
        cut = dice.choice([place for place in (0, *ends_of_lines(log)) if place <= end])
        at_once, in_two = folded(log[:end]), folded(log[:cut], log[cut:end])
        assert at_once == in_two
        assert decisions(at_once) == decisions(in_two)


@pytest.mark.parametrize("workflow", ["loop", "waves"])
async def test_fork_determinism_in_every_process(suites: FailpointSuites, workflow: str) -> None:
    """Processes that hash by other seeds, and so have their sets in another order, decide the same."""
    log = (await suites("loop").undisturbed()).log if workflow == "loop" else log_of_many_at_once()
    first, other = (told_elsewhere(log, workflow, seed) for seed in "12")
    assert len(first) == len(ends_of_lines(log))
    different = [(number, *pair) for number, pair in enumerate(zip(first, other, strict=True), 1) if len(set(pair)) > 1]
    assert not different[:1], "after that line, the one decides this and the other that"


def log_of_many_at_once() -> bytes:
    """A run that was only played: six tasks at a time, of which many fail; cut off and resumed, with words for some."""
    names = ("ant", "bee", "cat", "dog", "elk", "fox")
    plan = build_plan(TaskList(tasks=tuple(TaskSpec(id=name, title=f"Do {name}") for name in names)), PlanShape.GRAPH)
    workflow = new_run_config(Settings(workflow="waves"), {}).workflow
    simulation = Simulation(World(workflow, Bounds(parallel=PARALLEL), [plan], LUCK, 3, [None, *names], seed=1))
    simulation.run()
    return b"".join(simulation.log)


def told_elsewhere(log: bytes, workflow: str, seed: str) -> list[str]:
    command = [sys.executable, "-m", "tests.support.log_properties", workflow]
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    done = subprocess.run(command, input=log, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().splitlines()


@pytest.mark.parametrize("side", SIDES)
async def test_checkpoint_validity(suites: FailpointSuites, side: str) -> None:
    """Killed where a checkpoint is written, a run has named what was merged by then; and so at its end."""
    suite = suites("spoken")
    place = await killed_at(suite, Checkpoint, 2, side)
    assert len(await valid_checkpoints(place)) == (2 if side == "after" else 1)
    play(place)
    assert len(await valid_checkpoints(place)) == 2
    await suite.must_end_alike(place, f"killed {side} its checkpoint, it ends otherwise")


@pytest.mark.parametrize(
    ("effect", "sides"),
    [
        pytest.param("effect.merge.before:2", ["torn"], marks=LONG),
        ("effect.merge.after:2", ["torn"]),
        pytest.param("effect.merge.after:2", SIDES, marks=LONG),
    ],
)
async def test_checkpoint_validity_where_a_recovery_writes_it(
    suites: FailpointSuites, effect: str, sides: Sequence[str]
) -> None:
    """Killed at the merge that a checkpoint is to name, then where the recovery writes that checkpoint."""
    suite = suites("loop")
    place = suite.place()
    assert place.begin(f"{effect}:everyone").code == KILLED
    assert [point.label for point in await valid_checkpoints(place)] == ["run-start", "wave-1-complete"]
    remains, left = Remains(place), await log_of(place)
    play(place)
    at = ordinal(Checkpoint, commits((await log_of(place))[len(left) :]))

    def resumed(failpoint: str) -> tuple[Place, Ended]:
        return remains.put_back(), place.resume(failpoint, "again")

    for side in sides:
        points = 3 if side == "after" else 2
        await killed(resumed, f"journal.append.{side}", at, partial(has_completed_both_and_reached, points))
        assert len(await valid_checkpoints(place)) == points
    play(place)
    assert len(await valid_checkpoints(place)) == 3
    await suite.must_end_alike(place, f"killed at {effect} and at its checkpoint, it ends otherwise")
    remains.remove()


def has_completed_both_and_reached(points: int, left: list[str]) -> bool:
    return (left.count(TaskCompleted.type), left.count(Checkpoint.type)) == (2, points)


async def valid_checkpoints(place: Place) -> list[Checkpoint]:
    """Each names a commit of the run's branch: the one that the log's newest merge before it made, or the first."""
    log = await log_of(place)
    merges: set[str] = set()
    newest = place.git("rev-parse", "main").strip()
    found = []
    for event in events_in(log):
        if isinstance(event, EffectIntended) and event.kind == "merge":
            merges.add(event.effect)
        if isinstance(event, EffectHappened) and event.effect in merges:
            newest = event.result["commit"]
        if isinstance(event, Checkpoint):
            found.append(event)
            assert event.commit == newest, f"{event.label} names {event.commit}, and not {newest}"
            place.git("merge-base", "--is-ancestor", event.commit, f"holdfast/{place.run_id}/main")
    return found


@pytest.mark.parametrize("side", ["torn", *(pytest.param(side, marks=LONG) for side in ("before", "after"))])
async def test_consume_once(suites: FailpointSuites, side: str) -> None:
    """Whoever dies while an agent's report is put, it is consumed once; or it was never put, and is put again."""
    assert (await suites("again").survives(f"inbox.append.{side}:1")).struck == 1


@pytest.mark.parametrize("side", SIDES)
async def test_consume_once_though_its_sender_dies(suites: FailpointSuites, side: str) -> None:
    """A person's words that were put are consumed once; those that were not are said again, and are not there twice."""
    suite = suites("spoken")
    place = suite.place()
    words = place.scenario.words
    assert words is not None
    _, *how, _ = place.beginning()
    assert place.call("plan", *how).code == 0
    assert place.call("send", place.run_id, words, failpoint=f"inbox.append.{side}:1").code == KILLED
    if side != "after":
        assert place.call("send", place.run_id, words).code == 0
    play(place)
    await suite.must_end_alike(place, f"with a sender killed {side} it was put, it ends otherwise")


@pytest.mark.parametrize(
    ("name", "kind", "side"),
    [
        ("spoken", InboxConsumed, "torn"),
        ("spoken", InboxHandled, "after"),
        ("again", InboxHandled, "after"),
        *(pytest.param("spoken", InboxConsumed, side, marks=LONG) for side in ("before", "after")),
        *(pytest.param("spoken", InboxHandled, side, marks=LONG) for side in ("before", "torn")),
        *(pytest.param("again", kind, "torn", marks=LONG) for kind in (InboxConsumed, InboxHandled)),
    ],
)
async def test_consume_once_whoever_dies_taking_it_in_or_acting_on_it(
    suites: FailpointSuites, name: str, kind: type[Event], side: str
) -> None:
    """The words of a person, and the report of an agent: none is lost, said again, or acted on twice."""
    suite = suites(name)
    place = await killed_at(suite, kind, 1, side)
    play(place)
    assert heard(await log_of(place)) == heard((await suite.undisturbed()).log)
    await suite.must_end_alike(place, f"killed {side} {kind.type}, it ends otherwise")


def heard(log: bytes) -> list[str]:
    """What was said, what it was found to mean, and remarks: as on what is said too late, or once more."""
    kinds = InboxConsumed | CaseSubmitted | VerdictGiven | BlockerReported | WarningLogged
    return [event.type for event in events_in(log) if isinstance(event, kinds)]


# Deaths of recoveries, one session after the other: as they begin, settle, decide, and go on.
RECOVERIES = {
    ("loop", "prompt.before:6"): [
        "journal.append.after:1",
        "journal.append.torn:2",
        *(f"journal.append.after:{number}" for number in (2, 3)),
        *["prompt.before:1"] * 6,  # more than may be cut off in a row, within one session
    ],
    ("again", "effect.commit.failed.after:1"): [
        "journal.append.after:1",
        "effect.settle.after:1",
        *("journal.append.torn:2", "journal.append.after:2") * 2,
        *(f"journal.append.after:{number}" for number in (2, 3, 4, 2)),
    ],
}


@pytest.mark.parametrize(
    ("name", "failpoint"),
    [("loop", "prompt.before:6"), pytest.param("again", "effect.commit.failed.after:1", marks=LONG)],
)
async def test_recovery_determinism(suites: FailpointSuites, name: str, failpoint: str) -> None:
    """From what a death left, the same is decided each time: by the log or a snapshot, whoever dies deciding it."""
    suite = suites(name)
    known = await suite.undisturbed()
    place = suite.place()
    assert place.begin(f"{failpoint}:everyone").code == KILLED
    remains, left = Remains(place), await log_of(place)
    await must_be_decided_by_snapshot_too(place)

    play(place)
    once = await log_of(place)
    await suite.must_end_alike(place, "resumed once, it ends otherwise")
    play(remains.put_back())
    twice = await log_of(place)
    await suite.must_end_alike(place, "resumed from the same once more, it ends otherwise")
    assert resumes(once[len(left) :]) == resumes(twice[len(left) :])
    assert story(once) == story(twice) == story(known.log)

    remains.put_back()
    (decided,) = standings_after_resumes(once)
    resumed: list[Standing] = []
    for number, again in enumerate(RECOVERIES[name, failpoint]):
        assert place.resume(again, f"again-{number}").code == KILLED
        await must_be_decided_by_snapshot_too(place)
        log = await log_of(place)
        assert story(log) == story(known.log)[: len(story(log))]
        resumed = standings_after_resumes(log)
        assert resumed == [decided] * len(resumed)
        if not resumed:
            assert analyze(folded(log)).decision == analyze(folded(left)).decision
    assert resumed, "nothing was ever decided"
    play(place)
    log = await log_of(place)
    assert standings_after_resumes(log)[-1] == decided
    assert story(log) == story(known.log)
    await suite.must_end_alike(place, "killed again and again on its way back, it ends otherwise")
    remains.remove()


async def must_be_decided_by_snapshot_too(place: Place) -> None:
    store = FileStore(place.home)
    log, snapshot = await log_of(place), await store.snapshot(place.run_id)
    assert snapshot is not None
    assert 0 < snapshot.head.position < len(log), "there is a tail, and something before it"
    known, state = (await fold_log(store.log(place.run_id), snapshot)).fold.state, folded(log)
    assert known == state
    assert (analyze(known), decisions(known)) == (analyze(state), decisions(state))


def resumes(log: bytes) -> list[RunResumed]:
    return [event for event in events_in(log) if isinstance(event, RunResumed)]


Standing = tuple[dict[str, Any], list[Action], ResumeDecision]


def standings_after_resumes(log: bytes) -> list[Standing]:
    """Each time that it was decided how to go on: how its tasks stood then, and what was to be done next."""
    found = []
    start = 0
    for end in ends_of_calls(log)[1:]:
        if resumes(log[start:end]):
            state = folded(log[:end])
            tasks = {
                name: (task.status, task.stage, task.iteration, task.attempts, task.evaluations, task.verdicts)
                for name, task in state.tasks.items()
            }
            found.append((tasks, decisions(state), analyze(state).decision))
        start = end
    return found


STORY = (
    *(TaskStarted, TaskReopened, TaskFailed, TaskCompleted, TaskCommitted, WaveCompleted, Checkpoint),
    *(CaseSubmitted, ValidationFinished, VerdictGiven, IterationEnded),
)
BY_CHANCE = ("commit", "branch", "key", "agent")


def story(log: bytes) -> list[dict[str, Any]]:
    """What came of the tasks, in its order."""
    told = [event for event in events_in(log) if isinstance(event, STORY)]
    return [
        {"type": event.type, **{name: value for name, value in structs.asdict(event).items() if name not in BY_CHANCE}}
        for event in told
    ]
