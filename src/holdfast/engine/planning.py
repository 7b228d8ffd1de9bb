"""From what a user wants to a run that can start: its plan, its settings, its branch and worktree."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from holdfast.core.events import Event
from holdfast.core.events.phase import WorkflowChosen
from holdfast.core.events.plan import PlanCreated
from holdfast.core.events.session import SettingsChosen
from holdfast.core.state import Plan, RunState
from holdfast.core.tasks import TaskList, TaskSpec
from holdfast.core.workflow import Workflow, lay_out
from holdfast.engine.agents import own_agents
from holdfast.engine.config import Config, load
from holdfast.engine.own_words import folders_at
from holdfast.engine.terms import Terms, terms_of
from holdfast.engine.workspace import NewRun, create_run
from holdfast.leaf.errors import BadInput
from holdfast.workflows.builtin import BUILT_IN, find_workflow
from holdfast.workflows.tasklists import read_tasks
from holdfast.workflows.templating import templates_of

GOAL = "T-1"  # the id of a task that is the goal itself


class Wanted(NamedTuple):
    """What a user asks for. `goal` is words, or the path of a task list; `flags` are settings by dotted names.

    What is to begin at once needs its agents at once.
    """

    goal: str
    repo: str
    slug: str | None = None
    base: str | None = None
    flags: Mapping[str, Any] = {}
    seeds: tuple[str, ...] = ()
    begin: bool = True
    phases: tuple[str, ...] = ()  # optional ones that are asked for
    issue: int | None = None  # of which the goal was made


async def prepare(home: str, wanted: Wanted) -> str:
    """A run at rest, with everything decided that its start needs. Returns its id."""
    config = load(wanted.repo, home=home, flags=wanted.flags)
    terms = terms_of(config.settings, own_agents(config.settings))
    workflow = terms.workflow
    _must_have(workflow, wanted.phases)
    templates_of(workflow, folders_at(os.path.abspath(wanted.repo), "prompts"))  # a wrong one is told before it begins
    source = os.path.abspath(wanted.goal) if os.path.exists(wanted.goal) else None
    tasks = read_tasks(source) if source is not None else _one(wanted.goal)
    terms.must_have_agents((task.agent for task in tasks.tasks), here=wanted.begin)
    goal = wanted.goal if source is None else _goal_of(tasks, source)
    new = NewRun(goal, wanted.repo, workflow.name, wanted.slug, wanted.base)
    known: list[Event] = [_chosen(wanted)]
    if workflow.phases or workflow.name not in BUILT_IN:
        known.append(WorkflowChosen(workflow=msgspec.to_builtins(workflow), wanted=list(wanted.phases)))
    if source is not None or workflow.planner is None:
        known.append(lay_out(tasks, workflow.shape, source))
    return await create_run(home, new, *known, seeds=[os.path.abspath(seed) for seed in wanted.seeds])


def _chosen(wanted: Wanted) -> SettingsChosen:
    issue = {"issue": wanted.issue} if wanted.issue is not None else {}
    folder = os.path.abspath(wanted.repo)
    return SettingsChosen(settings={"flags": lasting(wanted.flags), "folder": folder, **issue})


def _must_have(workflow: Workflow, phases: Sequence[str]) -> None:
    optional = [phase.name for phase in workflow.phases if phase.optional]
    for name in phases:
        if name not in optional:
            there = f"it has {', '.join(optional)}" if optional else "it has none"
            raise BadInput(f"--with {name}: the workflow {workflow.name} has no such optional phase; {there}")


def workflow_of(state: RunState) -> Workflow:
    """The run's own, as it was when it was made; of an older run, the one that has its name."""
    if state.workflow is not None:
        return msgspec.convert(state.workflow, Workflow)
    return find_workflow(state.run.workflow if state.run is not None else "solo")


def on_issue_of(home: str, state: RunState) -> str:
    """What the config says of how to go on past an issue."""
    return terms_for(home, state).settings.resume.on_issue


def plan_again(state: RunState) -> PlanCreated | None:
    """The plan from its source as that is now, when it is another one. A source that is gone has nothing to say."""
    if state.plan is None or state.plan.source is None or not os.path.exists(state.plan.source):
        return None
    plan = lay_out(read_tasks(state.plan.source), workflow_of(state).shape, state.plan.source)
    return plan if _gist(plan) != _known(state, state.plan) else None


def _gist(plan: PlanCreated) -> tuple[object, ...]:
    needed = sorted((str(one.task_id), str(one.blocked_by)) for one in plan.dependencies)
    return [(str(task.id), task.key) for task in plan.tasks], needed, plan.overview


def _known(state: RunState, plan: Plan) -> tuple[object, ...]:
    keys = [(name, state.tasks[name].key if name in state.tasks else None) for name in plan.order]
    needed = sorted((name, other) for name, others in plan.blocked_by.items() for other in others)
    return keys, needed, plan.overview


def terms_for(home: str, state: RunState, flags: Mapping[str, Any] | None = None) -> Terms:
    """What holds for a run now: the config as it is, what was asked for when it was made, and what is asked now."""
    settings = _config_for(home, state, flags).settings
    return Terms(workflow_of(state), settings, own_agents(settings))


def warnings_of(home: str, state: RunState) -> list[str]:
    """What its user should know of the config before it goes on."""
    return _config_for(home, state).warnings


def _config_for(home: str, state: RunState, flags: Mapping[str, Any] | None = None) -> Config:
    folder = state.settings.get("folder")
    asked = {**state.settings.get("flags", {}), **(flags or {})}
    here = folder if isinstance(folder, str) and os.path.isdir(folder) else None
    return load(here, home=home, flags=asked)


def lasting(flags: Mapping[str, Any]) -> dict[str, Any]:
    """As they are to be understood from anywhere: a playbook and a workflow's file are named by their whole path."""
    return {name: _absolute(name, value) if isinstance(value, str) else value for name, value in flags.items()}


def _absolute(name: str, text: str) -> str:
    kind, colon, file = text.partition(":")
    if name == "workflow" and text.endswith((".yaml", ".yml")):
        return os.path.abspath(text)
    return f"{kind}:{os.path.abspath(file)}" if kind == "playbook" and colon else text


def _one(goal: str) -> TaskList:
    if not goal.strip():
        raise BadInput("the goal is empty; say what is to be done, or name a task list")
    title = goal.strip().splitlines()[0]
    return TaskList(tasks=(TaskSpec(id=GOAL, title=title[:200], description=goal if goal.strip() != title else ""),))


def _goal_of(tasks: TaskList, source: str) -> str:
    overview = tasks.overview.strip().splitlines()
    return overview[0].lstrip("# ") if overview else f"the tasks of {os.path.basename(source)}"
