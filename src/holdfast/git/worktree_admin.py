"""The entries that git keeps for worktrees in the repository: `worktrees/NAME`.

A killed git leaves an entry half written. Several runs create and drop entries at once, under names that git chooses.
"""

import errno
import hashlib
import os
import re
import shutil
from contextlib import suppress

from holdfast.leaf.failpoints import Failpoint
from holdfast.leaf.files.directories import path_exists, sync_directory
from holdfast.leaf.process.identity import pids_working_in

GITDIR_FILE = "gitdir"  # in an entry: names the worktree's folder
LOCKED_FILE = "locked"  # in an entry: keeps git from pruning it, and gives the reason

_CHUNK_BYTES = 1024 * 1024
_NO_SUCH_FILE_ERRNOS = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENXIO)

_FAILPOINT_MOVED, _FAILPOINT_NAMELESS = Failpoint("entry.drop.moved"), Failpoint("entry.drop.nameless")


def entries_of(common_dir: str, path: str, *, of_any_name: bool = False) -> list[str]:
    """Return the entries of the worktree at `path`: those that point to it, and those with its name that point nowhere.

    A killed git leaves the latter, and never prunes them while they are locked. Raises when an entry with its name
    cannot be read at the moment: it may be another run's. An entry that only another user can read is skipped.

    Reads only entries that git would name after the folder, and the one that the folder itself names: a repository may
    have thousands. `of_any_name` reads all.
    """
    trash_path, real_path = _trash_path(common_dir, path), os.path.realpath(path)
    name_pattern = re.compile(re.escape(os.path.basename(path)) + "[0-9]*")
    found, without_folder = [], []
    for entry in _list_entries(common_dir) if of_any_name else _own_entries(common_dir, path):
        has_its_name = name_pattern.fullmatch(os.path.basename(entry)) is not None and not _is_unreadable(entry)
        folder = _folder_of(entry) if has_its_name else _folder_or_none(entry)
        if entry == trash_path or (folder is not None and os.path.realpath(folder) == real_path):
            found.append(entry)
        elif folder is None and has_its_name:
            without_folder.append(entry)
    if without_folder and pids_working_in("git", *folders_of(common_dir)):
        return found  # that git may be creating an entry of the same name right now
    return found + [entry for entry in without_folder if os.path.isdir(entry) and _folder_of(entry) is None]  # still


def own_entry(common_dir: str, path: str) -> str | None:
    """Return the entry that the folder at `path` names, if the entry names the folder too."""
    with suppress(OSError):
        entry = read_pointer(os.path.join(path, ".git"), "gitdir: ")
        folder = _folder_of(entry) if entry is not None and _is_entry(common_dir, entry) else None
        if folder is not None and os.path.realpath(folder) == os.path.realpath(path):
            return entry
    return None


def drop_entries(common_dir: str, path: str, *, of_any_name: bool = False) -> None:
    """Delete the entry of a worktree whose folder was deleted. Leaves all other entries alone.

    `git worktree` is no help: it fails on an entry that is half written. First the entry gets a name that no other
    run matches; then the file that names the folder is deleted, without which git does not list the entry.
    """
    if not path_exists(path):
        for entry in entries_of(common_dir, path, of_any_name=of_any_name):
            trash = _move_to_trash(entry, _trash_path(common_dir, path))
            _FAILPOINT_MOVED()
            for name in (LOCKED_FILE, GITDIR_FILE):
                with suppress(FileNotFoundError):
                    os.unlink(os.path.join(trash, name))
            _FAILPOINT_NAMELESS()
            shutil.rmtree(trash, ignore_errors=True)
        with suppress(OSError):  # git also deletes the folder with its last entry
            os.rmdir(_entries_folder(common_dir))


def folders_of(common_dir: str) -> list[str]:
    """Return the folders where a git of this repository may run: the repository, its checkout and all worktrees."""
    worktrees = (_folder_or_none(entry) for entry in _list_entries(common_dir))
    return [common_dir, os.path.dirname(common_dir), *(folder for folder in worktrees if folder is not None)]


