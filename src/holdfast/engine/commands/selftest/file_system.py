"""Checks a folder's file system, its free space, and its clock."""

import os
import re
import time
from collections.abc import Callable
from typing import NamedTuple

from holdfast.engine.commands.selftest.base import SelftestFinding, doubt, fails, holds

_MOUNT_TABLE = "/proc/self/mountinfo"
_MEMORY_FILE_SYSTEMS = frozenset({"tmpfs", "ramfs", "devtmpfs"})
_NETWORK_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "lustre", "glusterfs", "virtiofs"}
)
_FUSE_NETWORK_FILE_SYSTEMS = frozenset({"fuse.sshfs", "fuse.glusterfs", "fuse.ceph-fuse", "fuse.s3fs", "fuse.rclone"})
_NO_BARRIER_OPTIONS = frozenset({"nobarrier", "barrier=0"})
_MEBI = 1024 * 1024
_LOW_SPACE_BYTES, _MIN_SPACE_BYTES = 1024 * _MEBI, 64 * _MEBI
_LOW_INODES, _MIN_INODES = 20_000, 1_000  # inodes
_EARLIEST_TIME_S = 1_767_225_600  # seconds: 2026-01-01, before this was written; an earlier clock is wrong
_MAX_CLOCK_SKEW_S = 5.0  # seconds


class Mount(NamedTuple):
    kind: str
    source: str
    point: str
    options: frozenset[str]


def mount_of(folder: str, table: str) -> Mount:
    """Return the mount of a folder from the kernel's mount table."""
    real = os.path.realpath(folder)
    found = None
    for row in table.splitlines():
        left, _, right = row.partition(" - ")
        fields, (kind, source, more) = left.split(), right.split(" ", 2)
        point = _unescape(fields[4])
        if f"{real}/".startswith(f"{point.rstrip('/')}/") and (found is None or len(point) >= len(found.point)):
            found = Mount(kind, _unescape(source), point, frozenset((*fields[5].split(","), *more.split(","))))
    assert found is not None, "everything is below the root"
    return found


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)


def check_file_system(folder: str, *, table: str | None = None) -> SelftestFinding:
    """Check the kind of the file system and its mount options."""
    if table is None:
        with open(_MOUNT_TABLE, encoding="utf-8", errors="surrogateescape") as file:
            table = file.read()
    mount = mount_of(folder, table)
    what = f"{mount.kind} ({mount.source}) at {mount.point}"
    careless = mount.options & _NO_BARRIER_OPTIONS
    if mount.kind in _MEMORY_FILE_SYSTEMS:
        return fails(
            f"{what}: in memory. A kill is survived, a reboot or a power cut takes everything",
            "set HOLDFAST_HOME to a folder on a disk",
        )
    if careless:
        return fails(
            f"{what}, mounted with {', '.join(careless)}: a power cut may take what was synced",
            "mount it without that option",
        )
    if mount.kind in _NETWORK_FILE_SYSTEMS | _FUSE_NETWORK_FILE_SYSTEMS:
        return doubt(
            f"{what}: over the network. What is synced, and who holds a lock, is up to its server",
            "prefer a local disk; let one machine at a time work in a home",
        )
    if mount.kind == "overlay":
        return doubt(
            f"{what}: a container's own layer, which goes when the container does",
            "set HOLDFAST_HOME to a volume that stays",
        )
    return holds(what)


def check_free_space(folder: str, *, statvfs: Callable[[str], os.statvfs_result] = os.statvfs) -> SelftestFinding:
    """Check free space and free inodes for a user who is not root."""
    seen = statvfs(folder)
    space, inodes = seen.f_bavail * seen.f_frsize, seen.f_favail
    counted = seen.f_files > 0  # some file systems create inodes on demand
    what = f"{_format_size(space)} free" + (f", {inodes:,} inodes" if counted else "")
    if space < _MIN_SPACE_BYTES or (counted and inodes < _MIN_INODES):
        return fails(what, "make room: a full disk stops every run (and loses nothing)")
    if space < _LOW_SPACE_BYTES or (counted and inodes < _LOW_INODES):
        return doubt(what, "each task of a run has a worktree: make room for as many checkouts as agents work at once")
    return holds(what)


def _format_size(number: int) -> str:
    return f"{number / _MEBI / 1024:.1f} GiB" if number >= 1024 * _MEBI else f"{number / _MEBI:.0f} MiB"


def check_clock(folder: str, *, now: Callable[[], float] = time.time) -> SelftestFinding:
    """Check that the clock is not in the past, and that the file system has the same one."""
    path = os.path.join(folder, "clock")
    before = now()
    with open(path, "wb") as file:
        file.write(b"now")
    apart = abs(os.stat(path).st_mtime - before)
    system_time = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(before))
    if before < _EARLIEST_TIME_S:
        return fails(f"it says {system_time}, which is past", "set the clock; events and commits carry its time")
    if apart > _MAX_CLOCK_SKEW_S:
        return doubt(
            f"it says {system_time}; the file system's is {apart:.0f} s away", "synchronise the two machines' clocks"
        )
    return holds(system_time)
