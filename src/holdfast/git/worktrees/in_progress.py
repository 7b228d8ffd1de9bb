"""Git operations in progress in a worktree: a rebase, merge or the like that waits for `--continue` or `--abort`."""

import os
from contextlib import suppress
from typing import NamedTuple

from holdfast.git.repository import OBJECT_ID
from holdfast.git.worktree_admin import read_pointer

# The state files in the worktree's git directory. The first that exists belongs to the command that was called.
_STATE_FILES = {
    os.path.join("rebase-merge", "head-name"): "rebase",
    os.path.join("rebase-apply", "head-name"): "rebase",
    os.path.join("rebase-apply", "applying"): "am",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "MERGE_HEAD": "merge",
}


class GitOperation(NamedTuple):
    """A git command that stopped midway: its name, since when (Unix time), and the content of its state file."""

    command: str
    since: float
    note: str

    def describe(self, path: str, confined_on: str | None = None) -> str:
        """Return a message that says how to end it. `confined_on` is the worktree's branch, if its agent is confined.

        A confined agent may have faked the state: a continued rebase runs its `exec` lines, and an aborted one moves
        the branch that its state file names. `--quit` does neither.
        """
        advice = f"finish it there with `git {self.command} --continue` or undo it with `git {self.command} --abort`"
        if confined_on is not None:
            is_foreign = self.command == "rebase" and self.note != f"refs/heads/{confined_on}"
            advice = f"end it there with `git {self.command} {'--quit' if is_foreign else '--abort'}`"
        return f"{path} is in the middle of a {self.command}; {advice}"


def operation_in_progress(git_dir: str) -> GitOperation | None:
    """Return the operation in progress in the worktree of this git directory, if any. Raises on read errors."""
    for name, command in _STATE_FILES.items():
        with suppress(FileNotFoundError, NotADirectoryError):
            path = os.path.join(git_dir, name)
            with open(path, encoding="utf-8", errors="replace") as file:
                return GitOperation(command, os.fstat(file.fileno()).st_mtime, file.read().strip())
    return None


def merge_head(git_dir: str) -> str | None:
    """Return the commit being merged in the worktree of this git directory; None without a merge, or if it is torn.

    Reads the file itself: git reports an unreadable MERGE_HEAD as missing.
    """
    note = (read_pointer(os.path.join(git_dir, "MERGE_HEAD"), allow_relative=True) or "").partition("\n")[0]
    return note if OBJECT_ID.fullmatch(note) else None
