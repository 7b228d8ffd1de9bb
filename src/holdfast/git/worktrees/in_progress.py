"""What a git command that stopped midway leaves in a worktree: it waits there for whoever began it."""

import os
from contextlib import suppress
from typing import NamedTuple

from holdfast.git.repository import OBJECT
from holdfast.git.worktree_admin import pointed_at

# By which git knows of it, in the worktree's own git directory; the first that is there is the one that was called.
_NOTES = {
    os.path.join("rebase-merge", "head-name"): "rebase",
    os.path.join("rebase-apply", "head-name"): "rebase",
    os.path.join("rebase-apply", "applying"): "am",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "MERGE_HEAD": "merge",
}


class Underway(NamedTuple):
    """A command by its name, since when (seconds of the clock) it waits, and the note that says so."""

    command: str
    since: float
    note: str

    def told(self, path: str, confined_on: str | None = None) -> str:
        """`confined_on` is the branch of the worktree, when a confined agent can write there.

        Such an agent may have made this up: a rebase that is continued runs its `exec` lines, and one that is aborted
        moves the branch that its note names. To quit one does neither.
        """
        ways = f"`git {self.command} --continue` there finishes it, `git {self.command} --abort` takes it back"
        if confined_on is not None:
            is_foreign = self.command == "rebase" and self.note != f"refs/heads/{confined_on}"
            ways = f"`git {self.command} {'--quit' if is_foreign else '--abort'}` there ends it"
        return f"{path} is in the middle of a {self.command}; {ways}"


def underway(own: str) -> Underway | None:
    """In the worktree of this git directory; None when nothing waits there. Raises where that cannot be read."""
    for name, command in _NOTES.items():
        with suppress(FileNotFoundError, NotADirectoryError):
            path = os.path.join(own, name)
            with open(path, encoding="utf-8", errors="replace") as file:
                return Underway(command, os.fstat(file.fileno()).st_mtime, file.read().strip())
    return None


def merge_head(own: str) -> str | None:
    """What is being merged in the worktree of this git directory; None when nothing is, or its note was cut short.

    Read here: of a note that it cannot read git says that there is none.
    """
    note = (pointed_at(os.path.join(own, "MERGE_HEAD"), relative=True) or "").partition("\n")[0]
    return note if OBJECT.fullmatch(note) else None
