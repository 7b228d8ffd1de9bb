"""Recovers from git objects that were not synced before a power cut: their files are empty.

Git takes such a file for the object: it does not write it again, and fails to read it. By default git syncs refs, but
not loose objects, so a branch or an index may name an empty one. Our git commands sync objects; an agent's do not.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

from holdfast.git.process import Git, GitFailed, ProgramOutput
from holdfast.git.repository import OBJECT_ID, Repository
from holdfast.git.worktrees.worktree import Worktree

_OBJECT_FOLDER_NAME = re.compile("[0-9a-f]{2}")
_OBJECT_FILE_NAME = re.compile("[0-9a-f]{38}|[0-9a-f]{62}")  # other names belong to a git that is running
_DROPPED_PREFIX = "tmp_obj_holdfast_"  # `git prune` deletes files that start with `tmp_obj_` after a while
_MISSING_SUFFIX = " missing"  # how git reports an object that it does not have
_OBJECT_ERROR = re.compile("bad object|bad tree|corrupt|missing|unable to read|could not (read|parse)", re.IGNORECASE)
_SUBMODULE_MODE = "160000"  # a submodule's commits are in another repository


def drop_empty_objects(common_dir: str) -> list[str]:
    """Rename empty objects, so that git can write them again. Returns the renamed files, to be deleted afterwards.

    If we die in between, the next session finds the renamed files; git treats them as its own temporary files.
    """
    dropped = []
    for path in _loose_objects(os.path.join(common_dir, "objects")):
        folder, name = os.path.split(path)
        aside = os.path.join(folder, f"{_DROPPED_PREFIX}{name.removeprefix(_DROPPED_PREFIX)}")
        with suppress(OSError):  # deleted meanwhile, or owned by another user
            if os.lstat(path).st_size == 0:
                os.rename(path, aside)
                dropped.append(aside)
    return dropped


def delete_dropped(dropped: Sequence[str]) -> None:
    for path in dropped:
        with suppress(OSError):  # another run deleted it
            os.unlink(path)


def _loose_objects(objects: str) -> Iterator[str]:
    """Yield the paths of loose objects, including those that were renamed and not deleted yet."""
    for folder in filter(_OBJECT_FOLDER_NAME.fullmatch, os.listdir(objects)):
        with suppress(OSError), os.scandir(os.path.join(objects, folder)) as entries:
            yield from [
                entry.path for entry in entries if _OBJECT_FILE_NAME.fullmatch(entry.name.removeprefix(_DROPPED_PREFIX))
            ]


async def rewrite_missing_objects(repository: Repository, folder: str) -> bool:
    """Write objects that the index names and the repository lost again, from unchanged files of the worktree.

    False when git failed, for example on a full disk.
    """
    git = Git(
        folder,
        env_markers=repository.env_markers,
        fd_marker=repository.fd_marker,
        stay_in_folder=True,
        confinement=repository.confine(folder),
    )
    succeeded = True
    for path in await missing_index_paths(git):
        file = os.path.join(folder, path)
        if os.path.isfile(file) and not os.path.islink(file):
            succeeded &= (await git.try_execute("hash-object", "-w", "--", path)).code == 0
    return succeeded


async def missing_index_paths(git: Git) -> list[str]:
    """Return the paths in the index whose objects the repository does not have."""
    entries = (entry.partition("\t") for entry in (await git.query("ls-files", "--stage", "-z")).fields())
    parsed = ((info.split(" "), path) for info, _, path in entries)
    paths = {oid: path for (mode, oid, _), path in parsed if mode != _SUBMODULE_MODE}
    oids = "".join(f"{oid}\n" for oid in paths).encode()
    answer = await git.execute("cat-file", "--batch-check", stdin=oids)
    return [paths[line.removesuffix(_MISSING_SUFFIX)] for line in answer.lines if line.endswith(_MISSING_SUFFIX)]


async def newest_intact_commit(worktree: Worktree, base: str, known_commits: Sequence[str]) -> str | None:
    """Return the commit to reset a branch to when its newest commits are lost; None when nothing is lost.

    `known_commits` are earlier tips of the branch, from the run's log. Raises `Denied` when the folder at the
    worktree's path is not the worktree.
    """
    repository = worktree.repository
    tip = (await repository.git.run("rev-parse", "--verify", "--quiet", f"refs/heads/{worktree.branch}")).text
    if not tip or await _is_intact(repository, tip, base) or not await _has_commit(repository, base):
        return None
    if os.path.lexists(worktree.path):
        worktree.must_be_ours()
    for commit in (*_reflog_commits(worktree), *known_commits):
        if await _is_intact(repository, commit, base):
            return commit
    return base


async def reset_branch(worktree: Worktree, commit: str) -> None:
    """Reset the branch, and its index, which may name lost objects, to an intact commit.

    The files do not change: they may hold the only copy of the lost commits' content. The branch is set last: if we
    are killed before, the next session finds the loss again.
    """
    if os.path.isdir(worktree.path):
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(worktree.must_be_ours(), "index"))
        await worktree.git.execute("read-tree", commit)
    await worktree.repository.set_ref(f"refs/heads/{worktree.branch}", commit)


async def are_intact(repository: Repository, worktrees: Sequence[Worktree], bases: Sequence[str]) -> bool:
    """True when every object of these branches since their bases exists. One git command for all of them."""
    tips = [f"refs/heads/{worktree.branch}" for worktree in worktrees]
    return not tips or _is_complete(await _list_objects(repository, *tips, "--not", *bases))


async def _is_intact(repository: Repository, commit: str, base: str) -> bool:
    """Raise when git failed for a reason other than a bad object: that says nothing about the commit."""
    answer = await _list_objects(repository, commit, "--not", base)
    if answer.code and not _OBJECT_ERROR.search(answer.stderr):
        raise GitFailed("rev-list --objects", answer.code, answer.stderr)
    return _is_complete(answer)


async def _list_objects(repository: Repository, *commits: str) -> ProgramOutput:
    return await repository.git.run("rev-list", "--objects", "--missing=print", *commits)


def _is_complete(answer: ProgramOutput) -> bool:
    return answer.code == 0 and not any(line.startswith("?") for line in answer.lines)


async def _has_commit(repository: Repository, commit: str) -> bool:
    """When even the base is missing, the object store itself is: a partial clone, or a disk that is not mounted."""
    if (await repository.git.run("config", "extensions.partialClone")).text:
        return False
    return (await repository.git.run("cat-file", "-e", f"{commit}^{{tree}}")).code == 0


def _reflog_commits(worktree: Worktree) -> list[str]:
    """Return every commit that the branch was at, newest first, from its reflog, which may be torn."""
    path = os.path.join(worktree.repository.common_dir, "logs", "refs", "heads", worktree.branch)
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return []
    commits = (fields[1] for fields in (line.split(" ", 2) for line in reversed(lines)) if len(fields) > 1)
    return [commit for commit in commits if OBJECT_ID.fullmatch(commit)]
