"""File descriptor markers: open files that identify a process even after it cleared its environment.

Also tells whether any process has a file open.
"""

import fcntl
import os
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import NamedTuple

from holdfast.leaf.process.identity import ProcessIdentity, identify
from holdfast.leaf.process.proc import PROCESS_NOT_VISIBLE, pids, proc_dirs

# Higher than the descriptors that node uses itself, and unlike numbers in scripts: `flock -n 200 ... 200>lock` would
# close it, and bash uses 255.
_MIN_FD = 317

_FD_INFO_BYTES = 1024
_ACCESS = stat.S_IRUSR | stat.S_IWUSR

_FdInfo = dict[bytes, bytes]  # /proc/<pid>/fdinfo: answered by the kernel alone, without asking a file server


class _FileIdentity(NamedTuple):
    inode_line: bytes  # of its /proc/<pid>/fdinfo; empty on older kernels, which do not report it
    stat: os.stat_result


@contextmanager
def marker_fds(path: str | None, mark: str = "") -> Iterator[tuple[int, ...]]:
    """A descriptor for a child to inherit, by which `processes_holding` finds it; empty when `path` is None."""
    if path is None:
        yield ()
        return
    fd = open_marker_fd(path, mark)
    try:
        yield (fd,)
    finally:
        os.close(fd)


def open_marker_fd(path: str, mark: str = "") -> int:
    """Open the file for writing, at an offset that stands for the mark. No reader does that, and children inherit both.

    The descriptor's number is high, because some agents close low descriptors in their children.
    """
    with ExitStack() as stack:
        low = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        stack.callback(os.close, low)
        os.lseek(low, _mark_offset(mark), os.SEEK_SET)
        try:
            return fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, _MIN_FD)
        except OSError:  # above the limit of open files
            return os.dup(low)


def processes_holding(
    path: str | None, mark: str | None = None, candidates: Iterable[int] | None = None
) -> list[ProcessIdentity]:
    """Every process that holds this marker or inherited it; with `mark`, only those of that mark.

    A reader of the file, such as the user's `tail`, does not count. Empty when there is no file.
    """
    return [*iter_processes_holding(path, mark, candidates)]


def iter_processes_holding(
    path: str | None, mark: str | None = None, candidates: Iterable[int] | None = None
) -> Iterator[ProcessIdentity]:
    """Like `processes_holding`, but yields each process at once: by the end of the scan it may have been replaced.

    The descriptor is checked again after the process is identified, because its pid may have been reused in between.
    """
    file = _identify_file(path)
    if file is None:
        return
    offset = None if mark is None else _mark_offset(mark)

    def is_marker(info: _FdInfo) -> bool:
        return int(info[b"flags"], 8) & os.O_ACCMODE == os.O_WRONLY and offset in (None, int(info[b"pos"]))

    find = _write_only_descriptors if _links_show_access() else _descriptors
    for pid in pids() if candidates is None else candidates:
        if _has_open(pid, file, is_marker, find):
            process = identify(pid)
            if process is not None and _has_open(pid, file, is_marker):
                yield process


def is_open_in_any_process(path: str) -> bool:
    """Whether any process has this file open, other than with O_PATH as this module does."""
    file = _identify_file(path)
    return file is not None and any(_has_open(pid, file, _is_real_open) for pid in pids())


def _identify_file(path: str | None) -> _FileIdentity | None:
    if path is None:
        return None
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        inode = _parse_fd_info(_read_fd_info("/proc/self", str(fd))).get(b"ino")
        return _FileIdentity(b"" if inode is None else b"\nino:%s" % inode, os.fstat(fd))
    finally:
        os.close(fd)


def _is_real_open(info: _FdInfo) -> bool:
    return not int(info[b"flags"], 8) & os.O_PATH


def _links_show_access() -> bool:
    """Whether the mode of a link in /proc/<pid>/fd is that of the descriptor. So it is on Linux, but not on gVisor."""
    fd = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    try:
        return _is_write_only(f"/proc/self/fd/{fd}")
    finally:
        os.close(fd)


def _is_write_only(link: str) -> bool:
    """The kernel alone answers, and with one call: a scan asks for every descriptor of every process."""
    return os.lstat(link).st_mode & _ACCESS == stat.S_IWUSR


def _has_open(
    pid: int,
    file: _FileIdentity,
    matches: Callable[[_FdInfo], bool],
    find: Callable[[int], Iterable[tuple[str, str]]] | None = None,
) -> bool:
    return any(_refers_to(proc_dir, fd, file, matches) for proc_dir, fd in (find or _descriptors)(pid))


def _write_only_descriptors(pid: int) -> Iterator[tuple[str, str]]:
    for proc_dir, fd in _descriptors(pid):
        try:
            if _is_write_only(f"{proc_dir}/fd/{fd}"):
                yield proc_dir, fd
        except PROCESS_NOT_VISIBLE:  # closed meanwhile
            continue


def _descriptors(pid: int) -> list[tuple[str, str]]:
    """The open descriptors of a process, each with the /proc folder that lists it."""
    for proc_dir in proc_dirs(pid):
        with suppress(*PROCESS_NOT_VISIBLE):
            if names := os.listdir(f"{proc_dir}/fd"):
                return [(proc_dir, name) for name in names]
    return []


def _refers_to(proc_dir: str, fd: str, file: _FileIdentity, matches: Callable[[_FdInfo], bool]) -> bool:
    """Whether a descriptor is of the file. Only the same inode number is stat()ed: others may hang on a dead server.

    Older kernels do not report the inode number; there, every descriptor that matches is checked with stat(). A scan
    looks at every descriptor of every process, so only the few with that line are parsed.
    """
    with suppress(*PROCESS_NOT_VISIBLE):  # closed meanwhile; the other descriptors still count
        content = _read_fd_info(proc_dir, fd)
        if file.inode_line in content and matches(_parse_fd_info(content)):
            with suppress(OSError):
                return os.path.samestat(os.stat(f"{proc_dir}/fd/{fd}"), file.stat)
    return False


def _read_fd_info(proc_dir: str, fd: str) -> bytes:
    """Return its first lines, which say what it is; the descriptor of a watcher has many more."""
    file = os.open(f"{proc_dir}/fdinfo/{fd}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(file, _FD_INFO_BYTES)
    finally:
        os.close(file)


def _parse_fd_info(content: bytes) -> _FdInfo:
    return {name: value for name, _, value in (line.partition(b":") for line in content.splitlines(keepends=True))}


def _mark_offset(mark: str) -> int:
    return zlib.crc32(os.fsencode(mark)) >> 1
