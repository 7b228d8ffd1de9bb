"""Waits for file changes with inotify: one instance per watcher, for any number of files and readers.

The kernel limits the instances of a user (usually 128). When there are none left, the watcher polls: a run that learns
of a change half a second late is better than one that does not start.
"""

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from errno import EMFILE, ENFILE, ENOSPC

from holdfast.leaf.errors import StorageFailed
from holdfast.leaf.files import inotify
from holdfast.leaf.files.inotify import Inotify

_FILE_CHANGES = inotify.MODIFY | inotify.ATTRIB | inotify.DELETE_SELF | inotify.MOVE_SELF
_FOLDER_CHANGES = inotify.CREATE | inotify.MOVED_TO
_WATCH_LIMIT_ERRNOS = (EMFILE, ENFILE, ENOSPC)
_POLL_INTERVAL_S = 0.5


class Watcher:
    """Holds an inotify instance only while there are listeners."""

    def __init__(self) -> None:
        self._inotify: Inotify | None = None
        self._listeners: dict[int, set[asyncio.Event]] = {}

    @asynccontextmanager
    async def changes(self, path: str, changed: asyncio.Event | None = None) -> AsyncIterator[asyncio.Event]:
        """Yield an event that is set at every change of the file, or of an entry of the folder. The caller clears it.

        Pass `changed` to use one event for several paths.
        """
        changed = changed or asyncio.Event()
        try:
            watch = self._open().add_watch(path, _FILE_CHANGES | _FOLDER_CHANGES)
        except OSError as error:
            self._close_if_idle()
            if error.errno not in _WATCH_LIMIT_ERRNOS:
                raise StorageFailed(f"cannot watch {path}: {error.strerror}") from error
        else:
            self._listeners.setdefault(watch, set()).add(changed)
            try:
                yield changed
            finally:
                self._remove_watch(watch, changed)
            return
        async with _polling(path, changed):
            yield changed

    async def each_change(self, path: str, extra: asyncio.Event | None = None) -> AsyncIterator[None]:
        """Yield at once, and after every change of a file, also when another file replaces it.

        Also yields when `extra` is set, and clears it.
        """
        while True:
            watched = os.stat(path)
            async with self.changes(path, extra) as changed:
                while os.path.samestat(os.stat(path), watched):
                    changed.clear()
                    yield
                    await changed.wait()

    def _open(self) -> Inotify:
        if self._inotify is None:
            self._inotify = Inotify()
            asyncio.get_running_loop().add_reader(self._inotify.fileno(), self._notify)
        return self._inotify

    def _notify(self) -> None:
        assert self._inotify is not None
        for watch, mask in self._inotify.read():
            overflowed = mask & inotify.Q_OVERFLOW  # the kernel dropped events: any file may have changed
            for affected in list(self._listeners) if overflowed else [watch]:
                for changed in self._listeners.get(affected, ()):
                    changed.set()

    def _remove_watch(self, watch: int, changed: asyncio.Event) -> None:
        readers = self._listeners[watch]
        readers.discard(changed)
        if not readers:
            del self._listeners[watch]
            try:
                assert self._inotify is not None
                self._inotify.remove_watch(watch)
            except OSError:
                pass  # the watch ended with its file
        self._close_if_idle()

    def _close_if_idle(self) -> None:
        if self._inotify is not None and not self._listeners:
            asyncio.get_running_loop().remove_reader(self._inotify.fileno())
            self._inotify.close()
            self._inotify = None


@asynccontextmanager
async def _polling(path: str, changed: asyncio.Event) -> AsyncIterator[None]:
    poller = asyncio.create_task(_poll(path, _fingerprint(path), changed))
    try:
        yield
    finally:
        poller.cancel()
        with suppress(asyncio.CancelledError):
            await poller


async def _poll(path: str, before: tuple[int, ...], changed: asyncio.Event) -> None:
    while True:
        await asyncio.sleep(_POLL_INTERVAL_S)
        now = _fingerprint(path)
        if now != before:
            before = now
            changed.set()


def _fingerprint(path: str) -> tuple[int, ...]:
    try:
        status = os.stat(path)
    except OSError:
        return ()
    own = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return (*own, *_entry_ctimes(path)) if stat.S_ISDIR(status.st_mode) else own


def _entry_ctimes(folder: str) -> list[int]:
    """Return the ctimes of a folder's files: inotify reports their changes too, so the poller must see them."""
    with suppress(OSError), os.scandir(folder) as entries:
        return [entry.stat(follow_symlinks=False).st_ctime_ns for entry in entries]
    return []
