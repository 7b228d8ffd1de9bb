"""An agent in bubblewrap: the machine read-only, its worktree writable, no other process to be seen.

It is in a process namespace of its own, whose first process dies with us: when that is dead, so is everything in it,
however often it forked and whatever it made of its environment. Seen from outside all of them are processes of this
machine, and carry the marks.
"""

import os
import shutil
import subprocess
from functools import cache

from holdfast.agents.environment import plain_environment
from holdfast.agents.launch import Launch, Spawn
from holdfast.agents.runtimes.mounts import places_of
from holdfast.leaf.errors import BadInput

_PROGRAM = "bwrap"
_ROOT = (
    *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
    *("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    *("--cap-drop", "ALL", "--die-with-parent"),
)
_PRIVATE = ("/tmp", "/var/tmp", "/run")  # noqa: S108 - hidden: in /run are the sockets of whoever can do more than we
_NAMES = ("/run/systemd/resolve", "/run/current-system")  # of these sockets none, but names of hosts and programs
_KEYS = (
    *("~/.ssh", "~/.gnupg", "~/.aws", "~/.azure", "~/.kube", "~/.docker", "~/.config/gcloud", "~/.config/gh"),
    *("~/.netrc", "~/.git-credentials", "~/.config/git/credentials", "~/.pypirc"),
)


def spawned(launch: Launch) -> Spawn:
    """Its options come by a file: a terminal's variables are the agent's choice, and may not be bubblewrap's own."""
    program = _must_work(shutil.which(_PROGRAM))
    options = _options(launch)
    file = os.memfd_create("sandbox")  # not inherited, but by whom it is handed to
    os.write(file, "".join(f"{option}\0" for option in options).encode(errors="surrogateescape"))
    os.lseek(file, 0, os.SEEK_SET)
    command = (program, "--args", str(file), "--", *launch.command)
    return Spawn(command, {**plain_environment(), **launch.marks}, (file,))


def _options(launch: Launch) -> list[str]:
    options = [*_ROOT]
    for folder in filter(os.path.isdir, map(os.path.realpath, _PRIVATE)):
        options += ["--tmpfs", folder]
    for path in _NAMES:
        options += ["--ro-bind-try", path, path]
    places = places_of(launch)
    for place in places:
        options += ["--bind" if place.writable else "--ro-bind", place.path, place.path]
    for path in filter(os.path.exists, map(os.path.realpath, map(os.path.expanduser, _KEYS))):
        if not any(f"{place.path}/".startswith(f"{path}/") for place in places):  # who names them wants them seen
            options += ["--tmpfs", path] if os.path.isdir(path) else ["--ro-bind", "/dev/null", path]
    if not launch.runtime.network:
        options.append("--unshare-net")
    for name, value in {**launch.environment, **launch.marks, "TMPDIR": "/tmp"}.items():  # noqa: S108 - its own
        options += ["--setenv", name, value]
    return [*options, "--chdir", os.path.realpath(launch.cwd)]


@cache
def _must_work(program: str | None) -> str:
    """Ask it once: what it may not do here, it may not do for an agent either."""
    if program is None:
        raise BadInput(
            f"{_PROGRAM} is not installed, and the agent is to run in a sandbox; install it "
            "(Debian, Ubuntu: apt install bubblewrap; Fedora: dnf install bubblewrap), or set runtime = local"
        )
    line = [program, *_ROOT, "true"]
    tried = subprocess.run(line, capture_output=True, text=True, check=False, start_new_session=True)
    if tried.returncode:
        said = " ".join(tried.stderr.split()) or f"exit code {tried.returncode}"
        raise BadInput(f"{program} cannot make a sandbox here ({said}); allow user namespaces, or set runtime = local")
    return program
