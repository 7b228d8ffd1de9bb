"""The CPU time of a command with everything it starts: `python -m bench.process_tree REPORT [--until FIFO] COMMAND…`.

A helper process is the subreaper, so it waits for orphans too; its usage of ended children is that of the whole tree.
With `--until`, the command is killed once something writes to the FIFO: the usage up to then, and of what then ends.
"""

import ctypes
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence

from bench.places import ROOT

_PR_SET_CHILD_SUBREAPER = 36


def tree_cpu(
    command: Sequence[str], folder: str, environment: Mapping[str, str] | None = None, until: str | None = None
) -> float:
    """Return user and system time in seconds. `folder` is for a small file. Raises when the command fails."""
    report = os.path.join(folder, f"cpu-{os.getpid()}")
    limit = ["--until", until] if until is not None else []
    subprocess.run(
        [sys.executable, "-m", "bench.process_tree", report, *limit, *command],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    with open(report, encoding="ascii") as file:
        return float(file.read())


def children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def descendants(root: int) -> list[int]:
    """Return the pids of all living descendants."""
    parents: dict[int, int] = {}
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                parents[int(name)] = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found, level = list[int](), {root}
    while level := {pid for pid, parent in parents.items() if parent in level}:
        found += level
    return found


def own_memory(pid: int) -> int:
    """Return the proportional set size in bytes: its own memory, and its share of what it shares."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:"))


def _main(report: str, *command: str) -> int:
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    until = None
    if command[0] == "--until":
        _, until, *rest = command
        command = tuple(rest)
    root = os.posix_spawnp(command[0], command, os.environ)
    if until is not None:
        with open(until, "rb") as fifo:
            fifo.read(1)
        os.kill(root, signal.SIGKILL)
    code = 0
    try:
        while True:
            pid, status = os.wait()
            if pid == root and until is None:
                code = os.waitstatus_to_exitcode(status)
    except ChildProcessError:
        pass  # all have ended
    with open(report, "w", encoding="ascii") as file:
        file.write(str(children_cpu()))
    return code


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
