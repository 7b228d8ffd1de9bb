"""Where a run keeps its work in a repository: the names of its branches, worktrees and refs. All of them its own.

`holdfast/<run>/main` is the run's branch, checked out in `workspace/` of the run's folder; each task that works
beside others has `holdfast/<run>/<task>`, in `tasks/<task>/`. Snapshots and salvage are refs that no branch
command shows. A write that is killed may leave a file in a worktree, by a name that tells it from all others.
"""

import hashlib
import re
from typing import NamedTuple

from holdfast.leaf.ids import slug_of

BRANCHES = "holdfast/"
SNAPSHOTS = "refs/holdfast/snapshot/"
SALVAGE = "refs/holdfast/salvage/"
CHAINS = "refs/holdfast/chain/"

_MAIN = "main"
_SAFE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|[.](?=[A-Za-z0-9_-]))*")
_LONGEST = 60
_MADE = re.compile(r".*-[0-9a-f]{12}")
_HALF_WRITTEN = re.compile(r"\.holdfast-[0-9a-f]{16}\.tmp")


class Place(NamedTuple):
    """A branch of a run, and the folder of its worktree, relative to the run's own."""

    run_id: str
    leaf: str
    task: str | None

    @property
    def branch(self) -> str:
        return f"{BRANCHES}{self.run_id}/{self.leaf}"

    @property
    def folder(self) -> str:
        return "workspace" if self.task is None else f"tasks/{self.leaf}"

    @property
    def snapshots(self) -> str:
        return f"{SNAPSHOTS}{self.run_id}/{self.leaf}"

    @property
    def salvage(self) -> str:
        return f"{SALVAGE}{self.run_id}/{self.leaf}"


def place_of(run_id: str, task: str | None = None) -> Place:
    """The place of a task; that of the run itself without one."""
    return Place(run_id, _MAIN if task is None else _leaf(task), task)


def place_at(run_id: str, folder: str) -> Place:
    """The place whose worktree is in this folder, relative to the run's own."""
    leaf = folder.rpartition("/")[2]
    return Place(run_id, leaf, leaf) if folder.startswith("tasks/") else place_of(run_id)


def refs_of(run_id: str) -> tuple[str, ...]:
    """The prefixes under which everything of a run is."""
    return f"refs/heads/{BRANCHES}{run_id}", f"{SNAPSHOTS}{run_id}", f"{SALVAGE}{run_id}", chain_ref(run_id)


def chain_ref(run_id: str) -> str:
    """The ref with the anchors of a run's log."""
    return f"{CHAINS}{run_id}"


def run_of_branch(branch: str) -> str | None:
    """The run that a branch belongs to by its name; None when it is none of ours."""
    run_id, slash, leaf = branch.removeprefix(BRANCHES).partition("/")
    return run_id if branch.startswith(BRANCHES) and slash and leaf else None


def is_of_task(branch: str) -> bool:
    """True of a task's branch, on which its work may be; the run's own only takes merges."""
    return run_of_branch(branch) is not None and branch.rpartition("/")[2] != _MAIN


def half_written(token: str) -> str:
    """What a file is called until it takes its place; the token is 16 hex digits."""
    return f".holdfast-{token}.tmp"


def is_half_written(path: str) -> bool:
    """True of a file that was killed before it took its place: nobody's work, whatever is in it."""
    return _HALF_WRITTEN.fullmatch(path.rpartition("/")[2]) is not None


def _leaf(task: str) -> str:
    """The task's id, where it can be a folder and a branch everywhere; else one like it that is its own."""
    fits = _SAFE.fullmatch(task) is not None and len(task) <= _LONGEST
    if fits and task != _MAIN and not task.endswith(".lock") and _MADE.fullmatch(task) is None:
        return task
    return f"{slug_of(task)}-{hashlib.sha256(task.encode(errors='surrogatepass')).hexdigest()[:12]}"
