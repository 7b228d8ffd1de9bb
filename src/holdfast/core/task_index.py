"""An index of the tasks that can move, so that choosing the next action does not visit finished or blocked tasks.

It is derived from the plan and the statuses of its tasks, and kept beside the state: it is not part of a snapshot, and
states are equal whatever their indexes. The first use builds it. After that the fold keeps it up to date with each
status, and drops it when the plan changes.
"""

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterator, Mapping

from holdfast.core.phase_state import Research
from holdfast.core.state import RunState
from holdfast.core.task_state import Plan, Task, TaskStatus

DONE_STATUSES = (TaskStatus.COMPLETE, TaskStatus.SKIPPED)
_TASK_INDEX, _OPEN_RESEARCH = "task_index", "open_research"


class SortedNumbers:
    """A sorted list of numbers, each once. It is read by position, never searched from its start."""

    def __init__(self) -> None:
        self._numbers: list[int] = []

    def __iter__(self) -> Iterator[int]:
        return iter(self._numbers)

    def __contains__(self, number: int) -> bool:
        place = bisect_left(self._numbers, number)
        return place < len(self._numbers) and self._numbers[place] == number

    def __len__(self) -> int:
        return len(self._numbers)

    def set(self, number: int, *, present: bool) -> None:
        if present == (number in self):
            return
        if present:
            insort(self._numbers, number)
        else:
            del self._numbers[bisect_left(self._numbers, number)]

    def first(self) -> int | None:
        return self._numbers[0] if self._numbers else None

    def after(self, number: int | None) -> int | None:
        """The lowest number above this one; without one, the lowest."""
        place = 0 if number is None else bisect_right(self._numbers, number)
        return self._numbers[place] if place < len(self._numbers) else None


class WaveIndex:
    """The tasks of a wave by status. Tasks are given as positions in the wave."""

    def __init__(self, task_ids: list[str]) -> None:
        self.task_ids = list(dict.fromkeys(task_ids))
        self.positions = {task_id: position for position, task_id in enumerate(self.task_ids)}
        self.unfinished = 0
        self.ready = SortedNumbers()  # pending, and everything that they wait for is done
        self.in_progress = SortedNumbers()


