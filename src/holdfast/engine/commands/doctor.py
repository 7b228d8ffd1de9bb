"""Finds problems of runs and of their repositories, explains them, and repairs them on request.

A repair never deletes work that no branch of the user contains: it reports what could hold some and leaves it alone.
"""

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from holdfast.agents.readiness import sandbox_problem
from holdfast.agents.runtimes.tmux import missing_requirement
from holdfast.core.end_reason import EndReason
from holdfast.core.events.session import RunMoved, SessionEnd, SessionStart
from holdfast.core.run_status import RunStatus
from holdfast.core.work.names import BRANCH_PREFIX, run_of_branch, worktree_names
from holdfast.core.work.reconciliation import Finding, ObservedWorkspace, Remedy, reconcile
from holdfast.engine.commands.adopt.abandoned import abandoned_adoptions, delete_abandoned
from holdfast.engine.config.config import load_config_here
from holdfast.engine.config.run_config import runtime_kinds
from holdfast.engine.containers import end_containers, running_containers
from holdfast.engine.home import Home
from holdfast.engine.queries.logs import RunView, view_run
from holdfast.engine.queries.setup.agents import agent_problem
from holdfast.engine.workspace.reconcile import RunListing, list_runs, observe, reconcile_workspace
from holdfast.engine.workspace.repository import repository_folder
from holdfast.engine.workspace.workspace import open_workspace
from holdfast.git.locks import remove_stale, stale_locks
from holdfast.git.repository import Repository, WorktreeInfo
from holdfast.git.version import REQUIREMENT, installed_version
from holdfast.git.worktree_admin import drop_entries, folders_of
from holdfast.git.worktrees.worktree import registered_path
from holdfast.leaf.errors import BadInput, Denied, HoldfastError, StorageFailed
from holdfast.leaf.files.directories import is_missing
from holdfast.leaf.files.sync import sync_existing_folders
from holdfast.store.base import Leftover
from holdfast.store.run import open_run

_HARMLESS_REMEDIES = (Remedy.NONE, Remedy.RESUME_ON_BRANCH, Remedy.RESUME_IN_WORKTREE)

Repair = Callable[[], Awaitable[None]]


class Problem(NamedTuple):
    """A problem and its remedy. `repair` is None when a person must act."""

    subject: str
    description: str
    repair: Repair | None = None


def store_problem(home: Home) -> Problem | None:
    """Return why the runs cannot be reached now; nothing else can be told then."""
    try:
        home.index.describe()
    except (BadInput, StorageFailed) as error:
        return Problem(home.place, f"keeps the runs and cannot be used: {error}")
    return None


async def diagnose(
    home: Home, repositories: list[str], progress: Callable[[int, int], None] | None = None
) -> list[Problem]:
    """Return all problems in this home, in its runs' repositories and in the given ones.

    Reports how many runs are checked.
    """
    if (silent := store_problem(home)) is not None:
        return [silent]
    ailments = [*_check_leftovers(home), *await _check_stages(home, repositories)]
    ailments += [*_check_tmux(home), *_check_agents(home)]
    if shutil.which("git") is None:
        return [*ailments, Problem("git", "is not installed; Holdfast works on git repositories")]
    ailments += await _check_git()
    known = dict.fromkeys(repositories)
    run_names, listings = home.run_ids(), _Listings()
    for number, run_id in enumerate(run_names):
        if progress is not None:
            progress(number, len(run_names))
        try:
            view = await view_run(home, run_id)
        except (HoldfastError, OSError) as error:
            ailments.append(Problem(run_id, f"cannot be read: {error}; `holdfast verify {run_id}` tells more"))
            continue
        ailments += await _problems_or_error(run_id, _check_run(home, view, repositories, listings))
        common_dir = repository_folder(home, view.state.run)
        if common_dir is not None and os.path.isdir(common_dir):
            known[common_dir] = None
    for common_dir in known:
        ailments += await _problems_or_error(common_dir, _check_repository(home, Repository(common_dir)))
    return ailments


async def _problems_or_error(subject: str, check: Awaitable[list[Problem]]) -> list[Problem]:
    """Return the problems found.

    If a check fails, report that failure as the only problem, so that other checks still run.
    """
    try:
        return await check
    except (HoldfastError, OSError) as error:
        return [Problem(subject, f"could not be checked: {error}")]


async def _check_git() -> list[Problem]:
    version = await installed_version()
    return [] if version.is_supported else [Problem("git", f"is {version.text}; {REQUIREMENT}")]


def _check_tmux(home: Home) -> list[Problem]:
    """Check that tmux is installed if an agent is configured to run in it."""
    try:
        is_configured = "tmux" in runtime_kinds(load_config_here(home).settings)
    except HoldfastError as error:
        return [Problem("the settings", f"cannot be read: {error}")]
    problem = missing_requirement() if is_configured else None
    return [Problem("tmux", f"is chosen by your settings, but {problem}")] if problem is not None else []


