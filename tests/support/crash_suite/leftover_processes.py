"""Who has still to do with a run: by its mark, or because it stands in the run's folder, or has a file open there.

A run's tether is such a file. So whoever came of the run is seen, whatever it did with its environment.
"""

import os
from collections.abc import Iterator
from contextlib import suppress

from holdfast.leaf.process.env_markers import RUN_MARK, marked_processes
from holdfast.leaf.process.proc import is_dead, pids, proc_dirs, stat_fields


def strays_of(home: str, run_id: str) -> list[str]:
    """Each in words, with what it was found by."""
    by_mark = [f"{process.pid} has the run's mark" for process in marked_processes(RUN_MARK, run_id)]
    return by_mark + strays_in(os.path.join(home, "runs", run_id))


def strays_in(folder: str) -> list[str]:
    """All but this process, which looks at what is there, and what it is about to start."""
    real, ours = os.path.realpath(folder), _command_of(os.getpid())
    return [
        f"{pid} ({command}) has {name} → {path}"
        for pid in pids()
        if (command := _command_of(pid)) != ours
        for name, path in _held_by(pid)
        if f"{path}/".startswith(f"{real}/")
    ]


def _command_of(pid: int) -> str:
    """That of its parent, until it becomes its program."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def _held_by(pid: int) -> Iterator[tuple[str, str]]:
    """Where it stands, and what it has open; nothing of one that is dead, or gone meanwhile."""
    fields = stat_fields(pid)
    if fields is None or is_dead(fields):
        return
    for place in proc_dirs(pid):
        names = ["cwd"]
        with suppress(OSError):
            names += [f"fd/{number}" for number in os.listdir(f"{place}/fd")]
        for name in names:
            with suppress(OSError):
                yield name, os.readlink(f"{place}/{name}")
