"""What one task does next: a table of every stage, of how the last turn went, and of what is used up."""

from itertools import product
from typing import Any, get_args

import pytest
from acp.schema import PromptResponse

from holdfast.core.conversation.states import ENDED_STATES
from holdfast.core.decide.actions import ActionKind, RuntimeFacts
from holdfast.core.decide.tasks import MAX_VERDICT_PROMPTS, decide
from holdfast.core.events.issue import BlockerReported
from holdfast.core.state import Budget, Conversation, Effect, EffectStatus, Issue, OpenTurn, RunState
from holdfast.core.task_state import Task, TaskStage
from holdfast.core.work.workflow import Bounds, Workflow
from tests.core.situations import (
    CASE,
    COMPLETE,
    EVALUATE,
    LOOP,
    SOLO,
    WORKFLOWS,
    begun,
    describe,
    failed,
    of_task,
    situation,
    words,
)

STOP_REASONS = get_args(PromptResponse.model_fields["stop_reason"].annotation)
BOUNDS = Bounds()
ASKING = Bounds(ask_when_interrupted=True)
OPEN = OpenTurn("t")


def worked(last: str | None = None, **more: Any) -> Conversation:
    """A worker whose turn is over."""
    return Conversation(**{"turns": 1, "last": last, **more})


def alone(task: Task, worker: Conversation | None = None, **more: Any) -> RunState:
    """A run with one task, and its worker."""
    if worker is not None:
        task.worker = "w"
        more["conversations"] = {"w": worker, **more.get("conversations", {})}
    return situation({"1": task}, **more)


BEGIN, GO_ON, TAKE = "work 1 (begin)", "work 1 (go on)", "take as done 1"
NO_CASE, UNKNOWN = (f"end iteration 1 ({reason})" for reason in ("no_case", "unknown"))
DECLINED = "fail 1 (declined)"
EMPTY, SAID_NOTHING = "end iteration 1 (empty_responses)", "fail 1 (empty_responses)"
WAITING, PARKED = "stop (waiting)", "stop (parked)"

#  how the worker's last turn went          a worker alone, one that must argue, one whose person is to be asked
AT_WORK: dict[str, tuple[Conversation | None, str, str, str]] = {
    "there is none": (None, BEGIN, BEGIN, BEGIN),
    "it was told nothing": (Conversation(), BEGIN, BEGIN, BEGIN),
    "end_turn": (worked("end_turn"), TAKE, NO_CASE, TAKE),
    "end_turn, and it was empty": (worked("end_turn", empty=1), EMPTY, EMPTY, EMPTY),
    "a second empty one": (worked("end_turn", turns=2, empty=2), EMPTY, EMPTY, EMPTY),
    "a third empty one": (worked("end_turn", turns=3, empty=3), SAID_NOTHING, SAID_NOTHING, SAID_NOTHING),
    "max_tokens": (worked("max_tokens"), TAKE, NO_CASE, TAKE),
    "max_turn_requests": (worked("max_turn_requests"), TAKE, NO_CASE, TAKE),
    "refusal": (worked("refusal"), DECLINED, DECLINED, DECLINED),
    "nobody knows": (worked(None), UNKNOWN, UNKNOWN, UNKNOWN),
    "cancelled": (worked("cancelled", cuts=1), GO_ON, GO_ON, WAITING),
    "interrupted": (worked("interrupted", cuts=1), GO_ON, GO_ON, WAITING),
    "interrupted, and resumed": (worked("interrupted"), GO_ON, GO_ON, WAITING),
    "refused": (worked("refused", cuts=1), GO_ON, GO_ON, GO_ON),
    "refused, and resumed": (worked("refused"), GO_ON, GO_ON, GO_ON),
    "refused too often": (worked("refused", cuts=5), PARKED, PARKED, PARKED),
    "refused, and then it never ended": (worked("refused", turns=2, turn=OPEN), GO_ON, GO_ON, WAITING),
    "it never ended": (worked(None, turn=OPEN), GO_ON, GO_ON, WAITING),
    "another ended, it never did": (worked("end_turn", turns=2, turn=OPEN), GO_ON, GO_ON, WAITING),
    "interrupted too often": (worked("interrupted", cuts=5), PARKED, PARKED, WAITING),
    "cancelled too often": (worked("cancelled", cuts=5), PARKED, PARKED, WAITING),
}


