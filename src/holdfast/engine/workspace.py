"""A run's work in its repository: its worktrees and branches, from the first to the last merge."""

import os
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

from holdfast.core.events import Event
from holdfast.core.events.checkpoint import Checkpoint
from holdfast.core.events.session import RunCreated, SessionEnd, SessionStart
from holdfast.core.events.task import TaskFailed
from holdfast.core.state import BranchStatus, RunInfo
from holdfast.core.workspace import Place, place_of
from holdfast.engine.effects import TETHER, Hands, Settled, told_of_setting_back
from holdfast.git.commit import Unresolved, placeholder_of
from holdfast.git.effects import (
    BringConflicts,
    CommitTask,
    DeleteBranch,
    KeepFailed,
    MakeWorktree,
    MergeTask,
    RemoveWorktree,
    RestoreSnapshot,
    TakeSnapshot,
    UnwindFailed,
)
from holdfast.git.merge import Conflicts
from holdfast.git.repository import Repository, find_repository, top_of
from holdfast.git.worktree import Worktree
from holdfast.leaf.crashing import around
from holdfast.leaf.errors import BadInput, Denied, HoldfastError, NothingToDo, StorageFailed
from holdfast.leaf.ids import new_run_id, slug_of
from holdfast.leaf.marks import RUN_MARK
from holdfast.store.files import FileStore
from holdfast.store.layout import run_folder
from holdfast.store.run import open_run

_CRASH = around("seed.copy")


class Merge(NamedTuple):
    """A task's branch went into the run's at `commit`; or it could not, and its worktree holds the conflicts.

    With neither, all of them are resolved there, and not committed yet.
    """

    task: str
    commit: str | None
    conflicts: tuple[str, ...] = ()


class NewRun(NamedTuple):
    """What a run begins with. `base` is a branch or a commit; without one, what the repository's HEAD is at."""

    goal: str
    repo: str
    workflow: str = "solo"
    slug: str | None = None
    base: str | None = None


