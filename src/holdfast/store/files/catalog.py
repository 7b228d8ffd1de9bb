"""The catalog: an index of runs and their messages, so that listing runs opens no log.

Everything in it is derived from the logs. A row stores inode, size and mtime of the log it was made from; a listing
rebuilds rows that are outdated. A catalog that is damaged, or of another version, is deleted and created again; one
that cannot be used now (read-only, locked, full disk) is replaced by one in memory.

Imports as little as possible: listing runs must start as fast as Python.
"""

from __future__ import annotations

import os

from holdfast.store.files.layout import COMPRESSED_SUFFIX, LOG, catalog_file, runs_folder
from holdfast.store.index import UNKNOWN_STAMP, CatalogListing, CatalogRow, IndexedMessage, LogStamp, SearchHit, Summary

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
    from typing import Any, Self, TypeVar

    T = TypeVar("T")
else:
    try:
        import _sqlite3 as sqlite3  # the C part of `sqlite3`, without its date adapters, which load slower
    except ImportError:
        import sqlite3

_VERSION = 7
_BUSY_TIMEOUT_S = 2.0  # for other writers, each of which needs milliseconds
_DAMAGE_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)  # the last: other tables
_SCHEMA = (
    """CREATE TABLE runs (
        id TEXT PRIMARY KEY, inode INTEGER, size INTEGER, mtime INTEGER, said_until INTEGER,
        slug TEXT, goal TEXT, workflow TEXT, repo TEXT, condition TEXT, created TEXT, updated TEXT,
        sessions INTEGER, events INTEGER, tasks_done INTEGER, tasks INTEGER, tokens INTEGER, dollars REAL,
        estimate REAL, unpriced INTEGER, needs INTEGER, want TEXT, need TEXT,
        adopted TEXT, adopted_path TEXT, adopted_session TEXT, resumes_at TEXT
    ) WITHOUT ROWID""",
    "CREATE VIRTUAL TABLE said USING fts5 (text, run UNINDEXED, position UNINDEXED, speaker UNINDEXED)",
    f"PRAGMA user_version = {_VERSION}",
)


def query_catalog(home: str, query: Callable[[Catalog], T]) -> T:
    """Query the catalog; when its file cannot be used, query an empty one in memory."""
    if os.path.isdir(home):
        try:
            with Catalog(home, catalog_file(home)) as catalog:
                return query(catalog)
        except (sqlite3.Error, OSError) as error:
            _delete_if_damaged(home, error)
    with Catalog(home, ":memory:") as catalog:
        return query(catalog)


async def update_catalog(home: str, update: Callable[[Catalog], Awaitable[T]]) -> T:
    """Like `query_catalog`, for a coroutine function. It leaves no transaction open while it waits."""
    if os.path.isdir(home):
        try:
            with Catalog(home, catalog_file(home)) as catalog:
                return await update(catalog)
        except (sqlite3.Error, OSError) as error:
            _delete_if_damaged(home, error)
    with Catalog(home, ":memory:") as catalog:
        return await update(catalog)


def _delete_if_damaged(home: str, error: Exception) -> None:
    if _is_damaged(error):
        _delete_catalog(catalog_file(home))


