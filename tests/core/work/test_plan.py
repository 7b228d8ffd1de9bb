import itertools
import random
import time
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.events.plan import Dependency, PlanCreated, PlannedTask, PlannedWave
from holdfast.core.events.task import WaveStarted
from holdfast.core.work.plan import PlanGraph, build_graph, natural_sort_key, plan_graph
from holdfast.leaf.errors import PlanRejected
from tests.core.logs import fold_once, session_log
from tests.core.strategies import examples

DIAMOND = {"left": ["top"], "right": ["top"], "bottom": ["left", "right"]}
DIAMOND_TASKS = ["top", "left", "right", "bottom", "aside"]


def rejection(
    tasks: Sequence[str], blocked_by: Mapping[str, Sequence[str]], waves: Sequence[Sequence[str]] | None = None
) -> str:
    with pytest.raises(PlanRejected) as caught:
        build_graph(tasks, blocked_by, waves)
    return str(caught.value)


# What is rejected


@pytest.mark.parametrize(
    ("tasks", "blocked_by", "waves", "message"),
    [
        (["a", "b", "a"], {}, None, "the plan has task 'a' twice; give each task an id of its own"),
        (
            ["a"],
            {"a": ["z"]},
            None,
            "the plan has no task 'z', but a dependency of 'a' names it; its tasks are 'a'",
        ),
        (
            ["a"],
            {"z": ["a"]},
            None,
            "the plan has no task 'z', but a dependency of 'z' names it; its tasks are 'a'",
        ),
        ([], {"z": ["a"]}, None, "the plan has no task 'z', but a dependency of 'z' names it; its tasks are none"),
        (["a"], {"a": ["a"]}, None, "the plan has a cycle: 'a' → 'a'; remove one of these dependencies"),
        (
            ["a", "b"],
            {"a": ["b"], "b": ["a"]},
            [["a"], ["b"]],
            "the plan has a cycle: 'a' → 'b' → 'a'; remove one of these dependencies",
        ),
        (
            ["a", "b"],
            {"b": ["a"]},
            [["b"], ["a"]],
            "task 'b' (wave 1) waits for 'a' (wave 2): what it waits for must be in an earlier wave",
        ),
        (
            ["a", "b"],
            {"b": ["a"]},
            [["a", "b"]],
            "task 'b' (wave 1) waits for 'a' (wave 1): what it waits for must be in an earlier wave",
        ),
        (["a", "b"], {}, [["a"]], "task 'b' is in no wave; add it to one, or leave the waves out"),
        (["a", "b"], {}, [["a", "b"], ["a"]], "task 'a' is in wave 1 and in wave 2; keep one"),
        (["a", "b"], {}, [["a", "a", "b"]], "task 'a' is in wave 1 and in wave 1; keep one"),
        (["a"], {}, [["a", "z"]], "wave 1 names task 'z'; the plan's tasks are 'a'"),
    ],
)
def test_a_plan_that_cannot_work_is_rejected_with_the_value_and_what_to_do(
    tasks: list[str], blocked_by: dict[str, list[str]], waves: list[list[str]] | None, message: str
) -> None:
    assert rejection(tasks, blocked_by, waves) == message


def test_a_circle_is_shown_as_what_waits_for_what() -> None:
    said = rejection(["1", "2", "3", "4"], {"1": ["3"], "2": ["1"], "3": ["2"], "4": ["1"]})
    circle = said.removeprefix("the plan has a cycle: ").partition(";")[0].split(" → ")
    assert circle[0] == circle[-1]
    steps = list(itertools.pairwise(circle))
    assert sorted(steps) == [("'1'", "'3'"), ("'2'", "'1'"), ("'3'", "'2'")]


def test_of_many_tasks_a_message_names_the_first() -> None:
    tasks = [str(number) for number in range(30)]
    assert rejection(tasks, {"1": ["x"]}).endswith("its tasks are '0', '1', '2', '3', '4', '5', '6', '7' and 22 more")


