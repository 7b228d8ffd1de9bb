"""Which worktrees of a run a confined agent writes to, and how git is started in them."""

import os
from collections.abc import Callable
from contextlib import suppress

import msgspec

from holdfast.core.state import RunState
from holdfast.core.work.names import worktree_names
from holdfast.engine.config.run_config import RoleRuntime, RunConfig
from holdfast.engine.containers import record_engine
from holdfast.engine.workspace.confined_program import ORDER, Order
from holdfast.git.confinement import Confinement, WritableGit
from holdfast.git.repository import Repository
from holdfast.leaf.errors import BadInput
from holdfast.leaf.process.own_program import holdfast_command

_FOLDER = "git"  # in the run's own: the wrappers by which git starts programs


def confine(repository: Repository, run_id: str, folder: str, state: Callable[[], RunState], terms: RunConfig) -> None:
    """From now on, what git runs in the run's worktrees runs where their agents do. `folder` is the run's own."""

    def confinement_for(path: str) -> Confinement | None:
        role = _role(path, run_id, folder, state(), terms)
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

    branches = f"refs/heads/{os.path.dirname(worktree_names(run_id, None).branch)}"
    writable = WritableGit(repository.common_dir, branches) if _may_commit(terms) else None
    repository.git.writable = writable
    repository.confine = confinement_for


def _may_commit(terms: RunConfig) -> bool:
    runtimes = [*terms.runtimes.values(), *(entry.runtime for entry in terms.agents.values())]
    return any(runtime.is_confined and runtime.commits for runtime in runtimes)


def _role(path: str, run_id: str, folder: str, state: RunState, terms: RunConfig) -> RoleRuntime:
    """Of the task whose worktree it is, or was before it was moved aside."""
    name = os.path.relpath(path, folder)
    for task_id, task in state.tasks.items():
        place = worktree_names(run_id, task_id).folder
        aside = os.path.join(os.path.dirname(place), f".{os.path.basename(place)}.")
        if name == place or name.startswith(aside):
            return terms.runtime_for_task(task.wants)
    return terms.runtime_for_run()


def runtime_for_hooks(
    state: RunState, terms: RunConfig, task_id: str | None, conversation_id: str | None
) -> RoleRuntime:
    """That of the agent whose conversation a hook is about; if it is not confined, of those who write to the worktree.

    Either of them may have written the files that the hook finds.
    """
    conversation = state.conversations.get(conversation_id or "")
    if conversation is not None and conversation.agent is not None:
        with suppress(BadInput):  # the config does not have this agent any more
            own = terms.runtime_for(conversation.role, conversation.agent)
            if own.runtime.is_confined:
                return own
    task = state.tasks.get(task_id or "")
    return terms.runtime_for_task(task.wants) if task is not None else terms.runtime_for_run()
