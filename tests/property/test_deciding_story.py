"""Whatever comes of each step, and wherever it is cut off: a run ends, and does nothing twice or out of turn."""

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.events.plan import PlanCreated
from holdfast.core.task_state import TaskStatus
from holdfast.core.work.tasks import TaskList, TaskSpec
from holdfast.core.work.workflow import Bounds, PlanShape, Workflow, build_plan
from tests.core.situations import WORKFLOWS
from tests.core.strategies import examples
from tests.support.simulation import LUCK, SETTLED, Simulation, World

OUTCOMES = {"all_done", "failed", "iter_cap", "evaluator_cap", "no_case", "declined", "waiting", "parked", "token_cap"}
NAMES = ("a", "phase 1", "research x", "wave 1", "e")  # a task may be called as other things that are acted on
ALL_WELL = {kind: outcomes[:1] for kind, outcomes in LUCK.items()}


@st.composite
def task_lists(draw: st.DrawFn) -> list[TaskSpec]:
    """Tasks that wait for some of those before them; in any order."""
    names = NAMES[: draw(st.integers(1, len(NAMES)))]
    specs = []
    for index, name in enumerate(names):
        needed = draw(st.sets(st.sampled_from(names[:index]), max_size=2)) if index else set()
        title = draw(st.sampled_from([f"Do {name}", f"Do {name} better"]))
        specs.append(TaskSpec(id=name, title=title, depends_on=tuple(sorted(needed))))
    return draw(st.permutations(specs))


@st.composite
def plans(draw: st.DrawFn, most: int = 3) -> list[PlanCreated]:
    shape = draw(st.sampled_from(PlanShape))
    lists = draw(st.lists(task_lists(), min_size=1, max_size=most))
    return [build_plan(TaskList(tasks=tuple(tasks)), shape) for tasks in lists]


def some_of(options: Sequence[str]) -> st.SearchStrategy[Sequence[str]]:
    return st.just(options) | st.lists(st.sampled_from(options), min_size=1, max_size=len(options))


lucks: st.SearchStrategy[Mapping[str, Sequence[str]]] = st.fixed_dictionaries(
    {kind: some_of(options) for kind, options in LUCK.items()}
)
bounds = st.builds(
    Bounds,
    iterations=st.integers(1, 3),
    evaluator_calls=st.integers(1, 3),
    conflict_attempts=st.integers(0, 2),
    agent_deaths=st.integers(1, 3),
    ask_when_interrupted=st.booleans(),
    parallel=st.integers(1, 3),
    tokens=st.sampled_from([None, None, 30]),
)
worlds = st.builds(
    World,
    workflow=st.sampled_from(WORKFLOWS),
    bounds=bounds,
    plans=plans(),
    luck=lucks,
    crashes=st.integers(0, 4),
    messages=st.lists(st.sampled_from([None, *NAMES]), max_size=4),
    seed=st.integers(0, 2**32),
)


@given(worlds)
@examples(200)
def test_a_run_ends_whatever_comes_of_its_steps_and_does_nothing_twice_or_out_of_turn(world: World) -> None:
    simulation = Simulation(world)
    reason = simulation.run()
    assert reason in OUTCOMES
    state = simulation.state
    assert state.plan is not None
    statuses = {state.tasks[name].status for name in state.plan.order}
    assert (reason == "all_done") <= statuses.issubset(SETTLED)
    assert len(simulation.merged) == len(set(simulation.merged))
    assert state.malformed == []


@given(st.sampled_from(WORKFLOWS), plans(most=1), st.integers(0, 9), st.integers(1, 3), st.integers(0, 2**32))
@examples(50)
def test_where_all_goes_well_all_is_done_and_each_task_merged_once_however_often_it_is_killed(
    workflow: Workflow, planned: list[PlanCreated], crashes: int, parallel: int, seed: int
) -> None:
    world = World(workflow, Bounds(parallel=parallel), planned, ALL_WELL, crashes, (), seed)
    simulation = Simulation(world)
    assert simulation.run() == "all_done"
    state = simulation.state
    assert {task.status for task in state.tasks.values()} == {TaskStatus.COMPLETE}
    assert len(simulation.merged) == len(state.tasks)
    assert {task.iteration for task in state.tasks.values()} == {1}, "a death used up an attempt"
