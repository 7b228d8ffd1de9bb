"""The world of a story: one user's repository, its remote, a home; and what must be true of them after every step.

Every line that an agent writes holds a token of its own. A token is *found* while it is in a file of a worktree, or
in an object that a ref or a worktree's HEAD leads to. Whatever Holdfast does, what was found before is found after.
"""

import hashlib
import os
import re
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from holdfast.core.state import EffectStatus
from holdfast.core.work.names import BRANCH_PREFIX
from holdfast.engine.home import Home
from holdfast.engine.queries.logs import view_run
from holdfast.engine.queries.verify import verify_run
from holdfast.store.files.layout import run_folder
from tests.support.repositories import half_deleted
from tests.support.story_steps import Scene

_TOKEN = re.compile(rb"token-[0-9]+;")
_USERS_FILES = ("HEAD", "index", "config", "logs/HEAD", "info/exclude", "MERGE_HEAD", "ORIG_HEAD")


class Found(NamedTuple):
    """Tokens: in files of worktrees by their folder, and in objects that something leads to."""

    files: dict[str, frozenset[bytes]]
    objects: frozenset[bytes]

    @property
    def all(self) -> frozenset[bytes]:
        return self.objects.union(*self.files.values())


class Made(NamedTuple):
    """A commit of an effect; `merged` is the commit of a task that it brought into the run's branch, if it did."""

    oid: str
    effect: str
    merged: str


