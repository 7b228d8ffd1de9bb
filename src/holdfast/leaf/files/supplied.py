"""Files that a repository supplies: task lists, workflows, prompts, preferences, settings.

A cloned repository may hold a link that leads to any file of its user. Such a file is not read: what these files say
goes to agents and into the log. A file that lies in no repository is the user's own, and is read wherever it leads.
"""

import os

from holdfast.leaf.errors import BadInput, Denied
from holdfast.leaf.files.contained import read_start

_OURS = os.path.join(os.path.abspath(__file__).rpartition(f"{os.sep}leaf{os.sep}")[0], "")


def repository_root(path: str) -> str | None:
    """The checkout that a path lies in, by its name: the nearest folder above that has a `.git`; None without one."""
    here = os.path.abspath(path)
    while not os.path.lexists(os.path.join(here, ".git")):
        here, below = os.path.dirname(here), here
        if here == below:
            return None
    return here


def read_supplied(path: str, limit: int) -> bytes:
    """The first `limit` bytes. `OSError` when it cannot be read, `BadInput` when a link leads out of its repository."""
    whole = os.path.abspath(path)
    root = None if whole.startswith(_OURS) else repository_root(os.path.dirname(whole))
    if root is None:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:  # a pipe is not waited for
            return file.read(limit) or b""
    if not _is_below(root, whole):
        raise BadInput(
            f"{path} leads out of the repository {root}, to {os.path.realpath(path)}; files of a repository are read "
            "inside it only. Copy it into the repository, or name that file itself"
        )
    try:
        return read_start(root, whole, limit)[0]
    except Denied as error:
        raise BadInput(str(error)) from None


def _is_below(root: str, path: str) -> bool:
    home = os.path.join(os.path.realpath(root), "")
    return os.path.realpath(path).startswith(home)
