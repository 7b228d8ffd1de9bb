"""From a list of tasks to a plan, and what of it is done again when the list has changed."""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.events.plan import Dependency, PlanCreated
from holdfast.core.events.task import TaskCompleted
from holdfast.core.fold.fold import Fold
from holdfast.core.task_state import TaskStatus
from holdfast.core.work.tasks import TaskList, TaskSpec, input_keys
from holdfast.core.work.workflow import PlanShape, build_plan
from holdfast.leaf.errors import PlanRejected
from tests.core.logs import fold_once, session_log
from tests.core.strategies import examples


def spec(name: str, *needed: str, title: str | None = None, **more: object) -> TaskSpec:
    return msgspec.convert({"id": name, "title": title or f"Do {name}", "depends_on": needed, **more}, TaskSpec)


def plan(*tasks: TaskSpec, shape: PlanShape = PlanShape.GRAPH) -> PlanCreated:
    return build_plan(TaskList(tasks=tasks), shape)


def waves(plan: PlanCreated) -> list[list[str | int]]:
    assert [wave.wave for wave in plan.waves] == list(range(1, len(plan.waves) + 1))
    return [wave.task_ids for wave in plan.waves]


def order(plan: PlanCreated) -> list[str | int]:
    return [task.id for task in plan.tasks]


DIAMOND = (spec("a"), spec("b", "a"), spec("c", "a"), spec("d", "b", "c"))


def test_a_graph_is_laid_out_in_waves() -> None:
    laid_out = plan(*DIAMOND)
    assert waves(laid_out) == [["a"], ["b", "c"], ["d"]]
    assert laid_out.dependencies == [
        Dependency(task_id="b", blocked_by="a"),
        Dependency(task_id="c", blocked_by="a"),
        Dependency(task_id="d", blocked_by="b"),
        Dependency(task_id="d", blocked_by="c"),
    ]


def test_in_a_sequence_each_waits_for_the_one_before_it() -> None:
    laid_out = plan(spec("a"), spec("b"), spec("c", "a"), shape=PlanShape.SEQUENCE)
    assert waves(laid_out) == [["a"], ["b"], ["c"]]
    assert laid_out.dependencies == [
        Dependency(task_id="b", blocked_by="a"),
        Dependency(task_id="c", blocked_by="b"),
    ]


def test_a_sequence_keeps_the_lists_order_when_it_can() -> None:
    assert order(plan(spec("b"), spec("a", "b"), spec("c"), shape=PlanShape.SEQUENCE)) == ["b", "a", "c"]


def test_a_sequence_puts_what_is_waited_for_first() -> None:
    laid_out = plan(spec("b", "a"), spec("a"), shape=PlanShape.SEQUENCE)
    assert order(laid_out) == ["a", "b"]
    assert waves(laid_out) == [["a"], ["b"]]


@pytest.mark.parametrize("shape", PlanShape)
def test_a_plan_has_all_that_was_written_of_its_tasks(shape: PlanShape) -> None:
    written = spec("a", description="d", acceptance_criteria=["c1", "c2"], files=["a.py"], agent="claude")
    laid_out = build_plan(TaskList(tasks=(written,), overview="All of it"), shape, "tasks/")
    (task,) = laid_out.tasks
    assert (task.id, task.summary, task.description, task.agent) == ("a", "Do a", "d", "claude")
    assert (task.acceptance_criteria, task.files, task.key) == (["c1", "c2"], ["a.py"], input_keys([written])["a"])
    assert (laid_out.overview, laid_out.source) == ("All of it", "tasks/")


@pytest.mark.parametrize("shape", PlanShape)
@pytest.mark.parametrize(
    ("tasks", "complaint"),
    [
        ((spec("a", "b"), spec("b", "a")), "has a cycle"),
        ((spec("a", "x"),), "no task 'x'"),
        ((spec("a"), spec("a")), "'a' twice"),
    ],
)
def test_what_makes_no_order_is_refused(tasks: Sequence[TaskSpec], complaint: str, shape: PlanShape) -> None:
    with pytest.raises(PlanRejected, match=complaint):
        plan(*tasks, shape=shape)


@pytest.mark.parametrize("shape", PlanShape)
def test_an_empty_list_is_an_empty_plan(shape: PlanShape) -> None:
    assert plan(shape=shape) == PlanCreated()


