"""An agent in bubblewrap: the machine is read-only, its worktree writable, other processes invisible.

It has its own PID namespace, whose first process dies with us: then everything in it dies too, however often it forked
and whatever it did to its environment. From outside, all of them are processes of this machine and carry the markers.
"""

import os
import shutil
import subprocess
from functools import cache

from holdfast.agents.environment import plain_environment
from holdfast.agents.launch import Launch, SpawnCommand
from holdfast.agents.runtimes.mounts import mounted_paths
from holdfast.leaf.errors import BadInput

_PROGRAM = "bwrap"
_BASE_OPTIONS = (
    *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
    *("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    *("--cap-drop", "ALL", "--die-with-parent"),
)
_HIDDEN_FOLDERS = ("/tmp", "/var/tmp", "/run")  # noqa: S108 - /run has sockets of privileged services
_VISIBLE_FOLDERS = (
    "/run/systemd/resolve",
    "/run/current-system",
)  # no sockets, but host names and programs
_HIDDEN_KEY_PATHS = (
    *("~/.ssh", "~/.gnupg", "~/.aws", "~/.azure", "~/.kube", "~/.docker", "~/.config/gcloud", "~/.config/gh"),
    *("~/.netrc", "~/.git-credentials", "~/.config/git/credentials", "~/.pypirc"),
)


def spawn_command(launch: Launch) -> SpawnCommand:
    """Pass the options in a file: the agent chooses a terminal's variables, and bubblewrap itself must not get them."""
    program = check_bwrap(shutil.which(_PROGRAM))
    options = _options(launch)
    file = os.memfd_create("sandbox")  # inherited only by the process that gets it
    os.write(file, "".join(f"{option}\0" for option in options).encode(errors="surrogateescape"))
    os.lseek(file, 0, os.SEEK_SET)
    command = (program, "--args", str(file), "--", *launch.command)
    return SpawnCommand(command, {**plain_environment(), **launch.env_markers}, (file,))


def _options(launch: Launch) -> list[str]:
    options = [*_BASE_OPTIONS]
    for folder in filter(os.path.isdir, map(os.path.realpath, _HIDDEN_FOLDERS)):
        options += ["--tmpfs", folder]
    for path in _VISIBLE_FOLDERS:
        options += ["--ro-bind-try", path, path]
    mounts = mounted_paths(launch)
    for mount in mounts:
        options += ["--bind" if mount.is_writable else "--ro-bind", mount.path, mount.path]
    for path in filter(os.path.exists, map(os.path.realpath, map(os.path.expanduser, _HIDDEN_KEY_PATHS))):
        if not any(f"{mount.path}/".startswith(f"{path}/") for mount in mounts):  # the config can make them visible
            options += ["--tmpfs", path] if os.path.isdir(path) else ["--ro-bind", "/dev/null", path]
    if not launch.runtime.network:
        options.append("--unshare-net")
    for name, value in {**launch.environment, **launch.env_markers, "TMPDIR": "/tmp"}.items():  # noqa: S108 - inside
        options += ["--setenv", name, value]
    return [*options, "--chdir", os.path.realpath(launch.cwd)]


@cache
def check_bwrap(program: str | None) -> str:
    """Check once that bubblewrap works here; raises `BadInput` otherwise."""
    if program is None:
        raise BadInput(
            f"cannot run the agent in a sandbox: {_PROGRAM} is not installed; install it "
            "(Debian, Ubuntu: apt install bubblewrap; Fedora: dnf install bubblewrap), or set runtime = local"
        )
    command = [program, *_BASE_OPTIONS, "true"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, start_new_session=True)
    if result.returncode:
        reason = " ".join(result.stderr.split()) or f"exit code {result.returncode}"
        raise BadInput(
            f"{program} cannot create a sandbox here ({reason}); allow user namespaces, or set runtime = local"
        )
    return program
