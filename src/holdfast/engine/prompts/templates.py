"""Locates the users' own templates and preferences."""

import os

from holdfast.core.state import RunState
from holdfast.engine.home import user_config_file
from holdfast.workflows.prompt_templates import REPOSITORY_FOLDER


def user_folders(state: RunState, kind: str) -> list[str]:
    """Return the users' folders: in the checkout that the run was started from, and in the home.

    Not in a run's worktree, because agents can write there.
    """
    here = state.settings.get("folder")
    return user_folders_at(here if isinstance(here, str) else None, kind)


def user_folders_at(checkout: str | None, kind: str) -> list[str]:
    repository = [os.path.join(checkout, REPOSITORY_FOLDER, kind)] if checkout is not None else []
    return [*repository, os.path.join(os.path.dirname(user_config_file()), kind)]
