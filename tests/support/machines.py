"""Machines of a cluster that share a store: each has its own home, with its own mirrors and worktrees.

The store is the files store, so that tests of what lies between machines need no server. Its lease ends with its
process: a test that needs two owners at once keeps the late one's parts after its lease was released.
"""

import os

from holdfast.engine.home import Home
from holdfast.store.files.index import FileIndex
from holdfast.store.files.store import FileStore


class Machine(Home):
    """One machine: `Home` with its folders, over a store that all of them share."""

    def __init__(self, folder: str, name: str) -> None:
        super().__init__(os.path.join(folder, name))
        shared = os.path.join(folder, "shared")
        self._index = FileIndex(shared)
        self._store = FileStore(shared)
