"""A run's work in its repository: its worktrees and branches, from creation to the last merge."""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

from holdfast.core.end_reason import EndReason
from holdfast.core.events import Event
from holdfast.core.events.branch import BranchDeleted
from holdfast.core.events.checkpoint import Checkpoint
from holdfast.core.events.session import RunCreated, SessionEnd, SessionStart
from holdfast.core.state import BranchStatus, RunInfo
from holdfast.core.task_state import Task
from holdfast.core.work.names import DURING_TURN, WorktreeNames, run_refs, worktree_names
from holdfast.engine.config.of_run import run_config_for
from holdfast.engine.home import Home
from holdfast.engine.workspace.confinement import confine
from holdfast.engine.workspace.effects import EffectRunner, SettledEffect
from holdfast.engine.workspace.machine import machine_id
from holdfast.engine.workspace.outcome_events import reset_warnings
from holdfast.engine.workspace.repository import marked_repository, open_owned_repository
from holdfast.git.effects import (
    CHECKED_SNAPSHOT,
    CommitPlaceholder,
    CommitSeeds,
    CommitTask,
    DeleteBranch,
    DropRefs,
    LinkWorktree,
    MakeWorktree,
    MergeTask,
    RemoveWorktree,
    ReproduceConflicts,
    RestoreSnapshot,
    TakeSnapshot,
    UnwindPlaceholder,
)
from holdfast.git.effects.cluster import forget_epochs
from holdfast.git.merge import MergeConflicts
from holdfast.git.placeholder import find_placeholder, find_placeholder_at
from holdfast.git.repository import Repository, find_repository, worktree_top
from holdfast.git.seeds import read_seeds
from holdfast.git.snapshot import capture
from holdfast.git.worktrees.link import is_recreated, is_unlinked
from holdfast.git.worktrees.uncommitted import read_uncommitted
from holdfast.git.worktrees.worktree import Worktree, is_half_made
from holdfast.leaf.errors import BadInput, Denied, HoldfastError, NothingToDo, PositionMismatch, StorageFailed
from holdfast.leaf.files.disk import make_directories
from holdfast.leaf.ids import new_run_id, slug_of
from holdfast.store.base import Position
from holdfast.store.run import open_run


class MergeResult(NamedTuple):
    """The result of a merge.

    At `commit`, the task's branch is merged into the run's. With `conflicts`, its worktree has them. With `unchecked`,
    the branch has another tree than the checked one and nothing was merged: another program committed there, or
    (`merged`) the run's branch was merged into it. With none of these, all conflicts are resolved but not committed.
    """

    task: str
    commit: str | None
    conflicts: tuple[str, ...] = ()
    unchecked: str | None = None
    merged: bool = False


class NewRun(NamedTuple):
    """What a new run needs. `base` is a branch or a commit; by default the repository's HEAD."""

    goal: str
    repo: str
    workflow: str = "solo"
    slug: str | None = None
    base: str | None = None
    include_changes: bool = False
    key: str | None = None  # of the request: its run has an id that follows from it
    remote: str | None = None  # of a cluster run: the URL of its repository
    needs: tuple[str, ...] = ()  # the labels that its worker must have


class FirstCommit(NamedTuple):
    """The files that a run starts with and its base lacks: uncommitted changes of the user, and seeds."""

    tree: str
    changed: int = 0
    seeds: int = 0


