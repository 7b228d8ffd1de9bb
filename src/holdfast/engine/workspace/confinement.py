"""Determines which worktrees a confined agent writes to, and how git runs in them."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress

import msgspec

from holdfast.core.state import RunState
from holdfast.core.task_state import Plan
from holdfast.core.work.names import worktree_names
from holdfast.engine.config.run_config import RoleRuntime, RunConfig
from holdfast.engine.containers import record_engine
from holdfast.engine.workspace.confined_program import ORDER, Order
from holdfast.git.confinement import Confinement, WritableGit
from holdfast.git.repository import Repository
from holdfast.leaf.errors import BadInput
from holdfast.leaf.process.own_program import holdfast_command

_FOLDER = "git"  # in the run's folder: the wrappers through which git starts programs


def confine(repository: Repository, run_id: str, folder: str, state: Callable[[], RunState], config: RunConfig) -> None:
    """From now on, programs that git starts in the run's worktrees run in their agents' runtime.

    `folder` is the run's own.
    """

    def confinement_for(path: str) -> Confinement | None:
        role = roles.role_at(os.path.relpath(path, folder), state())
        if not role.runtime.is_confined:
            return None
        record_engine(folder, role.runtime)
        order = Order(
            runtime=role.runtime,
            environment=role.environment,
            worktree=path,
            common_dir=repository.common_dir,
            folder=folder,
            run_id=run_id,
        )
        prefix = holdfast_command(module="holdfast.engine.workspace.confined_program")
        variables = {ORDER: msgspec.json.encode(order).decode()}
        return Confinement(prefix, variables, os.path.join(folder, _FOLDER), path, writable)

    roles = _WorktreeRoles(run_id, config)
    branches = f"refs/heads/{os.path.dirname(worktree_names(run_id, None).branch)}"
    writable = WritableGit(repository.common_dir, branches) if _may_commit(config) else None
    repository.git.writable = writable
    repository.confine = confinement_for


def _may_commit(config: RunConfig) -> bool:
    runtimes = [*config.runtimes.values(), *(entry.runtime for entry in config.agents.values())]
    return any(runtime.is_confined and runtime.commits for runtime in runtimes)


class _WorktreeRoles:
    """The role that writes to each worktree. Reads all tasks only when there are new ones."""

    def __init__(self, run_id: str, config: RunConfig) -> None:
        self._run_id = run_id
        self._config = config
        self._task_at: dict[str, str] = {}
        self._plan: Plan | None = None

    def role_at(self, place: str, state: RunState) -> RoleRuntime:
        """Return the role for a path in the run's folder.

        It is the role of the task whose worktree is there, or was before it was moved aside.
        """
        if self._plan is not state.plan or len(self._task_at) < len(state.tasks):
            self._task_at = {worktree_names(self._run_id, task_id).folder: task_id for task_id in state.tasks}
            self._plan = state.plan
        task_id = next((self._task_at[name] for name in _names_before(place) if name in self._task_at), None)
        task = state.tasks.get(task_id) if task_id is not None else None
        return self._config.runtime_for_task(task.wants) if task is not None else self._config.runtime_for_run()


def _names_before(place: str) -> Iterator[str]:
    """Yield a path, and its possible names before it was moved aside: `tasks/.NAME.more` was `tasks/NAME`."""
    yield place
    folder, leaf = os.path.split(place)
    name = leaf[1:] if leaf.startswith(".") else ""
    while "." in name:
        name = name.rpartition(".")[0]
        yield os.path.join(folder, name)


def runtime_for_hooks(
    state: RunState, config: RunConfig, task_id: str | None, conversation_id: str | None
) -> RoleRuntime:
    """Return the runtime for a hook about a conversation: its agent's, or if unconfined that of the worktree's writers.

    Both may have written the files that the hook finds.
    """
    conversation = state.conversations.get(conversation_id or "")
    if conversation is not None and conversation.agent is not None:
        with suppress(BadInput):  # the config no longer has this agent
            own = config.runtime_for(conversation.role, conversation.agent)
            if own.runtime.is_confined:
                return own
    task = state.tasks.get(task_id or "")
    return config.runtime_for_task(task.wants) if task is not None else config.runtime_for_run()
