"""What a confined agent gets of the user's files: its worktree to write, its repository to read, what was configured.

A repository is a way out: its hooks and its config are run by everybody's git, ours too. So of `.git` nothing can be
written, unless the agent may commit; and then only what a commit on its own branch needs: objects, its branch and
those of the same run, the worktree's index.
"""

import os
from contextlib import suppress
from typing import NamedTuple

from holdfast.agents.launch import Launch
from holdfast.leaf.errors import BadInput

_OWN_BRANCHES = "refs/heads/holdfast/"
_POINTERS = ("gitdir", "commondir", "HEAD", "config.worktree")  # whoever writes these chooses what our git works on


class Place(NamedTuple):
    path: str
    writable: bool


def places_of(launch: Launch) -> list[Place]:
    """In this order: each lies over those before it, so that nothing uncovers what is protected."""
    worktree = os.path.realpath(launch.worktree or launch.cwd)
    found = [
        *(Place(path, writable=False) for path in _existing(launch.runtime.readable)),
        *(Place(path, writable=True) for path in _made(launch.runtime.writable)),
        *_repository(worktree),
        Place(worktree, writable=True),
        *_protected(os.path.join(worktree, ".git")),
        *(_for_commits(worktree) if launch.runtime.commits else ()),
        *(Place(path, writable=True) for path in launch.writes),
        *([Place(launch.reports, writable=True)] if launch.reports is not None else ()),
    ]
    return list({place.path: place for place in found}.values())


def _repository(worktree: str) -> list[Place]:
    found = _linked(worktree)
    return [Place(found.common, writable=False)] if found is not None else []


def _for_commits(worktree: str) -> list[Place]:
    found = _linked(worktree)
    if found is None or not found.branch.startswith(_OWN_BRANCHES):
        raise BadInput(
            f"{worktree} is no worktree of a run, so its agent cannot be allowed to commit; set commits = false"
        )
    branches = os.path.dirname(found.branch)
    own = [os.path.join(found.common, part) for part in ("objects", branches, os.path.join("logs", branches))]
    with open(os.path.join(found.admin, "config.worktree"), "ab"):
        pass  # an empty one says nothing; where there is none, the agent could put its own
    return [
        *(Place(path, writable=True) for path in _made((*own, found.admin))),
        *(
            Place(path, writable=False) for path in _made((os.path.join(found.common, "objects", "info"),))
        ),  # alternates
        *(place for name in _POINTERS for place in _protected(os.path.join(found.admin, name))),
    ]


class _Linked(NamedTuple):
    """A worktree's own folder in the repository, the repository, and the branch."""

    admin: str
    common: str
    branch: str


def _linked(worktree: str) -> _Linked | None:
    """None when the folder is not a linked worktree: it has no repository, or has it inside."""
    with suppress(OSError):
        admin = _line(os.path.join(worktree, ".git")).removeprefix("gitdir: ")
        admin = os.path.realpath(os.path.join(worktree, admin))
        common = os.path.realpath(os.path.join(admin, _line(os.path.join(admin, "commondir"))))
        return _Linked(admin, common, _line(os.path.join(admin, "HEAD")).removeprefix("ref: "))
    return None


def _line(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read().strip()


def _protected(path: str) -> list[Place]:
    return [Place(path, writable=False)] if os.path.lexists(path) else []


def _existing(paths: tuple[str, ...]) -> list[str]:
    return [path for path in map(_real, paths) if os.path.lexists(path)]


def _made(paths: tuple[str, ...]) -> list[str]:
    """What is not there yet becomes a folder: it can be shown to the agent only when it is there."""
    found = [_real(path) for path in paths]
    for path in found:
        if not os.path.lexists(path):
            os.makedirs(path, mode=0o700)
    return found


def _real(path: str) -> str:
    return os.path.realpath(os.path.expanduser(path))