class Workspace:
    """The repository operations of a run's owner. Each step is an effect of its own, and can be interrupted safely."""

    def __init__(self, effects: EffectRunner, settled_effects: Sequence[SettledEffect] = ()) -> None:
        self.effects = effects
        self.settled_effects = settled_effects

    @property
    def run_id(self) -> str:
        return self.effects.run_id

    @property
    def repository(self) -> Repository:
        return self.effects.repository

    @property
    def info(self) -> RunInfo:
        info = self.effects.run.state.run
        assert info is not None, "a run with a repository was created as one"
        return info

    def place(self, task: str | None = None) -> WorktreeNames:
        return worktree_names(self.run_id, task)

    def worktree(self, task: str | None = None) -> Worktree:
        place = self.place(task)
        return Worktree(self.repository, os.path.join(self.effects.folder, place.folder), place.branch)

    async def open_worktree(
        self, task: str | None = None, *, base: str | None = None, files: str | None = None
    ) -> Worktree:
        """Open the worktree of a task, or of the run itself; created if missing, with the `files` of a snapshot.

        A task's branch starts at the run's branch as it is now; the run's own at `base`.
        """
        known = self.effects.run.state.branches.get(self.place(task).branch)
        existing_base = known.base if known is not None and known.status is BranchStatus.IN_PROGRESS else None
        start = base or existing_base or await self._start_commit(task)
        unsaved = known.unsaved if known is not None else None
        last = unsaved if unsaved != files else None
        await self.effects.perform(MakeWorktree(task=task, base=start, files=files, last=last), task=task)
        return self.worktree(task)

    async def commit(self, task: str | None, message: str) -> str | None:
        """Commit all changes of a task as one commit; None if there are none.

        Commits the checked tree, if the log has one.
        """
        await self.tip(task)
        known = self.effects.run.state.tasks.get(task or "") or Task()
        branch = self.effects.run.state.branches.get(self.place(task).branch)
        effect = CommitTask(
            task=task,
            base=self.base(task),
            message=message,
            tree=known.tree,
            head=known.head,
            merging=known.merging,
            theirs=branch.theirs if branch is not None else None,
            unchecked=known.unchecked,
            agents=tuple(branch.agents) if branch is not None else (),
        )
        commit: str | None = (await self.effects.perform(effect, task=task))["commit"]
        return commit

    async def commit_seeds(self, base: str, first: FirstCommit) -> str:
        """Commit the files as the first commit of the run's branch. Returns it; `base` if that has them already."""
        if await self.repository.tree_of(base) == first.tree:
            return base
        titles = ["Uncommitted changes of the checkout"] * bool(first.changed) + ["Seed files"] * bool(first.seeds)
        effect = CommitSeeds(
            base=base, tree=first.tree, title=" and ".join(titles), changed=first.changed, seeds=first.seeds
        )
        commit: str = (await self.effects.perform(effect))["commit"]
        return commit

    async def relink(self, task: str | None) -> None:
        """Repair the link of a worktree whose `.git` was deleted or replaced; harmless otherwise.

        A foreign folder in its place is saved and removed; the worktree is then created again like a lost one.
        """
        worktree = self.worktree(task)
        known = self.effects.run.state.branches.get(worktree.branch)
        if known is None or known.base is None or not is_unlinked(worktree) or is_half_made(worktree):
            return
        if await is_recreated(worktree):
            await self.remove_worktree(task)
        else:
            await self.effects.perform(LinkWorktree(task=task, base=known.base), task=task)

    async def keep_failed(self, task: str, reason: str) -> str | None:
        """Commit a failed task's partial work as a placeholder; None if there is none."""
        await self.tip(task)
        effect = CommitPlaceholder(task=task, base=self.base(task), reason=reason)
        commit: str | None = (await self.effects.perform(effect, task=task))["commit"]
        return commit

    async def unwind_failed(self, task: str) -> str | None:
        """Undo the placeholder commit of a failed task, so that the next attempt continues with its changes."""
        effect = UnwindPlaceholder(task=task, base=self.base(task))
        placeholder: str | None = (await self.effects.perform(effect, task=task))["unwound"]
        return placeholder

    async def has_placeholder(self, task: str) -> bool:
        """Return whether the task's branch ends in a placeholder: its last attempt failed and was not undone yet."""
        known = self.effects.run.state.branches.get(self.place(task).branch)
        if known is None or known.base is None or known.status is not BranchStatus.IN_PROGRESS:
            return False
        return await find_placeholder(self.worktree(task), known.base, task) is not None

    async def merge(self, tasks: Sequence[str]) -> list[MergeResult]:
        """Merge tasks into the run's branch, in this order. A conflict in one does not stop the later ones."""
        return [await self._merge(task) for task in tasks]

    async def _merge(self, task: str) -> MergeResult:
        commit, is_checked = await self._checked_commit(task)
        if not is_checked:
            return MergeResult(task, None, unchecked=commit)
        if await find_placeholder_at(self.repository, self.base(task), commit, task) is not None:
            raise Denied(
                f"{self.place(task).branch} has the placeholder of a failed attempt, which is not merged; "
                f"resume with: holdfast resume {self.run_id} --on-issue retry"
            )
        await self.tip()
        await self.relink(None)
        if not os.path.lexists(self.worktree().path):
            await self.open_worktree()  # no agent works there: it has only what its branch has
        state = self.effects.run.state
        run_tip = state.branches[self.place().branch].tip
        done = state.tasks[task].commit if task in state.tasks else None
        effect = MergeTask(task=task, base=self.base(None), commit=commit, had=run_tip, done=done)
        try:
            merged = await self.effects.perform(effect, task=task)
            return MergeResult(task, merged["commit"])
        except MergeConflicts:
            ours = await self.tip()
            if warnings := reset_warnings(await effect.find_set_back(self.effects.site(""))):
                await self.effects.run.append(*warnings)  # record this now: the final merge is based on what was left
        found = await self.effects.perform(ReproduceConflicts(task=task, commit=ours), task=task)
        conflicts = tuple(found["conflicts"])
        now = await self.tip(task)
        if not conflicts and now != commit:
            return MergeResult(task, None, unchecked=now, merged=True)
        return MergeResult(task, None, conflicts)

    async def _checked_commit(self, task: str) -> tuple[str, bool]:
        """Return the commit to merge; False if its tree differs from the checked one.

        That is the commit made for the task, wherever its branch was reset to.
        """
        tip, known = await self.tip(task), self.effects.run.state.tasks.get(task)
        made_commit = known.commit if known is not None else None
        if made_commit is None or made_commit == tip or await self.repository.commit_of(made_commit) is None:
            return tip, True
        if await self.repository.is_ancestor(tip, made_commit):
            return made_commit, True
        return tip, await self.repository.tree_of(tip) == await self.repository.tree_of(made_commit)

    async def snapshot(self, task: str | None, name: str) -> str:
        """Snapshot the worktree under a name. Returns the commit."""
        ref = f"{self.place(task).snapshot_refs}/{slug_of(name)}"
        effect = TakeSnapshot(task=task, name=slug_of(name), replaces=await self.repository.commit_of(ref))
        commit: str = (await self.effects.perform(effect, task=task))["commit"]
        return commit

    async def snapshot_during_turn(self, task: str | None) -> str | None:
        """Snapshot the worktree while an agent works in it; None if nothing changed since the last snapshot.

        So a turn that is lost with its machine loses at most what was written since.
        """
        worktree = self.worktree(task)
        known = self.effects.run.state.branches.get(worktree.branch)
        if known is None or known.status is not BranchStatus.IN_PROGRESS:
            return None
        now = await capture(worktree, DURING_TURN)
        if now.is_clean or await self._has_tree(known.during or known.turn_files, now.oid):
            return None
        return await self.snapshot(task, DURING_TURN)

    async def _has_tree(self, commit: str | None, of: str) -> bool:
        if commit is None or await self.repository.commit_of(commit) is None:
            return False
        return await self.repository.tree_of(commit) == await self.repository.tree_of(of)

    async def restore(self, task: str | None, commit: str) -> str | None:
        """Restore the files of a snapshot. Returns the ref that has the current files, if they had to be saved."""
        salvaged: str | None = (await self.effects.perform(RestoreSnapshot(task=task, commit=commit), task=task)).get(
            "salvaged"
        )
        return salvaged

    async def remove_worktree(self, task: str | None = None) -> str | None:
        """Remove a worktree. Returns the ref of the work that was only there, if any."""
        known = self.effects.run.state.branches.get(self.place(task).branch)
        last, base = (known.unsaved, known.base) if known is not None else (None, None)
        effect = RemoveWorktree(task=task, last=last, base=base)
        salvaged: str | None = (await self.effects.perform(effect, task=task)).get("salvaged")
        return salvaged

    async def delete_worktree_and_branch(self, task: str) -> None:
        """Delete the worktree and branch of a completed task: the run's branch has all its work."""
        await self.remove_worktree(task)
        branch = self.place(task).branch
        tip = await self.repository.commit_of(f"refs/heads/{branch}")
        if tip is not None and self.effects.run.state.branches[branch].status is not BranchStatus.DELETED:
            effect = DeleteBranch(branch=branch, commit=tip, merged_into=self.place().branch)
            await self.effects.perform(effect, task=task)

    async def discard(self, task: str) -> list[str]:
        """Discard the worktree and the branch of a task that restarts. Returns the refs with its work.

        Work that is only there is saved first. After a crash, another call finishes the rest.
        """
        name, run = self.place(task).branch, self.effects.run
        if name in run.state.branches:
            is_missing = await self.repository.commit_of(f"refs/heads/{name}") is None
            commit = run.state.tasks[task].commit if is_missing else None
            await self.delete_worktree_and_branch(task)
            if commit is not None:
                checked = f"{self.place(task).snapshot_refs}/{CHECKED_SNAPSHOT}"
                await self.effects.perform(DropRefs(prefix=checked, keep=(commit,)), task=task)
            if run.state.branches[name].status is not BranchStatus.DELETED:  # another program deleted it
                await run.append(BranchDeleted(name=name))
        return sorted(await self.repository.refs(f"{self.place(task).salvage_refs}/"))

    def base(self, task: str | None) -> str:
        """Return the commit where a branch started."""
        name = self.place(task).branch
        found = self.effects.run.state.branches.get(name)
        if found is None or found.base is None:
            raise BadInput(f"run {self.run_id} has no branch {name} yet; open its worktree first")
        return found.base

    async def _start_commit(self, task: str | None) -> str:
        info, main = self.effects.run.state.run, self.place().branch
        branch_exists = main in self.effects.run.state.branches or await self.repository.commit_of(f"refs/heads/{main}")
        if task is None and not branch_exists and info is not None and info.base is not None:
            # interrupted before it had a branch
            return (await self.repository.resolve_base(info.repo or "", info.base))[0]
        return await self.tip()

    async def tip(self, task: str | None = None) -> str:
        """Return the commit at the tip of a branch."""
        branch = self.place(task).branch
        commit = await self.repository.commit_of(f"refs/heads/{branch}")
        if commit is None and self.info.archived:
            raise NothingToDo(
                f"run {self.run_id} is archived; `holdfast salvage ls {self.run_id}` has what was unmerged"
            )
        if commit is None:
            raise Denied(
                f"the branch {branch} no longer exists; `git branch {branch} COMMIT` restores it, or `holdfast "
                f"resume {self.run_id}` as it was last known"
            )
        return commit


