"""What a run that publishes reaches: a remote, which is a folder beside its repository, and a `gh` with a memory."""

import os
import subprocess
import sys
from functools import cached_property
from pathlib import Path

from tests.support.programs import Gh

GITHUB = "git@github.com:me/my.git"
NOBODY = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
_PYTHON = f"{sys._base_executable} -IS"  # type: ignore[attr-defined] # without the standard library's own start-up


class Outside:
    """The remote is one of GitHub, by its address; what goes there goes to the folder."""

    def __init__(self, folder: str, repo: str) -> None:
        self.remote = os.path.join(folder, "remote.git")
        self._repo = repo
        self._bin = Path(folder, "bin")

    def make(self) -> None:
        self._git(self._repo, "clone", "--quiet", "--bare", "--template=", self._repo, self.remote)
        self._git(self._repo, "remote", "add", "origin", GITHUB)
        self._git(self._repo, "config", f"url.{self.remote}.insteadOf", GITHUB)

    @cached_property
    def gh(self) -> Gh:
        return Gh(self._bin, _PYTHON)

    def must_have_once(self, run_id: str) -> None:
        """The run's branch, as it is here; and one request to take it in."""
        branch = f"holdfast/{run_id}/main"
        there = self._git(self.remote, "for-each-ref", "--format=%(refname) %(objectname)", "refs/heads/holdfast/")
        here = self._git(self._repo, "rev-parse", f"refs/heads/{branch}").strip()
        assert there.splitlines() == [f"refs/heads/{branch} {here}"], there
        assert [one["head"] for one in self.gh.requests] == [branch], self.gh.requests

    def _git(self, at: str, *arguments: str) -> str:
        command = ["git", "-C", at, *arguments]
        done = subprocess.run(command, env={**os.environ, **NOBODY}, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout
