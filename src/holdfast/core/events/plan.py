"""The plan: its tasks, their dependencies, and waves of tasks that can run at once."""

from typing import ClassVar

import msgspec

from holdfast.core.events.base import Event


class PlannedTask(msgspec.Struct, frozen=True, kw_only=True):
    """`key` is a hash of the task's content: finished work with the same key is not repeated."""

    id: str | int
    summary: str | None = None
    agent: str | None = None
    description: str = ""
    acceptance_criteria: list[str] = []
    files: list[str] = []
    key: str | None = None


class PlannedWave(msgspec.Struct, frozen=True, kw_only=True):
    wave: int
    task_ids: list[str | int]


class Dependency(msgspec.Struct, frozen=True, kw_only=True):
    task_id: str | int
    blocked_by: str | int


class PlanCreated(Event, frozen=True, kw_only=True):
    """A new plan; the newest one counts. `source` is the file or folder that it was read from."""

    type: ClassVar[str] = "plan.created"
    tasks: list[PlannedTask] = []
    waves: list[PlannedWave] = []
    dependencies: list[Dependency] = []
    overview: str = ""
    source: str | None = None
    needs_design: bool = False


class ProposedTask(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    title: str
    description: str = ""
    acceptance_criteria: list[str] = []
    depends_on: list[str] = []
    files: list[str] = []


class PlanProposed(Event, frozen=True, kw_only=True):
    """An interview has a plan; the newest one counts. `seeds` are paths in the worktree of the interview.

    `by` is the person who changed the plan; None when the interviewer submitted it.
    """

    type: ClassVar[str] = "plan.proposed"
    revision: int
    overview: str = ""
    tasks: list[ProposedTask] = []
    seeds: list[str] = []
    by: str | None = None


class PlanAccepted(Event, frozen=True, kw_only=True):
    """The user accepted a revision of the plan: the run with this id is about to be prepared from it.

    `snapshot` is a commit with the files of the interview, as they were then.
    """

    type: ClassVar[str] = "plan.accepted"
    revision: int
    run_id: str
    snapshot: str | None = None
    by: str | None = None


class RunPrepared(Event, frozen=True, kw_only=True):
    """The run of an accepted plan exists and can be started. With a `problem` it was not prepared."""

    type: ClassVar[str] = "plan.run_prepared"
    run_id: str
    problem: str | None = None


class RunInterviewed(Event, frozen=True, kw_only=True):
    """The plan of this run comes from an interview: its run, its agent and model, and what it cost."""

    type: ClassVar[str] = "run.interviewed"
    run_id: str
    agent: str | None = None
    model: str | None = None
    turns: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    dollars: float = 0.0


FAMILY = (PlanCreated, PlanProposed, PlanAccepted, RunPrepared, RunInterviewed)
