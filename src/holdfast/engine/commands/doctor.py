"""What is not as it should be, with runs and in the repositories they work on; explained, and repaired on request.

A repair never deletes work that is not in a branch of the user's: what could hold some is told of and left alone.
"""

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from holdfast.agents.runtimes.tmux import lacking
from holdfast.core.events.session import RunMoved, SessionEnd, SessionStart
from holdfast.core.work.names import BRANCHES, place_of, run_of_branch
from holdfast.core.work.reconciliation import Finding, Remedy, reconcile
from holdfast.engine.config.config import load_here
from holdfast.engine.config.run_config import kinds_in
from holdfast.engine.containers import end_containers, running_containers
from holdfast.engine.naming import run_ids
from holdfast.engine.places import is_owned
from holdfast.engine.queries.logs import RunView, view_run
from holdfast.engine.workspace.reconcile import observe, reconciled
from holdfast.engine.workspace.workspace import opened
from holdfast.git.locks import remove_stale, stale_locks
from holdfast.git.repository import Repository, WorktreeFact
from holdfast.git.version import NEEDED, installed
from holdfast.git.worktree_admin import drop_entries, folders_of
from holdfast.git.worktrees.worktree import known_place
from holdfast.leaf.errors import Denied, HoldfastError
from holdfast.leaf.files.directories import is_gone
from holdfast.leaf.files.sync import have_on_disk
from holdfast.store.files.create import take_away, unmade
from holdfast.store.files.layout import run_folder, trash_folder
from holdfast.store.files.store import FileStore
from holdfast.store.run import open_run

_NOTHING_WRONG = (Remedy.NONE, Remedy.RESUME_ON_BRANCH, Remedy.RESUME_IN_WORKTREE)

Repair = Callable[[], Awaitable[None]]


class Ailment(NamedTuple):
    """Something that is not as it should be: what, and what to do about it. `repair` is None when a person must."""

    subject: str
    told: str
    repair: Repair | None = None


async def diagnose(home: str, repositories: list[str]) -> list[Ailment]:
    """Everything in this home, and in these repositories beside those of its runs."""
    ailments = [*_trash(home), *_unmade(home), *_tmux(home)]
    if shutil.which("git") is None:
        return [*ailments, Ailment("git", "is not installed; Holdfast works on git repositories")]
    ailments += await _git_itself()
    known = dict.fromkeys(repositories)
    for run_id in run_ids(home):
        try:
            view = await view_run(home, run_id)
        except (HoldfastError, OSError) as error:
            ailments.append(Ailment(run_id, f"cannot be read: {error}; `holdfast verify {run_id}` tells more"))
            continue
        ailments += await _looked_into(run_id, _run(home, view, repositories))
        if view.state.run is not None and view.state.run.repo is not None and os.path.isdir(view.state.run.repo):
            known[view.state.run.repo] = None
    for common_dir in known:
        ailments += await _looked_into(common_dir, _repository(home, Repository(common_dir)))
    return ailments


async def _looked_into(subject: str, look: Awaitable[list[Ailment]]) -> list[Ailment]:
    """What is found; where it cannot be looked into, that alone: one patient does not keep the others waiting."""
    try:
        return await look
    except (HoldfastError, OSError) as error:
        return [Ailment(subject, f"cannot be looked into: {error}")]


async def _git_itself() -> list[Ailment]:
    version = await installed()
    return [] if version.fits else [Ailment("git", f"is {version.said}; {NEEDED}")]


def _tmux(home: str) -> list[Ailment]:
    """Whether it is here, if somebody is to work in it."""
    try:
        wanted = "tmux" in kinds_in(load_here(home).settings)
    except HoldfastError as error:
        return [Ailment("the settings", f"cannot be read: {error}")]
    problem = lacking() if wanted else None
    return [Ailment("tmux", f"is chosen by your settings, but {problem}")] if problem is not None else []


def _trash(home: str) -> list[Ailment]:
    folder = trash_folder(home)

    async def empty() -> None:
        shutil.rmtree(folder, ignore_errors=True)

    if not os.path.isdir(folder) or not os.listdir(folder):
        return []
    return [Ailment(folder, "holds runs that were reset, and whose deletion was cut off", empty)]


