"""File access for the agent's tools, limited to its worktree whatever a path or a symbolic link says.

A path is resolved first and must lie inside. Then it is opened without following a link.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from holdfast.agents.acp.replace_file import FileMetadata, replace_file
from holdfast.leaf.files.contained import open_parent_folder

_OPEN_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # do not block on a pipe

MAX_FILE_BYTES = 16 * 1024 * 1024  # more than a model can use, little enough to hold in memory


class ToolRefused(Exception):
    """A tool must not or cannot do this. The message is for the model."""


class WorktreeFiles:
    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root)

    def resolve(self, path: str) -> str:
        """Return the real, absolute path of a name given by the model, which may not exist yet."""
        if "\0" in path:
            raise ToolRefused("a path cannot contain a NUL character")
        real = os.path.realpath(os.path.join(self.root, path or "."))
        if real != self.root and not real.startswith(self.root.rstrip("/") + "/"):
            raise ToolRefused(f"{path} is outside the worktree {self.root}; only files inside it can be used")
        return real

    def relative_path(self, real: str) -> str:
        return os.path.relpath(real, self.root)

    def read(self, path: str) -> bytes:
        real = self.resolve(path)
        with (
            self._open_parent(real) as (folder, name),
            os.fdopen(os.open(name, _OPEN_FLAGS, dir_fd=folder), "rb") as file,
        ):
            return self._read_content(file, path)

    def write(self, path: str, data: bytes) -> bytes | None:
        """Write a file atomically. Returns its previous content."""
        real = self.resolve(path)
        if ".git" in self.relative_path(real).split("/"):
            raise ToolRefused(f"{path} belongs to git; use git commands to change it")
        with self._open_parent(real, create=True) as (folder, name):
            try:
                fd = os.open(name, _OPEN_FLAGS, dir_fd=folder)
            except FileNotFoundError:
                replace_file(folder, name, data)
                return None
            with os.fdopen(fd, "rb") as file:
                before = self._read_content(file, path)
                replace_file(folder, name, data, FileMetadata.read(fd, with_owner=False))
        return before

    def walk(self, path: str) -> Iterator[tuple[str, list[str]]]:
        """Yield the folders under a path with their files, sorted; follows no link and skips `.git`."""
        top = self.resolve(path)
        for folder, folders, files in os.walk(top, followlinks=False):
            folders[:] = sorted(name for name in folders if name != ".git")
            yield folder, sorted(files)

    @contextmanager
    def _open_parent(self, real: str, *, create: bool = False) -> Iterator[tuple[int, str]]:
        if real == self.root:
            raise ToolRefused(f"{real} is the worktree itself, not a file in it")
        try:
            with open_parent_folder(self.root, real, make=create) as found:
                yield found
        except OSError as error:
            if isinstance(error, FileNotFoundError):
                raise
            if error.errno == errno.ELOOP:
                raise ToolRefused(f"{real} became a symbolic link while it was opened; nothing was done") from error
            raise ToolRefused(f"{real}: {error.strerror}") from error

    def _read_content(self, file: BinaryIO, path: str) -> bytes:
        about = os.fstat(file.fileno())
        if stat.S_ISDIR(about.st_mode):
            raise ToolRefused(f"{path} is a folder; use glob to list it")
        if not stat.S_ISREG(about.st_mode):
            raise ToolRefused(f"{path} is not a regular file")
        if about.st_size > MAX_FILE_BYTES:
            raise ToolRefused(
                f"{path} has {about.st_size} bytes, more than the {MAX_FILE_BYTES} that can be read at once"
            )
        return file.read(MAX_FILE_BYTES + 1)
