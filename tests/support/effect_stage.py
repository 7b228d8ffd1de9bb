"""A stage for crashes: the user's repository, a remote, a home, and a `gh`, in one folder that can be set back.

Git and gh are the real programs behind small shell scripts, which count, tell, wait and kill on request: by files in
`strings/`, so that a process that was started long ago can still be told what to do.
"""

import os
import select
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.faulty_git import GIT, GitFault
from tests.support.processes import Child
from tests.support.wait import PATIENCE

HOOKS = (
    "post-checkout",
    "pre-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "pre-merge-commit",
    "post-merge",
    "pre-push",
)
REMOTE_HOOKS = ("pre-receive", "update", "post-receive")

_HOLD = """#!/bin/sh
# hold NAME: when NAME is the one to be held, say so and wait to be let go, or killed.
cd "{strings}" || exit 0
[ "$(cat armed 2>/dev/null)" = "$1" ] || exit 0
mv armed was-armed 2>/dev/null || exit 0
echo "$1" > told
read -r _ < go
"""

_HOOK = """#!/bin/sh
exec "{strings}/hold" {name}
"""

_REFERENCE_TRANSACTION = """#!/bin/sh
[ -e "{strings}/armed" ] || exit 0
echo >> "{strings}/count-$1"
exec "{strings}/hold" "$1-$(($(wc -l < "{strings}/count-$1")))"
"""

_FILTER = """#!/bin/sh
"{strings}/hold" "$1" </dev/null
exec cat
"""

_GH = """#!/bin/sh
# A pull request is a line in the file `requests`: its branch.
case "$2" in
  list)
    grep -qxF "$4" "{strings}/requests" 2>/dev/null && echo '[{{"url":"https://example.org/pull/1"}}]' || echo '[]' ;;
  create)
    "{strings}/hold" gh-before
    echo "$4" >> "{strings}/requests"
    "{strings}/hold" gh-after
    echo "https://example.org/pull/1" ;;
esac
"""

_CONFIG = """
[user]
  name = A User
  email = user@example.org
[init]
  defaultBranch = main
[protocol "file"]
  allow = always
[filter "slow"]
  clean = "'{strings}/filter' clean"
  smudge = "'{strings}/filter' smudge"
"""


class Stage:
    """Everything under one folder. `environment` is what makes a process use it."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.repo = os.path.join(folder, "the repo")
        self.git_dir = os.path.join(self.repo, ".git")
        self.remote = os.path.join(folder, "remote.git")
        self.home = os.path.join(folder, "home")
        self.strings = os.path.join(folder, "strings")
        self.bin = os.path.join(folder, "bin")
        self.git_fault = GitFault(os.path.join(folder, "counting"), self.strings)

    @property
    def environment(self) -> dict[str, str]:
        return {
            "HOME": self.folder,
            "XDG_CONFIG_HOME": os.path.join(self.folder, "none"),
            "GIT_CONFIG_GLOBAL": os.path.join(self.folder, "gitconfig"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "PATH": f"{self.bin}:{os.path.dirname(GIT)}:/usr/bin:/bin",
        }

    @property
    def environment_with_faulty_git(self) -> dict[str, str]:
        return {**self.environment, "PATH": f"{self.git_fault.folder}:{self.environment['PATH']}"}

    def set_up(self) -> None:
        for folder in (self.folder, self.repo, self.strings, self.bin):
            os.makedirs(folder, exist_ok=True)
        self.write("gitconfig", _CONFIG.format(strings=self.strings))
        self._script(self.strings, "hold", _HOLD)
        self._script(self.strings, "filter", _FILTER)
        self.git_fault.set_up()
        self._script(self.bin, "gh", _GH)
        os.mkfifo(os.path.join(self.strings, "told"))
        os.mkfifo(os.path.join(self.strings, "go"))
        self._set_up_repository()

    def _set_up_repository(self) -> None:
        self.git("init", "--quiet", "--template=", "--bare", self.remote, at=self.folder)
        self.git("init", "--quiet", "--template=")
        for name, lines in {"a.txt": "1\n2\n3\n", "dir/b.txt": "b\n", "gone.txt": "gone\n", "slow.txt": "s\n"}.items():
            self.write(f"the repo/{name}", lines)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message=One")
        self.git("branch", "side")
        self.git("remote", "add", "origin", self.remote)
        self.write("the repo/.git/info/attributes", "slow*.txt filter=slow\n")
        self.write("the repo/a.txt", "1\n2\nmine\n")
        self.write("the repo/b.txt", "staged\n")
        self.git("add", "b.txt")
        self.write("the repo/c.txt", "untracked\n")
        for name in HOOKS:
            self._script(os.path.join(self.git_dir, "hooks"), name, _HOOK)
        for name in REMOTE_HOOKS:
            self._script(os.path.join(self.remote, "hooks"), name, _HOOK)
        self._script(os.path.join(self.git_dir, "hooks"), "reference-transaction", _REFERENCE_TRANSACTION)

    def write(self, name: str, content: str) -> str:
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)
        return path

    def git(self, *arguments: str, at: str | None = None) -> str:
        """As the user would, by the real program."""
        done = subprocess.run(
            [GIT, *arguments],
            cwd=at or self.repo,
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            errors="surrogateescape",
            check=False,
        )
        assert done.returncode == 0, f"git {arguments}: {done.stderr}"
        return done.stdout

    @contextmanager
    def held(self, name: str) -> Iterator["Held"]:
        """Arm one point (a hook, `clean`, `smudge`, `prepared-2`, `gh-before`): the first to come there stops there."""
        for left in ("was-armed", *(f"count-{state}" for state in ("prepared", "committed", "aborted"))):
            if os.path.exists(os.path.join(self.strings, left)):
                os.unlink(os.path.join(self.strings, left))
        self.write("strings/armed", name)
        held = Held(self)
        try:
            yield held
        finally:
            held.close()
            if os.path.exists(os.path.join(self.strings, "armed")):
                os.unlink(os.path.join(self.strings, "armed"))

    def copy_to(self, saved: str) -> None:
        shutil.rmtree(saved, ignore_errors=True)
        subprocess.run(["cp", "-a", self.folder, saved], check=True)

    def set_back(self, saved: str) -> None:
        """All as it was, in the same place: worktrees know each other by their paths."""
        shutil.rmtree(self.folder)
        subprocess.run(["cp", "-a", saved, self.folder], check=True)

    def _script(self, folder: str, name: str, text: str) -> None:
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.format(strings=self.strings, git=GIT, name=name))
        os.chmod(path, 0o755)


class Held:
    """The other end of the strings."""

    def __init__(self, stage: Stage) -> None:
        self._told = os.open(os.path.join(stage.strings, "told"), os.O_RDWR | os.O_NONBLOCK)
        self._go = os.open(os.path.join(stage.strings, "go"), os.O_RDWR | os.O_NONBLOCK)

    def wait(self, other: Child) -> bool:
        """True when somebody stands at the point; False when the child reports, or ends, before that."""
        ready = select.select([self._told, other.fileno()], [], [], PATIENCE)[0]
        assert ready, "nobody came to the point, and nobody died"
        if self._told not in ready:
            return False
        os.read(self._told, 4096)
        return True

    def wait_for_it(self) -> None:
        assert select.select([self._told], [], [], PATIENCE)[0], "nobody came to the point"
        os.read(self._told, 4096)

    def let_go(self) -> None:
        os.write(self._go, b"\n")

    def close(self) -> None:
        os.close(self._told)
        os.close(self._go)
