"""A folder for the checks, on the file system in question, and gone when they are over.

Its name tells whose it is: what a killed selftest left is taken away by the next, with the processes that it left.
"""

import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from holdfast.leaf.process.env_markers import RUN_MARK, marked
from holdfast.leaf.process.identity import end, identify, myself
from holdfast.store.files.layout import runs_folder

_NAME = "selftest"
_OURS = re.compile(rf"{_NAME}-[0-9a-f]{{8}}-\d+-\d+")  # nothing else that is called so is touched
_HOME = "HOLDFAST_HOME"
_LONG = 3600.0  # seconds: older than any selftest of another machine that shares this folder


def home_in(folder: str) -> str:
    return os.path.join(folder, "home")


def mark(folder: str) -> Mapping[str, str]:
    """In the environment of whatever is started for a run or an agent: by this it is found again."""
    return {_HOME: home_in(folder)}


@contextmanager
def temporary(parent: str) -> Iterator[str]:
    """A new folder in this one, which is made when it is not there, and then goes again too."""
    made = _made(parent)
    me = myself()
    folder = os.path.join(parent, f"{_NAME}-{me.boot_id[:8]}-{me.pid}-{me.start_time}")
    try:
        sweep(parent)
        os.mkdir(folder, 0o700)
        yield folder
    finally:
        _remove(folder)
        for path in reversed(made):
            with suppress(OSError):
                os.rmdir(path)


def sweep(parent: str) -> None:
    """Take away what is left of those who are dead."""
    for name in os.listdir(parent):
        if _OURS.fullmatch(name) and _is_dead(os.path.join(parent, name)):
            _remove(os.path.join(parent, name))


def _is_dead(folder: str) -> bool:
    _, boot, pid, start = os.path.basename(folder).split("-")
    if boot != myself().boot_id[:8]:
        with suppress(OSError):
            return time.time() - os.stat(folder).st_mtime > _LONG
    other = identify(int(pid))
    return other is None or str(other.start_time) != start


def _remove(folder: str) -> None:
    """Runners first, who would start others."""
    end(marked(_HOME, home_in(folder)))
    runs = runs_folder(home_in(folder))
    for run_id in os.listdir(runs) if os.path.isdir(runs) else ():
        end(marked(RUN_MARK, run_id))
    shutil.rmtree(folder, ignore_errors=True)


def _made(folder: str) -> list[str]:
    """Make a folder and those above it; which of them were not there."""
    missing = []
    path = folder
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for path in reversed(missing):
        os.mkdir(path, 0o700)
    return missing[::-1]