async def create_run(
    home: Home,
    new: NewRun,
    *events: Event,
    seeds: Sequence[str] = (),
    run_id: str | None = None,
    first: FirstCommit | None = None,
) -> str:
    """Create a run with its branch and its worktree, and do not start it; `events` are recorded first. Returns its id.

    `seeds` are files and folders. They are read before anything is created, and committed to the run's branch as one
    commit before the plan is recorded. So a run with a plan has its seeds, and a run without a plan is never offered.

    With a `run_id`, a run of that id that was killed before it had its plan is finished; one that has it stays.
    """
    repository = await find_repository(new.repo)
    if not _is_utf8(repository.common_dir):
        raise BadInput(f"the path {repository.common_dir!r} is not UTF-8, and a run's log is; move the repository")
    base, name = await repository.resolve_base(new.repo, new.base)
    first = first or await _read_first_commit(repository, base, new, seeds)
    is_new = run_id is None or not home.index.has_run(run_id)
    run_id = run_id or new_run_id(new.slug or new.goal, new.key)
    feature = run_id[:-7]
    store = home.store
    if is_new:
        await store.create(run_id)
    async with open_run(store, run_id, feature=feature) as run:
        newest = run.state.newest_session()
        if run.state.has_plan and newest is not None and (newest.ended or newest.command != "plan"):
            return run_id  # it was prepared, or even started since
        created = RunCreated(
            run_id=run_id,
            goal=new.goal,
            workflow=new.workflow,
            repo=repository.common_dir,
            base=name,
            branch=worktree_names(run_id).branch,
            remote=new.remote,
            needs=list(new.needs),
        )
        folder = home.folder(run_id)
        make_directories(folder)
        workspace = Workspace(
            EffectRunner(run, run_id, marked_repository(repository.common_dir, run_id, folder), folder)
        )
        begin = SessionStart(command="plan", feature=feature, branch=created.branch, mode=new.workflow, pid=os.getpid())
        if run.state.has_plan:
            await run.begin_session(begin)
            await workspace.effects.settle()
            base = run.state.checkpoints[0].commit or base
            await workspace.effects.share_base(base)
        elif first is None:
            await run.begin_session(begin, created, *events, _start_checkpoint(created, base))
            await workspace.effects.share_base(base)
        else:
            await run.begin_session(begin, *([created] if run.state.run is None else []))
            await workspace.effects.settle()
            await workspace.effects.share_base(base)
            is_committed = created.branch in run.state.branches
            tip = await workspace.tip() if is_committed else await workspace.commit_seeds(base, first)
            await run.append(*events, _start_checkpoint(created, tip))
        if new.remote is None:
            await workspace.open_worktree(base=base)
        else:
            await _leave_to_workers(workspace)
        await run.append(SessionEnd(reason=EndReason.PLANNED))
        if new.remote is None:
            await workspace.effects.write_anchor()
    return run_id


