"""A temporary folder for the checks on the file system under test.

Its name shows its owner. The next selftest deletes what a killed one left, with its processes.
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
_FOLDER_PATTERN = re.compile(rf"{_NAME}-[0-9a-f]{{8}}-\d+-\d+")  # no other name is touched
_HOME_VARIABLE = "HOLDFAST_HOME"
_ABANDONED_AFTER_S = 3600.0  # seconds: longer than any selftest on another machine that shares this folder


def home_path(folder: str) -> str:
    return os.path.join(folder, "home")


def marker_environment(folder: str) -> Mapping[str, str]:
    """Return the environment marker by which processes started for a run or an agent are found."""
    return {_HOME_VARIABLE: home_path(folder)}


@contextmanager
def temporary_folder(parent: str) -> Iterator[str]:
    """Create a temporary folder in `parent`, and `parent` too if absent; delete both afterwards."""
    created = _create_folders(parent)
    me = own_identity()
    folder = os.path.join(parent, f"{_NAME}-{me.boot_id[:8]}-{me.pid}-{me.start_time}")
    try:
        delete_abandoned(parent)
        os.mkdir(folder, 0o700)
        yield folder
    finally:
        _remove(folder)
        for path in reversed(created):
            with suppress(OSError):
                os.rmdir(path)


def delete_abandoned(parent: str) -> None:
    """Delete what dead selftests left."""
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
    """Kill runners first: they would start other processes."""
    kill_processes(marked_processes(_HOME_VARIABLE, home_path(folder)))
    for run_id in Home(home_path(folder)).run_ids():
        kill_processes(marked_processes(RUN_MARK, run_id))
    shutil.rmtree(folder, ignore_errors=True)


def _create_folders(folder: str) -> list[str]:
    """Create a folder and its parents. Returns those that did not exist."""
    missing = []
    path = folder
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for path in reversed(missing):
        os.mkdir(path, 0o700)
    return missing[::-1]
