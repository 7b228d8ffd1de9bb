"""Making a run's folder: whole, or nothing of it is left; and taking away what a kill left of one.

The log is made last: a folder without one is no run yet. Whoever makes a run, or takes one away, holds its inbox
meanwhile, so that neither happens under the other's hands.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from holdfast.leaf.failpoints import Point, around
from holdfast.leaf.files.directories import sync_directory
from holdfast.store.files.layout import INBOX, LOG, runs_folder

_CRASH, _CRASH_WITHOUT_LOG = around("run.make"), Point("run.make.begun")


def make(folder: str) -> None:
    """An empty run, durably; `FileExistsError` when there is one."""
    try:
        _CRASH.before()
        with suppress(FileExistsError):  # an earlier attempt may have been cut off
            os.mkdir(folder, 0o700)
        with _inbox_held(folder, os.O_CREAT):
            _CRASH_WITHOUT_LOG()
            _make_log(folder)
        _CRASH.after()
    except FileExistsError:
        raise
    except OSError:
        take_away(folder)
        raise


def unmade(home: str) -> list[str]:
    """The folders of runs whose making was cut off. Nothing that anybody wrote is in them."""
    try:
        with os.scandir(runs_folder(home)) as entries:
            return sorted(one.path for one in entries if one.is_dir(follow_symlinks=False) and _is_unmade(one.path))
    except FileNotFoundError:
        return []


def take_away(folder: str) -> None:
    """Delete what is left of a run whose making was cut off; anything else stays."""
    with suppress(OSError), _inbox_held(folder):
        if _is_unmade(folder):
            os.unlink(os.path.join(folder, INBOX))
    with suppress(OSError):  # there is something in it
        os.rmdir(folder)
        sync_directory(os.path.dirname(folder))


def _make_log(folder: str) -> None:
    log = os.path.join(folder, LOG)
    os.close(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        sync_directory(folder)
        sync_directory(os.path.dirname(folder))
    except OSError:
        os.unlink(log)
        raise


def _is_unmade(folder: str) -> bool:
    try:
        names = os.listdir(folder)
        return not names or (names == [INBOX] and not os.path.getsize(os.path.join(folder, INBOX)))
    except OSError:
        return False


@contextmanager
def _inbox_held(folder: str, extra: int = 0) -> Iterator[None]:
    fd = os.open(os.path.join(folder, INBOX), os.O_RDWR | os.O_CLOEXEC | extra, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FileExistsError("somebody else is at it") from None
        if not os.fstat(fd).st_nlink:
            raise FileNotFoundError("it was taken away in this moment")
        yield
    finally:
        os.close(fd)