NASTY = ("a\nb", "c\r", "→", "")


@pytest.mark.parametrize(
    ("blocked_by", "waves"),
    [
        ({"a\nb": ["c\r"], "c\r": ["a\nb"]}, None),
        ({"a\nb": ["x\ny"]}, None),
        ({"a\nb": ["c\r"]}, [["a\nb"], ["c\r", "→", ""]]),
        ({}, [["a\nb", "a\nb"]]),
        ({}, [["x\ny"]]),
        ({}, [["a\nb"]]),
    ],
)
def test_a_rejection_is_one_line_whatever_the_ids(
    blocked_by: dict[str, list[str]], waves: list[list[str]] | None
) -> None:
    assert len(rejection(NASTY, blocked_by, waves).splitlines()) == 1


def test_a_rejected_plan_in_a_log_is_kept_and_rejected_when_it_is_used() -> None:
    plan = PlanCreated(
        tasks=[PlannedTask(id=1), PlannedTask(id=2)],
        dependencies=[Dependency(task_id=1, blocked_by=2), Dependency(task_id=2, blocked_by=1)],
    )
    kept = fold_once(session_log(plan)).state.plan
    assert kept is not None
    with pytest.raises(PlanRejected, match="'1' → '2' → '1'"):
        plan_graph(kept)


# Waves


def test_without_waves_of_its_own_a_plan_gets_the_shallowest() -> None:
    assert build_graph(DIAMOND_TASKS, DIAMOND).waves == (("top", "aside"), ("left", "right"), ("bottom",))


def test_waves_of_its_own_are_kept() -> None:
    waves = [["top"], ["right", "left"], ["aside", "bottom"]]
    assert build_graph(DIAMOND_TASKS, DIAMOND, waves).waves == (("top",), ("right", "left"), ("aside", "bottom"))


@pytest.mark.parametrize("waves", [None, []])
def test_no_waves_are_no_waves_of_its_own(waves: list[list[str]] | None) -> None:
    assert build_graph(["a"], {}, waves).waves == (("a",),)


def test_a_plan_without_tasks_has_no_waves() -> None:
    assert build_graph([], {}) == PlanGraph((), {}, ())


def test_a_dependency_named_twice_counts_once() -> None:
    found = build_graph(["a", "b"], {"b": ["a", "a"]})
    assert (found.waves, found.blocked_by) == ((("a",), ("b",)), {"b": ("a",)})


def test_the_waves_of_a_log_go_by_their_numbers() -> None:
    plan = PlanCreated(
        tasks=[PlannedTask(id=1), PlannedTask(id=2), PlannedTask(id=3)],
        waves=[
            PlannedWave(wave=10, task_ids=[3]),
            PlannedWave(wave=2, task_ids=[2]),
            PlannedWave(wave=1, task_ids=["1"]),
        ],
        dependencies=[Dependency(task_id=2, blocked_by="1"), Dependency(task_id=3, blocked_by=2)],
    )
    kept = fold_once(session_log(plan, WaveStarted(wave=99))).state.plan
    assert kept is not None
    assert plan_graph(kept).waves == (("1",), ("2",), ("3",))


# Order


@pytest.mark.parametrize(
    "ordered",
    [
        ["T-1", "T-2", "T-10", "T-11"],
        ["1", "2", "10", "a", "a1", "a2", "a10", "b"],
        ["T-1", "T-1a", "T-1b", "T-2"],
        ["T-1-2", "T-1-10", "T-2-1"],
        ["T-01", "T-1", "T-02"],
        ["", "0", "00", "1"],
        ["9" * 50, "9" * 5_000],
        ["1", "²", "٣"],
    ],
)
def test_ids_sort_by_number(ordered: list[str]) -> None:
    for seed in range(5):
        shuffled = random.Random(seed).sample(ordered, len(ordered))
        assert sorted(shuffled, key=natural_sort_key) == ordered


