"""Real repositories for tests: made by the git program, and watched, so that whatever is the user's stays as it is."""

import os
import stat
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from holdfast.engine.home import Home
from holdfast.engine.workspace.workspace import NewRun, Workspace, create_run, open_workspace
from holdfast.git.effects import REMOVED_SUFFIX, TRASH_PREFIX
from tests.support.wait import PATIENCE

_OURS = (
    "objects",
    "worktrees",
    "refs/heads/holdfast",
    "refs/holdfast",
    "logs/refs/heads/holdfast",
    "logs/refs/holdfast",
)


def git(place: str, *arguments: str, more: Mapping[str, str] | None = None) -> str:
    """What git says there; raises when it fails."""
    return os.fsdecode(git_bytes(place, *arguments, more=more)).removesuffix("\n")


def git_bytes(place: str, *arguments: str, more: Mapping[str, str] | None = None) -> bytes:
    done = subprocess.run(
        ["git", *arguments],
        cwd=place,
        env={**os.environ, "GIT_OPTIONAL_LOCKS": "0", **(more or {})},
        capture_output=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, f"git {' '.join(arguments)}: {os.fsdecode(done.stderr)}"
    return done.stdout


def put(folder: str, files: Mapping[str, str | bytes]) -> None:
    """Write files; a folder is made where one is missing."""
    for name, content in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)


def text(folder: str, name: str) -> str:
    with open(os.path.join(folder, name), "rb") as file:
        return os.fsdecode(file.read())


def half_deleted(folder: str) -> list[str]:
    """What removals left in the folder of a run."""
    places = (folder, os.path.join(folder, "tasks"))
    return [
        path
        for place in places
        for path in _in(place)
        if os.path.basename(path).startswith(TRASH_PREFIX) or path.endswith(REMOVED_SUFFIX)
    ]


def _in(folder: str) -> list[str]:
    return sorted(os.path.join(folder, name) for name in os.listdir(folder)) if os.path.isdir(folder) else []


def put_program(path: str, script: str) -> str:
    """A shell script that can be called."""
    put(os.path.dirname(path), {os.path.basename(path): f"#!/bin/sh\n{script}\n"})
    os.chmod(path, 0o755)
    return path


class UserRepository:
    """A repository with its user's own checkout, index, stash and config, and the memory of how they were."""

    def __init__(self, path: str, *, git_dir: str | None = None, besides: str | None = None) -> None:
        """`besides` is a folder in it that is not the user's."""
        self.path = path
        self.besides = besides
        self.git_dir = git_dir or os.path.join(path, ".git")
        self._known: dict[str, bytes] = {}
        self.remember()

    def git(self, *arguments: str) -> str:
        """Something that the user does: how it is afterwards is how it must stay."""
        self.must_be_untouched()
        said = git(self.path, *arguments)
        self.remember()
        return said

    def commit(self, files: Mapping[str, str | bytes], message: str = "More") -> str:
        """The user commits these files, and nothing else."""
        self.must_be_untouched()
        put(self.path, files)
        git(self.path, "add", "--", *files)
        git(self.path, "commit", "--quiet", "--message", message, "--", *files)
        self.remember()
        return self.tip()

    def config(self, name: str, value: str) -> None:
        self.git("config", name, value)

    def hook(self, name: str, script: str) -> None:
        self.must_be_untouched()
        put_program(os.path.join(self.git_dir, "hooks", name), script)
        self.remember()

    def tip(self, name: str = "HEAD") -> str:
        return git(self.path, "rev-parse", "--verify", name)

    def remember(self) -> None:
        self._known = self._fingerprint()

    def must_be_untouched(self) -> None:
        now = self._fingerprint()
        changed = {name for name in self._known.keys() | now.keys() if self._known.get(name) != now.get(name)}
        assert not changed, f"of the user's own was changed: {sorted(changed)}"

    def _fingerprint(self) -> dict[str, bytes]:
        """Every byte and mode that is theirs: files, index, config, refs, reflogs, hooks; not ours, not the objects."""
        found: dict[str, bytes] = {}
        not_theirs = {os.path.join(self.git_dir, name) for name in _OURS} | {self.besides}
        for root in {self.path, self.git_dir} - {self.besides}:
            for folder, folders, files in os.walk(root):
                folders[:] = [name for name in folders if os.path.join(folder, name) not in not_theirs]
                found |= {path: _file(path) for path in (os.path.join(folder, name) for name in files)}
        return {path: content for path, content in found.items() if content}


def _file(path: str) -> bytes:
    mode = os.lstat(path).st_mode
    if stat.S_ISLNK(mode):
        return os.fsencode(os.readlink(path))
    with open(path, "rb") as file:
        content = file.read()
    if os.path.basename(path) == "packed-refs":
        theirs = (line for line in content.split(b"\n") if b"holdfast/" not in line and not line.startswith(b"#"))
        return b"\n".join(theirs).strip()
    return oct(mode).encode() + content


@asynccontextmanager
async def working_on(repository: UserRepository | str, home: str, base: str | None = None) -> AsyncIterator[Workspace]:
    """A new run on a repository, opened."""
    path = repository.path if isinstance(repository, UserRepository) else repository
    run_id = await create_run(Home(home), NewRun("Test what git does", path, slug="test", base=base))
    async with open_workspace(Home(home), run_id, "resume") as workspace:
        yield workspace


def state_of(worktree: str) -> dict[str, object]:
    """All that looking at a worktree, or saving it, must leave as it is."""
    own = git(worktree, "rev-parse", "--absolute-git-dir")
    return {
        "index": _file(os.path.join(own, "index")) if os.path.exists(os.path.join(own, "index")) else None,
        "staged": git(worktree, "ls-files", "--stage", "--debug"),
        "status": git(worktree, "status", "--porcelain=v2", "--untracked-files=all", "--ignored"),
        "stash": git(worktree, "stash", "list"),
        "reflog": git(worktree, "reflog", "show", "HEAD"),
        "head": git(worktree, "rev-parse", "HEAD"),
        "git directory": sorted(os.listdir(own)),
    }


def files_of(place: str, tree: str) -> dict[str, bytes]:
    """Mode, object and name of everything in a tree."""
    listed = git_bytes(place, "ls-tree", "-r", "-z", "--full-tree", tree).split(b"\0")
    return {os.fsdecode(line.partition(b"\t")[2]): line.partition(b"\t")[0] for line in listed if line}