@pytest.mark.parametrize("how", AT_WORK)
def test_at_work_it_depends_on_how_the_last_turn_went(how: str) -> None:
    worker, solo, case, asking = AT_WORK[how]
    state = alone(begun(), worker)
    for workflow in (SOLO, EVALUATE):
        assert describe(decide(state, workflow, BOUNDS)) == solo
        assert describe(decide(state, workflow, ASKING)) == asking
    for workflow in (CASE, LOOP):
        assert describe(decide(state, workflow, BOUNDS)) == case


def test_the_table_has_every_way_in_which_a_turn_ends() -> None:
    assert AT_WORK.keys() >= {*STOP_REASONS, "interrupted", "refused"}
    assert EVALUATED.keys() >= {*STOP_REASONS, "interrupted", "refused"}


#  what is told to a worker that was not told anything in this iteration
NEXT: dict[str, tuple[Task, str]] = {
    "the work was not good enough": (begun(since=1, iteration=2), "work 1 (again)"),
    "there was no case": (begun(since=1, iteration=2, reason="no_case"), "work 1 (nudge)"),
    "its turn was empty": (begun(since=1, iteration=2, reason="empty_responses"), "work 1 (nudge)"),
    "it refused": (begun(since=1, iteration=2, reason="refusal"), "work 1 (again)"),
    "there are conflicts": (begun(since=1, iteration=2, conflicts=["a"], conflicted=1), "work 1 (resolve)"),
    "conflicts, and no case": (begun(since=1, iteration=3, conflicts=["a"], reason="no_case"), "work 1 (resolve)"),
}


@pytest.mark.parametrize("why", NEXT)
@pytest.mark.parametrize("last", ["end_turn", "refusal", "interrupted"])
def test_in_a_new_iteration_the_worker_is_told_why(why: str, last: str) -> None:
    task, expected = NEXT[why]
    for workflow, bounds in product(WORKFLOWS, (BOUNDS, ASKING)):
        assert describe(decide(alone(task, worked(last)), workflow, bounds)) == expected


def test_who_is_new_to_conflicts_is_told_of_them() -> None:
    task = begun(iteration=2, conflicts=["a"], conflicted=1)
    assert describe(decide(alone(task), LOOP, BOUNDS)) == "work 1 (resolve)"
    assert describe(decide(alone(task, Conversation()), LOOP, BOUNDS)) == "work 1 (resolve)"


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_resolved_conflicts_need_no_case_and_no_verdict(workflow: Workflow) -> None:
    resolved = begun(iteration=2, conflicts=["a"], conflicted=1, since=1)
    assert describe(decide(alone(resolved, worked("end_turn", turns=2)), workflow, BOUNDS)) == TAKE
    validated = begun(TaskStage.EVALUATE, iteration=2, conflicts=["a"], conflicted=1)
    assert describe(decide(alone(validated), workflow, BOUNDS)) == "commit 1"


STAGES: dict[TaskStage, dict[str, str]] = {
    TaskStage.WORK: dict.fromkeys(("solo", "case", "evaluate", "loop"), BEGIN),
    TaskStage.VALIDATE: dict.fromkeys(("solo", "case", "evaluate", "loop"), "validate 1"),
    TaskStage.EVALUATE: {
        "solo": "commit 1",
        "case": "commit 1",
        "evaluate": "evaluate 1 (begin)",
        "loop": "evaluate 1 (begin)",
    },
    TaskStage.COMMIT: dict.fromkeys(("solo", "case", "evaluate", "loop"), "commit 1"),
    TaskStage.MERGE: dict.fromkeys(("solo", "case", "evaluate", "loop"), "merge 1"),
    TaskStage.COMPLETE: dict.fromkeys(("solo", "case", "evaluate", "loop"), "complete 1"),
}