# Who waits


@pytest.mark.parametrize(
    ("skipped", "waiting"),
    [
        ([], ()),
        (["bottom"], ()),
        (["aside"], ()),
        (["left"], ("bottom",)),
        (["left", "right"], ("bottom",)),
        (["top"], ("left", "right", "bottom")),
        (["top", "left"], ("right", "bottom")),
        (["unknown"], ()),
    ],
)
def test_dependents_wait_directly_or_through_others(skipped: list[str], waiting: tuple[str, ...]) -> None:
    assert build_graph(DIAMOND_TASKS, DIAMOND).dependents(skipped) == waiting


@pytest.mark.parametrize(
    ("finished", "ready"),
    [
        ([], ("top", "aside")),
        (["top"], ("left", "right", "aside")),
        (["top", "left"], ("right", "aside")),
        (["top", "left", "right", "aside"], ("bottom",)),
        (DIAMOND_TASKS, ()),
        (["unknown"], ("top", "aside")),
    ],
)
def test_ready_is_what_waits_for_nothing_unfinished(finished: list[str], ready: tuple[str, ...]) -> None:
    assert build_graph(DIAMOND_TASKS, DIAMOND).ready(finished) == ready


def test_a_plan_of_ten_thousand_tasks_is_checked_in_time() -> None:
    begun = time.process_time()
    tasks = [str(number) for number in range(10_000)]
    chain = {later: [earlier] for earlier, later in itertools.pairwise(tasks)}
    found = build_graph(tasks, chain, [[task] for task in tasks])
    assert found.dependents(["0"]) == tuple(tasks[1:])
    assert time.process_time() - begun < 20


# Any plan


@st.composite
def plans(draw: st.DrawFn) -> tuple[list[str], dict[str, list[str]]]:
    """Tasks in any order, each waiting for some that have a smaller number."""
    count = draw(st.integers(0, 8))
    blocked_by = {
        str(task): [str(needed) for needed in draw(st.lists(st.integers(0, task - 1), max_size=3))]
        for task in range(1, count)
        if draw(st.booleans())
    }
    return draw(st.permutations([str(task) for task in range(count)])), blocked_by


@given(plans())
@examples(150)
def test_derived_waves_hold_each_task_once_and_after_what_it_waits_for(
    plan: tuple[list[str], dict[str, list[str]]],
) -> None:
    tasks, blocked_by = plan
    found = build_graph(tasks, blocked_by)
    wave_of = {task: number for number, wave in enumerate(found.waves) for task in wave}
    assert sorted(task for wave in found.waves for task in wave) == sorted(tasks)
    for task in tasks:
        deepest = max((wave_of[needed] for needed in blocked_by.get(task, ())), default=-1)
        assert wave_of[task] == deepest + 1
    assert build_graph(tasks, blocked_by, found.waves).waves == found.waves


@given(plans())
@examples(100)
def test_finishing_what_is_ready_finishes_the_plan_wave_by_wave(
    plan: tuple[list[str], dict[str, list[str]]],
) -> None:
    found = build_graph(*plan)
    done: list[str] = []
    for wave in found.waves:
        assert found.ready(done) == wave
        done.extend(wave)
    assert found.ready(done) == ()


@given(plans(), st.data())
@examples(100)
def test_what_can_still_run_without_the_skipped_tasks_is_all_but_their_dependents(
    plan: tuple[list[str], dict[str, list[str]]], data: st.DataObject
) -> None:
    found = build_graph(*plan)
    skipped = data.draw(st.lists(st.sampled_from(found.tasks), unique=True)) if found.tasks else []
    done: set[str] = set()
    while ready := [task for task in found.ready(done) if task not in skipped]:
        done.update(ready)
    assert found.dependents(skipped) == tuple(task for task in found.tasks if task not in done and task not in skipped)
