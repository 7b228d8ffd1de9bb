"""Runs a program that git starts in an agent's runtime: `python -m holdfast.engine.workspace.confined_program WORDS`.

The request is in an environment variable. A filter, a merge driver, or git in a nested repository runs as it is. A hook
may stage files, as many do. It gets a copy of the repository for that: it can read the real objects, and sees branches
and config as they are. What it staged is then taken from the copy, object by object, in a pack that git checks. So no
hook can change a branch, the config or an object of the user.
"""

import ctypes
import os
import secrets
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from holdfast.agents.launch import Launch, Runtime
from holdfast.agents.runtimes.base import spawn_command
from holdfast.git.confinement import HOOK, HOOKS_VARIABLE, WORKTREE_VARIABLE
from holdfast.leaf.errors import HoldfastError
from holdfast.leaf.files.directories import remove_tree
from holdfast.leaf.process.env_markers import RUN_MARK

ORDER = "HOLDFAST_CONFINED"
SCRATCH = "trash-hook-"  # in the run's folder, where the trash is emptied

_PR_SET_PDEATHSIG = 1
_REFUSED = 125
_KILLED = {128 + number: number for number in (signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM)}
_PASSED_ON = (
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_EDITOR", "GIT_REFLOG_ACTION"),
    *("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE", "GIT_OPTIONAL_LOCKS"),
)
_OURS = ("GIT_EXEC_PATH", "GIT_CONFIG_PARAMETERS", ORDER, HOOKS_VARIABLE, WORKTREE_VARIABLE)
_STAGING = frozenset({"pre-commit", "pre-merge-commit"})  # after these hooks git reads the index again
_MESSAGE = frozenset({"prepare-commit-msg", "commit-msg"})  # their first argument is a file that they may change
_COPIED = ("config", "config.worktree", "packed-refs", "refs", "reftable", "info", "shallow", "HEAD")
_LINKED = ("hooks", "lfs", "modules", "annex", "rr-cache")
_OF_WORKTREE = ("HEAD", "MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "ORIG_HEAD", "config.worktree", "info/sparse-checkout")
_PLAINLY = (
    *("-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}", "-c", "gc.auto=0"),
    *("-c", "core.fsync=committed", "-c", "core.fsyncMethod=fsync"),
)
_GITLINK = "160000"
_LONGEST_MESSAGE = 1024 * 1024  # bytes


class Order(msgspec.Struct, frozen=True, kw_only=True):
    runtime: Runtime
    environment: Mapping[str, str]
    worktree: str
    common_dir: str
    folder: str  # the run's own folder
    run_id: str


class Given(NamedTuple):
    """What git passed to this program, before our own variables were removed."""

    order: Order
    variables: Mapping[str, str]


class _Reach(NamedTuple):
    """Folders that a program can access beyond those of its runtime."""

    writes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()


def main(words: Sequence[str]) -> int:
    given = _taken(os.environ)
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    try:
        return _hook(given, words[1], words[2:]) if words[0] == HOOK else _program(given, words)
    except (HoldfastError, OSError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"{error}\n")
        return _REFUSED


def _taken(environment: "os._Environ[str]") -> Given:
    order = msgspec.json.decode(environment[ORDER], type=Order)
    wrappers = environment.get("GIT_EXEC_PATH")
    variables = {name: environment[name] for name in _PASSED_ON if name in environment}
    for name in _OURS:
        environment.pop(name, None)
    path = environment.get("PATH", os.defpath).split(os.pathsep)
    environment["PATH"] = os.pathsep.join(entry for entry in path if entry != wrappers)
    return Given(order, variables)


def _program(given: Given, words: Sequence[str]) -> int:
    """Run the program. A filter may store files in the repository, as Git LFS does."""
    store = os.path.join(given.order.common_dir, "lfs")
    writes = (store,) if os.path.isdir(store) else ()
    return _inside(given, words, given.variables, _Reach(writes)).returncode


def _inside(
    given: Given,
    words: Sequence[str],
    variables: Mapping[str, str],
    reach: _Reach,
    stdin: bytes | None = None,
) -> "subprocess.CompletedProcess[bytes]":
    """Run it in the runtime. With `stdin` the output is returned; otherwise both streams are passed through."""
    order = given.order
    runtime = msgspec.structs.replace(order.runtime, commits=False, readable=(*order.runtime.readable, *reach.reads))
    launch = Launch(
        tuple(words),
        os.getcwd(),
        {**order.environment, **variables, RUN_MARK: order.run_id},
        f"{order.run_id}/git/{secrets.token_hex(6)}",
        runtime=runtime,
        worktree=order.worktree,
        writes=reach.writes,
    )
    spawn = spawn_command(launch)
    output = subprocess.PIPE if stdin is not None else None
    return subprocess.run(
        spawn.command,
        env=dict(spawn.environment),
        pass_fds=spawn.inherited_fds,
        input=stdin,
        stdout=output,
        check=False,
    )


def _hook(given: Given, hook: str, arguments: Sequence[str]) -> int:
    name = os.path.basename(hook)
    scratch = os.path.join(given.order.folder, f"{SCRATCH}{secrets.token_hex(6)}")
    try:
        os.makedirs(scratch, mode=0o700)
        copy = _Copy.make(given, scratch)
        command = list(arguments)
        if name in _MESSAGE:
            _write_plain(copy.message, _plain(arguments[0], _LONGEST_MESSAGE))
            command[0] = copy.message
        reach = _Reach((copy.folder,), reads=(os.path.dirname(hook),))
        ended = _inside(given, (hook, *command), copy.variables, reach).returncode
        if ended in _KILLED or ended < 0:  # git distinguishes this from a hook that refused
            os.kill(os.getpid(), _KILLED.get(ended, -ended))
        if ended == 0 and name in _MESSAGE:
            _take_message(copy, arguments[0])
        if ended == 0 and name in _STAGING:
            _take_staged(given, copy, scratch)
        return ended
    finally:
        remove_tree(scratch)


class _Copy(NamedTuple):
    """A repository only for the hook, with the same worktree. The hook may do anything in it."""

    folder: str
    admin: str
    variables: Mapping[str, str]

    @property
    def index_file(self) -> str:
        return os.path.join(self.admin, "index")

    @property
    def message(self) -> str:
        return os.path.join(self.admin, "COMMIT_EDITMSG")

    @classmethod
    def make(cls, given: Given, scratch: str) -> "_Copy":
        order, folder = given.order, os.path.join(scratch, "repository")
        admin = os.path.join(folder, "worktrees", "hook")
        for name in ("objects/info", "objects/pack", "worktrees/hook"):
            os.makedirs(os.path.join(folder, name))
        _copy_all(order.common_dir, folder, _COPIED)
        for name in _LINKED:
            if os.path.lexists(os.path.join(order.common_dir, name)):
                os.symlink(os.path.join(order.common_dir, name), os.path.join(folder, name))
        _copy_own(_own_of(order.worktree), admin)
        _write(os.path.join(folder, "objects", "info", "alternates"), os.path.join(order.common_dir, "objects"))
        _write(os.path.join(admin, "commondir"), "../..")
        _write(os.path.join(admin, "gitdir"), os.path.join(order.worktree, ".git"))
        with open(os.path.join(folder, "config"), "a", encoding="utf-8") as file:
            real = os.path.join(order.common_dir, "config").replace("\\", "\\\\").replace('"', '\\"')
            file.write(f'\n[include]\n\tpath = "{real}"\n[core]\n\tsplitIndex = false\n\tfsmonitor = false\n')
        index = _index_of(given)
        if os.path.exists(index):
            _write_plain(os.path.join(admin, "index"), _plain(index))
        own = {"GIT_DIR": admin, "GIT_WORK_TREE": order.worktree, "GIT_INDEX_FILE": os.path.join(admin, "index")}
        return cls(folder, admin, {**given.variables, **own})


def _copy_all(source: str, target: str, names: Sequence[str]) -> None:
    for name in names:
        found = os.path.join(source, name)
        if os.path.isdir(found):
            shutil.copytree(found, os.path.join(target, name), symlinks=True, ignore=shutil.ignore_patterns("*.lock"))
        elif os.path.isfile(found):
            shutil.copyfile(found, os.path.join(target, name))


def _copy_own(source: str, target: str) -> None:
    """Copy without following links: an agent that may commit could place a link to any file of the user."""
    for name in _OF_WORKTREE:
        found = os.path.join(source, name)
        if not os.path.islink(found) and os.path.isfile(found):
            os.makedirs(os.path.dirname(os.path.join(target, name)), exist_ok=True)
            _write_plain(os.path.join(target, name), _plain(found))


def _own_of(worktree: str) -> str:
    with open(os.path.join(worktree, ".git"), encoding="utf-8", errors="surrogateescape") as file:
        return os.path.join(worktree, file.read().strip().removeprefix("gitdir: "))


def _index_of(given: Given) -> str:
    chosen = given.variables.get("GIT_INDEX_FILE")
    return os.path.abspath(chosen) if chosen else os.path.join(_own_of(given.order.worktree), "index")


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(f"{text}\n")


def _plain(path: str, limit: int = -1) -> bytes:
    """Read a file that a hook or an agent wrote, never through a link."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(f"{path} is not a plain file")
        return file.read(limit)


def _write_plain(path: str, content: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        file.write(content)


def _take_message(copy: _Copy, path: str) -> None:
    message = _plain(copy.message, _LONGEST_MESSAGE)
    _write_plain(path, message)


def _take_staged(given: Given, copy: _Copy, scratch: str) -> None:
    """Copy what the hook staged into the real index, and the objects for it into the repository."""
    theirs = os.path.join(scratch, "index")  # the hook cannot write there
    with open(theirs, "wb") as file:
        file.write(_plain(copy.index_file))
    own = {**os.environ, **given.variables, "GIT_DIR": _own_of(given.order.worktree)}
    before = _entries({**own, "GIT_INDEX_FILE": _index_of(given)})
    after = _entries({**own, "GIT_INDEX_FILE": theirs})
    if after == before:
        return
    changed = {path: about for path, about in after.items() if before.get(path) != about}
    new_objects = sorted({oid for mode, oid in changed.values() if mode != _GITLINK})
    types = _git(
        own, "cat-file", "--batch-check=%(objecttype)", stdin="".join(f"{oid}\n" for oid in new_objects).encode()
    )
    missing = [oid for oid, line in zip(new_objects, types.splitlines(), strict=True) if line != b"blob"]
    if missing:
        names = "".join(f"{oid}\n" for oid in missing).encode()
        packing = ("git", "pack-objects", "--quiet", "--stdout")
        packed = _inside(given, packing, copy.variables, _Reach((copy.folder,)), stdin=names)
        packed.check_returncode()
        _git(own, "unpack-objects", "-q", "--strict", stdin=packed.stdout)
    removed = [(f"0 {'0' * len(oid)}", path) for path, (_, oid) in before.items() if path not in after]
    lines = [*removed, *((f"{mode} {oid}", path) for path, (mode, oid) in changed.items())]
    stdin = b"".join(about.encode() + b"\t" + path + b"\0" for about, path in lines)
    _git({**own, "GIT_INDEX_FILE": _index_of(given)}, "update-index", "-z", "--index-info", stdin=stdin)


def _entries(environment: Mapping[str, str]) -> dict[bytes, tuple[str, str]]:
    found = {}
    for entry in filter(None, _git(environment, "ls-files", "--stage", "-z").split(b"\0")):
        about, _, path = entry.partition(b"\t")
        mode, oid, _ = about.decode().split(" ")
        found[path] = (mode, oid)
    return found


def _git(environment: Mapping[str, str], *words: str, stdin: bytes = b"") -> bytes:
    return subprocess.run(
        ("git", *_PLAINLY, *words), env=dict(environment), input=stdin, stdout=subprocess.PIPE, check=True
    ).stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