@pytest.mark.parametrize("stage", TaskStage)
@pytest.mark.parametrize("workflow", WORKFLOWS, ids=[workflow.name for workflow in WORKFLOWS])
def test_each_stage_has_its_step(stage: TaskStage, workflow: Workflow) -> None:
    assert describe(decide(alone(begun(stage)), workflow, BOUNDS)) == STAGES[stage][workflow.name]


def test_refused_tool_calls_without_a_change_are_no_finished_task() -> None:
    """An evaluator that accepted it decides otherwise; so does a change."""
    refused, changed = begun(TaskStage.COMPLETE, refused=1), begun(TaskStage.COMPLETE, refused=1, commit="c")
    for workflow in WORKFLOWS:
        expected = "complete 1" if workflow.evaluate else "fail 1 (refused)"
        assert describe(decide(alone(refused), workflow, BOUNDS)) == expected
        assert describe(decide(alone(changed), workflow, BOUNDS)) == "complete 1"
    assert describe(decide(situation({"1": failed("refused")}), SOLO, BOUNDS)) == "stop (refused)"


@pytest.mark.parametrize("stage", [stage for stage in TaskStage if stage is not TaskStage.WORK])
@pytest.mark.parametrize("how", AT_WORK)
def test_past_the_work_it_does_not_matter_how_the_workers_turn_went(stage: TaskStage, how: str) -> None:
    worker = AT_WORK[how][0]
    for workflow, bounds in product(WORKFLOWS, (BOUNDS, ASKING)):
        expected = STAGES[stage][workflow.name]
        assert describe(decide(alone(begun(stage, iteration=99), worker), workflow, bounds)) == expected


#  how the evaluator's last turn went
EVALUATED: dict[str, tuple[Conversation | None, str]] = {
    "there is none": (None, "evaluate 1 (begin)"),
    "it was told nothing": (Conversation(), "evaluate 1 (begin)"),
    **{f"it is {over}": (worked("end_turn", state=over), "evaluate 1 (begin)") for over in sorted(ENDED_STATES)},
    "end_turn": (worked("end_turn"), "evaluate 1 (nudge)"),
    "end_turn, and it was empty": (worked("end_turn", empty=1), "evaluate 1 (nudge)"),
    "a third empty one": (worked("end_turn", turns=3, empty=3), SAID_NOTHING),
    "max_tokens": (worked("max_tokens"), "evaluate 1 (nudge)"),
    "max_turn_requests": (worked("max_turn_requests"), "evaluate 1 (nudge)"),
    "refusal": (worked("refusal"), "evaluate 1 (nudge)"),
    "end_turn a second time": (worked("end_turn", turns=2), "evaluate 1 (nudge)"),
    "end_turn as often as it is asked": (worked("end_turn", turns=MAX_VERDICT_PROMPTS), "judge 1"),
    "end_turn as often, but cut off in between": (
        worked("end_turn", turns=MAX_VERDICT_PROMPTS, interrupted_turns=1),
        "evaluate 1 (nudge)",
    ),
    "cancelled": (worked("cancelled", interrupted_turns=1, cuts=1), "evaluate 1 (go on)"),
    "interrupted": (worked("interrupted", interrupted_turns=1, cuts=1), "evaluate 1 (go on)"),
    "refused": (worked("refused", turns=9, interrupted_turns=9, cuts=1), "evaluate 1 (go on)"),
    "interrupted, after it was heard out": (
        worked("interrupted", turns=9, interrupted_turns=1, cuts=1),
        "evaluate 1 (go on)",
    ),
    "it never ended": (worked(None, turn=OPEN), "evaluate 1 (go on)"),
    "interrupted too often": (worked("interrupted", interrupted_turns=5, turns=5, cuts=5), PARKED),
}