class Catalog:
    """An open catalog. A context manager, because it must be closed."""

    def __init__(self, home: str, path: str) -> None:
        self._home = home
        self._db = _open(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def listing(self) -> CatalogListing:
        known = {values[0]: values for values in self._db.execute("SELECT * FROM runs")}
        current: list[tuple[str, Summary]] = []
        stale: dict[str, CatalogRow | None] = {}
        for run_id, stamp in log_stamps(self._home):
            values = known.pop(run_id, None)
            if values is not None and values[1:4] == stamp:
                current.append((run_id, Summary._make(values[5:])))
            else:
                stale[run_id] = _parse_row(values) if values is not None else None
        if known:
            self.forget(known)
        return CatalogListing(current, stale)

    def listing_of(self, repo: str) -> CatalogListing:
        """Like `listing`, but without the current rows of other repositories: most of a large home is never read."""
        known = {run_id: stamp for run_id, *stamp in self._db.execute("SELECT id, inode, size, mtime FROM runs")}
        stale = {
            run_id: self._row(run_id) for run_id, stamp in log_stamps(self._home) if known.pop(run_id, None) != [*stamp]
        }
        if known:
            self.forget(known)
        rows = map(_parse_row, self._db.execute("SELECT * FROM runs WHERE repo = ?", (repo,)))
        return CatalogListing([(row.id, row.summary) for row in rows if row.id not in stale], stale)

    def put(
        self,
        row: CatalogRow,
        messages: Sequence[IndexedMessage] = (),
        *,
        old: CatalogRow | None = None,
        replace_messages: bool = False,
    ) -> None:
        """Store a row, and the messages since the `old` one; with `replace_messages`, instead of all earlier messages.

        Does nothing when the stored row is not `old` any more: another process was faster.
        """
        with _Transaction(self._db) as db:
            if self._row(row.id) != old:
                return
            if replace_messages:
                db.execute("DELETE FROM said WHERE run = ?", (row.id,))
            db.executemany(
                "INSERT INTO said (text, run, position, speaker) VALUES (?, ?, ?, ?)",
                [(text, row.id, position, speaker) for position, speaker, text in messages],
            )
            values = (row.id, *row.stamp, row.messages_until, *row.summary)
            db.execute(f"INSERT OR REPLACE INTO runs VALUES ({','.join('?' * len(values))})", values)  # noqa: S608 - only placeholders

    def forget(self, run_ids: Iterable[str]) -> None:
        rows = [(run_id,) for run_id in run_ids]
        with _Transaction(self._db) as db:
            db.executemany("DELETE FROM runs WHERE id = ?", rows)
            db.executemany("DELETE FROM said WHERE run = ?", rows)

    def search(self, query: str, limit: int = 50) -> list[SearchHit]:
        """Return the messages that contain all words of the query, best first."""
        text = query.encode(errors="replace").decode().replace("\0", " ")
        quoted = " ".join('"' + word.replace('"', '""') + '"' for word in text.split())
        if not quoted:
            return []
        found = self._db.execute(
            "SELECT run, position, speaker, snippet(said, 0, '[', ']', '…', 12) FROM said"
            " WHERE said MATCH ? ORDER BY rank LIMIT ?",
            (quoted, limit),
        )
        return [SearchHit(*row) for row in found]

    def _row(self, run_id: str) -> CatalogRow | None:
        return next(map(_parse_row, self._db.execute("SELECT * FROM runs WHERE id = ?", (run_id,))), None)


class _Transaction:
    """Commits, or rolls back when the block raises."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def __enter__(self) -> sqlite3.Connection:
        self._db.execute("BEGIN IMMEDIATE")
        return self._db

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._db.execute("COMMIT" if kind is None else "ROLLBACK")


def _open(path: str) -> sqlite3.Connection:
    try:
        return _prepare(_connect(path))
    except sqlite3.Error as error:
        if not _is_damaged(error):
            raise
        _delete_catalog(path)
        return _prepare(_connect(path))


def _connect(path: str) -> sqlite3.Connection:
    if path != ":memory:":  # it contains messages: only the user may read it
        os.close(os.open(path, os.O_RDONLY | os.O_CREAT, 0o600))
    return sqlite3.connect(path, timeout=_BUSY_TIMEOUT_S, isolation_level=None)


def _prepare(db: sqlite3.Connection) -> sqlite3.Connection:
    try:
        if _version(db) == 0:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("BEGIN IMMEDIATE")
            if _version(db) == 0:  # no other process created the tables meanwhile
                for statement in _SCHEMA:
                    db.execute(statement)
            db.execute("COMMIT")
        _check_version(db)
        db.execute("PRAGMA synchronous = NORMAL")
    except BaseException:
        db.close()
        raise
    return db


class _WrongVersion(sqlite3.DatabaseError):
    pass


def _check_version(db: sqlite3.Connection) -> None:
    if _version(db) != _VERSION:
        raise _WrongVersion


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _is_damaged(error: Exception) -> bool:
    """True when neither waiting nor other permissions would help."""
    code = getattr(error, "sqlite_errorcode", None)
    return isinstance(error, _WrongVersion) or (code is not None and code & 0xFF in _DAMAGE_CODES)


def _delete_catalog(path: str) -> None:
    for suffix in ("-wal", "-shm", ""):
        try:
            os.unlink(path + suffix)
        except OSError:
            continue


def log_stamps(home: str) -> Iterator[tuple[str, tuple[int, int, int]]]:
    """Yield every run with the stamp of its log."""
    try:
        folder = os.open(runs_folder(home), os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return
    try:
        for name in os.listdir(folder):
            for log in (LOG, f"{LOG}{COMPRESSED_SUFFIX}"):
                try:
                    status = os.stat(f"{name}/{log}", dir_fd=folder)
                    yield name, (status.st_ino, status.st_size, status.st_mtime_ns)
                except (FileNotFoundError, NotADirectoryError):
                    continue  # not a run, or its log is compressed
                except OSError:
                    yield name, UNKNOWN_STAMP
                break
    finally:
        os.close(folder)


def stamp_of(log: str) -> LogStamp:
    try:
        status = os.stat(log)
    except FileNotFoundError:
        status = os.stat(f"{log}{COMPRESSED_SUFFIX}")
    return LogStamp(status.st_ino, status.st_size, status.st_mtime_ns)


def _parse_row(values: Sequence[Any]) -> CatalogRow:
    return CatalogRow._make((values[0], LogStamp._make(values[1:4]), values[4], Summary._make(values[5:])))
