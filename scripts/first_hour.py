"""Does what a new user does in the first hour, with the built wheel. Prints what was typed and shown, and the times.

.venv/bin/python scripts/first_hour.py                  on a small project made for it
.venv/bin/python scripts/first_hour.py --sdist NAME     on a project from the package index
.venv/bin/python scripts/first_hour.py --keep DIR       leave everything in DIR

The wheel is built and installed into an empty environment; its dependencies have the versions of uv.lock. Then: init,
run, approve a request, SIGKILL the runner, resume, review, merge. The agent is a playbook, so no key is needed.
"""

import argparse
import glob
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
if __name__ == "__main__":
    sys.path[0] = ROOT

from scripts.shell_session import ShellSession, Shown, UnexpectedOutcome  # noqa: E402

PLAYBOOK = """\
turns:
  - when: Your last turn was interrupted
    steps:
      - say: I was interrupted. NOTES.md has its first half; I write the second.
      - append: {path: NOTES.md, text: "\\nRead the tests first.\\n"}
      - say: Done.
  - steps:
      - say: I look at the history first.
      - permission:
          title: Run git log
          kind: execute
          input: {command: git log --oneline}
          allowed: [run: git log --oneline]
          rejected: [say: Then without the history.]
      - write: {path: NOTES.md, text: "# Notes for newcomers\\n"}
      - say: The second half takes a while.
      - hang: turn
"""
_SOURCE = """\
def count_words(text):
    words = text.lower().split()
    return {word: words.count(word) for word in words}
"""
_TESTS = (
    "import unittest\n\nfrom words import count_words\n\n\nclass CountWordsTest(unittest.TestCase):\n"
    '    def test_counts(self):\n        self.assertEqual(count_words("a b A"), {"a": 2, "b": 1})\n'
)
_CHECK = "python3 -m unittest -q"
_NAME = "notes"