def _check_agents(home: Home) -> list[Problem]:
    """Check that the agents that the config names can start here."""
    try:
        config = load_config_here(home)
        chosen = {} if config.origins["agent"].layer == "built-in" else {config.settings.agent: config.settings.model}
        chosen |= {role.agent: role.model for role in config.settings.roles.values() if role.agent is not None}
        problems = {name: agent_problem(name, config.settings, model) for name, model in chosen.items()}
        sandboxed = "sandbox" in runtime_kinds(config.settings)
    except HoldfastError:
        return []  # reported once, by _check_tmux
    found = [Problem(name, problem) for name, problem in problems.items() if problem is not None]
    sandbox = sandbox_problem() if sandboxed else None
    return [*found, *([Problem("bubblewrap", sandbox)] if sandbox is not None else [])]


def _check_leftovers(home: Home) -> list[Problem]:
    return [Problem(left.subject, left.description, _delete_repair(left)) for left in home.store.leftovers()]


async def _check_stages(home: Home, repositories: list[str]) -> list[Problem]:
    async def delete() -> None:
        kept = await delete_abandoned(home, repositories)
        if kept:
            raise HoldfastError("; ".join(kept))

    return [
        Problem(found.folder, f"was left by an adopt that was killed, but {found.problem}")
        if found.problem is not None
        else Problem(found.folder, "was left by an adopt that was killed, with the branches that it made", delete)
        for found in await abandoned_adoptions(home, repositories)
    ]


def _delete_repair(leftover: Leftover) -> Repair:
    async def delete() -> None:
        leftover.delete()

    return delete


class _Listings:
    """What git lists for the runs of each repository. Read once: a home may have thousands of runs in one."""

    def __init__(self) -> None:
        self._by_repository: dict[str, RunListing] = {}

    async def of(self, repository: Repository) -> RunListing:
        if repository.common_dir not in self._by_repository:
            self._by_repository[repository.common_dir] = await list_runs(repository)
        return self._by_repository[repository.common_dir]


async def _check_run(home: Home, view: RunView, repositories: list[str], listings: _Listings) -> list[Problem]:
    state, run_id = view.state, view.run_id
    if state.run is None or state.run.repo is None or state.run.archived or home.is_owned(run_id):
        return []
    if state.run.remote is not None:
        return []  # workers continue it, and its files are wherever it ran last
    if not os.path.isdir(state.run.repo):
        return [await _missing_repository(home, view, repositories, listings)]
    ailments = []
    if view.status == RunStatus.INTERRUPTED and state.is_missing_plan:
        ailments.append(
            Problem(run_id, f"was killed before its plan was recorded; `holdfast reset {run_id}` deletes it")
        )
    elif view.status == RunStatus.INTERRUPTED:
        newest = state.newest_session()
        how = "by a signal" if newest is not None and newest.ended else "its runner is dead"
        ailments.append(Problem(run_id, f"was interrupted: {how}. Continue with: holdfast resume {run_id}"))
    ailments += _check_containers(run_id, view.folder)
    repository = Repository(state.run.repo)
    ailments += [
        Problem(
            run_id,
            f"{effect.kind} may or may not have happened: {effect.reason or 'it was cut off'}",
            _settle_repair(home, run_id, effect_id),
        )
        for effect_id, effect in state.effects.items()
    ]
    listing = await listings.of(repository)
    # look again: the run may have changed since the listing
    if await _check_workspace(home, repository, view, listing):
        ailments += await _check_workspace(home, repository, view)
    return ailments


async def _check_workspace(
    home: Home, repository: Repository, view: RunView, listing: RunListing | None = None
) -> list[Problem]:
    observed = await observe(repository, view.run_id, view.folder, listing)
    if moved := _moved_worktrees(repository, view, observed):
        return moved
    repair = _reconcile_repair(Home(home), view.run_id)
    return [
        _problem_from_finding(view.run_id, finding, repair)
        for finding in reconcile(view.run_id, view.state.branches, observed)
        if finding.remedy not in _HARMLESS_REMEDIES
    ]


def _check_containers(run_id: str, folder: str) -> list[Problem]:
    """Find agents still running in containers although no process owns their run."""

    async def end() -> None:
        await asyncio.to_thread(end_containers, folder, run_id)

    return [
        Problem(
            run_id,
            f"container {container.container[:12]} at {container.address} is still running, but its run has no owner",
            end,
        )
        if container.container is not None
        else Problem(run_id, f"may have agents in containers: {container.problem}")
        for container in running_containers(folder, run_id)
    ]


def _problem_from_finding(run_id: str, finding: Finding, repair: Repair) -> Problem:
    return Problem(run_id, finding.message, None if finding.remedy is Remedy.WARN else repair)


def _settle_repair(home: Home, run_id: str, effect_id: str) -> Repair:
    """Settle an effect that was left open. Some effects cannot be settled."""

    async def ask() -> None:
        async with open_workspace(home, run_id, "doctor") as workspace:
            left = workspace.effects.run.state.effects.get(effect_id)
        if left is not None:
            raise HoldfastError(left.reason or "it still cannot be determined")

    return ask


def _reconcile_repair(home: Home, run_id: str) -> Repair:
    async def settle() -> None:
        async with open_workspace(home, run_id, "doctor") as workspace:
            await reconcile_workspace(workspace)

    return settle


