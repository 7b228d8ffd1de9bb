"""The identity of this machine in cluster runs. It outlives reboots; two homes on one host are two machines."""

import os
from contextlib import suppress

from holdfast.engine.home import Home
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.leaf.files.disk import make_directories
from holdfast.leaf.ids import new_sid

_FILE = "machine-id"
_FAILPOINT = failpoint_pair("machine.name")


def machine_id(home: Home) -> str:
    """Return the id of this machine; the first call in a home creates it."""
    path = home.file(_FILE)
    with suppress(FileNotFoundError):
        return _read(path)
    make_directories(home.path)
    temporary = f"{path}.{os.getpid()}.tmp"
    _FAILPOINT.before()
    with open(temporary, "w", encoding="ascii") as file:
        file.write(new_sid())
        file.flush()
        os.fsync(file.fileno())
    with suppress(FileExistsError):  # another process was faster, and its id counts
        os.link(temporary, path)
    os.unlink(temporary)
    _FAILPOINT.after()
    return _read(path)


def _read(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read().strip()
