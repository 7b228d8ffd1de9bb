"""The names of a run's branches, worktrees and refs in a repository.

`holdfast/<run>/main` is the run's branch, checked out in `workspace/` of the run's folder. A task that runs in parallel
has `holdfast/<run>/<task>`, in `tasks/<task>/`. Snapshots and salvage are refs that no branch command shows. A write
that is killed may leave a temporary file in a worktree; its name is recognisable.
"""

import hashlib
import re
from typing import NamedTuple

from holdfast.leaf.ids import slug_of

BRANCH_PREFIX = "holdfast/"
SNAPSHOT_REFS = "refs/holdfast/snapshot/"
SALVAGE_REFS = "refs/holdfast/salvage/"
DURING_TURN = "during"  # the name of the newest snapshot that was taken during a turn
CHAIN_REFS = "refs/holdfast/chain/"

_MAIN = "main"
_SAFE_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|[.](?=[A-Za-z0-9_-]))*")
_MAX_NAME_CHARS = 60
_GENERATED_NAME = re.compile(r".*-[0-9a-f]{12}")
_TEMPORARY_NAME = re.compile(r"\.holdfast-[0-9a-f]{16}\.tmp")


class WorktreeNames(NamedTuple):
    """A branch of a run, and the folder of its worktree, relative to the run's own."""

    run_id: str
    leaf: str
    task: str | None

    @property
    def branch(self) -> str:
        return f"{BRANCH_PREFIX}{self.run_id}/{self.leaf}"

    @property
    def folder(self) -> str:
        return "workspace" if self.task is None else f"tasks/{self.leaf}"

    @property
    def snapshot_refs(self) -> str:
        return f"{SNAPSHOT_REFS}{self.run_id}/{self.leaf}"

    @property
    def salvage_refs(self) -> str:
        return f"{SALVAGE_REFS}{self.run_id}/{self.leaf}"


def worktree_names(run_id: str, task_id: str | None = None) -> WorktreeNames:
    """The names for a task; without one, for the run itself."""
    return WorktreeNames(run_id, _MAIN if task_id is None else _leaf_name(task_id), task_id)


def worktree_names_at(run_id: str, folder: str) -> WorktreeNames:
    """The names for the worktree in this folder, relative to the run's folder."""
    leaf = folder.rpartition("/")[2]
    return WorktreeNames(run_id, leaf, leaf) if folder.startswith("tasks/") else worktree_names(run_id)


def run_refs(run_id: str) -> tuple[str, ...]:
    """The prefixes of all refs of a run."""
    return (
        f"refs/heads/{BRANCH_PREFIX}{run_id}",
        f"{SNAPSHOT_REFS}{run_id}",
        f"{SALVAGE_REFS}{run_id}",
        chain_ref(run_id),
    )


def chain_ref(run_id: str) -> str:
    """The ref with the anchors of a run's log."""
    return f"{CHAIN_REFS}{run_id}"


def run_of_branch(branch: str) -> str | None:
    """The run that a branch belongs to by its name; None for other branches."""
    run_id, slash, leaf = branch.removeprefix(BRANCH_PREFIX).partition("/")
    return run_id if branch.startswith(BRANCH_PREFIX) and slash and leaf else None


def task_of_branch(branch: str) -> str | None:
    """The name of a task in the name of its branch; None for a run's own branch, which only gets merges, and others."""
    leaf = branch.rpartition("/")[2]
    return leaf if run_of_branch(branch) is not None and leaf != _MAIN else None


def is_task_branch(branch: str) -> bool:
    """Whether a branch is a task's, which may have work on it."""
    return task_of_branch(branch) is not None


def turn_snapshot(number: int, conversation_id: str, turn_id: str) -> str:
    """The name of the snapshot after a turn. No later turn has the same, also not after a rewind."""
    return f"turn-{number}-{conversation_id}-{turn_id}"


def short_point_name(name: str) -> str:
    """`turn-3` for the snapshot after turn 3; any other point keeps its name."""
    return "-".join(name.split("-")[:2]) if name.startswith("turn-") else name


def temporary_name(token: str) -> str:
    """The name of a file before it is renamed into place; the token is 16 hex digits."""
    return f".holdfast-{token}.tmp"


def is_temporary_name(path: str) -> bool:
    """Whether a file is left from a killed write. It never contains work."""
    return _TEMPORARY_NAME.fullmatch(path.rpartition("/")[2]) is not None


def _leaf_name(task_id: str) -> str:
    """The task's id if it works as a folder and a branch name; else a similar unique name."""
    fits = _SAFE_NAME.fullmatch(task_id) is not None and len(task_id) <= _MAX_NAME_CHARS
    if fits and task_id != _MAIN and not task_id.endswith(".lock") and _GENERATED_NAME.fullmatch(task_id) is None:
        return task_id
    return f"{slug_of(task_id)}-{hashlib.sha256(task_id.encode(errors='surrogatepass')).hexdigest()[:12]}"