def _move_to_trash(entry: str, trash_path: str) -> str:
    """Return the path to delete: the trash path, or the entry itself when the disk refuses the move."""
    if entry != trash_path:
        shutil.rmtree(trash_path, ignore_errors=True)
        try:
            os.rename(entry, trash_path)
        except FileNotFoundError:
            return trash_path  # another run dropped it too: an entry that has the name now belongs to another worktree
        except OSError:
            return entry
        sync_directory(os.path.dirname(trash_path))  # else a power cut could bring it back half deleted
    return trash_path


def _list_entries(common_dir: str) -> list[str]:
    return [os.path.join(_entries_folder(common_dir), name) for name in _entry_names(common_dir)]


def _entry_names(common_dir: str) -> list[str]:
    """Git deletes the folder with its last entry, possibly during this call."""
    try:
        return os.listdir(_entries_folder(common_dir))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _own_entries(common_dir: str, path: str) -> list[str]:
    """Git names an entry after its folder, with a number if the name is taken; `link` makes one for `.NAME.link`."""
    name, trash_name = os.path.basename(path), os.path.basename(_trash_path(common_dir, path))
    own_names = re.compile(f"([.-]?{re.escape(name)}[.]link|{re.escape(name)})[0-9]*")
    names = [other for other in _entry_names(common_dir) if name in other or other == trash_name]
    own = [other for other in names if other == trash_name or own_names.fullmatch(other)]
    entries = [os.path.join(_entries_folder(common_dir), other) for other in own]
    named = own_entry(common_dir, path)
    return [*entries, *([named] if named is not None and named not in entries else [])]


def _is_entry(common_dir: str, path: str) -> bool:
    return os.path.realpath(os.path.dirname(path)) == os.path.realpath(_entries_folder(common_dir))


def _entries_folder(common_dir: str) -> str:
    return os.path.join(common_dir, "worktrees")


def _trash_path(common_dir: str, path: str) -> str:
    """Return the path to which the entry of exactly this worktree is moved before it is deleted."""
    folder, name = os.path.split(path)
    digest = hashlib.sha256(os.fsencode(os.path.join(os.path.realpath(folder), name))).hexdigest()[:16]
    return os.path.join(_entries_folder(common_dir), f"holdfast-dropped-{digest}")


def _folder_of(entry: str) -> str | None:
    dot_git = read_pointer(os.path.join(entry, GITDIR_FILE))
    return os.path.dirname(dot_git) if dot_git is not None else None


def _is_unreadable(entry: str) -> bool:
    """True for an entry of another user of a shared repository whose umask denies access to others."""
    with suppress(OSError):
        return os.lstat(entry).st_uid != os.geteuid() and not os.access(entry, os.R_OK | os.X_OK, effective_ids=True)
    return False


def _folder_or_none(entry: str) -> str | None:
    with suppress(OSError):
        return _folder_of(entry)
    return None


def commondir_of(git_dir: str) -> str | None:
    """Return the repository that a worktree's git directory names; None when it names none."""
    common_dir = read_pointer(os.path.join(git_dir, "commondir"))
    return os.path.realpath(common_dir) if common_dir is not None else None


def is_readable(file: str) -> bool:
    """False when there is no such file. Raises on a disk error, which git does not report clearly."""
    try:
        with open(file, "rb") as opened:
            while opened.read(_CHUNK_BYTES):
                pass
    except OSError as error:
        if error.errno not in _NO_SUCH_FILE_ERRNOS:
            raise
        return False
    return True


def read_pointer(file: str, prefix: str = "", *, allow_relative: bool = False) -> str | None:
    """Return the path that one of git's pointer files names; None when it names none, or is not such a file.

    Raises when the file cannot be read: that says nothing about its content.
    """
    try:
        with open(file, "rb") as opened:
            content = os.fsdecode(opened.read()).removesuffix("\n")
    except OSError as error:
        if error.errno not in _NO_SUCH_FILE_ERRNOS:
            raise
        return None
    path = content.removeprefix(prefix)
    if not content.startswith(prefix) or not path or "\0" in path:  # a power cut leaves NUL bytes
        return None
    return path if allow_relative else os.path.normpath(os.path.join(os.path.dirname(file), path))
