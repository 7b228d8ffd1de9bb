"""Where each person stopped reading: a chat, in the run's folder; all runs, in the home.

What is lost only shows a person too much again.
"""

import os
from contextlib import suppress

from holdfast.engine.home import Home
from holdfast.engine.inbox.deliver import user_name

_PREFIX = "last-seen-"  # followed by the user's name


def last_seen(home: Home, run_id: str) -> int | None:
    """The position in the log up to which this user has seen it; None when it is unknown."""
    try:
        with open(_path(home, run_id), encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def remember_last_seen(home: Home, run_id: str, position: int) -> None:
    """Remember the position. It is not synced: after a power cut, an older one or none is found."""
    _write(_path(home, run_id), str(position))


def visited(home: Home) -> str | None:
    """The moment up to which this user has seen all runs; None when it is unknown."""
    try:
        with open(home.file(_file_name()), encoding="ascii") as file:
            return file.read() or None
    except (OSError, ValueError):
        return None


def remember_visit(home: Home, moment: str) -> None:
    """Remember the moment; not synced either."""
    _write(home.file(_file_name()), moment)


def _write(path: str, text: str) -> None:
    with suppress(OSError):
        with open(f"{path}.{os.getpid()}.tmp", "w", encoding="ascii") as file:
            file.write(text)
        os.replace(f"{path}.{os.getpid()}.tmp", path)


def _path(home: Home, run_id: str) -> str:
    return os.path.join(home.folder(run_id), _file_name())


def _file_name() -> str:
    return _PREFIX + "".join(char if char.isalnum() else "_" for char in user_name())
