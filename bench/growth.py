"""What must not grow: the work per task with the plan, a run with its home, and `doctor` with the number of runs.

The runs of many tasks are simulated: `decide`, the fold and the journal are real, and what agents and git would have
done is written down at once. Real agents would take hours, and would hide what Holdfast itself costs.
"""

import asyncio
import os
import resource
import subprocess
import sys
import time

from bench.figure import Figure, Target, number, spread
from bench.homes import many_runs
from bench.places import scratch
from bench.working import instant_script, new_repository
from holdfast.core.decide.actions import Action, ActionKind
from holdfast.core.decide.tasks import decide
from holdfast.core.events import Event
from holdfast.core.events.branch import BranchCreated, BranchMerged
from holdfast.core.events.checkpoint import Checkpoint
from holdfast.core.events.conversation import ConversationOpened, TurnEnded, TurnStarted
from holdfast.core.events.session import RunCreated, SessionStart
from holdfast.core.events.task import TaskCompleted, TaskStarted, WaveCompleted
from holdfast.core.events.work import CaseSubmitted, TaskCommitted, ValidationFinished
from holdfast.core.work.tasks import TaskList, TaskSpec
from holdfast.core.work.workflow import Bounds, PlanShape, Workflow, build_plan
from holdfast.leaf.files.disk import Disk
from holdfast.store.files.store import FileStore
from holdfast.store.run import OwnedRun, open_run

_WORKFLOW = Workflow(name="bench", about="a worker")
_RUN = "growth-abcdef"


def measure(*, quick: bool) -> list[Figure]:
    with scratch() as folder:
        return [
            _tasks(folder, 200 if quick else 1_000, 2 if quick else 5),
            *_homes(folder, 1_000 if quick else 10_000, 2 if quick else 7),
        ]


def _tasks(folder: str, large: int, rounds: int) -> Figure:
    small = 10
    times: dict[int, list[float]] = {small: [], large: []}
    for round_ in range(rounds):
        for size in (small, large):
            repeats = max(1, large // size // 4)  # a run of ten tasks is too short for the clock
            homes = [os.path.join(folder, f"{round_}-{size}-{n}") for n in range(repeats)]
            times[size].append(sum(asyncio.run(_simulated(home, size)) for home in homes) / repeats / size)
    ratios = [long / short for long, short in zip(times[large], times[small], strict=True)]
    return Figure(
        name="tasks",
        what=f"a simulated run of {large:,} tasks in one wave: CPU a task for choosing, journal and fold",
        against=f"of {small} tasks",
        spread=spread(ratios),
        target=Target("≤", 1.2),
        note=f"{number(spread(times[large]).median * 1e6)} µs against {number(spread(times[small]).median * 1e6)} µs; "
        "no agents, no git, no sync",
    )


async def _simulated(home: str, tasks: int) -> float:
    """Return the CPU time from the first decision to the last."""
    os.makedirs(home)
    store = FileStore(home, disk=Disk(sync=lambda fd: None))
    await store.create(_RUN)
    specs = tuple(TaskSpec(id=f"T-{n}", title=f"Task {n}") for n in range(tasks))
    plan = build_plan(TaskList(tasks=specs), PlanShape.GRAPH)
    async with open_run(store, _RUN) as run:
        await run.begin_session(SessionStart(command="run"), RunCreated(run_id=_RUN, goal="g"), plan)
        decide(run.state, _WORKFLOW, Bounds())
        began = time.process_time()
        await _drive(run)
        return time.process_time() - began


async def _drive(run: OwnedRun) -> None:
    while True:
        for action in decide(run.state, _WORKFLOW, Bounds(parallel=4)):
            if action.kind is ActionKind.STOP:
                return
            await run.append(*_outcome(action))


def _outcome(action: Action) -> tuple[Event, ...]:
    task = action.key.name
    match action.kind:
        case ActionKind.START:
            return (TaskStarted(task_id=task), BranchCreated(name=f"b/{task}", base="c", task=task))
        case ActionKind.WORK:
            conversation, turn = f"c-{task}", f"t-{task}"
            return (
                ConversationOpened(conversation=conversation, agent="a", role="worker", task=task),
                TurnStarted(conversation=conversation, turn=turn),
                TurnEnded(conversation=conversation, turn=turn, stop_reason="end_turn"),
            )
        case ActionKind.ACCEPT_WITHOUT_CASE:
            return (CaseSubmitted(task_id=task, iteration=1),)
        case ActionKind.VALIDATE:
            return (ValidationFinished(task_id=task, passed=True, tree="t"),)
        case ActionKind.COMMIT:
            return (TaskCommitted(task_id=task, commit=f"c-{task}"),)
        case ActionKind.MERGE:
            return (BranchMerged(name=f"b/{task}", target="main", conflicts=False),)
        case ActionKind.COMPLETE:
            return (TaskCompleted(task_id=task),)
        case ActionKind.CLOSE_WAVE:
            return (WaveCompleted(wave=action.wave or 0), Checkpoint(label=f"wave-{action.wave}-complete"))
        case _:
            raise AssertionError(action)


def _homes(folder: str, runs: int, rounds: int) -> list[Figure]:
    full, empty = many_runs(runs), os.path.join(folder, "alone")
    script, repo = instant_script(folder), new_repository(folder, "growth")
    _holdfast(full, folder, "ls")  # the catalog of a home in use is up to date
    pairs = []
    for round_ in range(rounds):
        names = (f"in-full-{os.getpid()}-{round_}", f"alone-{round_}")
        pairs.append(
            [_run_once(home, folder, repo, script, name) for home, name in zip((full, empty), names, strict=True)]
        )
    crowded, alone = (spread([pair[side] for pair in pairs]) for side in (0, 1))
    began = time.perf_counter()
    _holdfast(full, folder, "doctor", check=False)
    doctor = time.perf_counter() - began
    return [
        Figure(
            name="full home",
            what=f"a whole run of one task in a home of {runs:,} runs: CPU",
            against="in an empty home",
            spread=spread([pair[0] / pair[1] for pair in pairs]),
            target=Target("≤", 1.2),
            note=f"{number(crowded.median)} s against {number(alone.median)} s",
        ),
        Figure(
            name="doctor",
            what=f"`holdfast doctor` in a home of {runs:,} runs",
            against="the clock",
            spread=spread([doctor]),
            unit="s",
            note=f"{number(doctor / runs * 1e3)} ms a run",
        ),
    ]


def _run_once(home: str, folder: str, repo: str, script: str, name: str) -> float:
    """Return the CPU time of a run with its agent and git; then delete it, so that the home is as it was."""
    agent = ("--agent", f"playbook:{script}")
    began = _cpu_of_children()
    _holdfast(home, folder, "run", "Add a file", "--name", name, "--repo", repo, *agent, "--quiet")
    took = _cpu_of_children() - began
    _holdfast(home, folder, "reset", name, "-y")
    return took


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _holdfast(home: str, folder: str, *arguments: str, check: bool = True) -> None:
    environment = {**os.environ, "HOLDFAST_HOME": home, "XDG_CONFIG_HOME": folder, "XDG_STATE_HOME": folder}
    program = [sys.executable, "-m", "holdfast", *arguments]
    subprocess.run(program, check=check, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
