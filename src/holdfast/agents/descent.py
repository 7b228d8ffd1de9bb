"""From a folder down to a file, one component after the other, following no link.

A path that was looked at and found to lie inside may lead elsewhere a moment later: who works in the folder can put a
link in the place of any part of it. Opened this way, such a link leads nowhere.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def folder_of(root: str, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """The open folder that a real path below `root` lies in, and the file's name in it."""
    *folders, name = os.path.relpath(path, root).split(os.sep)
    current = os.open(root, _FOLDER)
    try:
        for folder in folders:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(folder, dir_fd=current)
            below = os.open(folder, _FOLDER, dir_fd=current)
            os.close(current)
            current = below
        yield current, name
    finally:
        os.close(current)