def _unmade(home: str) -> list[Ailment]:
    return [
        Ailment(folder, "is what is left of a run whose making was cut off", _taking_away(folder))
        for folder in unmade(home)
    ]


def _taking_away(folder: str) -> Repair:
    async def remove() -> None:
        take_away(folder)

    return remove


async def _run(home: str, view: RunView, elsewhere: list[str]) -> list[Ailment]:
    state, run_id = view.state, view.run_id
    if state.run is None or state.run.repo is None or state.run.archived or is_owned(home, run_id):
        return []
    if not os.path.isdir(state.run.repo):
        return [await _lost_repository(home, view, elsewhere)]
    ailments = []
    if view.status == "interrupted" and state.is_unmade:
        ailments.append(
            Ailment(run_id, f"was killed before its plan was recorded; `holdfast reset {run_id}` deletes it")
        )
    elif view.status == "interrupted":
        ailments.append(
            Ailment(run_id, f"was interrupted, its owner is dead; `holdfast resume {run_id}` goes on with it")
        )
    ailments += _containers(run_id, view.folder)
    repository = Repository(state.run.repo)
    ailments += [
        Ailment(
            run_id,
            f"{effect.kind} may or may not have happened: {effect.reason or 'it was cut off'}",
            _asking(home, run_id, effect_id),
        )
        for effect_id, effect in state.effects.items()
    ]
    moved = await _moved_worktrees(repository, view)
    ailments += moved
    if not moved:
        findings = reconcile(run_id, state.branches, await observe(repository, run_id, view.folder))
        repair = _reconciling(home, run_id)
        ailments += [_ailment(run_id, finding, repair) for finding in findings if finding.remedy not in _NOTHING_WRONG]
    return ailments


def _containers(run_id: str, folder: str) -> list[Ailment]:
    """Agents that are at work in containers though nobody owns their run."""

    async def end() -> None:
        await asyncio.to_thread(end_containers, folder, run_id)

    return [
        Ailment(run_id, f"container {one.container[:12]} at {one.address} is still running, and nobody owns it", end)
        if one.container is not None
        else Ailment(run_id, f"may have agents in containers: {one.problem}")
        for one in running_containers(folder, run_id)
    ]


def _ailment(run_id: str, finding: Finding, repair: Repair) -> Ailment:
    return Ailment(run_id, finding.told, None if finding.remedy is Remedy.WARN else repair)


def _asking(home: str, run_id: str, effect: str) -> Repair:
    """Settle what was left open; it may be that this effect cannot be settled."""

    async def ask() -> None:
        async with opened(home, run_id, "doctor") as workspace:
            left = workspace.hands.run.state.effects.get(effect)
        if left is not None:
            raise HoldfastError(left.reason or "it still cannot be told")

    return ask


def _reconciling(home: str, run_id: str) -> Repair:
    async def settle() -> None:
        async with opened(home, run_id, "doctor") as workspace:
            await reconciled(workspace)

    return settle


async def _lost_repository(home: str, view: RunView, elsewhere: list[str]) -> Ailment:
    """A repository that is not where it was; found again by the run's branch, if it is one of those that were named."""
    run_id, was = view.run_id, view.state.run.repo if view.state.run is not None else None
    ref = f"refs/heads/{place_of(run_id).branch}"
    found = [common_dir for common_dir in elsewhere if await Repository(common_dir).commit_of(ref) is not None]
    if not found:
        told = f"works on {was}, which is not there; if it was moved: holdfast doctor --repo NEW-PLACE --fix"
        return Ailment(run_id, told)

    async def follow() -> None:
        async with open_run(FileStore(home), run_id) as run:
            await _repair_links(Repository(found[0]), run_folder(home, run_id))  # cut off here, it is found again
            await run.begin(SessionStart(command="doctor", pid=os.getpid()), RunMoved(repo=found[0]))
            await run.append(SessionEnd(reason="all_done"))

    return Ailment(run_id, f"works on {was}, which is now {found[0]}", follow)


