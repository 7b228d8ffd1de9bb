"""States of a run made by hand, for decisions: no more in them than is given."""

from collections.abc import Mapping
from typing import Any

from holdfast.core.decide.actions import Action, ActionKey
from holdfast.core.messages.schema import MessageKind
from holdfast.core.state import OpenMessage, RunState
from holdfast.core.task_state import Plan, Task, TaskStage, TaskStatus, Wave
from holdfast.core.work.workflow import Workflow

SOLO = Workflow(name="solo", about="a worker")
CASE = Workflow(name="case", about="a worker that must argue", case=True)
EVALUATE = Workflow(name="evaluate", about="a worker, and one who must agree", evaluate=True)
LOOP = Workflow(name="loop", about="both", case=True, evaluate=True)
WORKFLOWS = (SOLO, CASE, EVALUATE, LOOP)

PENDING, COMPLETE, SKIPPED = Task(), Task(TaskStatus.COMPLETE), Task(TaskStatus.SKIPPED)


def failed(error: str = "iter_cap") -> Task:
    return Task(TaskStatus.FAILED, error=error)


def begun(stage: TaskStage = TaskStage.WORK, **more: Any) -> Task:
    return Task(**{"status": TaskStatus.IN_PROGRESS, "stage": stage, "iteration": 1, **more})


def situation(tasks: Mapping[str, Task], *waves: str, needs: Mapping[str, str] | None = None, **more: Any) -> RunState:
    """A run with these tasks, laid out in waves ("a b" is a wave of two); `needs` is what each waits for."""
    laid_out = waves or (" ".join(tasks),)
    plan = Plan(
        order=list(tasks),
        waves={number: Wave(wave.split()) for number, wave in enumerate(laid_out, start=1)},
        blocked_by={name: needed.split() for name, needed in (needs or {}).items()},
    )
    return RunState(**{"plan": plan, "tasks": dict(tasks), **more})


def of_task(name: str) -> ActionKey:
    return ActionKey("task", name)


def words(**addressees: str | None) -> dict[str, OpenMessage]:
    """Messages of people, by their keys: whom each is for."""
    return {key: OpenMessage(MessageKind.USER, task=task) for key, task in addressees.items()}


def describe(actions: list[Action]) -> str:
    """Actions in few words: what, of what, and how or why."""
    return "; ".join(_describe(action) for action in actions)


def _describe(action: Action) -> str:
    about = action.task or (str(action.wave) if action.wave is not None else None)
    return " ".join(part for part in (action.kind, about) if part) + "".join(
        f" ({part})" for part in (action.prompt_kind, action.reason) if part
    )
