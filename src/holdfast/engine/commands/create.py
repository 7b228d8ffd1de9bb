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
from holdfast.engine.commands.cluster.engine_address import require_cluster_store
from holdfast.engine.config.agents import agents_from_settings
from holdfast.engine.config.config import Config, load_config
from holdfast.engine.config.flags import with_absolute_paths
from holdfast.engine.config.run_config import RunConfig, new_run_config
from holdfast.engine.home import Home
from holdfast.engine.prompts.templates import user_folders_at
from holdfast.engine.workspace.workspace import NewRun, create_run
from holdfast.git.cluster.mirror import check_remote_url
from holdfast.git.remote import choose_remote, remote_url
from holdfast.git.repository import find_repository
from holdfast.git.worktrees.supplied import check_supplied_path
from holdfast.leaf.errors import BadInput
from holdfast.workflows.builtin import BUILT_IN
from holdfast.workflows.prompt_templates import preferences_of, templates_of
from holdfast.workflows.tasklists import read_tasks

GOAL_TASK_ID = "T-1"  # the task's id when the goal is the only task
_OF_ONE_MACHINE = ("store", "cluster", "serve", "disk")  # settings
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
    key: str | None = None  # of the request (`create_once`)
    on_cluster: bool = False  # workers of the cluster run it
    needs: tuple[str, ...] = ()  # the labels that its worker must have


async def prepare_run(home: Home, request: RunRequest, prepares: Mapping[str, Any] | None = None) -> str:
    """Create a run with everything its start needs, and do not start it. Returns its id.

    `prepares` are the settings of the run that an interview prepares.
    """
    home.check_writable()
    config = load_config(request.repo, home=home, flags=request.flags)
    run_config = new_run_config(config.settings, agents_from_settings(config.settings))
    workflow = run_config.workflow
    _check_optional_phases(workflow, request.phases)
    _check_templates(workflow, os.path.abspath(request.repo))
    source = None if workflow.chat else _task_list_path(request.goal)  # a chat begins with a message
    redactor = Redactor.from_environment(os.environ)
    tasks = read_tasks(source) if source is not None else _single_task_list(redactor.redact_text(request.goal))
    try:
        _check_agents(config, run_config, tasks, must_start_now=request.must_start_now and not request.on_cluster)
    except BadInput:
        await find_repository(request.repo)  # without a repository, an agent does not help
        raise
    remote = await _cluster_remote(home, request.repo) if request.on_cluster else None
    goal = redactor.redact_text(request.goal if source is None else _goal_of(tasks, source))
    _check_worktree_paths(config.settings.worktree)
    new = NewRun(goal, request.repo, workflow.name, request.slug, request.base, request.include_changes, request.key)
    if remote is not None:
        new = new._replace(remote=remote, needs=request.needs)
        request = request._replace(flags={**portable_settings(config), **request.flags})
    known: list[Event] = [_settings_event(request, prepares)]
    if workflow.phases or workflow.chat or workflow.name not in BUILT_IN:
        known.append(WorkflowChosen(workflow=msgspec.to_builtins(workflow), wanted=list(request.phases)))
    if source is not None or workflow.planner is None:
        known.append(build_plan(tasks, workflow.shape, source))
    if is_redacted(goal) or any(redact_event(event, redactor) is not event for event in known):
        known.append(WarningLogged(message=GOAL_REDACTED))
    return await create_run(home, new, *known, seeds=[os.path.abspath(seed) for seed in request.seeds])


def check_task_list(home: Home, request: RunRequest) -> None:
    """Raise `BadInput` if the goal is a task list that cannot be read. Changes nothing."""
    config = load_config(request.repo, home=home, flags=request.flags)
    workflow = new_run_config(config.settings, agents_from_settings(config.settings)).workflow
    if not workflow.chat and (source := _task_list_path(request.goal)) is not None:
        read_tasks(source)


async def _cluster_remote(home: Home, folder: str) -> str:
    """Return the URL from which every machine gets the repository."""
    require_cluster_store(home)
    repository = await find_repository(folder)
    if not await repository.remotes():
        raise BadInput("the repository has no remote, from which workers could get it; add one with git remote add")
    return check_remote_url(await remote_url(repository, await choose_remote(repository, None)))


def portable_settings(config: Config) -> dict[str, Any]:
    """Return the chosen settings by their dotted names, for a run on a machine that lacks these config files.

    Left out is what describes this machine, and all of the user's own agents: each machine defines those it has.
    """
    found = {}
    for name, origin in config.origins.items():
        data, table = config.values[name].data, name.partition(".")[0]
        is_own = table in _OF_ONE_MACHINE or (origin.layer == "user" and table in ("agents", "hooks"))
        if origin.layer in ("user", "project") and not is_own and data not in (None, {}):
            found[name] = data
    return found


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


def _settings_event(request: RunRequest, prepares: Mapping[str, Any] | None) -> SettingsChosen:
    issue: dict[str, Any] = {"issue": request.issue} if request.issue is not None else {}
    if request.key is not None:
        issue["request"] = request.key
    folder = os.path.abspath(request.repo)
    _check_flags_hold_no_secret(request.flags)
    planned = {"prepares": prepares} if prepares is not None else {}
    flags = with_absolute_paths(request.flags)
    return SettingsChosen(settings={"flags": flags, "folder": folder, **issue, **planned})


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
