"""The plan as a graph: dependencies, waves of tasks that can run at once, and dependents of skipped tasks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

import msgspec

from holdfast.leaf.errors import PlanRejected

TYPE_CHECKING = False
if TYPE_CHECKING:  # every MCP server loads this module, and none needs the state
    from holdfast.core.task_state import Plan


def natural_sort_key(task_id: str) -> list[tuple[int, int, str]]:
    """A sort key for ids that people number: T-2 comes before T-10, and T-01 before T-1."""
    parts = re.split(r"([0-9]+)", task_id)
    return [*(_weight(part) for part in parts if part), (-1, 0, task_id)]


def _weight(part: str) -> tuple[int, int, str]:
    if part[0] not in "0123456789":
        return 1, 0, part
    digits = part.lstrip("0")  # compared by length first, so numbers of any length work
    return 0, len(digits), digits


class PlanGraph(msgspec.Struct, frozen=True):
    """A valid plan: no cycle, no unknown id, no duplicate id. Built by `build_graph` or `plan_graph`."""

    tasks: tuple[str, ...]
    blocked_by: dict[str, tuple[str, ...]]
    waves: tuple[tuple[str, ...], ...]

    def dependents(self, task_ids: Iterable[str]) -> tuple[str, ...]:
        """Every task that waits, directly or through others, for one of these; in plan order."""
        reached = set(task_ids)
        waiting = set[str]()
        for wave in self.waves:
            for task in wave:
                if task not in reached and reached.intersection(self.blocked_by.get(task, ())):
                    waiting.add(task)
                    reached.add(task)
        return tuple(task for task in self.tasks if task in waiting)

    def ready(self, finished: Iterable[str]) -> tuple[str, ...]:
        """The tasks that can start once these are finished, in plan order."""
        done = set(finished)
        return tuple(task for task in self.tasks if task not in done and done.issuperset(self.blocked_by.get(task, ())))


def build_graph(
    tasks: Sequence[str],
    blocked_by: Mapping[str, Sequence[str]],
    waves: Sequence[Sequence[str]] | None = None,
) -> PlanGraph:
    """Check a plan. Without `waves`, each task gets the earliest possible wave; given waves must respect the order."""
    _reject_duplicates(tasks)
    known = set(tasks)
    for task, needed in blocked_by.items():
        for name in (task, *needed):
            if name not in known:
                raise PlanRejected(
                    f"the plan has no task {name!r}, but a dependency of {task!r} names it; "
                    f"its tasks are {_list_ids(tasks)}"
                )
    levels = _levels(tasks, blocked_by)
    if waves:
        _check_waves(tasks, blocked_by, waves)
    needs = {task: tuple(dict.fromkeys(blocked_by[task])) for task in tasks if blocked_by.get(task)}
    return PlanGraph(tuple(tasks), needs, tuple(tuple(wave) for wave in waves or levels))


def plan_graph(plan: Plan) -> PlanGraph:
    """The checked graph of a plan from a log."""
    waves = [plan.waves[number].task_ids for number in sorted(plan.waves)]
    return build_graph(plan.order, plan.blocked_by, [wave for wave in waves if wave])


def _reject_duplicates(tasks: Sequence[str]) -> None:
    seen = set[str]()
    for task in tasks:
        if task in seen:
            raise PlanRejected(f"the plan has task {task!r} twice; give each task an id of its own")
        seen.add(task)


def _levels(tasks: Sequence[str], blocked_by: Mapping[str, Sequence[str]]) -> list[tuple[str, ...]]:
    sorter = TopologicalSorter({task: blocked_by.get(task, ()) for task in tasks})
    try:
        sorter.prepare()
    except CycleError as error:
        cycle = " → ".join(repr(task) for task in reversed(error.args[1]))
        raise PlanRejected(f"the plan has a cycle: {cycle}; remove one of these dependencies") from None
    place = {task: index for index, task in enumerate(tasks)}
    levels = []
    while sorter.is_active():
        level = sorted(sorter.get_ready(), key=place.__getitem__)
        sorter.done(*level)
        levels.append(tuple(level))
    return levels


def _check_waves(tasks: Sequence[str], blocked_by: Mapping[str, Sequence[str]], waves: Sequence[Sequence[str]]) -> None:
    known = set(tasks)
    wave_of: dict[str, int] = {}
    for number, wave in enumerate(waves, start=1):
        for task in wave:
            if task not in known:
                raise PlanRejected(f"wave {number} names task {task!r}; the plan's tasks are {_list_ids(tasks)}")
            if task in wave_of:
                raise PlanRejected(f"task {task!r} is in wave {wave_of[task]} and in wave {number}; keep one")
            wave_of[task] = number
    for task in tasks:
        if task not in wave_of:
            raise PlanRejected(f"task {task!r} is in no wave; add it to one, or leave the waves out")
        for needed in blocked_by.get(task, ()):
            if wave_of[needed] >= wave_of[task]:
                raise PlanRejected(
                    f"task {task!r} (wave {wave_of[task]}) waits for {needed!r} (wave {wave_of[needed]}): "
                    "what it waits for must be in an earlier wave"
                )


def _list_ids(tasks: Sequence[str], max_shown: int = 8) -> str:
    shown = ", ".join(repr(task) for task in tasks[:max_shown])
    return shown + (f" and {len(tasks) - max_shown} more" if len(tasks) > max_shown else "") if tasks else "none"
