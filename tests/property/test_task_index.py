"""The index of tasks: kept up to date by the fold, it equals one built anew, and gives the actions of a full search."""

from itertools import cycle
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.decide.actions import ActionKey, RuntimeFacts
from holdfast.core.decide.tasks import decide
from holdfast.core.events import Event
from holdfast.core.events.plan import Dependency, PlanCreated, PlannedTask, PlannedWave
from holdfast.core.fold.fold import Fold
from holdfast.core.state import RunState
from holdfast.core.task_index import SortedNumbers, TaskIndex, WaveIndex, open_research, task_index
from holdfast.core.work.workflow import Bounds
from tests.core.logs import entry
from tests.core.situations import WORKFLOWS
from tests.core.strategies import events, examples
from tests.support.plain_decide import plain_decide

NAMES = ("1", "2", "3", "T-10")

_MOVES = (
    "task.started",
    "task.completed",
    "task.failed",
    "task.skipped",
    "task.reopened",
    "task.restarted",
    "task.committed",
    "wave.started",
    "wave.completed",
    "case.submitted",
    "verdict.given",
    "checkpoint",
    "effect.intended",
    "effect.unknown",
    "conversation.opened",
    "turn.started",
    "turn.ended",
    "turn.interrupted",
    "research.requested",
    "research.answered",
    "inbox.consumed",
    "session.start",
)


@st.composite
def valid_plans(draw: st.DrawFn) -> PlanCreated:
    """Each task is in one wave, and waits for tasks of earlier waves only; any number of waves."""
    names = draw(st.permutations(NAMES))
    waves: list[list[str]] = [[] for _ in range(draw(st.integers(1, 3)))]
    dependencies = []
    for name in names:
        number = draw(st.integers(0, len(waves) - 1))
        earlier = [other for wave in waves[:number] for other in wave]
        needed = draw(st.sets(st.sampled_from(earlier), max_size=2)) if earlier else set()
        dependencies += [Dependency(task_id=name, blocked_by=other) for other in sorted(needed)]
        waves[number].append(name)
    return PlanCreated(
        tasks=[PlannedTask(id=name, summary=name, key=draw(st.sampled_from("ab"))) for name in names],
        waves=[PlannedWave(wave=number, task_ids=[*wave]) for number, wave in enumerate(waves, start=1)],
        dependencies=dependencies,
    )


def logs(plans: st.SearchStrategy[Any], moves: st.SearchStrategy[Event]) -> st.SearchStrategy[list[Event]]:
    return st.tuples(plans, st.lists(st.one_of(moves, moves, moves, plans), max_size=30)).map(lambda x: [x[0], *x[1]])


keys = st.one_of(
    st.builds(ActionKey, st.just("task"), st.sampled_from(NAMES), st.none()),
    st.builds(ActionKey, st.just("wave"), st.sampled_from(["1", "2", "3"]), st.none()),
)
facts = st.builds(
    lambda busy, stuck: RuntimeFacts(busy, stuck - busy),
    st.frozensets(keys, max_size=2),
    st.frozensets(keys, max_size=2),
)
bounds = st.builds(Bounds, parallel=st.integers(1, 3), ask_when_interrupted=st.booleans())


@given(logs(valid_plans(), events(*_MOVES)), st.lists(facts, min_size=1, max_size=5), bounds)
@examples(200)
def test_decide_equals_its_plain_definition(log: list[Event], known: list[RuntimeFacts], limits: Bounds) -> None:
    fold = Fold()
    for seq, (event, fact) in enumerate(zip(log, cycle(known), strict=False)):
        fold.feed(entry(event, seq))
        for workflow in WORKFLOWS:
            found = decide(fold.state, workflow, limits, fact)
            assert found == plain_decide(fold.state, workflow, limits, fact)
            assert found == decide(_copied(fold.state), workflow, limits, fact)


@given(logs(valid_plans() | events("plan.created"), events()))
@examples(200)
def test_the_kept_index_equals_a_new_one(log: list[Event]) -> None:
    """Also for plans that no one checked: a task in two waves, or waiting for one that is not there."""
    fold = Fold()
    for seq, event in enumerate(log):
        fold.feed(entry(event, seq))
        state = fold.state
        assert _contents(task_index(state)) == _contents(TaskIndex(state.plan, state.tasks))
        assert open_research(state) == {name: one for name, one in state.research.items() if not one.answered}


def test_an_index_is_no_part_of_a_state() -> None:
    fold = Fold()
    fold.feed(entry(PlanCreated(tasks=[PlannedTask(id="1")], waves=[PlannedWave(wave=1, task_ids=["1"])])))
    plain = msgspec.json.encode(fold.state)
    assert task_index(fold.state) is task_index(fold.state)
    assert msgspec.json.encode(fold.state) == plain
    assert _copied(fold.state) == fold.state


def _copied(state: RunState) -> RunState:
    """As a snapshot brings it back: without an index."""
    return msgspec.json.decode(msgspec.json.encode(state), type=RunState)


def _contents(index: TaskIndex) -> dict[str, Any]:
    return {name: _plain(value) for name, value in vars(index).items() if name != "_tasks"}


def _plain(value: Any) -> Any:
    match value:
        case SortedNumbers():
            return list(value)
        case WaveIndex():
            return {name: _plain(part) for name, part in vars(value).items()}
        case dict():
            return {key: _plain(part) for key, part in value.items() if part != 0}  # no count is a count of zero
        case _:
            return value