class Workspace:
    """What a run's owner does with the repository. Each step is an effect of its own, safe to be cut off in."""

    def __init__(self, hands: Hands, settled: Sequence[Settled] = ()) -> None:
        self.hands = hands
        self.settled = settled

    @property
    def run_id(self) -> str:
        return self.hands.run_id

    @property
    def repository(self) -> Repository:
        return self.hands.repository

    @property
    def info(self) -> RunInfo:
        info = self.hands.run.state.run
        assert info is not None, "a run with a repository was created as one"
        return info

    def place(self, task: str | None = None) -> Place:
        return place_of(self.run_id, task)

    def worktree(self, task: str | None = None) -> Worktree:
        place = self.place(task)
        return Worktree(self.repository, os.path.join(self.hands.folder, place.folder), place.branch)

    async def open(self, task: str | None = None, *, base: str | None = None, files: str | None = None) -> Worktree:
        """The worktree of a task, or of the run itself; made when it is not there, with the `files` of a snapshot.

        A task's branch begins where the run's branch is now; the run's own at `base`.
        """
        known = self.hands.run.state.branches.get(self.place(task).branch)
        going_on = known.base if known is not None and known.status is BranchStatus.IN_PROGRESS else None
        start = base or going_on or await self._start(task)
        unsaved = known.unsaved if known is not None else None
        last = unsaved if unsaved != files else None
        await self.hands.perform(MakeWorktree(task=task, base=start, files=files, last=last), task=task)
        return self.worktree(task)

    async def commit(self, task: str | None, message: str) -> str | None:
        """All that the task did, as one commit; None when it did nothing."""
        await self.tip(task)
        effect = CommitTask(task=task, base=self._base(task), message=message)
        commit: str | None = (await self.hands.perform(effect, task=task))["commit"]
        return commit

    async def keep_failed(self, task: str, reason: str) -> str | None:
        """A failed task's partial work, as a placeholder commit; None when there is none."""
        await self.tip(task)
        effect = KeepFailed(task=task, base=self._base(task), reason=reason)
        commit: str | None = (await self.hands.perform(effect, task=task))["commit"]
        return commit

    async def give_up(self, task: str, reason: str) -> None:
        """The task is failed, and its work so far is kept on its branch, whatever becomes of it."""
        try:
            await self.keep_failed(task, reason)  # by which it is failed
        except Unresolved:
            await self.snapshot(task, "failed")  # in the middle of a merge there is no committing
            attempts = self.hands.run.state.tasks[task].iteration
            await self.hands.run.append(TaskFailed(task_id=task, error=reason, attempts=attempts))

    async def unwind_failed(self, task: str) -> str | None:
        """Take the placeholder of a failed task back, so that the next attempt goes on with what is in it."""
        effect = UnwindFailed(task=task, base=self._base(task))
        placeholder: str | None = (await self.hands.perform(effect, task=task))["unwound"]
        return placeholder

    async def ends_in_placeholder(self, task: str) -> bool:
        """The branch that the task works on: its last attempt failed, and nobody took that back yet."""
        known = self.hands.run.state.branches.get(self.place(task).branch)
        if known is None or known.base is None or known.status is not BranchStatus.IN_PROGRESS:
            return False
        return await placeholder_of(self.worktree(task), known.base, task) is not None

    async def merge(self, tasks: Sequence[str]) -> list[Merge]:
        """Merge tasks into the run's branch, in this order. One that conflicts does not stop those after it."""
        return [await self._merge(task) for task in tasks]

    async def _merge(self, task: str) -> Merge:
        commit = await self.tip(task)
        await self.tip()
        if not os.path.lexists(self.worktree().path):
            await self.open()  # nobody works there: it holds nothing that its branch does not
        state = self.hands.run.state
        had = state.branches[self.place().branch].tip
        done = state.tasks[task].commit if task in state.tasks else None
        effect = MergeTask(task=task, base=self._base(None), commit=commit, had=had, done=done)
        try:
            merged = await self.hands.perform(effect, task=task)
            return Merge(task, merged["commit"])
        except Conflicts:
            ours = await self.tip()
            if told := told_of_setting_back(await effect.set_back(self.hands.site(""))):
                await self.hands.run.append(*told)  # now: what is merged in the end is made of what was left
        found = await self.hands.perform(BringConflicts(task=task, commit=ours), task=task)
        conflicts = tuple(found["conflicts"])
        committed = not conflicts and await self.tip(task) != commit
        return await self._merge(task) if committed else Merge(task, None, conflicts)

    async def snapshot(self, task: str | None, name: str) -> str:
        """The worktree as it is, kept under a name. Returns the commit that holds it."""
        ref = f"{self.place(task).snapshots}/{slug_of(name)}"
        effect = TakeSnapshot(task=task, name=slug_of(name), replaces=await self.repository.commit_of(ref))
        commit: str = (await self.hands.perform(effect, task=task))["commit"]
        return commit

    async def restore(self, task: str | None, commit: str) -> str | None:
        """The files as they were in a snapshot. Returns the ref that has them as they are now, if that is needed."""
        salvaged: str | None = (await self.hands.perform(RestoreSnapshot(task=task, commit=commit), task=task)).get(
            "salvaged"
        )
        return salvaged

    async def remove(self, task: str | None = None) -> str | None:
        """Remove a worktree. Returns the ref under which what was only there was saved, if something was."""
        known = self.hands.run.state.branches.get(self.place(task).branch)
        effect = RemoveWorktree(task=task, last=known.unsaved if known is not None else None)
        salvaged: str | None = (await self.hands.perform(effect, task=task)).get("salvaged")
        return salvaged

    async def take_away(self, task: str) -> None:
        """The worktree and the branch of a task that is done: the run's branch has all of it."""
        await self.remove(task)
        branch = self.place(task).branch
        tip = await self.repository.commit_of(f"refs/heads/{branch}")
        if tip is not None and self.hands.run.state.branches[branch].status is not BranchStatus.DELETED:
            effect = DeleteBranch(branch=branch, commit=tip, merged_into=self.place().branch)
            await self.hands.perform(effect, task=task)

    def _base(self, task: str | None) -> str:
        """The commit that a branch began at."""
        name = self.place(task).branch
        found = self.hands.run.state.branches.get(name)
        if found is None or found.base is None:
            raise BadInput(f"run {self.run_id} has no branch {name} yet; open its worktree first")
        return found.base

    async def _start(self, task: str | None) -> str:
        info, main = self.hands.run.state.run, self.place().branch
        begun = main in self.hands.run.state.branches or await self.repository.commit_of(f"refs/heads/{main}")
        if task is None and not begun and info is not None and info.base is not None:
            return (await self.repository.base(info.repo or "", info.base))[0]  # cut off before it had a branch
        return await self.tip()

    async def tip(self, task: str | None = None) -> str:
        """The commit that a branch is at."""
        branch = self.place(task).branch
        commit = await self.repository.commit_of(f"refs/heads/{branch}")
        if commit is None and self.info.archived:
            raise NothingToDo(
                f"run {self.run_id} is archived; `holdfast salvage ls {self.run_id}` has what was unmerged"
            )
        if commit is None:
            raise Denied(
                f"the branch {branch} is not there any more; `git branch {branch} COMMIT` brings it back, or `holdfast "
                f"resume {self.run_id}` as it was last known"
            )
        return commit