class World:
    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.repo = os.path.join(folder, "my repo ü")
        self.home = os.path.join(folder, "home")
        self.remote = os.path.join(folder, "remote.git")
        self.run_id = ""
        self._tokens_in: dict[str, frozenset[bytes]] = {}  # by object
        self._count = 0
        os.mkdir(self.repo)
        self.git(folder, "init", "--quiet", "--bare", self.remote)
        self.git(self.repo, "init", "--quiet", "--initial-branch=main")
        for name, value in (
            ("user.name", "User"),
            ("user.email", "user@example.com"),
            ("remote.origin.url", self.remote),
            ("remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"),
        ):
            self.git(self.repo, "config", name, value)
        for path in ("a.txt", "b.txt", "d/c.txt"):
            self.write(self.repo, path, "one\ntwo\nthree\n")
        self.write(self.repo, ".gitignore", "*.ignored\n")
        self.git(self.repo, "add", "--all")
        self.git(self.repo, "commit", "--quiet", "--message=one")
        self.git(self.repo, "branch", "release")

    # doing

    def git(self, place: str, *arguments: str, must: bool = True) -> str:
        answer = subprocess.run(["git", *arguments], cwd=place, capture_output=True, check=False)
        if answer.returncode and must:
            raise AssertionError(f"git {' '.join(arguments)}: {answer.stderr.decode(errors='replace')}")
        return os.fsdecode(answer.stdout).strip("\n")

    def write(self, place: str, path: str, text: str, mode: str = "w") -> None:
        full = os.path.join(place, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, mode, encoding="utf-8") as file:
            file.write(text)

    def line(self) -> str:
        """A line that was never written before."""
        self._count += 1
        return f"token-{self._count};\n"

    # looking

    @property
    def common_dir(self) -> str:
        return os.path.join(self.repo, ".git")

    @property
    def scene(self) -> Scene:
        return Scene(self.home, self.run_id, self.common_dir)

    @property
    def run_folder(self) -> str:
        return run_folder(self.home, self.run_id)

    def worktrees(self) -> list[str]:
        """The folders of worktrees that are there."""
        tasks = os.path.join(self.run_folder, "tasks")
        leaves = sorted(os.listdir(tasks)) if os.path.isdir(tasks) else []
        folders = [os.path.join(self.run_folder, "workspace"), *(os.path.join(tasks, leaf) for leaf in leaves)]
        return [folder for folder in folders if os.path.exists(os.path.join(folder, ".git"))]

    def found(self, *, snapshots: bool = True) -> Found:
        files = {folder: frozenset(_tokens_in_files(folder)) for folder in self.worktrees()}
        return Found(files, self._reachable([] if snapshots else ["--exclude=refs/holdfast/snapshot/*"]))

    def _reachable(self, options: list[str]) -> frozenset[bytes]:
        listing = (
            "rev-list",
            "--ignore-missing",
            "--objects",
            "--no-object-names",
        )  # a worktree being made has no HEAD
        oids = self.git(self.common_dir, *listing, *options, "--all").split()
        new = [oid for oid in oids if oid not in self._tokens_in]
        if new:
            self._read(new)
        return frozenset().union(*(self._tokens_in[oid] for oid in oids))

    def _read(self, oids: list[str]) -> None:
        asked = "\n".join(oids).encode()
        out = subprocess.run(
            ["git", "cat-file", "--batch"], cwd=self.common_dir, input=asked, capture_output=True, check=True
        ).stdout
        at = 0
        while at < len(out):
            oid, kind, size = (header := out[at : out.index(b"\n", at)]).split()
            at += len(header) + 1
            content = out[at : at + int(size)]
            self._tokens_in[oid.decode()] = frozenset(_TOKEN.findall(content)) if kind == b"blob" else frozenset()
            at += int(size) + 1

    def users_own(self) -> dict[str, object]:
        """All that is the user's: their checkout byte for byte, and their refs."""
        own: dict[str, object] = {name: _digest(os.path.join(self.common_dir, name)) for name in _USERS_FILES}
        for folder, folders, names in os.walk(self.repo):
            if folder == self.repo:
                folders.remove(".git")
            for name in names:
                full = os.path.join(folder, name)
                own[full] = (_digest(full), os.lstat(full).st_mode)
        heads = self.git(self.common_dir, "for-each-ref", "--format=%(refname) %(objectname)")
        for line in heads.splitlines():
            name, _, oid = line.partition(" ")
            if not name.startswith(
                (f"refs/heads/{BRANCH_PREFIX}", "refs/heads/agent/", "refs/holdfast/", "refs/remotes/")
            ):
                own[name] = oid
        return own

    def locks(self) -> list[str]:
        """Lock files of git's, and what else is of a moment only."""
        left = []
        for folder, folders, names in os.walk(self.common_dir):
            folders[:] = [name for name in folders if name != "objects"]
            left += [os.path.join(folder, name) for name in names if name.endswith(".lock")]
            left += [os.path.join(folder, name) for name in folders if name.startswith("holdfast-index-")]
        trash = half_deleted(self.run_folder)
        left = [lock for lock in left if "/refs/heads/agent/" not in lock]  # not ours to judge
        return left + trash

    def made_by_us(self) -> list[Made]:
        """The commits that carry an effect's id."""
        form = "--format=%H%x09%(trailers:key=Holdfast-Effect,valueonly,separator=%x2C)%x09%P%x09%s"
        commits = [line.split("\t", 3) for line in self.git(self.common_dir, "log", form, "--all").splitlines()]
        return [
            Made(oid, effect, parents.partition(" ")[2] if subject.startswith("Merge task ") else "")
            for oid, effect, parents, subject in commits
            if effect
        ]

    # what must be true

    async def must_be_in_order(self) -> None:
        """Of a run's log, while it is there."""
        if not os.path.exists(self.run_folder):
            return
        verdict = await verify_run(Home(self.home), self.run_id)
        assert verdict.is_intact, verdict
        state = (await view_run(Home(self.home), self.run_id)).state
        open_ones = {key: effect for key, effect in state.effects.items() if effect.status is not EffectStatus.UNKNOWN}
        assert not open_ones, f"effects without an outcome: {open_ones}"

    def must_be_sound(self) -> None:
        said = self.git(self.common_dir, "fsck", "--no-dangling", "--no-progress", "--connectivity-only")
        assert "error" not in said, said
        assert "missing" not in said, said


def _tokens_in_files(folder: str) -> Iterable[bytes]:
    for inside, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != ".git" and not name.endswith(".ignored")]
        for name in (*names, *folders):
            full = os.path.join(inside, name)
            if os.path.islink(full):
                yield from _TOKEN.findall(os.fsencode(os.readlink(full)))
            elif name in names and not name.endswith(".ignored"):
                with suppress(FileNotFoundError), open(full, "rb") as file:  # an orphan may be at work here
                    yield from _TOKEN.findall(file.read())


def _digest(path: str) -> str | None:
    if os.path.islink(path):
        return os.readlink(path)
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except FileNotFoundError:
        return None
