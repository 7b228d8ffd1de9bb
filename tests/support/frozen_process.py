"""A process that nobody can kill: it is frozen by the kernel, and dies of its SIGKILL when it thaws."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_FREEZER = Path("/sys/fs/cgroup/freezer")


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    own = _FREEZER / f"holdfast-{secrets.token_hex(4)}"
    if not os.access(_FREEZER, os.W_OK):
        pytest.skip(f"needs root and a freezer of the first kind at {_FREEZER}")
    own.mkdir()
    try:
        _write(own, "cgroup.procs", str(pid))
        _write(own, "freezer.state", "FROZEN")
        yield
    finally:
        _write(own, "freezer.state", "THAWED")
        _write(_FREEZER, "cgroup.procs", *(own / "cgroup.procs").read_text().split())
        own.rmdir()


def _write(folder: Path, name: str, *values: str) -> None:
    for value in values:
        (folder / name).write_text(value)
