"""Turns a user's request into a run that can start: plan, settings, branch and worktree."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from holdfast.core.config.settings import WorktreeSettings
from holdfast.core.events import Event
from holdfast.core.events.issue import WarningLogged
from holdfast.core.events.phase import WorkflowChosen
from holdfast.core.events.session import SettingsChosen
from holdfast.core.redaction.events import redact_event
from holdfast.core.redaction.redaction import SHAPES_ONLY_REDACTOR, Redactor, is_redacted
from holdfast.core.work.tasks import TaskList, TaskSpec
from holdfast.core.work.workflow import Workflow, build_plan
from holdfast.engine.config.agents import agents_from_settings
from holdfast.engine.config.config import Config, load_config
from holdfast.engine.config.run_config import RunConfig, new_run_config
from holdfast.engine.home import Home
from holdfast.engine.prompts.templates import user_folders_at
from holdfast.engine.workspace.workspace import NewRun, create_run
from holdfast.git.worktrees.supplied import check_supplied_path
from holdfast.leaf.errors import BadInput
from holdfast.workflows.builtin import BUILT_IN
from holdfast.workflows.prompt_templates import preferences_of, templates_of
from holdfast.workflows.tasklists import read_tasks

GOAL_TASK_ID = "T-1"  # the task's id when the goal is the only task
_LIST_SUFFIXES = (".md", ".markdown", ".yaml", ".yml", ".json", ".toml")
GOAL_REDACTED = (
    "the goal contains a secret: it is removed from what is recorded and sent to agents. "
    "To give an agent the secret, put it into a variable and name that in agents.NAME.secrets of your config"
)


class RunRequest(NamedTuple):
    """What a user asks for. `goal` is text or the path of a task list; `flags` are settings by dotted names.

    A run that starts at once needs its agents at once.
    """

    goal: str
    repo: str
    slug: str | None = None
    base: str | None = None
    flags: Mapping[str, Any] = {}
    seeds: tuple[str, ...] = ()
    must_start_now: bool = True
    phases: tuple[str, ...] = ()  # optional phases to include
    issue: int | None = None  # the issue that the goal came from
    include_changes: bool = False  # start with the uncommitted files of the checkout


async def prepare_run(home: Home, request: RunRequest) -> str:
    """Create a run with everything its start needs, and do not start it. Returns its id."""
    home.check_writable()
    config = load_config(request.repo, home=home, flags=request.flags)
    run_config = new_run_config(config.settings, agents_from_settings(config.settings))
    workflow = run_config.workflow
    _check_optional_phases(workflow, request.phases)
    _check_templates(workflow, os.path.abspath(request.repo))
    source = None if workflow.chat else _task_list_path(request.goal)  # a chat begins with a message
    redactor = Redactor.from_environment(os.environ)
    tasks = read_tasks(source) if source is not None else _single_task_list(redactor.redact_text(request.goal))
    _check_agents(config, run_config, tasks, must_start_now=request.must_start_now)
    goal = redactor.redact_text(request.goal if source is None else _goal_of(tasks, source))
    _check_worktree_paths(config.settings.worktree)
    new = NewRun(goal, request.repo, workflow.name, request.slug, request.base, request.include_changes)
    known: list[Event] = [_settings_event(request)]
    if workflow.phases or workflow.chat or workflow.name not in BUILT_IN:
        known.append(WorkflowChosen(workflow=msgspec.to_builtins(workflow), wanted=list(request.phases)))
    if source is not None or workflow.planner is None:
        known.append(build_plan(tasks, workflow.shape, source))
    if is_redacted(goal) or any(redact_event(event, redactor) is not event for event in known):
        known.append(WarningLogged(message=GOAL_REDACTED))
    return await create_run(home, new, *known, seeds=[os.path.abspath(seed) for seed in request.seeds])


def _task_list_path(goal: str) -> str | None:
    """The path that a goal names; None when it is words. A path that does not exist is a mistake, not a goal."""
    if os.path.exists(goal):
        return os.path.abspath(goal)
    looks_like_path = os.sep in goal or goal.endswith(_LIST_SUFFIXES)
    if looks_like_path and len(goal.split()) == 1 and not goal.startswith(("http://", "https://")):
        raise BadInput(f"{goal} does not exist; name a task list that does, or write the goal in several words")
    return None


def _check_agents(config: Config, run_config: RunConfig, tasks: TaskList, *, must_start_now: bool) -> None:
    """Raise `BadInput` before anything is written; a user who chose no agent is told how to choose one."""
    try:
        run_config.check_agents((task.agent for task in tasks.tasks), must_be_installed=must_start_now)
    except BadInput as error:
        if config.origins["agent"].layer == "built-in":
            raise BadInput(f"{error}. To choose another agent: holdfast init") from error
        raise


def _settings_event(request: RunRequest) -> SettingsChosen:
    issue = {"issue": request.issue} if request.issue is not None else {}
    folder = os.path.abspath(request.repo)
    _check_flags_hold_no_secret(request.flags)
    return SettingsChosen(settings={"flags": with_absolute_paths(request.flags), "folder": folder, **issue})


def _check_flags_hold_no_secret(flags: Mapping[str, Any]) -> None:
    """Refuse secrets in flags: later sessions read the flags from the log, which must not hold a secret."""
    for name, value in flags.items():
        if SHAPES_ONLY_REDACTOR.redact_data(value) is not value:
            raise BadInput(
                f"--set {name}: the value holds a secret, and flags are written to the run's log; set it in your "
                "config file, or put the secret into a variable and name that in agents.NAME.secrets"
            )


def _check_templates(workflow: Workflow, checkout: str) -> None:
    """Report a wrong template or preference before the run is created."""
    for role in templates_of(workflow, user_folders_at(checkout, "prompts")):
        preferences_of(role, user_folders_at(checkout, "preferences"))


def _check_worktree_paths(settings: WorktreeSettings) -> None:
    for setting, paths in (("worktree.copy", settings.copy), ("worktree.link", settings.link)):
        for path in paths:
            check_supplied_path(setting, path)


def _check_optional_phases(workflow: Workflow, phases: Sequence[str]) -> None:
    optional = [phase.name for phase in workflow.phases if phase.optional]
    for name in phases:
        if name not in optional:
            there = f"it has {', '.join(optional)}" if optional else "it has none"
            raise BadInput(f"--with {name}: the workflow {workflow.name} has no such optional phase; {there}")


def with_absolute_paths(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Make the paths of playbooks and workflow files absolute, so that they mean the same from any folder."""
    return {name: _absolute_value(name, value) if isinstance(value, str) else value for name, value in flags.items()}


def _absolute_value(flag: str, text: str) -> str:
    kind, colon, file = text.partition(":")
    if flag == "workflow" and text.endswith((".yaml", ".yml")):
        return os.path.abspath(text)
    return f"{kind}:{os.path.abspath(file)}" if kind == "playbook" and colon else text


def _single_task_list(goal: str) -> TaskList:
    if not goal.strip():
        raise BadInput("the goal is empty; describe the work, or give a task list")
    title = goal.strip().splitlines()[0]
    return TaskList(
        tasks=(TaskSpec(id=GOAL_TASK_ID, title=title[:200], description=goal if goal.strip() != title else ""),)
    )


def _goal_of(tasks: TaskList, source: str) -> str:
    overview = tasks.overview.strip().splitlines()
    return overview[0].lstrip("# ") if overview else f"the tasks of {os.path.basename(source)}"
