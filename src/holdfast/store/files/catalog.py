"""The catalog: an index of runs and of what was said in them, so that listing them opens no log.

Everything in it is derived. A run's row is as old as the log was when it was made (its inode, size and time
say so); a row that is behind is made anew by whoever lists. A catalog that is damaged, or of another version, is
thrown away and begun again; one that cannot be used now (read-only, locked, a full disk) is done without.

Imports as little as it can: listing runs must start as fast as Python does.
"""

from __future__ import annotations

import os

from holdfast.leaf.rows import NamedTuple
from holdfast.store.files.layout import LOG, catalog_file, runs_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any, Self, TypeVar

    T = TypeVar("T")
else:
    try:
        import _sqlite3 as sqlite3  # what `sqlite3` is made of, without its dates, which take longer to load than it
    except ImportError:
        import sqlite3

_VERSION = 3
_PATIENCE = 2.0  # seconds to wait for others who write: each needs milliseconds
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)  # the last: not our tables
_SCHEMA = (
    """CREATE TABLE runs (
        id TEXT PRIMARY KEY, inode INTEGER, size INTEGER, mtime INTEGER, said_until INTEGER,
        slug TEXT, goal TEXT, workflow TEXT, repo TEXT, condition TEXT, created TEXT, updated TEXT,
        sessions INTEGER, events INTEGER, tasks_done INTEGER, tasks INTEGER, tokens INTEGER, dollars REAL,
        unpriced INTEGER, needs INTEGER, want TEXT, need TEXT
    ) WITHOUT ROWID""",
    "CREATE VIRTUAL TABLE said USING fts5 (text, run UNINDEXED, position UNINDEXED, speaker UNINDEXED)",
    f"PRAGMA user_version = {_VERSION}",
)


class Stamp(NamedTuple):
    """Which state of a log a row tells of."""

    inode: int
    size: int
    mtime: int


UNKNOWN = Stamp(0, 0, 0)
"""Of a log that cannot be looked at."""


class Summary(NamedTuple):
    """One run in one row. `condition` is what the log says: open, or how its last session ended.

    `dollars` is None when no agent told a cost; `unpriced` is how many conversations it lacks, whose agents tell none.
    `needs` is how much of it wants a person; `want` and `need` are the kind of the first, and its words.
    """

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
    dollars: float | None
    unpriced: int
    needs: int
    want: str | None
    need: str | None


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
    """What is known of the runs whose rows are up to date, and those whose rows are not (with the row they have)."""

    current: list[tuple[str, Summary]]
    behind: dict[str, Row | None]


def ask(home: str, question: Callable[[Catalog], T]) -> T:
    """The answer of the catalog; of one in memory, made for this question alone, where the file is of no use."""
    if os.path.isdir(home):
        try:
            with Catalog(catalog_file(home)) as catalog:
                return question(catalog)
        except (sqlite3.Error, OSError) as error:
            if _is_damage(error):
                _throw_away(catalog_file(home))
    with Catalog(":memory:") as catalog:
        return question(catalog)


class Catalog:
    """One open catalog: a context, for it has to be closed."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._db = _opened(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def listing(self, home: str) -> Listing:
        known = {values[0]: values for values in self._db.execute("SELECT * FROM runs")}
        current: list[tuple[str, Summary]] = []
        behind: dict[str, Row | None] = {}
        for run_id, stamp in stamps(home):
            values = known.pop(run_id, None)
            if values is not None and values[1:4] == stamp:
                current.append((run_id, Summary._make(values[5:])))
            else:
                behind[run_id] = _row(values) if values is not None else None
        if known:
            self.forget(known)
        return Listing(current, behind)

    def put(self, row: Row, said: Sequence[Said] = (), *, old: Row | None = None, anew: bool = False) -> None:
        """Store a row and what was said since the `old` one. `anew`: what was said before it is not in the log.

        When the row is no longer the old one, somebody else was faster: theirs stays.
        """
        with _Writing(self._db) as db:
            if next(map(_row, db.execute("SELECT * FROM runs WHERE id = ?", (row.id,))), None) != old:
                return
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
        with _Writing(self._db) as db:
            db.executemany("DELETE FROM runs WHERE id = ?", gone)
            db.executemany("DELETE FROM said WHERE run = ?", gone)

    def search(self, words: str, most: int = 50) -> list[Hit]:
        """The messages that contain all these words, best first."""
        typed = words.encode(errors="replace").decode().replace("\0", " ")
        quoted = " ".join('"' + word.replace('"', '""') + '"' for word in typed.split())
        if not quoted:
            return []
        found = self._db.execute(
            "SELECT run, position, speaker, snippet(said, 0, '[', ']', '…', 12) FROM said"
            " WHERE said MATCH ? ORDER BY rank LIMIT ?",
            (quoted, most),
        )
        return [Hit(*row) for row in found]


class _Writing:
    """All of it, or nothing."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def __enter__(self) -> sqlite3.Connection:
        self._db.execute("BEGIN IMMEDIATE")
        return self._db

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._db.execute("COMMIT" if kind is None else "ROLLBACK")


def _opened(path: str) -> sqlite3.Connection:
    try:
        return _prepared(_connected(path))
    except sqlite3.Error as error:
        if not _is_damage(error):
            raise
        _throw_away(path)
        return _prepared(_connected(path))


def _connected(path: str) -> sqlite3.Connection:
    if path != ":memory:":  # it holds what was said: for nobody else to read
        os.close(os.open(path, os.O_RDONLY | os.O_CREAT, 0o600))
    return sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)


def _prepared(db: sqlite3.Connection) -> sqlite3.Connection:
    try:
        if _version(db) == 0:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("BEGIN IMMEDIATE")
            if _version(db) == 0:  # nobody else made the tables meanwhile
                for statement in _SCHEMA:
                    db.execute(statement)
            db.execute("COMMIT")
        _must_be_current(db)
        db.execute("PRAGMA synchronous = NORMAL")
    except BaseException:
        db.close()
        raise
    return db


class _OfAnotherVersion(sqlite3.DatabaseError):
    pass


def _must_be_current(db: sqlite3.Connection) -> None:
    if _version(db) != _VERSION:
        raise _OfAnotherVersion


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _is_damage(error: Exception) -> bool:
    """True when waiting, or another user, would not help."""
    code = getattr(error, "sqlite_errorcode", None)
    return isinstance(error, _OfAnotherVersion) or (code is not None and code & 0xFF in _DAMAGE)


def _throw_away(path: str) -> None:
    for suffix in ("-wal", "-shm", ""):
        try:
            os.unlink(path + suffix)
        except OSError:
            continue


def stamps(home: str) -> Iterator[tuple[str, tuple[int, int, int]]]:
    """Every run there is, with the state its log is in."""
    try:
        folder = os.open(runs_folder(home), os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return
    try:
        for name in os.listdir(folder):
            try:
                status = os.stat(f"{name}/{LOG}", dir_fd=folder)
                yield name, (status.st_ino, status.st_size, status.st_mtime_ns)
            except (FileNotFoundError, NotADirectoryError):
                continue  # no run
            except OSError:
                yield name, UNKNOWN
    finally:
        os.close(folder)


def stamp_of(log: str) -> Stamp:
    status = os.stat(log)
    return Stamp(status.st_ino, status.st_size, status.st_mtime_ns)


def _row(values: Sequence[Any]) -> Row:
    return Row._make((values[0], Stamp._make(values[1:4]), values[4], Summary._make(values[5:])))
