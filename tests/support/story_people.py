"""The others in a story: agents that work in worktrees of ours, and the user, who does as they like.

What they do may fail, as git lets it; it is theirs to lose what they overwrite or delete.
"""

import os
import random
import shutil
from collections.abc import Callable
from contextlib import suppress

from holdfast.core.work.names import worktree_names
from tests.support.story_world import World

_PATHS = ("a.txt", "b.txt", "d/c.txt", "n.txt", "d", "new/deep/x y.txt", "-dash", "*", ":(top)", "ü\n.txt", "x.ignored")


class Agent:
    """Works in any worktree that is there, and not only as it should."""

    def __init__(self, world: World, dice: random.Random) -> None:
        self.world = world
        self.dice = dice
        self._branches = 0
        self.edits: list[Callable[[str, str], None]] = [
            self.write,
            self.write,
            self.append,
            self.append,
            self.append,
            self.delete,
            self.rename,
            self.make_executable,
            self.link,
            self.stage,
        ]
        self.turns: list[Callable[[str], None]] = [
            self.commit,
            self.commit,
            self.make_branch,
            self.detach,
            self.go_back,
            self.go_back,
            self.go_back,
            self.merge,
            self.die,
            self.nest,
        ]

    def work(self, folder: str) -> str:
        done = []
        for _ in range(self.dice.randrange(1, 5)):
            edit, path = self.dice.choice(self.edits), self.dice.choice(_PATHS)
            with suppress(OSError):  # a folder where a file should be, or the other way round
                edit(folder, path)
                done.append(f"{edit.__name__} {path!r}")
        return ", ".join(done)

    def turn(self, folder: str) -> str:
        turn = self.dice.choice(self.turns)
        turn(folder)
        return turn.__name__

    def write(self, folder: str, path: str) -> None:
        self.world.write(folder, path, "".join(self.world.line() for _ in range(self.dice.randrange(1, 4))))

    def append(self, folder: str, path: str) -> None:
        if not os.path.islink(os.path.join(folder, path)):
            self.world.write(folder, path, self.world.line(), "a")

    def delete(self, folder: str, path: str) -> None:
        os.unlink(os.path.join(folder, path))

    def rename(self, folder: str, path: str) -> None:
        target = os.path.join(folder, self.dice.choice(_PATHS))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.rename(os.path.join(folder, path), target)

    def make_executable(self, folder: str, path: str) -> None:
        if not os.path.islink(os.path.join(folder, path)):
            os.chmod(os.path.join(folder, path), self.dice.choice((0o755, 0o644)))

    def link(self, folder: str, path: str) -> None:
        full = os.path.join(folder, f"{path}-link")
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with suppress(FileNotFoundError):
            os.unlink(full)
        os.symlink(self.world.line().strip(), full)

    def stage(self, folder: str, path: str) -> None:
        self.world.git(folder, "--literal-pathspecs", "add", "--", path, must=False)

    def commit(self, folder: str) -> None:
        self.world.git(folder, "add", "--all", must=False)
        self.world.git(folder, "commit", "--quiet", "--message=mine", must=False)

    def make_branch(self, folder: str) -> None:
        self._branches += 1
        self.world.git(folder, "switch", "--quiet", "--create", f"agent/{self._branches}", must=False)

    def detach(self, folder: str) -> None:
        self.world.git(folder, "switch", "--quiet", "--detach", must=False)

    def go_back(self, folder: str) -> None:
        """To the branch that it should be on."""
        leaf = os.path.basename(folder)
        branch = worktree_names(self.world.run_id, None if leaf == "workspace" else leaf).branch
        self.world.git(folder, "switch", "--quiet", branch, must=False)

    def merge(self, folder: str) -> None:
        self.world.git(folder, "merge", "--quiet", "--no-edit", worktree_names(self.world.run_id).branch, must=False)

    def die(self, folder: str) -> None:
        """In the middle of a git command, which leaves its locks."""
        own = self.world.git(folder, "rev-parse", "--absolute-git-dir", must=False)
        if not own:
            return  # its entry was pruned
        on = self.world.git(folder, "symbolic-ref", "--quiet", "HEAD", must=False)
        for lock in (f"{own}/index.lock", f"{own}/HEAD.lock", f"{self.world.common_dir}/{on}.lock" if on else ""):
            if lock and self.dice.random() < 0.5:
                os.makedirs(os.path.dirname(lock), exist_ok=True)
                self.world.write("/", lock, "")

    def nest(self, folder: str) -> None:
        """A repository in the worktree, with work that is nowhere else."""
        place = os.path.join(folder, "nested")
        self.world.git(folder, "init", "--quiet", place)
        for name, value in (("user.name", "Agent"), ("user.email", "agent@example.com")):
            self.world.git(place, "config", name, value)
        self.append(place, "inside.txt")
        if self.dice.random() < 0.7:
            self.commit(place)


