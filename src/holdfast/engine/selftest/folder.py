"""A folder for the checks, on the file system in question, and gone when they are over.

Its name tells whose it is: what a killed selftest left is taken away by the next, with the processes that it left.
"""

import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from holdfast.engine.home import Home
from holdfast.leaf.process.env_markers import RUN_MARK, marked_processes
from holdfast.leaf.process.identity import identify, kill_processes, own_identity

_NAME = "selftest"
_FOLDER_PATTERN = re.compile(rf"{_NAME}-[0-9a-f]{{8}}-\d+-\d+")  # nothing else that is called so is touched
_HOME_VARIABLE = "HOLDFAST_HOME"
_ABANDONED_AFTER_S = 3600.0  # seconds: older than any selftest of another machine that shares this folder


def home_path(folder: str) -> str:
    return os.path.join(folder, "home")


def marker_environment(folder: str) -> Mapping[str, str]:
    """In the environment of whatever is started for a run or an agent: by this it is found again."""
    return {_HOME_VARIABLE: home_path(folder)}


@contextmanager
def temporary_folder(parent: str) -> Iterator[str]:
    """A new folder in this one, which is made when it is not there, and then goes again too."""
    made = _create_folders(parent)
    me = own_identity()
    folder = os.path.join(parent, f"{_NAME}-{me.boot_id[:8]}-{me.pid}-{me.start_time}")
    try:
        delete_abandoned(parent)
        os.mkdir(folder, 0o700)
        yield folder
    finally:
        _remove(folder)
        for path in reversed(made):
            with suppress(OSError):
                os.rmdir(path)


def delete_abandoned(parent: str) -> None:
    """Take away what is left of those who are dead."""
    for name in os.listdir(parent):
        if _FOLDER_PATTERN.fullmatch(name) and _is_abandoned(os.path.join(parent, name)):
            _remove(os.path.join(parent, name))


def _is_abandoned(folder: str) -> bool:
    _, boot, pid, start = os.path.basename(folder).split("-")
    if boot != own_identity().boot_id[:8]:
        with suppress(OSError):
            return time.time() - os.stat(folder).st_mtime > _ABANDONED_AFTER_S
    other = identify(int(pid))
    return other is None or str(other.start_time) != start


def _remove(folder: str) -> None:
    """Runners first, who would start others."""
    kill_processes(marked_processes(_HOME_VARIABLE, home_path(folder)))
    for run_id in Home(home_path(folder)).run_ids():
        kill_processes(marked_processes(RUN_MARK, run_id))
    shutil.rmtree(folder, ignore_errors=True)


def _create_folders(folder: str) -> list[str]:
    """Make a folder and those above it; which of them were not there."""
    missing = []
    path = folder
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for path in reversed(missing):
        os.mkdir(path, 0o700)
    return missing[::-1]
