"""Nothing that is done per event or per decision grows with the plan or the history. Counted in tasks, not in time."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest
from msgspec import structs

from holdfast.core.decide.actions import Action, ActionKey, ActionKind, RuntimeFacts
from holdfast.core.decide.tasks import decide
from holdfast.core.events import Event
from holdfast.core.events.branch import BranchCreated, BranchMerged
from holdfast.core.events.checkpoint import Checkpoint
from holdfast.core.events.conversation import ConversationOpened, TurnEnded, TurnStarted
from holdfast.core.events.issue import BlockerReported
from holdfast.core.events.session import RunCreated, SessionStart
from holdfast.core.events.task import TaskCompleted, TaskFailed, TaskSkipped, TaskStarted, WaveCompleted
from holdfast.core.events.work import CaseSubmitted, TaskCommitted, TaskReopened, ValidationFinished
from holdfast.core.fold.fold import Fold
from holdfast.core.messages.addressing import undeliverable_reason
from holdfast.core.state import RunState
from holdfast.core.work.tasks import TaskList, TaskSpec
from holdfast.core.work.workflow import Bounds, PlanShape, build_plan
from tests.core.logs import entry
from tests.core.situations import SOLO

SMALL, LARGE = 40, 800
PARALLEL = 4
SHAPES: dict[str, tuple[PlanShape, Callable[[int], tuple[str, ...]]]] = {
    "one wave": (PlanShape.GRAPH, lambda _: ()),
    "a chain": (PlanShape.SEQUENCE, lambda _: ()),
    "waves of twenty": (PlanShape.GRAPH, lambda number: (f"T-{number - 20}",) if number >= 20 else ()),
}
V = TypeVar("V")


class Counted(dict[str, V]):
    """A mapping that counts how many of its values are looked at."""

    looks = 0

    def __getitem__(self, key: str) -> V:
        self.looks += 1
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.looks += 1
        return super().get(key, default)

    def __iter__(self) -> Iterator[str]:
        for key in super().__iter__():
            self.looks += 1
            yield key

    def items(self) -> Any:
        self.looks += len(self)
        return super().items()

    def values(self) -> Any:
        self.looks += len(self)
        return super().values()


class Run:
    """A run in which everything goes well, driven by `decide`, with counted tasks."""

    def __init__(self, tasks: int, shape: str) -> None:
        kind, needed = SHAPES[shape]
        specs = tuple(TaskSpec(id=f"T-{n}", title=f"Task {n}", depends_on=needed(n)) for n in range(tasks))
        self._fold, self._seq = Fold(), 0
        self._write(SessionStart(), RunCreated(run_id="r", goal="g"), build_plan(TaskList(tasks=specs), kind))
        self.state.tasks = self.tasks = Counted(self.state.tasks)
        self.most_looks = 0
        self._decide()
        self.most_looks = 0  # the first use builds the index

    @property
    def state(self) -> RunState:
        return self._fold.state

    def finish(self) -> None:
        while (actions := self._decide())[0].kind is not ActionKind.STOP:
            for action in actions:
                self.write(*_outcome(action))

    def write(self, *events: Event) -> None:
        self._counted(lambda: self._write(*events))

    def decide_with_stuck_tasks(self, count: int) -> None:
        stuck = frozenset(ActionKey("task", f"T-{number}") for number in range(count))
        self._counted(lambda: decide(self.state, SOLO, Bounds(parallel=PARALLEL), RuntimeFacts(stuck=stuck)))

    def check_address(self, task: str) -> None:
        self._counted(lambda: undeliverable_reason(self.state, SOLO, task))

    def _decide(self) -> list[Action]:
        found: list[Action] = []
        self._counted(lambda: found.extend(decide(self.state, SOLO, Bounds(parallel=PARALLEL))))
        assert found
        return found

    def _counted(self, act: Callable[[], object]) -> None:
        self.tasks.looks = 0
        act()
        self.most_looks = max(self.most_looks, self.tasks.looks)

    def _write(self, *events: Event) -> None:
        for event in events:
            self._fold.feed(entry(event, self._seq))
            self._seq += 1


def _outcome(action: Action) -> tuple[Event, ...]:
    task = action.key.name
    match action.kind:
        case ActionKind.START:
            return (TaskStarted(task_id=task), BranchCreated(name=f"b/{task}", base="c", task=task))
        case ActionKind.WORK:
            conversation_id, turn = f"c-{task}", f"t-{task}"
            opened = ConversationOpened(conversation=conversation_id, agent="a", role="worker", task=task)
            began, ended = (
                TurnStarted(conversation=conversation_id, turn=turn),
                TurnEnded(conversation=conversation_id, turn=turn),
            )
            return (opened, began, structs.replace(ended, stop_reason="end_turn"))
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


@pytest.mark.parametrize("shape", SHAPES)
def test_a_long_plan_costs_no_more_per_step_than_a_short_one(shape: str) -> None:
    looks = {}
    for size in (SMALL, LARGE):
        run = Run(size, shape)
        run.finish()
        assert run.state.plan is not None
        assert all(wave.completed for wave in run.state.plan.waves.values())
        looks[size] = run.most_looks
    assert looks[LARGE] <= looks[SMALL]


@pytest.mark.parametrize("shape", SHAPES)
def test_odd_events_of_a_long_plan_cost_no_more_than_of_a_short_one(shape: str) -> None:
    looks = {}
    for size in (SMALL, LARGE):
        run = Run(size, shape)
        for number in range(PARALLEL):
            task = f"T-{number}"
            run.write(TaskStarted(task_id=task), BlockerReported(task_id=task, description="stuck"))
            run.write(TaskFailed(task_id=task, error="iter_cap"), Checkpoint(label="now"))
            run.write(TaskReopened(task_id=task), TaskStarted(task_id=task))
            opened = ConversationOpened(conversation=f"c-{task}", agent="a", role="worker", task=task)
            run.write(opened, TaskSkipped(task_id=task, reason="not wanted"))
            run.check_address(task)
        run.decide_with_stuck_tasks(20)
        looks[size] = run.most_looks
    assert looks[LARGE] <= looks[SMALL]