class User:
    """Works in the checkout, and has the right to everything else too."""

    def __init__(self, world: World, dice: random.Random) -> None:
        self.world = world
        self.dice = dice
        self.harmless: list[Callable[[], None]] = [
            self.commit,
            self.leave_dirty,
            self.collect_garbage,
            self.prune_worktrees,
            self.pack_refs,
        ]
        self.harmful: list[Callable[[], None]] = [
            self.amend_runs_branch,
            self.rebase_runs_branch,
            self.delete_branch,
            self.delete_worktree,
        ]

    def commit(self) -> None:
        path = self.dice.choice(("a.txt", "users.txt"))
        self.world.write(self.world.repo, path, f"mine {self.dice.random()}\n", "a")
        self.world.git(self.world.repo, "add", path)
        self.world.git(self.world.repo, "commit", "--quiet", "--message=user's")

    def leave_dirty(self) -> None:
        self.world.write(self.world.repo, "dirty.txt", f"dirt {self.dice.random()}\n")
        self.world.write(self.world.repo, "b.txt", f"dirt {self.dice.random()}\n", "a")
        if self.dice.random() < 0.5:
            self.world.git(self.world.repo, "add", "b.txt")

    def collect_garbage(self) -> None:
        self.world.git(self.world.repo, "gc", "--quiet", "--prune=now", must=False)

    def prune_worktrees(self) -> None:
        self.world.git(self.world.repo, "worktree", "prune")

    def pack_refs(self) -> None:
        self.world.git(self.world.repo, "pack-refs", "--all", must=False)

    def amend_runs_branch(self) -> None:
        workspace = os.path.join(self.world.run_folder, "workspace")
        if workspace in self.world.worktrees():
            self.world.git(workspace, "commit", "--quiet", "--amend", "--allow-empty", "--no-edit", must=False)

    def rebase_runs_branch(self) -> None:
        workspace = os.path.join(self.world.run_folder, "workspace")
        if workspace in self.world.worktrees():
            self.world.git(workspace, "rebase", "--quiet", "main", must=False)
            self.world.git(workspace, "rebase", "--abort", must=False)

    def delete_branch(self) -> None:
        ours = self.world.git(
            self.world.repo, "for-each-ref", "--format=%(refname)", f"refs/heads/holdfast/{self.world.run_id}/"
        ).splitlines()
        if ours:
            self.world.git(self.world.repo, "update-ref", "-d", self.dice.choice(ours), must=False)

    def delete_worktree(self) -> None:
        there = self.world.worktrees()
        if there:
            shutil.rmtree(self.dice.choice(there))

    def move_repository(self) -> None:
        self.world.repo = self._moved(self.world.repo)

    def move_home(self) -> None:
        self.world.home = self._moved(self.world.home)

    def _moved(self, folder: str) -> str:
        target = folder.removesuffix(" moved") if folder.endswith(" moved") else f"{folder} moved"
        os.rename(folder, target)
        return target