async def _leave_to_workers(workspace: Workspace) -> None:
    """Delete what a new cluster run has in the user's repository: the remote has it, and workers use their mirrors."""
    workspace.effects.stop_publishing()
    for prefix in run_refs(workspace.run_id):
        if await workspace.repository.refs(prefix):
            await workspace.effects.perform(DropRefs(prefix=prefix))
    forget_epochs(workspace.effects.folder)


async def _read_first_commit(
    repository: Repository, base: str, new: NewRun, seeds: Sequence[str]
) -> FirstCommit | None:
    """Read the files before anything is created; None if the run starts with its base as it is."""
    if not new.include_changes and not seeds:
        return None
    top, tree, changed = await _checkout_root(new.repo), base, 0
    if new.include_changes:
        if top is None:
            raise BadInput(f"--include-changes: {new.repo} is a bare repository, so it has no changes; leave it out")
        found = await read_uncommitted(repository, top)
        if found.head != base:
            raise BadInput(
                f"--include-changes: the changes are on {found.head[:12]}, and the base is {base[:12]}; "
                "check out the base first, or leave out --base"
            )
        tree, changed = found.oid, len(found.paths)
    if not seeds:
        return FirstCommit(tree, changed)
    seeded = await read_seeds(repository, tree, top, seeds)
    return FirstCommit(seeded.oid, changed, len(seeded.paths))