async def _missing_repository(home: Home, view: RunView, repositories: list[str], listings: _Listings) -> Problem:
    """Report a repository that was moved; found by the run's branch if it is among the given ones."""
    run_id, was = view.run_id, view.state.run.repo if view.state.run is not None else None
    ref = f"refs/heads/{worktree_names(run_id).branch}"
    found = [path for path in repositories if ref in (await listings.of(Repository(path))).branches.get(run_id, {})]
    if not found:
        text = f"works on {was}, which is not there; if it was moved: holdfast doctor --repo NEW-PLACE --fix"
        return Problem(run_id, text)

    async def follow() -> None:
        async with open_run(home.store, run_id) as run:
            # if interrupted here, the next doctor finds it again
            await _repair_links(Repository(found[0]), home.folder(run_id))
            await run.begin_session(SessionStart(command="doctor", pid=os.getpid()), RunMoved(repo=found[0]))
            await run.append(SessionEnd(reason=EndReason.ALL_DONE))

    return Problem(run_id, f"works on {was}, which is now {found[0]}", follow)


def _moved_worktrees(repository: Repository, view: RunView, observed: ObservedWorkspace) -> list[Problem]:
    """Find worktrees that git has at another path, because the home or the repository was moved."""
    moved = [folder for folder, seen in observed.worktrees.items() if seen.problem is not None and seen.moved]

    async def repair() -> None:
        await _repair_links(repository, view.folder)

    explanation = "are registered in git at another path: this folder was moved"
    return [Problem(view.run_id, f"{', '.join(moved)} {explanation}", repair)] if moved else []


async def _repair_links(repository: Repository, folder: str) -> None:
    tasks = os.path.join(folder, "tasks")
    leaves = [os.path.join(tasks, leaf) for leaf in os.listdir(tasks) if leaf[0] != "."] if os.path.isdir(tasks) else []
    there = [
        path for path in (os.path.join(folder, "workspace"), *leaves) if os.path.exists(os.path.join(path, ".git"))
    ]
    for path in there:
        known = registered_path(path)
        if known is not None and os.path.exists(known) and os.path.realpath(known) != os.path.realpath(path):
            raise Denied(f"{path} is a copy: the worktree that git has registered is at {known}; remove one of the two")
    if there:
        await repository.git.execute("worktree", "repair", *there)
        await sync_existing_folders(folder, repository.common_dir)


async def _check_repository(home: Home, repository: Repository) -> list[Problem]:
    return [
        *(_stale_lock(repository, lock) for lock in stale_locks(repository.common_dir)),
        *await _check_orphans(home, repository),
    ]


def _stale_lock(repository: Repository, lock: str) -> Problem:
    async def remove() -> None:
        if not remove_stale(lock, *folders_of(repository.common_dir)):
            raise Denied(f"git is at work in {repository.common_dir} ({lock} is held); wait for it, or end it")

    return Problem(lock, "was left by a git process that died, and blocks all git commands", remove)


async def _check_orphans(home: Home, repository: Repository) -> list[Problem]:
    """Find branches and worktrees with our names that belong to no run in this home."""
    strangers = [fact for fact in await repository.worktrees() if _is_of_unknown_run(home, fact.branch)]
    ailments = [_orphan_worktree(repository, fact) for fact in strangers]
    in_use = {fact.branch for fact in strangers if not is_missing(fact.path) or fact.locked is not None}
    for ref, commit in (await repository.refs(f"refs/heads/{BRANCH_PREFIX}")).items():
        branch = ref.removeprefix("refs/heads/")
        if _is_of_unknown_run(home, branch) and branch not in in_use:
            ailments.append(await _orphan_branch(repository, ref, commit))
    return ailments


def _is_of_unknown_run(home: Home, branch: str | None) -> bool:
    run_id = run_of_branch(branch) if branch is not None else None
    if run_id is None or not is_missing(home.folder(run_id)) or run_id in home.staged_runs():
        return False
    return home.is_deleted(run_id)


def _orphan_worktree(repository: Repository, fact: WorktreeInfo) -> Problem:
    async def forget() -> None:
        drop_entries(repository.common_dir, fact.path)

    if not is_missing(fact.path):
        return Problem(fact.path, f"is a worktree on {fact.branch}, of a run that is not in this home; unchanged")
    if fact.locked is not None:
        return Problem(fact.path, f"is not there, and locked ({fact.locked or 'no reason given'}); it is left alone")
    return Problem(fact.path, f"is missing, but git still has an entry for it, on {fact.branch}", forget)


async def _orphan_branch(repository: Repository, ref: str, commit: str) -> Problem:
    branch = ref.removeprefix("refs/heads/")
    if not await repository.is_in_user_refs(commit):
        return Problem(
            branch,
            "is of a run that is not in this home, and holds commits that no branch of yours has; look at it with "
            f"git log {branch}, and delete it with git branch -D if you do not need it",
        )

    async def delete() -> None:
        await repository.delete_ref(ref, commit)

    return Problem(branch, "is of a run that is not in this home, and branches of yours have all of it", delete)
