"""The catalog: an index of runs and of what was said in them, so that listing them opens no log.

Everything in it is derived. A run's row is as old as the log was when it was made (its inode, size and time
say so); a row that is behind is made anew by whoever lists. A catalog that is missing, of another version or
damaged is thrown away and begun again.

Imports as little as it can: listing runs must start as fast as Python does.
"""

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from holdfast.store.layout import LOG, catalog_file, runs_folder

_VERSION = 1
_SCHEMA = (
    """CREATE TABLE runs (
        id TEXT PRIMARY KEY, inode INTEGER, size INTEGER, mtime INTEGER, said_until INTEGER,
        slug TEXT, goal TEXT, workflow TEXT, repo TEXT, condition TEXT, created TEXT, updated TEXT,
        sessions INTEGER, events INTEGER, tasks_done INTEGER, tasks INTEGER, tokens INTEGER, dollars REAL
    ) WITHOUT ROWID""",
    "CREATE VIRTUAL TABLE said USING fts5 (text, run UNINDEXED, position UNINDEXED, speaker UNINDEXED)",
    f"PRAGMA user_version = {_VERSION}",
)


class Stamp(NamedTuple):
    """Which state of a log a row tells of."""

    inode: int
    size: int
    mtime: int


class Summary(NamedTuple):
    """One run in one row. `condition` is what the log says: open, or how its last session ended."""

    slug: str | None
    goal: str | None
    workflow: str | None
    repo: str | None
    condition: str
    created: str | None
    updated: str | None
    sessions: int
    events: int
    tasks_done: int
    tasks: int
    tokens: int
    dollars: float


class Row(NamedTuple):
    id: str
    stamp: Stamp
    said_until: int
    summary: Summary


class Said(NamedTuple):
    position: int
    speaker: str
    text: str


class Hit(NamedTuple):
    run: str
    position: int
    speaker: str
    excerpt: str


class Listing(NamedTuple):
    """The rows that are up to date, and the runs whose rows are not (with the row they have, if any)."""

    rows: list[Row]
    behind: dict[str, Row | None]


class Catalog:
    def __init__(self, home: str) -> None:
        self._home = home
        self._path = catalog_file(home)

    def listing(self) -> Listing:
        with self._open() as db:
            known = {row.id: row for row in map(_row, db.execute("SELECT * FROM runs"))}
        rows: list[Row] = []
        behind: dict[str, Row | None] = {}
        for run_id, stamp in stamps(self._home):
            row = known.pop(run_id, None)
            if row is not None and row.stamp == stamp:
                rows.append(row)
            else:
                behind[run_id] = row
        if known:
            self.forget(known)
        return Listing(rows, behind)

    def put(self, row: Row, said: Sequence[Said] = (), *, anew: bool = False) -> None:
        """Store a row and what was newly said. `anew` drops what was said before: the log is not the same."""
        with self._open() as db:
            if anew:
                db.execute("DELETE FROM said WHERE run = ?", (row.id,))
            db.executemany(
                "INSERT INTO said (text, run, position, speaker) VALUES (?, ?, ?, ?)",
                [(text, row.id, position, speaker) for position, speaker, text in said],
            )
            values = (row.id, *row.stamp, row.said_until, *row.summary)
            db.execute(f"INSERT OR REPLACE INTO runs VALUES ({','.join('?' * len(values))})", values)  # noqa: S608 - only marks

    def forget(self, run_ids: Iterable[str]) -> None:
        gone = [(run_id,) for run_id in run_ids]
        with self._open() as db:
            db.executemany("DELETE FROM runs WHERE id = ?", gone)
            db.executemany("DELETE FROM said WHERE run = ?", gone)

    def search(self, words: str, most: int = 50) -> list[Hit]:
        """The messages that contain all these words, best first."""
        quoted = " ".join('"' + word.replace('"', '""') + '"' for word in words.split())
        if not quoted:
            return []
        with self._open() as db:
            found = db.execute(
                "SELECT run, position, speaker, snippet(said, 0, '[', ']', '…', 12) FROM said"
                " WHERE said MATCH ? ORDER BY rank LIMIT ?",
                (quoted, most),
            )
            return [Hit(*row) for row in found]

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A connection inside one transaction."""
        try:
            db = self._connect()
        except sqlite3.DatabaseError:
            self._throw_away()
            db = self._connect()
        try:
            with db:
                yield db
        except sqlite3.DatabaseError as error:
            if _is_damage(error):
                self._throw_away()
            raise
        finally:
            db.close()

    def _connect(self) -> sqlite3.Connection:
        try:
            os.makedirs(self._home, mode=0o700, exist_ok=True)
            return _prepared(sqlite3.connect(self._path, timeout=10))
        except (sqlite3.OperationalError, OSError):  # read-only, or full: do without, and lose only time
            return _prepared(sqlite3.connect(":memory:"))

    def _throw_away(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.unlink(self._path + suffix)


def _prepared(db: sqlite3.Connection) -> sqlite3.Connection:
    try:
        if _version(db) == 0:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("BEGIN IMMEDIATE")
            if _version(db) == 0:  # nobody else made the tables meanwhile
                for statement in _SCHEMA:
                    db.execute(statement)
            db.commit()
        _must_be_current(db)
        db.execute("PRAGMA synchronous = NORMAL")
    except BaseException:
        db.close()
        raise
    return db


def _must_be_current(db: sqlite3.Connection) -> None:
    if _version(db) != _VERSION:
        raise sqlite3.DatabaseError("a catalog of another version")


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    return type(error) is sqlite3.DatabaseError


def stamps(home: str) -> Iterator[tuple[str, Stamp]]:
    """Every run there is, with the state its log is in."""
    folder = runs_folder(home)
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return
    for name in names:
        with suppress(FileNotFoundError, NotADirectoryError):
            yield name, stamp_of(f"{folder}/{name}/{LOG}")


def stamp_of(log: str) -> Stamp:
    status = os.stat(log)
    return Stamp(status.st_ino, status.st_size, status.st_mtime_ns)


def _row(values: Sequence[object]) -> Row:
    return Row(values[0], Stamp(*values[1:4]), values[4], Summary(*values[5:]))  # type: ignore[arg-type]
