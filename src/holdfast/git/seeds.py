"""Reads seed files into a tree of the repository, once, before a run exists.

After that nothing depends on the user's files: they may change or disappear, and the commit is made from the tree.

A seed in the user's checkout keeps its path. Any other is placed at the top of the repository under its own name. A
seed that is a symbolic link is followed; links inside a folder stay links.
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
_FILE_MODES = ("100644", "100755")
_NONE_IGNORED_CODE = 1  # git's exit code when no path is ignored


class SeedFile(NamedTuple):
    """A file or link to copy, and its path in the repository. `named` when the user named this file itself."""

    source: str
    path: str
    named: bool = False


class SeedTree(NamedTuple):
    """The tree of the base commit plus the seeds, and the paths of the seeds."""

    oid: str
    paths: tuple[str, ...]


async def read_seeds(repository: Repository, base: str, top: str | None, seeds: Sequence[str]) -> SeedTree:
    """Write the seeds on top of `base` as a tree. `top` is the user's checkout, if there is one.

    Writes only objects. Raises `BadInput` when a seed is missing, unreadable or cannot be placed.
    """
    found = _deduplicate([file for seed in seeds for file in _collect_files(seed, _path_in_repository(seed, top))])
    files = await _without_ignored(top, found) if top is not None else found
    with tempfile.TemporaryDirectory(prefix="holdfast-seeds-") as folder:
        stage = os.path.join(folder, "tree")
        os.mkdir(stage)
        for file in files:
            _copy(file, os.path.join(stage, file.path))
        oid = await _build_tree(repository, base, folder, stage, files)
    return SeedTree(oid, tuple(sorted({file.path for file in files})))


async def seeds_from_commit(repository: Repository, base: str, commit: str, paths: Sequence[str]) -> SeedTree:
    """Write files of a commit on top of `base` as a tree. A path may be a folder. Links are refused."""
    git = repository.git
    entries: dict[str, str] = {}
    for path in paths:
        name = os.path.normpath(path)
        listed = (await git.execute("--literal-pathspecs", "ls-tree", "-r", "-z", commit, "--", name)).text
        found = [entry for entry in listed.split("\0") if entry]
        if not found:
            raise BadInput(f"{path}: no such file among the files of the interview")
        for entry in found:
            mode, _, rest = entry.partition(" ")
            if mode not in _FILE_MODES:
                raise BadInput(f"{path}: {rest.partition(chr(9))[2]} is no regular file")
            entries[rest.partition("\t")[2]] = f"{mode} {rest.split()[1]}\t{rest.partition(chr(9))[2]}\0"
    with tempfile.TemporaryDirectory(prefix="holdfast-seeds-") as folder:
        environment = {"GIT_INDEX_FILE": os.path.join(folder, "index"), "GIT_DIR": repository.common_dir}
        index = Git(folder, env_markers={**repository.env_markers, **environment})
        await index.execute("read-tree", base)
        await index.execute("update-index", "-z", "--index-info", stdin=os.fsencode("".join(entries.values())))
        return SeedTree((await index.execute("write-tree")).text, tuple(sorted(entries)))


def _deduplicate(files: Sequence[SeedFile]) -> list[SeedFile]:
    """Drop files that were also found through a folder; refuse two files for one path."""
    placed: dict[str, SeedFile] = {}
    for file in files:
        known = placed.setdefault(file.path, file)
        if known.source != file.source:
            raise BadInput(f"--seed {file.source}: {known.source} would be placed at {file.path} too; pass only one")
        placed[file.path] = known._replace(named=known.named or file.named)
    return list(placed.values())


def _path_in_repository(seed: str, top: str | None) -> str:
    """Return the path of the seed in the repository. A link is placed by its own folder, not by its target's."""
    folder, name = os.path.split(os.path.abspath(seed))
    path = os.path.join(os.path.realpath(folder), name)
    if not os.path.lexists(path):
        raise BadInput(f"--seed {seed}: no such file or folder; no run was created")
    target = os.path.relpath(path, top) if top is not None and os.path.commonpath([path, top]) == top else name
    if not name or _GIT in target.split(os.sep):
        raise BadInput(f"--seed {seed}: git keeps its own files there; pass a file or folder outside of .git")
    return target


def _collect_files(seed: str, path: str) -> list[SeedFile]:
    source = os.path.realpath(seed)
    if not os.path.isdir(source):
        files = [SeedFile(source, path, named=True)]
    else:
        files = [
            SeedFile(os.path.join(source, name), os.path.normpath(os.path.join(path, name))) for name in _walk(source)
        ]
    if not files:
        raise BadInput(f"--seed {seed}: the folder has no files; no run was created")
    for file in files:
        _check_readable(file.source)
    return files


def _walk(folder: str) -> Iterator[str]:
    """Yield the files and links below a folder, except git's own."""

    def refuse(error: OSError) -> None:
        raise BadInput(f"--seed {error.filename}: {error.strerror}; no run was created")

    for path, folders, names in os.walk(folder, onerror=refuse):
        links = [name for name in folders if os.path.islink(os.path.join(path, name))]
        folders[:] = [name for name in folders if name != _GIT and name not in links]
        for name in (*links, *names):
            if name != _GIT:
                yield os.path.relpath(os.path.join(path, name), folder)


def _check_readable(path: str) -> None:
    try:
        mode = os.lstat(path).st_mode
    except OSError as error:
        raise BadInput(f"--seed {path}: {error.strerror}; no run was created") from None
    if stat.S_ISREG(mode) and not os.access(path, os.R_OK):
        raise BadInput(f"--seed {path}: permission denied; no run was created")
    if not stat.S_ISREG(mode) and not stat.S_ISLNK(mode):
        raise BadInput(f"--seed {path}: neither a file nor a link; no run was created")


async def _without_ignored(top: str, files: Sequence[SeedFile]) -> list[SeedFile]:
    """Drop files that the repository ignores, except those that the user named."""
    paths = b"".join(os.fsencode(file.path) + b"\0" for file in files if not file.named)
    answer = await Git(top).run("check-ignore", "-z", "--stdin", stdin=paths)
    if answer.code > _NONE_IGNORED_CODE:
        raise GitFailed("check-ignore", answer.code, answer.stderr)
    ignored = set(answer.fields())
    kept = [file for file in files if file.named or file.path not in ignored]
    if not kept:
        raise BadInput("--seed: git ignores all files of the seeds; pass the files themselves, or change .gitignore")
    return kept


def _copy(file: SeedFile, target: str) -> None:
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy2(file.source, target, follow_symlinks=False)
    except OSError as error:
        raise BadInput(f"--seed {file.source}: {error.strerror}; no run was created") from None


async def _build_tree(repository: Repository, base: str, folder: str, stage: str, files: Sequence[SeedFile]) -> str:
    """Add the files with git, so that modes, line endings and filters match the user's own commits."""
    environment = {"GIT_INDEX_FILE": os.path.join(folder, "index"), "GIT_WORK_TREE": stage}
    git = Git(stage, env_markers={**repository.env_markers, "GIT_DIR": repository.common_dir, **environment})
    await git.execute("read-tree", base)
    paths = b"".join(os.fsencode(file.path) + b"\0" for file in files)
    add = ("add", "--force", "--sparse", "--pathspec-from-file=-", "--pathspec-file-nul")
    try:
        await git.execute("--literal-pathspecs", "-c", "core.safecrlf=false", *add, stdin=paths)
    except GitFailed as error:
        raise BadInput(f"--seed: git refused the files: {' '.join(error.output.split())}; no run was created") from None
    return (await git.execute("write-tree")).text
