"""One HOLDFAST_HOME: its store, its index of runs, its folders, and the user's config file.

Every command and query takes a `Home`. Only this module names a store backend, so another backend is one new folder in
`holdfast.store` and a line here. Imports as little as possible: `holdfast ls` must start as fast as Python.

Runs are kept in files of the home, or in the Postgres database that `HOLDFAST_STORE` or the setting `store` names. Then
the home still has the folders of the runs that work on this machine.
"""

from __future__ import annotations

import errno
import os

from holdfast.leaf.errors import BadInput, NoSuchRun, StorageFailed
from holdfast.store.files.index import FileIndex
from holdfast.store.files.layout import COMPRESSED_SUFFIX, LOG, default_home, has_log, log_file, run_folder, runs_folder
from holdfast.store.postgres.address import has_password, is_postgres_url, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from holdfast.store.base import LogCompressor, Stage, Store
    from holdfast.store.files.staging import Stage as FileStage
    from holdfast.store.index import RunIndex
    from holdfast.store.postgres.workers import PostgresWorkers

__all__ = ["LOG", "Home", "log_file", "user_config_file"]

_ID_SUFFIX_CHARS = 7  # "-" and the six characters that make a slug an id
_MAX_IDS_SHOWN = 8  # in one line


_ADVICE = "set HOLDFAST_HOME to a writable folder"
_FILES = "files"  # as HOLDFAST_STORE: in files, whatever the setting says


