"""Being told when a file changes, by the kernel: one inotify instance a watcher, however many files and readers.

A user has only so many of them (128, usually). Who comes when they are given away looks at the file again and again: a
run that is told half a second late is better than one that does not run.
"""

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from errno import EMFILE, ENFILE, ENOSPC

from inotify_simple import INotify, flags

from holdfast.leaf.errors import StorageFailed

_CHANGES = flags.MODIFY | flags.ATTRIB | flags.DELETE_SELF | flags.MOVE_SELF
_ENTRIES = flags.CREATE | flags.MOVED_TO  # of a folder
_GIVEN_AWAY = (EMFILE, ENFILE, ENOSPC)
_LOOK_EVERY = 0.5  # seconds


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
        try:
            watch = self._opened().add_watch(path, _CHANGES | _ENTRIES)
        except OSError as error:
            self._close_if_idle()
            if error.errno not in _GIVEN_AWAY:
                raise StorageFailed(f"cannot watch {path}: {error.strerror}") from error
        else:
            self._waiting.setdefault(watch, set()).add(changed)
            try:
                yield changed
            finally:
                self._forget(watch, changed)
            return
        async with _looked_at(path, changed):
            yield changed

    async def each_change(self, path: str, also: asyncio.Event | None = None) -> AsyncIterator[None]:
        """At once, and after every change of a file, also when another one was put in its place.

        And whenever `also` is set, which this clears.
        """
        while True:
            watched = os.stat(path)
            async with self.changes(path, also) as changed:
                while os.path.samestat(os.stat(path), watched):
                    changed.clear()
                    yield
                    await changed.wait()

    def _opened(self) -> INotify:
        if self._inotify is None:
            self._inotify = INotify(nonblocking=True)
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


@asynccontextmanager
async def _looked_at(path: str, changed: asyncio.Event) -> AsyncIterator[None]:
    looking = asyncio.create_task(_look(path, _seen(path), changed))
    try:
        yield
    finally:
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking


async def _look(path: str, before: tuple[int, ...], changed: asyncio.Event) -> None:
    while True:
        await asyncio.sleep(_LOOK_EVERY)
        now = _seen(path)
        if now != before:
            before = now
            changed.set()


def _seen(path: str) -> tuple[int, ...]:
    try:
        found = os.stat(path)
    except OSError:
        return ()
    seen = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    return (*seen, *_seen_in(path)) if stat.S_ISDIR(found.st_mode) else seen


def _seen_in(folder: str) -> list[int]:
    """The kernel tells of changes of a folder's files, too."""
    with suppress(OSError), os.scandir(folder) as entries:
        return [entry.stat(follow_symlinks=False).st_ctime_ns for entry in entries]
    return []