def _start_checkpoint(created: RunCreated, commit: str) -> Checkpoint:
    return Checkpoint(label="run-start", branch=created.branch, commit=commit, plan_step="wave-1-start")


async def _checkout_root(path: str) -> str | None:
    """Return the user's checkout, in which seeds keep their paths; None in a bare repository."""
    try:
        return await worktree_top(path)
    except BadInput:
        return None


def _is_utf8(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


@asynccontextmanager
async def open_workspace(
    home: Home, run_id: str, command: str, *, anchored: bool = True, expect: Position | None = None
) -> AsyncIterator[Workspace]:
    """Own a run, settle what a crash left open, and work on its repository for one session.

    `anchored=False` for a command that deletes the run together with its anchors. With `expect`, nothing is done
    unless the log still ends there.
    """
    store = home.store
    async with open_run(store, run_id) as run:
        if expect not in (None, run.head.position):
            raise PositionMismatch(f"run {run_id} went on since you looked; look again, then choose")
        folder = home.folder(run_id)
        repository = await open_owned_repository(home, run.state.run, run_id)
        confine(repository, run_id, folder, lambda: run.state, run_config_for(home, run.state))
        machine = machine_id(home) if run.state.run is not None and run.state.run.remote is not None else None
        await run.begin_session(SessionStart(command=command, pid=os.getpid(), machine=machine))
        effects = EffectRunner(run, run_id, repository, folder)
        try:
            yield Workspace(effects, await effects.settle())
        except (HoldfastError, OSError) as error:
            reported = error if isinstance(error, HoldfastError) else StorageFailed.from_os_error(error)
            await run.append(SessionEnd(reason=EndReason.ERROR, summary=str(reported)))
            await effects.write_anchor()
            raise reported from error
        await run.append(SessionEnd(reason=EndReason.ALL_DONE))
        if anchored:
            await effects.write_anchor()