CHANGES = {
    "title": spec("a", title="Another"),
    "description": spec("a", description="d"),
    "criteria": spec("a", acceptance_criteria=["c"]),
    "files": spec("a", files=["a.py"]),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_tasks_own_words_make_its_key(what: str) -> None:
    assert input_keys([CHANGES[what]]) != input_keys([spec("a")])


def test_neither_its_name_nor_who_does_it_makes_its_key() -> None:
    assert input_keys([spec("a", agent="claude")]) == input_keys([spec("a")])
    assert input_keys([spec("z", title="Do a")])["z"] == input_keys([spec("a")])["a"]


def test_what_it_builds_on_makes_its_key_in_whatever_order_it_is_named() -> None:
    keys = input_keys([spec("a"), spec("b"), spec("c", "a", "b")])
    assert input_keys([spec("a"), spec("b"), spec("c", "b", "a")]) == keys
    assert input_keys([spec("a"), spec("b"), spec("c", "a")])["c"] != keys["c"]
    assert input_keys([spec("a", title="Another"), spec("b"), spec("c", "a", "b")])["c"] != keys["c"]


def to_be_done(before: Sequence[TaskSpec], after: Sequence[TaskSpec], shape: PlanShape) -> set[str]:
    """The tasks that are to be done when a list, all of it done, has become another."""
    fold = Fold(fold_once(session_log(plan(*before, shape=shape))).state)
    done = [TaskCompleted(task_id=task.id, key=fold.state.tasks[task.id].key) for task in before]
    fold.feed(session_log(*done, plan(*after, shape=shape), first=1))
    assert fold.state.plan is not None
    return {name for name in fold.state.plan.order if fold.state.tasks[name].status is not TaskStatus.COMPLETE}


ROW = tuple(spec(f"T-{number}") for number in range(1, 6))
EDITS: dict[str, tuple[Sequence[TaskSpec], Sequence[TaskSpec], set[str]]] = {
    "nothing": (ROW, ROW, set()),
    "their order": (ROW, ROW[::-1], set()),
    "one in front": (ROW, (spec("T-0"), *ROW), {"T-0"}),
    "one in between": (ROW, (*ROW[:2], spec("T-2b"), *ROW[2:]), {"T-2b"}),
    "one at the end": (ROW, (*ROW, spec("T-6")), {"T-6"}),
    "one less": (ROW, ROW[1:], set()),
    "the words of one": (ROW, (*ROW[:2], spec("T-3", title="Another"), *ROW[3:]), {"T-3"}),
    "the agent of one": (ROW, (spec("T-1", agent="claude"), *ROW[1:]), set()),
    "a name": (ROW, (spec("new", title="Do T-1"), *ROW[1:]), set()),
    "one in front, and all names": (
        ROW,
        (spec("T-1", title="Do T-0"), *(spec(f"T-{n + 1}", title=f"Do T-{n}") for n in range(1, 6))),
        {"T-1"},
    ),
    "the name of what others build on": (
        DIAMOND,
        (spec("z", title="Do a"), spec("b", "z"), spec("c", "z"), spec("d", "b", "c")),
        set(),
    ),
    "the words of what others build on": (DIAMOND, (spec("a", title="Another"), *DIAMOND[1:]), {"a", "b", "c", "d"}),
    "the words of what one builds on": (DIAMOND, (*DIAMOND[:1], spec("b", "a", title="x"), *DIAMOND[2:]), {"b", "d"}),
    "what one builds on": (DIAMOND, (*DIAMOND[:2], spec("c"), DIAMOND[3]), {"c", "d"}),
}


@pytest.mark.parametrize("shape", PlanShape)
@pytest.mark.parametrize("edit", EDITS)
def test_after_an_edit_exactly_what_changed_is_to_be_done(edit: str, shape: PlanShape) -> None:
    before, after, expected = EDITS[edit]
    assert to_be_done(before, after, shape) == expected


def test_of_ninety_tasks_with_seventy_done_an_edit_of_one_in_front_leaves_twenty_one_and_what_it_added() -> None:
    tasks = [spec(f"T-{number}") for number in range(1, 91)]
    done = [TaskCompleted(task_id=task.id) for task in tasks[:70]]
    edited = [spec("T-0"), spec("T-1", title="Another"), *tasks[1:]]
    log = session_log(plan(*tasks, shape=PlanShape.SEQUENCE), *done, plan(*edited, shape=PlanShape.SEQUENCE))
    found = [name for name, task in fold_once(log).state.tasks.items() if task.status is TaskStatus.PENDING]
    assert sorted(found) == sorted(["T-0", "T-1", *(f"T-{number}" for number in range(71, 91))])


@st.composite
def edits(draw: st.DrawFn) -> tuple[list[TaskSpec], list[TaskSpec], set[str]]:
    """A list, another that it was edited to, and the names whose own words or needs are new."""
    before: list[TaskSpec] = []
    for number in range(draw(st.integers(1, 7))):
        needed = draw(st.sets(st.sampled_from([task.id for task in before]), max_size=2)) if before else set[str]()
        before.append(spec(f"t{number}", *sorted(needed)))
    changed = draw(st.sets(st.sampled_from([task.id for task in before])))
    after = [msgspec.structs.replace(task, title="Another") if task.id in changed else task for task in before]
    added = [spec(f"n{number}") for number in range(draw(st.integers(0, 2)))]
    return before, draw(st.permutations([*after, *added])), changed | {task.id for task in added}


@given(edits(), st.sampled_from(PlanShape))
@examples(150)
def test_after_any_edit_exactly_what_changed_and_what_builds_on_it_is_to_be_done(
    edit: tuple[list[TaskSpec], list[TaskSpec], set[str]], shape: PlanShape
) -> None:
    before, after, expected = edit
    for task in before:  # each comes after what it builds on
        if expected.intersection(task.depends_on):
            expected.add(task.id)
    assert to_be_done(before, after, shape) == expected