class Home:
    """The folder `path`, or by default the user's: `$HOLDFAST_HOME`, else `holdfast` in the XDG data directory.

    A folder that is given keeps its runs in files, unless a `store` is given, too. Creating a `Home` reads at most the
    user's config file and creates nothing. Raises `BadInput` if the user's home is a file. Its functions block only for
    as long as listing a folder takes.
    """

    __slots__ = ("_index", "_store", "_workers", "path", "store_url")

    def __init__(self, path: str | os.PathLike[str] | None = None, store: str | None = None) -> None:
        self.path = default_home() if path is None else os.path.abspath(path)
        self.store_url = store or (_chosen_store(self.config_file) if path is None else None)
        self._index: RunIndex | None = None
        self._store: Store | None = None
        self._workers: PostgresWorkers | None = None
        if path is None and not os.path.isdir(self.path):
            self._require_folder()

    def __fspath__(self) -> str:
        return self.path

    def __str__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        return f"Home({self.path!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Home) and (self.path, self.store_url) == (other.path, other.store_url)

    def __hash__(self) -> int:
        return hash((self.path, self.store_url))

    @property
    def environment(self) -> dict[str, str]:
        """The environment with which a process of Holdfast works on this home."""
        return {**os.environ, "HOLDFAST_HOME": self.path, "HOLDFAST_STORE": self.store_url or _FILES}

    @property
    def place(self) -> str:
        """Where the runs are kept, for messages: the folder, or the URL of the database without a password."""
        return self.path if self.store_url is None else shown(self.store_url)

    @property
    def index(self) -> RunIndex:
        if self._index is None:
            if self.store_url is None:
                self._index = FileIndex(self.path)
            else:
                from holdfast.store.postgres.index import PostgresIndex  # noqa: PLC0415 - loads the driver

                self._index = PostgresIndex(self.store_url)
        return self._index

    @property
    def store(self) -> Store:
        """The store of the runs. One for each `Home`: the kernel allows few file watchers, each for many files."""
        if self._store is None:
            if self.store_url is None:
                from holdfast.store.files.store import FileStore  # noqa: PLC0415 - slow to import; `ls` does without

                self._store = FileStore(self.path)
            else:
                from holdfast.store.postgres.store import PostgresStore  # noqa: PLC0415 - loads the driver

                self._store = PostgresStore(self.store_url, self.path)
        return self._store

    def log_compressor(self, run_id: str) -> LogCompressor | None:
        """Return what compresses the log of a run that the caller owns; None when logs are no files."""
        if self.store_url is not None:
            return None
        from holdfast.store.files.compaction import FileLogCompressor  # noqa: PLC0415 - only `prune` needs it

        return FileLogCompressor(f"{self.folder(run_id)}/{LOG}")

    @property
    def workers(self) -> PostgresWorkers:
        """The workers of the cluster whose database keeps the runs."""
        if self.store_url is None:
            raise BadInput("workers are listed in a database; set HOLDFAST_STORE=postgresql://…")
        if self._workers is None:
            from holdfast.store.postgres.workers import PostgresWorkers  # noqa: PLC0415 - loads the driver

            self._workers = PostgresWorkers(self.store_url)
        return self._workers

    @property
    def lease_s(self) -> float:
        """How long a run has an owner that does not renew its lease. Runs in files have one while it lives."""
        if self.store_url is None:
            return float("inf")
        from holdfast.store.postgres.lease import chosen_ttl_s  # noqa: PLC0415 - loads the driver

        return chosen_ttl_s()

    def new_stage(self) -> Stage:
        """Create a place to write a run out of sight; `publish` makes it a run of this home at once."""
        from holdfast.store.files.staging import Stage  # noqa: PLC0415 - slow to import, and `ls` does without

        return self._published_here(Stage.create(self.path))

    def abandoned_stages(self) -> Iterator[Stage]:
        """Yield what killed commands left of such runs."""
        from holdfast.store.files.staging import abandoned_stages  # noqa: PLC0415 - as above

        return map(self._published_here, abandoned_stages(self.path))

    def _published_here(self, stage: FileStage) -> Stage:
        if self.store_url is None:
            return stage
        from holdfast.store.postgres.stage import PostgresStage  # noqa: PLC0415 - loads the driver

        return PostgresStage.on(self.store_url, stage)

    def staged_runs(self) -> set[str]:
        """Return the runs that are written out of sight, by a live or a dead process."""
        from holdfast.store.files.staging import staged_runs  # noqa: PLC0415 - as above

        return staged_runs(self.path)

    def publishing(self) -> AbstractContextManager[None]:
        """Let only one process at a time look at the runs and publish a staged one."""
        if self.store_url is not None:
            from holdfast.store.postgres import stage  # noqa: PLC0415 - loads the driver

            return stage.publishing(self.store_url)
        from holdfast.store.files.staging import publishing  # noqa: PLC0415 - as above

        return publishing(self.path)

    @property
    def runs_folder(self) -> str:
        return runs_folder(self.path)

    @property
    def config_file(self) -> str:
        return user_config_file()

    def check_writable(self) -> None:
        """Raise `BadInput` if the path is no folder and cannot become one, `StorageFailed` if it cannot be written."""
        path = self._require_folder()
        if not os.access(path, os.W_OK | os.X_OK):
            raise StorageFailed(f"runs cannot be kept in {self.path}: {path}: {os.strerror(errno.EACCES)}; {_ADVICE}")

    def _require_folder(self) -> str:
        """Return the folder that is there, or the one to create it in. `BadInput` if a file is in its place."""
        path = self.path
        while not os.path.lexists(path) and path != os.path.dirname(path):
            path = os.path.dirname(path)
        if not os.path.isdir(path):
            raise BadInput(f"runs cannot be kept in {self.path}: {path} is not a folder; {_ADVICE}")
        return path

    def file(self, *names: str) -> str:
        """Return the path of a file of the home itself, such as the agents' measurements."""
        return os.path.join(self.path, *names)

    def tombstone_file(self, run_id: str) -> str:
        """Return the path of what is left of a run that a retention rule deleted."""
        return self.file("tombstones", f"{run_id}.json")

    def has_tombstone(self, name: str) -> bool:
        """True for the id of a run that a retention rule deleted."""
        could_be = bool(name) and os.sep not in name and "\0" not in name
        return could_be and os.path.exists(self.tombstone_file(name)) and not self.index.has_run(name)

    def folder(self, run_id: str) -> str:
        """Return the run's folder on this machine: its worktrees, artifacts and trash are there with any backend."""
        return run_folder(self.path, run_id)

    def log_path(self, run_id: str) -> str:
        """Return the file of the run's log; that of an archived run may be compressed."""
        return log_file(self.folder(run_id))

    def run_ids(self) -> list[str]:
        """Return the ids of all runs, sorted."""
        return self.index.run_ids()

    def is_owned(self, run_id: str) -> bool:
        """True when a process works on the run now."""
        return self.index.is_owned(run_id)

    def is_deleted(self, run_id: str) -> bool:
        """True when the run is certainly gone: it could not be read because there is nothing."""
        if self.store_url is not None:
            return not self.index.has_run(run_id)
        from holdfast.leaf.files.directories import is_missing  # noqa: PLC0415 - slow to import, and `ls` does without

        return is_missing(self.folder(run_id))

    def has_worked_here(self, run_id: str) -> bool:
        """True when a session of the run may have been on this machine: it has a folder here, as all runs in files."""
        return self.store_url is None or os.path.isdir(self.folder(run_id))

    def find_run(self, name: str) -> str:
        """Return the id of the run that a person named: by its id, its slug, its given name, or the start of its id.

        Raises `NoSuchRun`, or `BadInput` when the name fits several runs.
        """
        if self.index.has_run(name):
            return name
        ids = self.run_ids()
        slugs = [run_id for run_id in ids if run_id[:-_ID_SUFFIX_CHARS] == name]
        starts = [run_id for run_id in ids if name and run_id.startswith(name)]
        for matches in (slugs, _ids_with_slug_of(ids, name), starts):
            if len(matches) == 1:
                return matches[0]
            if matches:
                raise BadInput(f"{name!r} could be any of {_join_ids(matches)}; type more of its name")
        if self.has_tombstone(name):
            raise NoSuchRun(f"run {name} was deleted by a retention rule; what is left: holdfast show {name}")
        raise NoSuchRun(f"there is no run {name!r} under {self.place}; `holdfast ls` lists them")

    def run_id_at(self, path: str) -> str | None:
        """Return the run whose folder or log is at a path; None when the path is neither."""
        if not os.path.exists(path):
            return None
        real = os.path.realpath(path)
        folder = os.path.dirname(real) if os.path.basename(real).removesuffix(COMPRESSED_SUFFIX) == LOG else real
        if os.path.dirname(folder) != os.path.realpath(self.runs_folder):
            return None
        return os.path.basename(folder) if has_log(folder) else None


