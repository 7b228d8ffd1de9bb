"""A `git` that is the real one, but for one of its commands: there somebody dies, or its disk answers with an error.

It stands before the other in a PATH and is told what to do by files, so that a process that was started long ago can
still have its fault.
"""

import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

GIT = shutil.which("git") or "git"

# Not `close`: an injected error keeps it from closing, and whoever reads that pipe would wait for ever.
CALLS = ("openat", "write", "pwrite64", "ftruncate", "fsync", "fdatasync", "rename", "link", "unlink", "mkdir", "rmdir")

# What changes something is counted; looking is not: to die before a look is to die after the change before it. To try
# a merge is a look that writes objects, for which a disk can have no room. Strace knows the first name of a rename,
# which git makes of the other one.
_GIT = """#!/bin/sh
{{ read -r who at calls how over < "{strings}/fault"; }} 2>/dev/null || exec "{git}" "$@"
for word in "$@"; do
  case "$word" in
    -c|core.*|user.*|advice.*|gc.*|maintenance.*) ;;
    merge-tree) [ "$who" = disk ] && break; exec "{git}" "$@" ;;
    rev-parse|log|status|merge-base|for-each-ref|var|ls-remote|diff|show|symbolic-ref|remote|rev-list)
      exec "{git}" "$@" ;;
    worktree) [ "$2" = list ] && exec "{git}" "$@"; break ;;
    *) break ;;
  esac
done
number=1
set -C  # whoever makes the file has the number, also of two at once
until {{ true > "{strings}/commands/$number"; }} 2>/dev/null; do number=$((number + 1)); done
set +C
[ $number -eq "$at" ] || exec "{git}" "$@"
if [ -n "$calls" ]; then
  strace -f -y -qq -o "{strings}/trace" -e "trace=$calls" ${{how:+-e "inject=$calls:$how"}} \\
    ${{over:+-P "$over" -P "$over.lock"}} "{git}" "$@"
  code=$?
  grep -qE "killed by SIGKILL|[(]INJECTED[)]" "{strings}/trace" || {{ echo > "{strings}/no-such-call"; exit $code; }}
  rm "{strings}/fault"
  [ "$who" = disk ] && exit $code
  [ "$who" = git ] && [ $code -ne 137 ] && exit $code
else
  rm "{strings}/fault"
fi
case "$who" in
  orchestrator) kill -9 $PPID; exec "{git}" "$@" ;;
  both) kill -9 $PPID; kill -9 $$ ;;
  git) kill -9 $$ ;;
  finished) "{git}" "$@"; code=$?; kill -9 $PPID; exit $code ;;
esac
"""


class Spot(NamedTuple):
    """The so-many-th such system call of a process, and the file that it changes."""

    call: str
    nth: int
    file: str


class GitFault:
    """What is to become of one command, and what became of it."""

    def __init__(self, folder: str, strings: str) -> None:
        """`folder` is the one for the PATH; `strings` is where it is told."""
        self.folder = folder
        self._strings = strings

    def set_up(self) -> None:
        for folder in (self.folder, self._strings):
            os.makedirs(folder, exist_ok=True)
        path = os.path.join(self.folder, "git")
        with open(path, "w", encoding="utf-8") as file:
            file.write(_GIT.format(strings=self._strings, git=GIT))
        os.chmod(path, 0o755)

    def kill(self, who: str, at: int, call: str = "", nth: int = 0) -> None:
        """At the so-many-th git that changes something: `orchestrator`, `git` or `both` die, or it once git is done.

        With a system call, git is killed as it makes its `nth` of those.
        """
        self._write(f"{who} {at} {call} {f'signal=KILL:when={nth}' if call else ''}")

    def fail(self, at: int, calls: str, error: str, when: str, over: str = "") -> None:
        """To that git the disk answers with an error: at its so-many-th of such a call, and with a `+` from then on.

        With a file, only calls about that one count. Git makes more or fewer of others by what the clock says: it reads
        a file again that is as young as its index.
        """
        self._write(f"disk {at} {calls} error={error}:when={when} {over}")

    def watch(self, at: int) -> None:
        """Nothing becomes of that git, but `spots` are known then."""
        self._write(f"disk {at} {','.join(CALLS)}")

    def _write(self, line: str) -> None:
        commands = os.path.join(self._strings, "commands")
        shutil.rmtree(commands, ignore_errors=True)
        os.mkdir(commands)
        with open(os.path.join(self._strings, "fault"), "w", encoding="utf-8") as file:
            file.write(f"{line}\n")

    def is_pending(self) -> bool:
        """True while nobody has met it."""
        return os.path.exists(os.path.join(self._strings, "fault"))

    def made_no_such_call(self) -> bool:
        """True when that git was there, and made fewer such system calls."""
        return os.path.exists(os.path.join(self._strings, "no-such-call"))

    @property
    def count(self) -> int:
        """How many commands changed something since it was told what to do."""
        return len(os.listdir(os.path.join(self._strings, "commands")))

    def spots(self) -> list[Spot]:
        """Where the git that was watched, or one that it started, changed a file."""
        with open(os.path.join(self._strings, "trace"), encoding="utf-8", errors="replace") as file:
            found = {(spot.call, spot.nth): spot for spot in _changes(file.readlines())}
        return list(found.values())


_CALL = re.compile(r"(?P<pid>\d+) +(?P<call>\w+)\((?:\d+<(?P<file>/[^>]*)>)?(?P<rest>.*)")
_NAME = re.compile(r'"([^"]*)"')
_BY_NAME = ("openat", "rename", "link", "unlink", "mkdir", "rmdir")  # the last name is that of what is made or deleted
_NO_FILE = ("/memfd:", "/dev/null", "/dev/tty", "/dev/pts")


def _changes(trace: list[str]) -> Iterator[Spot]:
    """Of openings those that may make a file."""
    count = Counter[tuple[str, str]]()
    for found in filter(None, map(_CALL.match, trace)):
        pid, call, file, rest = found.group("pid", "call", "file", "rest")
        count[pid, call] += 1
        if call in _BY_NAME:
            file = _NAME.findall(rest)[-1]
        if file is not None and not file.startswith(_NO_FILE) and (call != "openat" or "O_CREAT" in rest):
            yield Spot(call, count[pid, call], file)
