"""Seed files, read once into a tree of the repository before a run exists.

After that nothing depends on the user's files: they may change or disappear, and the commit is made of the tree.

Where a seed is placed: one that lies in the user's checkout keeps its path; any other is placed at the top of the
repository under its own name. A seed that is a link is followed; links inside a folder stay links.
"""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from holdfast.git.process import Git, GitFailed
from holdfast.git.repository import Repository
from holdfast.leaf.errors import BadInput

_GIT = ".git"
_NOTHING_IGNORED = 1  # git's exit code when no path is ignored


class SeedFile(NamedTuple):
    """A file or a link to copy, and its path in the repository. `named` when the user named this very file."""

    source: str
    place: str
    named: bool = False


class SeedTree(NamedTuple):
    """The tree of the base commit with the seeds in it, and the paths of the seeds."""

    oid: str
    paths: tuple[str, ...]


async def read_seeds(repository: Repository, base: str, top: str | None, seeds: Sequence[str]) -> SeedTree:
    """The seeds as a tree on top of `base`. `top` is the user's checkout, if there is one.

    Only objects are written. `BadInput` when a seed is missing, cannot be read or cannot be placed.
    """
    found = _each_once([file for seed in seeds for file in _files_of(seed, _place_of(seed, top))])
    files = await _not_ignored(top, found) if top is not None else found
    with tempfile.TemporaryDirectory(prefix="holdfast-seeds-") as folder:
        stage = os.path.join(folder, "tree")
        os.mkdir(stage)
        for file in files:
            _copy(file, os.path.join(stage, file.place))
        oid = await _tree_of(repository, base, folder, stage, files)
    return SeedTree(oid, tuple(sorted({file.place for file in files})))


def _each_once(files: Sequence[SeedFile]) -> list[SeedFile]:
    """A file may be named beside the folder in which it lies; two files cannot have one place."""
    placed: dict[str, SeedFile] = {}
    for file in files:
        known = placed.setdefault(file.place, file)
        if known.source != file.source:
            raise BadInput(f"--seed {file.source}: {known.source} is placed at {file.place} too; name one of them")
        placed[file.place] = known._replace(named=known.named or file.named)
    return list(placed.values())


def _place_of(seed: str, top: str | None) -> str:
    """By the folder in which it lies, not by what a link points to."""
    folder, name = os.path.split(os.path.abspath(seed))
    path = os.path.join(os.path.realpath(folder), name)
    if not os.path.lexists(path):
        raise BadInput(f"--seed {seed}: there is no such file or folder; nothing was made")
    place = os.path.relpath(path, top) if top is not None and os.path.commonpath([path, top]) == top else name
    if not name or _GIT in place.split(os.sep):
        raise BadInput(f"--seed {seed}: git keeps its own files there; name a file or a folder beside them")
    return place


def _files_of(seed: str, place: str) -> list[SeedFile]:
    source = os.path.realpath(seed)
    if not os.path.isdir(source):
        files = [SeedFile(source, place, named=True)]
    else:
        files = [
            SeedFile(os.path.join(source, name), os.path.normpath(os.path.join(place, name))) for name in _walk(source)
        ]
    if not files:
        raise BadInput(f"--seed {seed}: the folder holds no files; nothing was made")
    for file in files:
        _must_be_readable(file.source)
    return files


def _walk(folder: str) -> Iterator[str]:
    """The files and links below a folder, without what belongs to a git repository itself."""

    def refuse(error: OSError) -> None:
        raise BadInput(f"--seed {error.filename}: {error.strerror}; nothing was made")

    for path, folders, names in os.walk(folder, onerror=refuse):
        links = [name for name in folders if os.path.islink(os.path.join(path, name))]
        folders[:] = [name for name in folders if name != _GIT and name not in links]
        for name in (*links, *names):
            if name != _GIT:
                yield os.path.relpath(os.path.join(path, name), folder)


def _must_be_readable(path: str) -> None:
    try:
        mode = os.lstat(path).st_mode
    except OSError as error:
        raise BadInput(f"--seed {path}: {error.strerror}; nothing was made") from None
    if stat.S_ISREG(mode) and not os.access(path, os.R_OK):
        raise BadInput(f"--seed {path}: this user may not read it; nothing was made")
    if not stat.S_ISREG(mode) and not stat.S_ISLNK(mode):
        raise BadInput(f"--seed {path}: it is neither a file nor a link; nothing was made")


async def _not_ignored(top: str, files: Sequence[SeedFile]) -> list[SeedFile]:
    """Without what the repository ignores in a folder; a file that was named itself is always taken."""
    places = b"".join(os.fsencode(file.place) + b"\0" for file in files if not file.named)
    answer = await Git(top).run("check-ignore", "-z", "--stdin", given=places)
    if answer.code > _NOTHING_IGNORED:
        raise GitFailed("check-ignore", answer.code, answer.said)
    ignored = set(answer.fields())
    kept = [file for file in files if file.named or file.place not in ignored]
    if not kept:
        raise BadInput("--seed: git ignores every file of the seeds; name the files themselves, or change .gitignore")
    return kept


def _copy(file: SeedFile, target: str) -> None:
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy2(file.source, target, follow_symlinks=False)
    except OSError as error:
        raise BadInput(f"--seed {file.source}: {error.strerror}; nothing was made") from None


async def _tree_of(repository: Repository, base: str, folder: str, stage: str, files: Sequence[SeedFile]) -> str:
    """Added by git itself, so that modes, line ends and filters are those of the user's own commits."""
    using = {"GIT_INDEX_FILE": os.path.join(folder, "index"), "GIT_WORK_TREE": stage}
    git = Git(stage, mark={**repository.mark, "GIT_DIR": repository.common_dir, **using})
    await git.do("read-tree", base)
    given = b"".join(os.fsencode(file.place) + b"\0" for file in files)
    adding = ("add", "--force", "--sparse", "--pathspec-from-file=-", "--pathspec-file-nul")
    try:
        await git.do("--literal-pathspecs", "-c", "core.safecrlf=false", *adding, given=given)
    except GitFailed as error:
        raise BadInput(
            f"--seed: git does not take the files: {' '.join(error.said.split())}; nothing was made"
        ) from None
    return (await git.do("write-tree")).text
