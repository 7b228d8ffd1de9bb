"""What git keeps about each worktree in the repository itself: `worktrees/NAME`, its entry.

A killed git leaves one half written; and several runs make and drop theirs at once, under names that git chooses.
"""

import errno
import hashlib
import os
import re
import shutil
from contextlib import suppress

from holdfast.leaf.failpoints import Point
from holdfast.leaf.files.directories import is_there, sync_directory
from holdfast.leaf.process.identity import at_work_in

FOLDER = "gitdir"  # in an entry: the file that names the worktree's folder
LOCKED = "locked"  # in an entry: keeps git from pruning it, and says why

_PIECE = 1024 * 1024  # bytes
_NO_SUCH_FILE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENXIO)

_CRASH_MOVED, _CRASH_NAMELESS = Point("entry.drop.moved"), Point("entry.drop.nameless")


def entries_of(common_dir: str, path: str) -> list[str]:
    """The entries of the worktree at `path`, whole or not: what names it, or has its name and names none.

    The latter is of a git that was killed over it. While it is locked, git never prunes it. Raises where one by its
    name cannot be read just now: it may be another run's. One that another user keeps to themselves is theirs.
    """
    buried, real = _buried(common_dir, path), os.path.realpath(path)
    like_ours = re.compile(re.escape(os.path.basename(path)) + "[0-9]*")
    found, nameless = [], []
    for entry in _all(common_dir):
        has_its_name = like_ours.fullmatch(os.path.basename(entry)) is not None and not _is_kept_from_us(entry)
        named = _folder_of(entry) if has_its_name else _folder_if_known(entry)
        if entry == buried or (named is not None and os.path.realpath(named) == real):
            found.append(entry)
        elif named is None and has_its_name:
            nameless.append(entry)
    if nameless and any(at_work_in(folder, "git") for folder in folders_of(common_dir)):
        return found  # it could be making one of the same name right now
    return found + [entry for entry in nameless if os.path.isdir(entry) and _folder_of(entry) is None]  # still


def drop_entries(common_dir: str, path: str) -> None:
    """Drop the entry of a worktree whose folder is gone. Other entries are not ours to prune.

    Not by `git worktree`: it stops at an entry that was cut off half written. It gets a name first by which nobody but
    us takes it for theirs; then what names the folder goes, without which git does not list it.
    """
    if not is_there(path):
        for entry in entries_of(common_dir, path):
            where = _out_of_sight(entry, _buried(common_dir, path))
            _CRASH_MOVED()
            for name in (LOCKED, FOLDER):
                with suppress(FileNotFoundError):
                    os.unlink(os.path.join(where, name))
            _CRASH_NAMELESS()
            shutil.rmtree(where, ignore_errors=True)
        with suppress(OSError):  # as git does it, with the last
            os.rmdir(_entries(common_dir))


def folders_of(common_dir: str) -> list[str]:
    """Where a git that works on a repository may stand: in it, in its checkout, in any other worktree."""
    worktrees = (_folder_if_known(entry) for entry in _all(common_dir))
    return [common_dir, os.path.dirname(common_dir), *(folder for folder in worktrees if folder is not None)]


def _out_of_sight(entry: str, buried: str) -> str:
    """Where it is deleted: as it stands where the disk does not let us move it."""
    if entry != buried:
        shutil.rmtree(buried, ignore_errors=True)
        try:
            os.rename(entry, buried)
        except FileNotFoundError:
            return buried  # another run had it for its own too: what has the name now is somebody's
        except OSError:
            return entry
        sync_directory(os.path.dirname(buried))  # else it could come back when its folder is deleted by half
    return buried


def _all(common_dir: str) -> list[str]:
    """Git removes the folder of its entries with the last of them, be it while we look."""
    try:
        return [os.path.join(_entries(common_dir), name) for name in os.listdir(_entries(common_dir))]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _entries(common_dir: str) -> str:
    return os.path.join(common_dir, "worktrees")


def _buried(common_dir: str, path: str) -> str:
    """Where the entry of this very worktree is deleted."""
    folder, name = os.path.split(path)
    mark = hashlib.sha256(os.fsencode(os.path.join(os.path.realpath(folder), name))).hexdigest()[:16]
    return os.path.join(_entries(common_dir), f"holdfast-dropped-{mark}")


def _folder_of(entry: str) -> str | None:
    named = pointed_at(os.path.join(entry, FOLDER))
    return os.path.dirname(named) if named is not None else None


def _is_kept_from_us(entry: str) -> bool:
    """Another user's, in a repository that is shared, whose umask lets nobody else look into it."""
    with suppress(OSError):
        return os.lstat(entry).st_uid != os.geteuid() and not os.access(entry, os.R_OK | os.X_OK, effective_ids=True)
    return False


def _folder_if_known(entry: str) -> str | None:
    with suppress(OSError):
        return _folder_of(entry)
    return None


def commondir_of(own: str) -> str | None:
    """The repository of a worktree, by what is in the worktree's own git directory; None when that names none."""
    named = pointed_at(os.path.join(own, "commondir"))
    return os.path.realpath(named) if named is not None else None


def can_be_read(file: str) -> bool:
    """False when there is no such file. Raises where the disk does not give it: of that git says too little."""
    try:
        with open(file, "rb") as opened:
            while opened.read(_PIECE):
                pass
    except OSError as error:
        if error.errno not in _NO_SUCH_FILE:
            raise
        return False
    return True


def pointed_at(file: str, prefix: str = "", *, relative: bool = False) -> str | None:
    """The path that one of git's small files names; None when it names none, or is not such a file.

    Raises where it cannot be read, which tells nothing of what it names.
    """
    try:
        with open(file, "rb") as opened:
            content = os.fsdecode(opened.read()).removesuffix("\n")
    except OSError as error:
        if error.errno not in _NO_SUCH_FILE:
            raise
        return None
    named = content.removeprefix(prefix)
    if not content.startswith(prefix) or not named or "\0" in named:  # with which a power cut fills it
        return None
    return named if relative else os.path.normpath(os.path.join(os.path.dirname(file), named))