async def create_run(home: str, new: NewRun, *also: Event, seeds: Sequence[str] = ()) -> str:
    """A run with its branch and its worktree, at rest; `also` is known of it from the beginning. Returns its id.

    `seeds` are files and folders of the repository's work tree: they are committed to the run's branch as one commit.
    With them `also` comes last: what was cut off before its seeds were there must not go on without them.
    """
    repository = await find_repository(new.repo)
    if not _is_text(repository.common_dir):
        raise BadInput(f"the path {repository.common_dir!r} is not UTF-8, and a run's log is; move the repository")
    base, name = await repository.base(new.repo, new.base)
    run_id = new_run_id(new.slug or new.goal)
    store = FileStore(home)
    await store.create(run_id)
    async with open_run(store, run_id, feature=run_id[:-7]) as run:
        created = RunCreated(
            run_id=run_id,
            goal=new.goal,
            workflow=new.workflow,
            repo=repository.common_dir,
            base=name,
            branch=place_of(run_id).branch,
        )
        start = Checkpoint(label="run-start", branch=created.branch, commit=base, plan_step="wave-1-start")
        await run.begin(SessionStart(command="plan", pid=os.getpid()), created, *(() if seeds else also), start)
        folder = run_folder(store.home, run_id)
        marked = _marked(repository.common_dir, run_id, folder)
        workspace = Workspace(Hands(run, run_id, marked, folder))
        await workspace.open(base=base)
        if seeds:
            _copy_seeds(seeds, await top_of(new.repo), workspace.worktree().path)
            await workspace.commit(None, "Seed files")
        await run.append(*(also if seeds else ()), SessionEnd(reason="planned"))
    return run_id


def _copy_seeds(seeds: Sequence[str], top: str, into: str) -> None:
    for seed in map(os.path.realpath, seeds):
        place = os.path.relpath(seed, top)
        if place.startswith(os.pardir):
            raise BadInput(f"{seed} is not in the repository at {top}; seeds are files of it, committed or not")
        if not os.path.exists(seed):
            raise BadInput(f"there is no {seed} to begin with")
        target = os.path.join(into, place)
        _CRASH.before()
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if os.path.isdir(seed):
            shutil.copytree(seed, target, symlinks=True, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".git"))
        else:
            shutil.copy2(seed, target, follow_symlinks=False)
        _CRASH.after()


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


@asynccontextmanager
async def opened(home: str, run_id: str, command: str) -> AsyncIterator[Workspace]:
    """Own a run, settle what a crash left open, and work on its repository for one sitting."""
    store = FileStore(home)
    async with open_run(store, run_id) as run:
        folder = run_folder(store.home, run_id)
        repository = repository_of(run.state.run, run_id, folder)
        await run.begin(SessionStart(command=command, pid=os.getpid()))
        hands = Hands(run, run_id, repository, folder)
        try:
            yield Workspace(hands, await hands.settle())
        except (HoldfastError, OSError) as error:
            told = error if isinstance(error, HoldfastError) else StorageFailed.by(error)
            await run.append(SessionEnd(reason="error", summary=str(told)))
            raise told from error
        await run.append(SessionEnd(reason="all_done"))


def repository_of(info: RunInfo | None, run_id: str, folder: str | None = None) -> Repository:
    """The run's repository; with the run's `folder`, for its owner: then whoever works there can be found again."""
    if info is None or info.repo is None:
        raise NothingToDo(f"run {run_id} works on no repository")
    if not os.path.isdir(info.repo):
        raise BadInput(
            f"the repository of run {run_id} is not at {info.repo} any more; "
            "if it was moved, `holdfast doctor --repo NEW-PLACE --fix` finds it again"
        )
    return Repository(info.repo) if folder is None else _marked(info.repo, run_id, folder)


def _marked(common_dir: str, run_id: str, folder: str) -> Repository:
    return Repository(common_dir, mark={RUN_MARK: run_id}, tether=os.path.join(folder, TETHER))
