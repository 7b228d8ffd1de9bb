"""Reads refs, HEAD and commits from the files of a repository, without starting git.

A task asks for the same few refs dozens of times, and starting git for each costs more than all else that git does for
it. Only plain files are read here. Whatever git might see differently raises `AskGit`: a symbolic ref, a torn file, a
repository with reftables, a packed or replaced commit, a file that the disk does not give.
"""

import errno
import hashlib
import os
import re
import stat
import zlib
from typing import NamedTuple

MAX_COMMIT_BYTES = 1024 * 1024
_MAX_HEAD_BYTES = 4096
_MAX_FILE_BYTES = 64 * 1024 * 1024  # packed-refs can be large

_REF_NAME = re.compile(r"refs(/[A-Za-z0-9_]([A-Za-z0-9_+-]|\.(?=[A-Za-z0-9_+-]))*)+")
_LOCK_SUFFIX = ".lock"
_PLAIN_REF = re.compile(rb"([0-9a-f]{40}|[0-9a-f]{64})\n")
_BRANCH_HEAD = "ref: refs/heads/"
_OBJECT_ID = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")
_OBJECT_ID_BYTES = re.compile(rb"[0-9a-f]{40}|[0-9a-f]{64}")
_GLOB = re.compile(r"[*?\[\\]")
_REPLACEMENTS = "refs/replace/"
_ABSENT_ERRNOS = (errno.ENOENT, errno.ENOTDIR)
_HASHES = {40: hashlib.sha1, 64: hashlib.sha256}
_GITLINK_MODE_BYTES = b"\x00\x00\xe0\x00"  # in an index entry: another repository's commit
_INDEX_EXTENSIONS = (b"link", b"sdir")  # a split or a sparse index: entries are elsewhere


class AskGit(Exception):
    """The files alone do not answer the question."""


class CommitObject(NamedTuple):
    tree: str
    parents: tuple[str, ...]
    message: bytes


def read_ref(common_dir: str, name: str) -> str | None:
    """Return the object id that a ref holds; None when there is no such ref."""
    if _REF_NAME.fullmatch(name) is None or name.endswith(_LOCK_SUFFIX) or _has_reftables(common_dir):
        raise AskGit
    loose = _read_plain_file(os.path.join(common_dir, name))
    if loose is None:  # git too reads the packed refs last: a ref moves there before its file is deleted
        packed = _read_packed(common_dir, name)
        if packed is None and not _is_repository(common_dir):
            raise AskGit
        return packed
    if _PLAIN_REF.fullmatch(loose) is None:
        raise AskGit
    return loose[:-1].decode()


def has_no_refs(common_dir: str, pattern: str) -> bool:
    """True when certainly no ref matches a pattern of `git for-each-ref`. False says nothing."""
    literal = _GLOB.split(pattern, maxsplit=1)[0]
    if not literal.startswith("refs/") or _has_reftables(common_dir):
        return False
    folder, start = os.path.split(os.path.join(common_dir, literal))
    try:
        names = os.listdir(folder)
    except OSError as error:
        if error.errno not in _ABSENT_ERRNOS:
            return False
        names = []
    try:
        is_packed = f" {literal}".encode() in _packed(common_dir)
    except AskGit:
        return False
    return not is_packed and not any(name.startswith(start) for name in names) and _is_repository(common_dir)


def read_head(git_dir: str) -> str:
    """Return what HEAD of a worktree names: a branch's full ref, or a commit."""
    content = os.fsdecode(_read_plain_file(os.path.join(git_dir, "HEAD")) or b"")
    target = content.removesuffix("\n").removeprefix("ref: ")
    is_branch = content.startswith(_BRANCH_HEAD) and _REF_NAME.fullmatch(target) is not None
    if not content.endswith("\n") or not (is_branch or _OBJECT_ID.fullmatch(content[:-1])):
        raise AskGit
    return target


