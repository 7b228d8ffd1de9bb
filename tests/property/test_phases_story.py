"""Whatever comes of each step of each phase, and wherever it is cut off: a pipeline ends, and never the wrong way."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.events.plan import PlanCreated
from holdfast.core.phase_state import Approval, PhaseStatus
from holdfast.core.work.workflow import Bounds
from holdfast.workflows.builtin import find_workflow
from tests.core.strategies import examples
from tests.property.test_deciding_story import NAMES, OUTCOMES, bounds, plans, some_of
from tests.support.phase_simulation import PhaseSimulation
from tests.support.simulation import LUCK, World

PIPELINE = find_workflow("pipeline")
MORE = {
    "review": ("passed", "failed"),
    "approval": ("given", "denied", "no answer"),
    "research": ("nothing", "asked"),
}
ALL_WELL = {kind: outcomes[:1] for kind, outcomes in {**LUCK, **MORE}.items()}
lucks = st.fixed_dictionaries({kind: some_of(options) for kind, options in {**LUCK, **MORE}.items()})
wishes = st.lists(st.sampled_from([None, "planning", *NAMES]), max_size=3)


@given(
    st.builds(
        World,
        workflow=st.just(PIPELINE),
        bounds=bounds,
        plans=plans(),
        luck=lucks,
        crashes=st.integers(0, 4),
        messages=wishes,
        seed=st.integers(0, 2**32),
    )
)
@examples(150)
def test_a_pipeline_ends_whatever_comes_of_its_steps_and_publishes_nothing_unreviewed(world: World) -> None:
    simulation = PhaseSimulation(world)
    reason = simulation.run()
    assert reason in {*OUTCOMES, "review_cap"}
    state = simulation.state
    if reason == "all_done":
        assert simulation.planned == simulation.changes
        assert state.changes == {}
        completing = state.phases["completing"]
        assert (completing.status, completing.approval) == (PhaseStatus.COMPLETE, Approval.GIVEN)
    assert len(simulation.published) == len(set(simulation.published))
    assert len(simulation.merged) == len(set(simulation.merged))
    assert state.malformed == []


@given(plans(most=1), wishes, st.integers(0, 9), st.integers(1, 3), st.integers(0, 2**32))
@examples(50)
def test_where_all_goes_well_it_is_done_with_every_wish_planned_however_often_it_is_killed(
    planned: list[PlanCreated], messages: list[str | None], crashes: int, parallel: int, seed: int
) -> None:
    world = World(PIPELINE, Bounds(parallel=parallel), planned, ALL_WELL, crashes, messages, seed)
    simulation = PhaseSimulation(world)
    assert simulation.run() == "all_done"
    assert simulation.planned == simulation.changes
    assert simulation.state.messages == {}


@given(plans(most=1), st.integers(0, 5), st.integers(0, 2**32))
@examples(50)
def test_a_review_that_fails_is_fixed_and_read_again_until_it_passes_or_comes_to_its_limit(
    planned: list[PlanCreated], crashes: int, seed: int
) -> None:
    luck = {**ALL_WELL, "review": ("passed", "passed", "failed")}
    simulation = PhaseSimulation(World(PIPELINE, Bounds(), planned, luck, crashes, (), seed))
    reason = simulation.run()
    reviewing = simulation.state.phases["reviewing"]
    fixes = [name for name in simulation.state.tasks if name.startswith("fix-")]
    assert reviewing.tries <= 3
    if reason == "all_done":
        assert reviewing.outcome == "passed"
        assert len(fixes) == reviewing.round - 1
    else:
        assert (reason, reviewing.reason, reviewing.tries) == ("review_cap", "review_cap", 3)