class FirstHour:
    """The places of one first hour, and the shell in it."""

    def __init__(self, folder: str, bin_folder: str, *, columns: int = 100) -> None:
        self.project = os.path.join(folder, "project")
        self.playbook = os.path.join(folder, "notes.yaml")
        home = os.path.join(folder, "home")
        os.makedirs(home)
        environment = {
            "PATH": os.pathsep.join((bin_folder, os.environ["PATH"])),
            "HOME": home,
            "LC_ALL": "C.UTF-8",
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        with open(self.playbook, "w") as file:
            file.write(PLAYBOOK)
        self._environment = environment
        self.shell = ShellSession(folder, environment, columns=columns)

    def prepare(self, source: str | None = None, check: str = _CHECK) -> None:
        """Make the user's repository: of an unpacked source distribution, or a small one."""
        if source is not None:
            shutil.copytree(source, self.project, symlinks=True)
        else:
            os.makedirs(self.project)
            for name, text in (("words.py", _SOURCE), ("test_words.py", _TESTS)):
                with open(os.path.join(self.project, name), "w") as file:
                    file.write(text)
        git = ["git", "-c", "init.defaultBranch=main"]
        for arguments in (
            ["config", "--global", "user.name", "A. User"],
            ["config", "--global", "user.email", "user@example.org"],
            ["init", "--quiet", self.project],
            ["-C", self.project, "add", "--all"],
            ["-C", self.project, "commit", "--quiet", "--message", "Begin"],
        ):
            subprocess.run([*git, *arguments], check=True, env=self._environment)
        self.shell.cwd = self.project
        self.check = check

    def work(self) -> Iterator[Shown]:
        """From the first command to the merged work. Each yielded item is a command that has ended."""
        shell, agent = self.shell, f"playbook:{self.playbook}"
        yield shell.run(f"holdfast init --yes --agent {agent} --check '{self.check}'")
        with shell.start(f'holdfast run "Write notes for newcomers" --name {_NAME} --allow ask') as runner:
            runner.wait_for("Run git log")
            yield shell.run(f"holdfast approve {_NAME}")
            runner.wait_for("The second half takes a while.")
            yield runner.kill()
        yield shell.run("holdfast ls")
        yield shell.run("holdfast resume")
        yield shell.run("holdfast show")
        yield shell.run("holdfast diff")
        yield shell.run("holdfast merge")
        yield shell.run("git --no-pager log --oneline")
        yield shell.run("cat NOTES.md")
        yield shell.run("holdfast verify")


@contextmanager
def scratch_folder(keep: str | None) -> Iterator[str]:
    if keep is not None:
        os.makedirs(keep, exist_ok=True)
        yield os.path.abspath(keep)
        return
    with tempfile.TemporaryDirectory(prefix="holdfast-first-hour-") as folder:
        yield folder


def install(folder: str, *, from_sdist: bool = False) -> str:
    """Build the wheel and install it into an empty environment. Returns the folder of its programs.

    `from_sdist`: build a source distribution, and the wheel from that.
    """
    uv = os.path.join(ROOT, ".tools", "bin", "uv")
    uv = uv if os.path.exists(uv) else "uv"
    wheels, environment = os.path.join(folder, "dist"), os.path.join(folder, "env")
    python = os.path.join(environment, "bin", "python")
    _run_uv(uv, "build", *([] if from_sdist else ["--wheel"]), "--out-dir", wheels, ROOT)
    _run_uv(uv, "venv", "--clear", "--python", sys.executable, environment)
    locked = ("sync", "--frozen", "--no-dev", "--no-install-project", "--project", ROOT, "--active")
    _run_uv(uv, *locked, VIRTUAL_ENV=environment)
    _run_uv(uv, "pip", "install", "--no-deps", "--python", python, *glob.glob(os.path.join(wheels, "*.whl")))
    _run_uv(uv, "pip", "check", "--python", python)
    return os.path.dirname(python)


def _run_uv(uv: str, *arguments: str, **environment: str) -> None:
    """Run it offline first: all that is needed is usually in uv's cache."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("UV_PROJECT")}
    command = [uv, *arguments, "--quiet"]
    offline = subprocess.run(
        [*command, "--offline"], env={**inherited, **environment}, capture_output=True, check=False
    )
    if offline.returncode != 0:
        subprocess.run(command, env={**inherited, **environment}, check=True)


def fetch_sdist(name: str, folder: str) -> str:
    """Download and unpack a source distribution. Returns its folder."""
    place = os.path.join(folder, "sdist")
    python = getattr(sys, "_base_executable", sys.executable)
    command = [python, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest", place, name]
    subprocess.run(command, check=True)
    (archive,) = glob.glob(os.path.join(place, "*.tar.gz"))
    with tarfile.open(archive) as file:
        file.extractall(place, filter="data")
    (unpacked,) = (entry.path for entry in os.scandir(place) if entry.is_dir())
    return unpacked


def first_hour(folder: str, bin_folder: str, source: str | None = None, check: str = _CHECK) -> FirstHour:
    """Do all of it, print it, and raise `UnexpectedOutcome` if anything was lost."""
    hour = FirstHour(folder, bin_folder)
    hour.prepare(source, check)
    for shown in hour.work():
        _print_shown(shown)
    _require_merged(hour)
    return hour


def _require_merged(hour: FirstHour) -> None:
    with open(os.path.join(hour.project, "NOTES.md")) as file:
        text = file.read()
    if text != "# Notes for newcomers\n\nRead the tests first.\n":
        raise UnexpectedOutcome(f"the merged NOTES.md is not what the agent wrote:\n{text}")


def _print_shown(shown: Shown) -> None:
    print(f"\n$ {shown.command}")
    for line in shown.text.splitlines():
        print(f"  {line}")
    ending = "killed with SIGKILL" if shown.exit_code < 0 else f"exit code {shown.exit_code}"
    print(f"  [{ending}, {shown.seconds:.1f} s]", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="the first hour of a new user")
    parser.add_argument("--sdist", metavar="NAME", help="work on this project from the package index")
    parser.add_argument("--check", default=None, help=f"its check (default: {_CHECK})")
    parser.add_argument("--keep", metavar="DIR", help="an empty folder in which everything stays")
    options = parser.parse_args()
    began = time.monotonic()
    with scratch_folder(options.keep) as folder:
        bin_folder = install(folder)
        print(f"built the wheel and installed it  [{time.monotonic() - began:.1f} s]")
        source = fetch_sdist(options.sdist, folder) if options.sdist else None
        check = options.check or ("git status --short" if source else _CHECK)
        try:
            hour = first_hour(folder, bin_folder, source, check)
        except UnexpectedOutcome as error:
            print(f"first_hour: {error}", file=sys.stderr)
            return 1
        commands = len(hour.shell.history)
    print(f"\n{commands} commands, {time.monotonic() - began:.1f} s with the installation; nothing lost")
    return 0


if __name__ == "__main__":
    sys.exit(main())
