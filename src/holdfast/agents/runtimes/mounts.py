"""The files that a confined agent can access: its worktree (writable), its repository (read-only), configured paths.

A writable repository would be a way out of the sandbox: every git runs its hooks and its config, ours too. So nothing
in `.git` is writable, unless the agent can commit; then only what a commit on its own branch needs: objects, the
branches of its run, and the worktree's index.
"""

import os
from contextlib import suppress
from typing import NamedTuple

from holdfast.agents.launch import Launch
from holdfast.leaf.errors import BadInput

_OWN_BRANCHES = "refs/heads/holdfast/"
_PROTECTED_FILES = (
    "gitdir",
    "commondir",
    "HEAD",
    "config.worktree",
)  # they determine the repository and branch that our git works on


class MountedPath(NamedTuple):
    path: str
    is_writable: bool


def mounted_paths(launch: Launch) -> list[MountedPath]:
    """Return the mounts in order: later ones cover earlier ones, so that nothing uncovers a protected path."""
    worktree = os.path.realpath(launch.worktree or launch.cwd)
    found = [
        *(MountedPath(path, is_writable=False) for path in _existing_paths(launch.runtime.readable)),
        *(MountedPath(path, is_writable=True) for path in _create_missing(launch.runtime.writable)),
        *_repository_paths(worktree),
        MountedPath(worktree, is_writable=True),
        *_protected_path(os.path.join(worktree, ".git")),
        *(_commit_paths(worktree) if launch.runtime.commits else ()),
        *(MountedPath(path, is_writable=True) for path in launch.writes),
        *([MountedPath(launch.reports, is_writable=True)] if launch.reports is not None else ()),
    ]
    return list({mount.path: mount for mount in found}.values())


def _repository_paths(worktree: str) -> list[MountedPath]:
    found = _find_linked_worktree(worktree)
    return [MountedPath(found.common, is_writable=False)] if found is not None else []


def _commit_paths(worktree: str) -> list[MountedPath]:
    found = _find_linked_worktree(worktree)
    if found is None or not found.branch.startswith(_OWN_BRANCHES):
        raise BadInput(f"{worktree} is not a worktree of a run, so its agent cannot commit; set commits = false")
    branches = os.path.dirname(found.branch)
    own = [os.path.join(found.common, part) for part in ("objects", branches, os.path.join("logs", branches))]
    with open(os.path.join(found.admin, "config.worktree"), "ab"):
        pass  # an empty file has no effect; without one, the agent could create its own
    return [
        *(MountedPath(path, is_writable=True) for path in _create_missing((*own, found.admin))),
        *(
            MountedPath(path, is_writable=False)
            for path in _create_missing((os.path.join(found.common, "objects", "info"),))
        ),  # alternates
        *(mount for name in _PROTECTED_FILES for mount in _protected_path(os.path.join(found.admin, name))),
    ]


class _LinkedWorktree(NamedTuple):
    """A worktree's entry in the repository, the repository, and the branch."""

    admin: str
    common: str
    branch: str


def _find_linked_worktree(worktree: str) -> _LinkedWorktree | None:
    """Return None when the folder is not a linked worktree: it has no repository, or contains it."""
    with suppress(OSError):
        admin = _read_line(os.path.join(worktree, ".git")).removeprefix("gitdir: ")
        admin = os.path.realpath(os.path.join(worktree, admin))
        common = os.path.realpath(os.path.join(admin, _read_line(os.path.join(admin, "commondir"))))
        return _LinkedWorktree(admin, common, _read_line(os.path.join(admin, "HEAD")).removeprefix("ref: "))
    return None


def _read_line(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read().strip()


def _protected_path(path: str) -> list[MountedPath]:
    return [MountedPath(path, is_writable=False)] if os.path.lexists(path) else []


def _existing_paths(paths: tuple[str, ...]) -> list[str]:
    return [path for path in map(_real_path, paths) if os.path.lexists(path)]


def _create_missing(paths: tuple[str, ...]) -> list[str]:
    """Create missing paths as folders: only existing paths can be mounted."""
    found = [_real_path(path) for path in paths]
    for path in found:
        if not os.path.lexists(path):
            os.makedirs(path, mode=0o700)
    return found


def _real_path(path: str) -> str:
    return os.path.realpath(os.path.expanduser(path))
