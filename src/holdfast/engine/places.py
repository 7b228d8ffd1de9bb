"""Where things are, and whether somebody is there: for the shells above, which do not know the store."""

import os

from holdfast.store.files.layout import LOCK, LOG, default_home, run_folder, runs_folder
from holdfast.store.files.lock import is_held

__all__ = ["LOG", "default_home", "is_owned", "log_path", "run_id_at"]


def log_path(home: str, run_id: str) -> str:
    return os.path.join(run_folder(home, run_id), LOG)


def is_owned(home: str, run_id: str) -> bool:
    return is_held(f"{run_folder(home, run_id)}/{LOCK}")


def run_id_at(home: str, path: str) -> str | None:
    """The run whose folder, or whose log, a path is; None when it is neither."""
    if not os.path.exists(path):
        return None
    real = os.path.realpath(path)
    folder = os.path.dirname(real) if os.path.basename(real) == LOG else real
    if os.path.dirname(folder) != os.path.realpath(runs_folder(home)):
        return None
    return os.path.basename(folder) if os.path.exists(os.path.join(folder, LOG)) else None
