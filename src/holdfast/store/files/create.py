"""Creates a run's folder, completely or not at all, and deletes what a killed creation left.

The log is created last: a folder without a log is not a run. Creating and deleting hold a lock on the inbox, so that
they exclude each other.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from holdfast.leaf.failpoints import Failpoint, failpoint_pair
from holdfast.leaf.files.directories import sync_directory
from holdfast.store.files.layout import INBOX, LOG, has_log, runs_folder

_FAILPOINT, _FAILPOINT_WITHOUT_LOG = failpoint_pair("run.make"), Failpoint("run.make.begun")


def create_run_folder(folder: str) -> None:
    """Create an empty run, durably; raises `FileExistsError`."""
    try:
        _FAILPOINT.before()
        with suppress(FileExistsError):  # an earlier attempt may have been killed
            os.mkdir(folder, 0o700)
        with _lock_inbox(folder, os.O_CREAT):
            _FAILPOINT_WITHOUT_LOG()
            _make_log(folder)
        _FAILPOINT.after()
    except FileExistsError:
        raise
    except OSError:
        delete_incomplete(folder)
        raise


def incomplete_run_folders(home: str) -> list[str]:
    """Return the folders of runs whose creation was interrupted. They contain no data."""
    try:
        with os.scandir(runs_folder(home)) as entries:
            folders = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
            return sorted(filter(_is_incomplete, folders))
    except FileNotFoundError:
        return []


def delete_incomplete(folder: str) -> None:
    """Delete the folder of a run whose creation was interrupted; does nothing to any other folder."""
    with suppress(OSError), _lock_inbox(folder):
        if _is_incomplete(folder):
            os.unlink(os.path.join(folder, INBOX))
    with suppress(OSError):  # it is not empty
        os.rmdir(folder)
        sync_directory(os.path.dirname(folder))


def _make_log(folder: str) -> None:
    if has_log(folder):
        raise FileExistsError(f"{folder} has a log")
    log = os.path.join(folder, LOG)
    os.close(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        sync_directory(folder)
        sync_directory(os.path.dirname(folder))
    except OSError:
        os.unlink(log)
        raise


def _is_incomplete(folder: str) -> bool:
    try:
        names = os.listdir(folder)
        return not names or (names == [INBOX] and not os.path.getsize(os.path.join(folder, INBOX)))
    except OSError:
        return False


@contextmanager
def _lock_inbox(folder: str, extra_flags: int = 0) -> Iterator[None]:
    fd = os.open(os.path.join(folder, INBOX), os.O_RDWR | os.O_CLOEXEC | extra_flags, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FileExistsError("another process is creating or deleting it") from None
        if not os.fstat(fd).st_nlink:
            raise FileNotFoundError("another process has just deleted it")
        yield
    finally:
        os.close(fd)