@pytest.mark.parametrize("how", EVALUATED)
def test_the_evaluator_is_asked_until_there_is_a_verdict(how: str) -> None:
    evaluator, expected = EVALUATED[how]
    conversations = {} if evaluator is None else {"e": evaluator}
    state = alone(begun(TaskStage.EVALUATE, evaluator="e"), worked("end_turn"), conversations=conversations)
    for workflow, bounds in product((EVALUATE, LOOP), (BOUNDS, ASKING)):
        assert describe(decide(state, workflow, bounds)) == expected
    for workflow in (SOLO, CASE):
        assert describe(decide(state, workflow, BOUNDS)) == "commit 1"


def blocked(task: str | None) -> list[Issue]:
    return [Issue(BlockerReported.type, 0, task=task), Issue("error.encountered", 1, task="1")]


CAPS: dict[str, tuple[RunState, str]] = {
    "the last iteration": (alone(begun(iteration=8)), BEGIN),
    "one more": (alone(begun(iteration=9)), "fail 1 (iter_cap)"),
    "one more, without a case": (alone(begun(iteration=9, reason="no_case")), "fail 1 (no_case)"),
    "one more, after an empty turn": (
        alone(begun(iteration=9, reason="empty_responses"), worked("end_turn", empty=1)),
        SAID_NOTHING,
    ),
    "one more, after a refusal": (alone(begun(iteration=9, reason="refusal")), "fail 1 (iter_cap)"),
    "one more, for a conflict of the last": (
        alone(begun(iteration=9, conflicts=["a"], conflicted=1)),
        "work 1 (resolve)",
    ),
    "one more after the conflict of the last": (
        alone(begun(iteration=10, conflicts=["a"], conflicted=1)),
        "fail 1 (iter_cap)",
    ),
    "the last conflict": (alone(begun(iteration=3, conflicts=["a"], conflicted=2)), "work 1 (resolve)"),
    "one conflict more": (alone(begun(iteration=4, conflicts=["a"], conflicted=3)), "fail 1 (conflicts)"),
    "the last verdict": (alone(begun(TaskStage.EVALUATE, evaluations=3)), "evaluate 1 (begin)"),
    "one verdict more": (alone(begun(TaskStage.EVALUATE, evaluations=4)), "fail 1 (evaluator_cap)"),
    "accepted by the last verdict": (alone(begun(TaskStage.COMMIT, evaluations=4, iteration=9)), "commit 1"),
    "blocked": (alone(begun(), issues=blocked("1")), "fail 1 (blocked)"),
    "blocked, with words for it": (alone(begun(), issues=blocked("1"), messages=words(m="1")), "fail 1 (blocked)"),
    "another is blocked": (alone(begun(), issues=blocked("2")), BEGIN),
    "nobody knows who is blocked": (alone(begun(), issues=blocked(None)), BEGIN),
    "blocked, with a case": (alone(begun(TaskStage.VALIDATE), issues=blocked("1")), "validate 1"),
}


@pytest.mark.parametrize("what", CAPS)
def test_a_task_that_used_up_its_caps_fails(what: str) -> None:
    state, expected = CAPS[what]
    assert describe(decide(state, LOOP, BOUNDS)) == expected