def user_config_file() -> str:
    """The user's config file: `$HOLDFAST_CONFIG`, else `holdfast/config.toml` in the XDG config directory."""
    if named := os.environ.get("HOLDFAST_CONFIG"):
        return os.path.abspath(named)
    folder = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(folder, "holdfast", "config.toml")


def _chosen_store(config_file: str) -> str | None:
    """Return the URL in `HOLDFAST_STORE`, else that of the setting `store`; None when runs are kept in files."""
    url = os.environ.get("HOLDFAST_STORE")
    if url == _FILES:
        return None
    if not url:
        url = _store_setting(config_file)
        if url is not None and has_password(url):
            raise BadInput(
                f"{config_file}: store must not contain a password; put it into ~/.pgpass, or set PGPASSWORD"
            )
    if url and not is_postgres_url(url):
        raise BadInput(f"{shown(url)} is not the URL of a store; it looks like postgresql://user@host:5432/database")
    return url or None


def _store_setting(config_file: str) -> str | None:
    try:
        with open(config_file, "rb") as file:
            content = file.read()
    except OSError:
        return None
    if b"store" not in content:  # nearly always: reading TOML takes longer than all the rest
        return None
    import tomllib  # noqa: PLC0415 - as said

    try:
        found = tomllib.loads(content.decode()).get("store")
    except ValueError:
        return None  # reading the settings reports it
    return found if isinstance(found, str) else None


def _ids_with_slug_of(ids: list[str], name: str) -> list[str]:
    """Return the runs whose slug was made from this name: `--name FailB` is found as `FailB`.

    A path, or a name without a letter or digit, finds none: all such names have the same slug.
    """
    from holdfast.leaf.ids import slug_of  # noqa: PLC0415 - slow to import, and `ls` does without

    if os.sep in name or not any(char.isascii() and char.isalnum() for char in name):
        return []
    slug = slug_of(name)
    return [run_id for run_id in ids if run_id[:-_ID_SUFFIX_CHARS] == slug]


def _join_ids(run_ids: list[str]) -> str:
    more = f" and {len(run_ids) - _MAX_IDS_SHOWN} more" if len(run_ids) > _MAX_IDS_SHOWN else ""
    return ", ".join(run_ids[:_MAX_IDS_SHOWN]) + more