async def _moved_worktrees(repository: Repository, view: RunView) -> list[Ailment]:
    """Worktrees that git knows at another place: the home was moved, or the repository was."""
    observed = await observe(repository, view.run_id, view.folder)
    moved = [folder for folder, seen in observed.worktrees.items() if seen.problem is not None and seen.moved]

    async def repair() -> None:
        await _repair_links(repository, view.folder)

    told = "are known to git at another place: this folder was moved"
    return [Ailment(view.run_id, f"{', '.join(moved)} {told}", repair)] if moved else []


async def _repair_links(repository: Repository, folder: str) -> None:
    tasks = os.path.join(folder, "tasks")
    leaves = [os.path.join(tasks, leaf) for leaf in os.listdir(tasks) if leaf[0] != "."] if os.path.isdir(tasks) else []
    there = [
        path for path in (os.path.join(folder, "workspace"), *leaves) if os.path.exists(os.path.join(path, ".git"))
    ]
    for path in there:
        known = known_place(path)
        if known is not None and os.path.exists(known) and os.path.realpath(known) != os.path.realpath(path):
            raise Denied(f"{path} is a copy: the worktree that git knows stands at {known}; remove one of the two")
    if there:
        await repository.git.do("worktree", "repair", *there)
        await have_on_disk(folder, repository.common_dir)


async def _repository(home: str, repository: Repository) -> list[Ailment]:
    return [
        *(_stale_lock(repository, lock) for lock in stale_locks(repository.common_dir)),
        *await _orphans(home, repository),
    ]


def _stale_lock(repository: Repository, lock: str) -> Ailment:
    async def remove() -> None:
        if not remove_stale(lock, *folders_of(repository.common_dir)):
            raise Denied(f"git is at work in {repository.common_dir} ({lock} is held); wait for it, or end it")

    return Ailment(lock, "was left by a git that is dead, and stops every other; nobody holds it", remove)


async def _orphans(home: str, repository: Repository) -> list[Ailment]:
    """Branches and worktrees by our names, of runs that are not in this home."""
    strangers = [fact for fact in await repository.worktrees() if _is_a_strangers(home, fact.branch)]
    ailments = [_orphan_worktree(repository, fact) for fact in strangers]
    in_use = {fact.branch for fact in strangers if not is_gone(fact.path) or fact.locked is not None}
    for ref, commit in (await repository.refs(f"refs/heads/{BRANCHES}")).items():
        branch = ref.removeprefix("refs/heads/")
        if _is_a_strangers(home, branch) and branch not in in_use:
            ailments.append(await _orphan_branch(repository, ref, commit))
    return ailments


def _is_a_strangers(home: str, branch: str | None) -> bool:
    run_id = run_of_branch(branch) if branch is not None else None
    return run_id is not None and is_gone(run_folder(home, run_id))


def _orphan_worktree(repository: Repository, fact: WorktreeFact) -> Ailment:
    async def forget() -> None:
        drop_entries(repository.common_dir, fact.path)

    if not is_gone(fact.path):
        return Ailment(
            fact.path, f"is a worktree on {fact.branch}, of a run that is not in this home; it is left alone"
        )
    if fact.locked is not None:
        return Ailment(fact.path, f"is not there, and locked ({fact.locked or 'no reason given'}); it is left alone")
    return Ailment(fact.path, f"is gone, and git still has an entry for it, on {fact.branch}", forget)


async def _orphan_branch(repository: Repository, ref: str, commit: str) -> Ailment:
    branch = ref.removeprefix("refs/heads/")
    if not await repository.is_elsewhere(commit):
        return Ailment(
            branch,
            "is of a run that is not in this home, and holds commits that no branch of yours has; look at it with "
            f"git log {branch}, and delete it with git branch -D when you have no use for it",
        )

    async def delete() -> None:
        await repository.delete_ref(ref, commit)

    return Ailment(branch, "is of a run that is not in this home, and branches of yours have all of it", delete)
