"""Files that a repository supplies: task lists, workflows, prompts, preferences, settings.

A cloned repository may contain a link to any file of the user. Such a link is not followed, because the content of
these files goes to agents and into the log. A file outside of any repository is the user's own; its links are followed.
"""

import os

from holdfast.leaf.errors import BadInput, Denied
from holdfast.leaf.files.contained import read_prefix

_PACKAGE_FOLDER = os.path.join(os.path.abspath(__file__).rpartition(f"{os.sep}leaf{os.sep}")[0], "")


def repository_root(path: str) -> str | None:
    """The nearest folder at or above a path that has a `.git`, without resolving links; None when there is none."""
    folder = os.path.abspath(path)
    while not os.path.lexists(os.path.join(folder, ".git")):
        folder, below = os.path.dirname(folder), folder
        if folder == below:
            return None
    return folder


def read_repository_file(path: str, max_bytes: int) -> bytes:
    """The first `max_bytes` bytes. `OSError` when unreadable, `BadInput` when a link leads out of the repository."""
    absolute = os.path.abspath(path)
    root = None if absolute.startswith(_PACKAGE_FOLDER) else repository_root(os.path.dirname(absolute))
    if root is None:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:  # do not block on a pipe
            return file.read(max_bytes) or b""
    if not _is_below(root, absolute):
        raise BadInput(
            f"{path} leads out of the repository {root}, to {os.path.realpath(path)}; Holdfast does not follow links "
            "out of a repository. Copy the file into the repository, or give its real path"
        )
    try:
        return read_prefix(root, absolute, max_bytes)[0]
    except Denied as error:
        raise BadInput(str(error)) from None


def _is_below(root: str, path: str) -> bool:
    prefix = os.path.join(os.path.realpath(root), "")
    return os.path.realpath(path).startswith(prefix)
