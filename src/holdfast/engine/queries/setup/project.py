"""What a project's own files say about it, before a run exists: its setup, and uncommitted changes."""

import os
from contextlib import suppress

from holdfast.git.repository import find_repository, worktree_top
from holdfast.git.worktrees.uncommitted import uncommitted_paths
from holdfast.leaf.errors import BadInput
from holdfast.workflows.project_setup import SetupCommand, setup_commands


def detect_setup(repo: str) -> list[SetupCommand]:
    """Commands for `worktree.setup`, by the lock files in the top folder of a checkout. Starts no process."""
    with suppress(OSError):
        return list(setup_commands(os.listdir(repo)))
    return []


async def uncommitted_changes(repo: str) -> list[str]:
    """The changed and untracked files of the user's checkout; none in a bare repository."""
    repository = await find_repository(repo)
    try:
        top = await worktree_top(repo)
    except BadInput:
        return []
    return await uncommitted_paths(repository, top)