SPENT: dict[str, tuple[Bounds, RuntimeFacts, str]] = {
    "nothing is bounded": (Bounds(), RuntimeFacts(elapsed_s=1e9), BEGIN),
    "time is left": (Bounds(wall_clock=10), RuntimeFacts(elapsed_s=9.9), BEGIN),
    "time is up": (Bounds(wall_clock=10), RuntimeFacts(elapsed_s=10), "stop (wall_clock)"),
    "time is up while it is at work": (
        Bounds(wall_clock=10),
        RuntimeFacts(frozenset({of_task("1")}), elapsed_s=10),
        "stop (wall_clock)",
    ),
    "tokens are left": (Bounds(tokens=8), RuntimeFacts(), BEGIN),
    "tokens are spent": (Bounds(tokens=7), RuntimeFacts(), "stop (token_cap)"),
    "dollars are left": (Bounds(dollars=1.6), RuntimeFacts(), BEGIN),
    "dollars are spent": (Bounds(dollars=1.5), RuntimeFacts(), "stop (cost_cap)"),
    "nothing may be spent": (Bounds(dollars=0), RuntimeFacts(), "stop (cost_cap)"),
    "all is spent": (Bounds(wall_clock=0, tokens=0, dollars=0), RuntimeFacts(), "stop (wall_clock)"),
}


@pytest.mark.parametrize("what", SPENT)
def test_a_session_ends_when_it_has_spent_what_it_may(what: str) -> None:
    bounds, facts, expected = SPENT[what]
    assert describe(decide(alone(begun(), budget=Budget(5, 2, 1.5)), SOLO, bounds, facts)) == expected


def test_what_is_done_is_done_however_much_it_cost() -> None:
    begun_task, bounds = situation({"1": begun(TaskStage.COMPLETE)}, budget=Budget(5)), Bounds(tokens=5)
    assert describe(decide(begun_task, SOLO, bounds)) == "stop (token_cap)"
    done = situation({"1": COMPLETE}, budget=Budget(5))
    assert describe(decide(done, SOLO, bounds)) == "close wave 1"
    closed = situation({"1": COMPLETE}, budget=Budget(5))
    assert closed.plan is not None
    closed.plan.waves[1].completed = True
    assert describe(decide(closed, SOLO, bounds)) == "stop (all_done)"


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=[workflow.name for workflow in WORKFLOWS])
def test_in_every_state_there_is_one_thing_to_do_or_a_reason_to_stop(workflow: Workflow) -> None:
    conversations: list[tuple[Conversation | None, Conversation | None]] = [
        *((worker, None) for worker, *_ in AT_WORK.values()),
        *((worked("end_turn"), evaluator) for evaluator, _ in EVALUATED.values()),
    ]
    counts = [(1, 0, 0), (9, 0, 0), (1, 4, 0), (9, 4, 3)]
    for stage, (worker, evaluator), bounds in product(TaskStage, conversations, (BOUNDS, ASKING)):
        for (iteration, evaluations, conflicted), conflicts, since in product(counts, ([], ["a"]), (0, 1)):
            task = begun(stage, iteration=iteration, evaluations=evaluations, conflicted=conflicted, since=since)
            task.conflicts, task.evaluator = conflicts, "e"
            state = alone(task, worker, conversations={} if evaluator is None else {"e": evaluator})
            (action,) = decide(state, workflow, bounds)
            assert (action.kind is ActionKind.STOP) == (action.reason in ("waiting", "parked")), action
            assert action.kind is ActionKind.STOP or action.task == "1"
            assert decide(state, workflow, bounds, RuntimeFacts(busy=frozenset({of_task("1")}))) == []
            assert describe(decide(state, workflow, bounds, RuntimeFacts(stuck=frozenset({of_task("1")})))) in (
                PARKED,
                WAITING,
            )


def test_a_task_of_which_an_effect_is_unclear_is_left_alone_until_a_person_has_looked() -> None:
    """Merging it again could do it twice; the others go on."""
    unclear = {"e": Effect("merge", "1", status=EffectStatus.UNKNOWN)}
    both = situation({"1": begun(TaskStage.MERGE), "2": begun(TaskStage.COMMIT)}, effects=unclear)
    assert describe(decide(both, LOOP, BOUNDS)) == "commit 2"
    assert describe(decide(situation({"1": begun(TaskStage.MERGE)}, effects=unclear), LOOP, BOUNDS)) == WAITING