def read_commit(common_dir: str, oid: str) -> CommitObject:
    """Return a commit that is in a file of its own, after a check against its id."""
    if _OBJECT_ID.fullmatch(oid) is None or _changes_history(common_dir):
        raise AskGit
    compressed = _read_plain_file(os.path.join(common_dir, "objects", oid[:2], oid[2:]))
    if compressed is None:
        raise AskGit
    inflate = zlib.decompressobj()
    try:
        content = inflate.decompress(compressed, MAX_COMMIT_BYTES)
    except zlib.error:
        raise AskGit from None
    header, _, body = content.partition(b"\0")
    is_whole = inflate.eof and _HASHES[len(oid)](content).hexdigest() == oid
    if not is_whole or not header.startswith(b"commit "):
        raise AskGit
    lines, _, message = body.partition(b"\n\n")
    fields = [line.partition(b" ") for line in lines.split(b"\n")]
    trees = [value.decode() for name, _, value in fields if name == b"tree"]
    return CommitObject(trees[0], tuple(value.decode() for name, _, value in fields if name == b"parent"), message)


def may_have_gitlinks(git_dir: str) -> bool:
    """False when certainly no entry of the index is another repository's commit."""
    try:
        with open(os.path.join(git_dir, "index"), "rb") as file:
            content = file.read()
    except OSError:
        return True
    return any(mark in content for mark in (_GITLINK_MODE_BYTES, *_INDEX_EXTENSIONS))


def has_checkout(common_dir: str, branch: str) -> bool:
    """False when certainly no HEAD of the repository names the branch, and git keeps none elsewhere."""
    if _has_reftables(common_dir) or not _is_repository(common_dir):
        return True
    named, plain = f"ref: refs/heads/{branch}\n".encode(), _BRANCH_HEAD.encode()
    folder = os.path.join(common_dir, "worktrees")
    try:
        entries = [f"{folder}/{name}" for name in os.listdir(folder)]
    except (FileNotFoundError, NotADirectoryError):
        entries = []
    for git_dir in (common_dir, *entries):
        try:
            head = _read_start(f"{git_dir}/HEAD")
        except (FileNotFoundError, NotADirectoryError):  # half an entry, or one that was removed just now
            continue
        except OSError:
            return True
        if head == named or not (head.startswith(plain) or _PLAIN_REF.fullmatch(head)):
            return True
    return False


def _read_start(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(fd, _MAX_HEAD_BYTES)
    finally:
        os.close(fd)


def _is_repository(common_dir: str) -> bool:
    """False when the repository itself is missing, as on a disk that is not mounted: then no ref is known to be."""
    return os.path.lexists(os.path.join(common_dir, "HEAD"))


def _has_reftables(common_dir: str) -> bool:
    return os.path.lexists(os.path.join(common_dir, "reftable"))


def _changes_history(common_dir: str) -> bool:
    """True when git may show other commits than the objects: replaced, grafted, or cut off in a shallow clone."""
    files = (os.path.join(common_dir, "info", "grafts"), os.path.join(common_dir, "shallow"))
    return any(map(os.path.lexists, files)) or not has_no_refs(common_dir, _REPLACEMENTS)


def _read_packed(common_dir: str, name: str) -> str | None:
    before, found, _ = _packed(common_dir).partition(f" {name}\n".encode())
    if not found:
        return None
    oid = before.rpartition(b"\n")[2]
    if _OBJECT_ID_BYTES.fullmatch(oid) is None:
        raise AskGit
    return oid.decode()


def _packed(common_dir: str) -> bytes:
    content = _read_plain_file(os.path.join(common_dir, "packed-refs"))
    if content and (not content.endswith(b"\n") or b"\0" in content):
        raise AskGit
    return content or b""


def _read_plain_file(path: str) -> bytes | None:
    """Return the content of a file; None when there is none. Follows no link: git takes one for a symbolic ref."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno not in _ABSENT_ERRNOS:
            raise AskGit from error
        return None
    try:
        info = os.fstat(fd)
        if stat.S_ISDIR(info.st_mode):
            return None
        if not stat.S_ISREG(info.st_mode) or info.st_size > _MAX_FILE_BYTES:
            raise AskGit
        content = os.read(fd, info.st_size + 1)
        if len(content) != info.st_size:
            raise AskGit
        return content
    except OSError as error:
        raise AskGit from error
    finally:
        os.close(fd)