class TaskIndex:
    def __init__(self, plan: Plan | None, tasks: Mapping[str, Task]) -> None:
        plan = plan or Plan()
        self._tasks = tasks
        self.positions = {task_id: position for position, task_id in enumerate(dict.fromkeys(plan.order))}
        self.order = list(self.positions)
        self.counts: Counter[TaskStatus] = Counter()  # of planned tasks
        self.in_progress, self.failed = SortedNumbers(), SortedNumbers()  # positions in the plan
        self.waves = {number: WaveIndex(wave.task_ids) for number, wave in plan.waves.items()}
        self.unfinished_waves = SortedNumbers()  # waves that are not closed, with tasks that are not done
        self.finished_waves = SortedNumbers()  # waves that are not closed, without such tasks
        self._ready_waves, self._working_waves = SortedNumbers(), SortedNumbers()
        self._waves_of: dict[str, list[int]] = {}
        self._dependents: dict[str, list[str]] = {}
        self._unmet: dict[str, int] = {}
        self._build(plan)

    def waves_of(self, task_id: str) -> list[int]:
        """The waves that list a task: one in a valid plan."""
        return self._waves_of.get(task_id, [])

    def is_planned(self, task_id: str) -> bool:
        return task_id in self.positions

    def is_ready(self, task_id: str) -> bool:
        """Whether everything that a task waits for is done."""
        return not self._unmet.get(task_id)

    def is_done(self) -> bool:
        """Whether every planned task is done."""
        return sum(self.counts[status] for status in DONE_STATUSES) == len(self.positions)

    def next_wave(self, number: int | None, *, with_ready: bool) -> int | None:
        """The next wave that has tasks in progress, or, if asked for, ready ones."""
        found = (self._working_waves.after(number), self._ready_waves.after(number) if with_ready else None)
        return min((wave for wave in found if wave is not None), default=None)

    def change_status(self, task_id: str, before: TaskStatus, after: TaskStatus) -> None:
        """Note that the status of a task changed. The tasks of the state have the new one already."""
        if before is after:
            return
        self._count(task_id, before, -1)
        self._count(task_id, after, 1)
        self._place(task_id, after)
        change = (before in DONE_STATUSES) - (after in DONE_STATUSES)
        if change:
            self._count_unfinished(task_id, change)
            for dependent in self._dependents.get(task_id, ()):
                self._unmet[dependent] += change
                self._place(dependent, self._status(dependent))

    def close_wave(self, number: int, *, closed: bool) -> None:
        """Note that a wave was closed, or opened again."""
        unfinished = self.waves[number].unfinished > 0
        self.unfinished_waves.set(number, present=not closed and unfinished)
        self.finished_waves.set(number, present=not closed and not unfinished)

    def _build(self, plan: Plan) -> None:
        for task_id in self.order:
            self._count(task_id, self._status(task_id), 1)
        for number, wave in self.waves.items():
            for task_id in wave.task_ids:
                self._waves_of.setdefault(task_id, []).append(number)
                wave.unfinished += self._status(task_id) not in DONE_STATUSES
            self.close_wave(number, closed=plan.waves[number].completed)
        for task_id, needed in plan.blocked_by.items():
            for other in dict.fromkeys(needed):
                self._dependents.setdefault(other, []).append(task_id)
            self._unmet[task_id] = sum(self._status(other) not in DONE_STATUSES for other in dict.fromkeys(needed))
        for task_id in self._waves_of:
            self._place(task_id, self._status(task_id))

    def _status(self, task_id: str) -> TaskStatus:
        task = self._tasks.get(task_id)
        return task.status if task is not None else TaskStatus.PENDING

    def _count(self, task_id: str, status: TaskStatus, change: int) -> None:
        position = self.positions.get(task_id)
        if position is None:
            return
        self.counts[status] += change
        if status is TaskStatus.IN_PROGRESS:
            self.in_progress.set(position, present=change > 0)
        elif status is TaskStatus.FAILED:
            self.failed.set(position, present=change > 0)

    def _count_unfinished(self, task_id: str, change: int) -> None:
        for number in self.waves_of(task_id):
            closed = number not in self.unfinished_waves and number not in self.finished_waves
            self.waves[number].unfinished += change
            self.close_wave(number, closed=closed)

    def _place(self, task_id: str, status: TaskStatus) -> None:
        """List a task as ready or in progress in its waves, or as neither."""
        ready = status is TaskStatus.PENDING and self.is_ready(task_id)
        for number in self.waves_of(task_id):
            wave = self.waves[number]
            wave.ready.set(wave.positions[task_id], present=ready)
            wave.in_progress.set(wave.positions[task_id], present=status is TaskStatus.IN_PROGRESS)
            self._ready_waves.set(number, present=len(wave.ready) > 0)
            self._working_waves.set(number, present=len(wave.in_progress) > 0)


def task_index(state: RunState) -> TaskIndex:
    """The index of a state; built when there is none yet."""
    attributes = vars(state)
    found: TaskIndex | None = attributes.get(_TASK_INDEX)
    if found is None:
        found = attributes[_TASK_INDEX] = TaskIndex(state.plan, state.tasks)
    return found


def open_research(state: RunState) -> dict[str, Research]:
    """The research that has no answer yet."""
    attributes = vars(state)
    found: dict[str, Research] | None = attributes.get(_OPEN_RESEARCH)
    if found is None:
        found = {name: research for name, research in state.research.items() if not research.answered}
        attributes[_OPEN_RESEARCH] = found
    return found


def note_status(state: RunState, task_id: str, before: TaskStatus, after: TaskStatus) -> None:
    """Keep the index of a state, if it has one, up to date with a status that has just changed."""
    found: TaskIndex | None = vars(state).get(_TASK_INDEX)
    if found is not None:
        found.change_status(task_id, before, after)


def note_wave(state: RunState, number: int, *, closed: bool) -> None:
    """The same for a wave that has just been closed, or opened again."""
    found: TaskIndex | None = vars(state).get(_TASK_INDEX)
    if found is not None:
        found.close_wave(number, closed=closed)


def drop_task_index(state: RunState) -> None:
    """The plan or its tasks have changed: the next use builds the index again."""
    vars(state).pop(_TASK_INDEX, None)
