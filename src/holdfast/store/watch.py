"""Being told when a file changes, by the kernel: one inotify instance a watcher, however many files and readers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from inotify_simple import INotify, flags

from holdfast.leaf.errors import StorageFailed

_CHANGES = flags.MODIFY | flags.ATTRIB | flags.DELETE_SELF | flags.MOVE_SELF
_ENTRIES = flags.CREATE | flags.MOVED_TO  # of a folder


class Watcher:
    """Open while somebody watches; holds nothing when nobody does."""

    def __init__(self) -> None:
        self._inotify: INotify | None = None
        self._waiting: dict[int, set[asyncio.Event]] = {}

    @asynccontextmanager
    async def changes(self, path: str, changed: asyncio.Event | None = None) -> AsyncIterator[asyncio.Event]:
        """An event that is set at every change of the file, or of an entry of the folder. The caller clears it.

        Whoever watches many brings one for all of them.
        """
        changed = changed or asyncio.Event()
        inotify = self._opened()
        try:
            watch = inotify.add_watch(path, _CHANGES | _ENTRIES)
        except OSError as error:
            self._close_if_idle()
            raise StorageFailed(f"cannot watch {path}: {error.strerror}") from error
        self._waiting.setdefault(watch, set()).add(changed)
        try:
            yield changed
        finally:
            self._forget(watch, changed)

    def _opened(self) -> INotify:
        if self._inotify is None:
            try:
                self._inotify = INotify(nonblocking=True)
            except OSError as error:
                raise StorageFailed(
                    f"cannot watch files: {error.strerror}; raise fs.inotify.max_user_instances"
                ) from error
            asyncio.get_running_loop().add_reader(self._inotify.fileno(), self._wake)
        return self._inotify

    def _wake(self) -> None:
        assert self._inotify is not None
        for event in self._inotify.read(timeout=0):
            overflowed = event.mask & flags.Q_OVERFLOW  # the kernel lost count: any file may have changed
            watches = list(self._waiting) if overflowed else [event.wd]
            for watch in watches:
                for changed in self._waiting.get(watch, ()):
                    changed.set()

    def _forget(self, watch: int, changed: asyncio.Event) -> None:
        readers = self._waiting[watch]
        readers.discard(changed)
        if not readers:
            del self._waiting[watch]
            try:
                assert self._inotify is not None
                self._inotify.rm_watch(watch)
            except OSError:
                pass  # the file is gone, and its watch with it
        self._close_if_idle()

    def _close_if_idle(self) -> None:
        if self._inotify is not None and not self._waiting:
            asyncio.get_running_loop().remove_reader(self._inotify.fileno())
            self._inotify.close()
            self._inotify = None
