"""What a project's own files say about it, before a run exists: its setup, and uncommitted changes."""

import os
from contextlib import suppress

from holdfast.core.work.names import BRANCH_PREFIX
from holdfast.engine.config.files import PROJECT_FILE
from holdfast.git.repository import find_checkout, find_repository
from holdfast.git.worktrees.uncommitted import uncommitted_paths
from holdfast.leaf.errors import BadInput
from holdfast.workflows.project_setup import SetupCommand, setup_commands


def detect_setup(repo: str) -> list[SetupCommand]:
    """Commands for `worktree.setup`, by the lock files in the top folder of a checkout. Starts no process."""
    with suppress(OSError):
        return list(setup_commands(os.listdir(repo)))
    return []


async def uncommitted_changes(repo: str) -> list[str]:
    """The changed and untracked files of the user's checkout; none in a bare repository.

    Without the config file of Holdfast: a run takes that from the checkout, committed or not.
    """
    repository, top = await find_checkout(repo)
    if top is None:
        return []
    return [path for path in await uncommitted_paths(repository, top) if path != PROJECT_FILE]


async def list_branches(repo: str) -> tuple[str | None, list[str]]:
    """The checked-out branch, and all branches that are not of a run."""
    repository = await find_repository(repo)
    refs = await repository.refs("refs/heads/")
    names = [name.removeprefix("refs/heads/") for name in refs]
    try:
        _, current = await repository.resolve_base(repo, None)
    except BadInput:  # a repository without a commit
        current = ""
    return current if current in names else None, [name for name in names if not name.startswith(BRANCH_PREFIX)]
