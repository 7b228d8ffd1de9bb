"""What a power cut leaves of objects that nobody synced: files without content.

Git takes such a file for the object: it does not write it again, and fails when it reads it. By default git syncs
refs, but not loose objects, so a branch or an index may name what is empty. Ours are synced; an agent's own are not.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

from holdfast.git.process import Answer, Git, GitFailed
from holdfast.git.repository import OBJECT, Repository
from holdfast.git.worktrees.worktree import Worktree

_FAN_OUT = re.compile("[0-9a-f]{2}")
_REST = re.compile("[0-9a-f]{38}|[0-9a-f]{62}")  # of an object's name; anything else is of a git that is at work
_DROPPED = "tmp_obj_holdfast_"  # before its name; what begins as the first of it does, `git prune` deletes in time
_LOST = " missing"  # what git says of an object that is not there
_OF_AN_OBJECT = re.compile("bad object|bad tree|corrupt|missing|unable to read|could not (read|parse)", re.IGNORECASE)
_SUBMODULE = "160000"  # its commits are in a repository of its own


def drop_empty_objects(common_dir: str) -> list[str]:
    """Take them away, so that they can be written again. Returns what is left in their places until that is done.

    So whoever comes after one that died in between finds them too, and git takes those for its own rubbish.
    """
    dropped = []
    for path in _loose_objects(os.path.join(common_dir, "objects")):
        folder, name = os.path.split(path)
        aside = os.path.join(folder, f"{_DROPPED}{name.removeprefix(_DROPPED)}")
        with suppress(OSError):  # gone meanwhile, or not ours to take away
            if os.lstat(path).st_size == 0:
                os.rename(path, aside)
                dropped.append(aside)
    return dropped


def forget_dropped(dropped: Sequence[str]) -> None:
    for path in dropped:
        with suppress(OSError):  # another run was as quick
            os.unlink(path)


def _loose_objects(objects: str) -> Iterator[str]:
    """With what is left of those that were dropped."""
    for folder in filter(_FAN_OUT.fullmatch, os.listdir(objects)):
        with suppress(OSError), os.scandir(os.path.join(objects, folder)) as entries:
            yield from [entry.path for entry in entries if _REST.fullmatch(entry.name.removeprefix(_DROPPED))]


async def write_again(repository: Repository, folder: str) -> bool:
    """What the index of a worktree names and is lost, from its files: where they have not changed, it is there.

    False when git could not, as on a full disk.
    """
    mark, tether, confinement = repository.mark, repository.tether, repository.confine(folder)
    git = Git(folder, mark=mark, tether=tether, inside=True, confinement=confinement)
    done = True
    for path in await lost_of_index(git):
        file = os.path.join(folder, path)
        if os.path.isfile(file) and not os.path.islink(file):
            done &= (await git.try_to("hash-object", "-w", "--", path)).code == 0
    return done


async def lost_of_index(git: Git) -> list[str]:
    """The paths of what an index names and the repository has not."""
    entries = (entry.partition("\t") for entry in (await git.ask("ls-files", "--stage", "-z")).fields())
    named = ((about.split(" "), path) for about, _, path in entries)
    paths = {oid: path for (mode, oid, _), path in named if mode != _SUBMODULE}
    given = "".join(f"{oid}\n" for oid in paths).encode()
    answer = await git.do("cat-file", "--batch-check", given=given)
    return [paths[line.removesuffix(_LOST)] for line in answer.lines if line.endswith(_LOST)]


async def newest_whole(worktree: Worktree, base: str, known: Sequence[str]) -> str | None:
    """Where a branch whose newest commits are lost is to go back to; None when none of it is lost.

    `known` are commits that it was at, by the run's log. `Denied` when another folder stands where its worktree was.
    """
    repository = worktree.repository
    at = (await repository.git.run("rev-parse", "--verify", "--quiet", f"refs/heads/{worktree.branch}")).text
    if not at or await _is_whole(repository, at, base) or not await _is_there(repository, base):
        return None
    if os.path.lexists(worktree.path):
        worktree.must_be_ours()
    for commit in (*_passed_by(worktree), *known):
        if await _is_whole(repository, commit, base):
            return commit
    return base


async def set_back(worktree: Worktree, commit: str) -> None:
    """Bring the branch, and its index, which may name what is lost, back to a commit that is whole.

    The files stay as they are: what was in the lost commits is in them, as far as it is anywhere. The branch comes
    last: killed before, the next one finds it as it was.
    """
    if os.path.isdir(worktree.path):
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(worktree.must_be_ours(), "index"))
        await worktree.git.do("read-tree", commit)
    await worktree.repository.set_ref(f"refs/heads/{worktree.branch}", commit)


async def are_whole(repository: Repository, worktrees: Sequence[Worktree], bases: Sequence[str]) -> bool:
    """Whether all that these branches have beyond where they began is there. One look, however many they are."""
    tips = [f"refs/heads/{worktree.branch}" for worktree in worktrees]
    return not tips or _has_all(await _listed(repository, *tips, "--not", *bases))


async def _is_whole(repository: Repository, commit: str, base: str) -> bool:
    """Raises where git failed for another reason than an object of which it speaks: that is no word about any."""
    answer = await _listed(repository, commit, "--not", base)
    if answer.code and not _OF_AN_OBJECT.search(answer.said):
        raise GitFailed("rev-list --objects", answer.code, answer.said)
    return _has_all(answer)


async def _listed(repository: Repository, *commits: str) -> Answer:
    return await repository.git.run("rev-list", "--objects", "--missing=print", *commits)


def _has_all(answer: Answer) -> bool:
    return answer.code == 0 and not any(line.startswith("?") for line in answer.lines)


async def _is_there(repository: Repository, base: str) -> bool:
    """Else it is not a commit that is lost, but the place where objects are: a disk that is not mounted."""
    if (await repository.git.run("config", "extensions.partialClone")).text:
        return False
    return (await repository.git.run("cat-file", "-e", f"{base}^{{tree}}")).code == 0


def _passed_by(worktree: Worktree) -> list[str]:
    """Every commit that its branch was at, the newest first, by git's own journal of it, which may be torn."""
    path = os.path.join(worktree.repository.common_dir, "logs", "refs", "heads", worktree.branch)
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return []
    told = (words[1] for words in (line.split(" ", 2) for line in reversed(lines)) if len(words) > 1)
    return [commit for commit in told if OBJECT.fullmatch(commit)]
