"""The setup of worktrees and the baseline of the checks, from their events."""

import pytest

from holdfast.core.decide.baseline import check_key, excused_checks, is_baseline_due, is_excused
from holdfast.core.events.branch import BranchCreated
from holdfast.core.events.effect import EffectHappened, EffectIntended
from holdfast.core.events.preparation import (
    BaselineCheckFinished,
    BaselineFinished,
    BaselineStarted,
    WorktreePrepared,
)
from holdfast.core.events.session import RunCreated
from holdfast.core.state import Baseline, BaselineCheck, Branch, BranchStatus, Conversation, RunState
from tests.core.logs import row

RUN = RunCreated(run_id="r1", goal="g")
BRANCH = BranchCreated(name="holdfast/r1/T-1", base="c0", task="T-1")
IN_PROGRESS = Branch(BranchStatus.IN_PROGRESS, task="T-1", base="c0")
PREPARED = WorktreePrepared(task="T-1", key="k")
STARTED = BaselineStarted(tree="t", checks=["lint", "test"])
LINT = BaselineCheckFinished(key="kl", name="lint", passed=True)
TEST = BaselineCheckFinished(key="kt", name="test", passed=False)
FINISHED = BaselineFinished(tree="t", checks=["lint", "test"], failed=["test"], excused=["test"])
PASSED, FAILED = BaselineCheck("lint", passed=True), BaselineCheck("test", passed=False)

PREPARATION = (
    row(
        "a worktree that was set up",
        RUN,
        BRANCH,
        PREPARED,
        branches={"holdfast/r1/T-1": Branch(BranchStatus.IN_PROGRESS, task="T-1", base="c0", prepared="k")},
    ),
    row(
        "a worktree that was made again is to be set up again",
        RUN,
        BRANCH,
        PREPARED,
        EffectIntended(effect="e", kind="worktree.make", task="T-1", arguments={}),
        EffectHappened(effect="e", settled_by="run", result={}),
        branches={"holdfast/r1/T-1": IN_PROGRESS},
    ),
    row("a worktree that nobody knows", RUN, PREPARED, branches={}),
    row(
        "an interrupted baseline keeps its results",
        STARTED,
        LINT,
        STARTED,
        baseline=Baseline("t", checks={"kl": PASSED}),
    ),
    row(
        "a baseline of other files begins anew",
        STARTED,
        LINT,
        BaselineStarted(tree="u", checks=["lint"]),
        baseline=Baseline("u"),
    ),
    row(
        "a baseline of another runtime begins anew",
        STARTED,
        LINT,
        BaselineStarted(tree="t", checks=["lint"], runtime="sandbox"),
        baseline=Baseline("t", "sandbox"),
    ),
    row(
        "a check that failed on the base is excused",
        STARTED,
        LINT,
        TEST,
        FINISHED,
        baseline=Baseline(
            "t",
            checks={"kl": PASSED, "kt": BaselineCheck("test", passed=False, excused=True)},
            finished=True,
        ),
    ),
)


@pytest.mark.parametrize(
    ("required", "seeded", "excused"),
    [((), False, ["test"]), (("test",), False, []), (("lint",), False, ["test"]), ((), True, [])],
)
def test_failure_on_the_base_excuses_unless_required_or_seeded(
    required: tuple[str, ...], seeded: bool, excused: list[str]
) -> None:
    assert excused_checks([PASSED, FAILED], required, seeded=seeded) == excused


def test_baseline_is_due_until_it_is_finished_or_an_agent_worked() -> None:
    assert is_baseline_due(RunState())
    assert is_baseline_due(RunState(baseline=Baseline("t")))
    assert not is_baseline_due(RunState(baseline=Baseline("t", finished=True)))
    assert not is_baseline_due(RunState(conversations={"c": Conversation()}))


def test_only_the_command_that_failed_on_the_base_is_excused() -> None:
    failed = BaselineCheck("test", passed=False, excused=True)
    state = RunState(baseline=Baseline("t", checks={check_key("test", ["make", "test"]): failed}, finished=True))
    assert is_excused(state, "test", ["make", "test"])
    assert not is_excused(state, "test", ["make", "check"])
    assert not is_excused(RunState(), "test", ["make", "test"])
