"""One HOLDFAST_HOME: its store, its index of runs, its folders, and the user's config file.

Every command and query takes a `Home`. Only this module names a store backend, so another backend is one new folder in
`holdfast.store` and a line here. Imports as little as possible: `holdfast ls` must start as fast as Python.
"""

from __future__ import annotations

import errno
import os

from holdfast.leaf.errors import BadInput, NoSuchRun, StorageFailed
from holdfast.store.files.index import FileIndex
from holdfast.store.files.layout import LOG, default_home, run_folder, runs_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.store.base import Store
    from holdfast.store.files.staging import Stage
    from holdfast.store.index import RunIndex

__all__ = ["LOG", "Home"]

_ID_SUFFIX_CHARS = 7  # "-" and the six characters that make a slug an id
_MAX_IDS_SHOWN = 8  # in one line


class Home:
    """The folder `path`, or by default the user's: `$HOLDFAST_HOME`, else `holdfast` in the XDG data directory.

    Creating a `Home` reads nothing and creates nothing. Its functions block only for as long as listing a folder takes.
    """

    __slots__ = ("_store", "index", "path")

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = default_home() if path is None else os.path.abspath(path)
        self.index: RunIndex = FileIndex(self.path)
        self._store: Store | None = None

    def __fspath__(self) -> str:
        return self.path

    def __str__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        return f"Home({self.path!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Home) and self.path == other.path

    def __hash__(self) -> int:
        return hash(self.path)

    @property
    def store(self) -> Store:
        """The store of the runs. One for each `Home`: the kernel allows few file watchers, each for many files."""
        if self._store is None:
            from holdfast.store.files.store import FileStore  # noqa: PLC0415 - slow to import, and `ls` does without

            self._store = FileStore(self.path)
        return self._store

    def new_stage(self) -> Stage:
        """Create a place to write a run out of sight; `publish` makes it a run of this home at once."""
        from holdfast.store.files.staging import Stage  # noqa: PLC0415 - slow to import, and `ls` does without

        return Stage.create(self.path)

    def abandoned_stages(self) -> Iterator[Stage]:
        """Yield what killed commands left of such runs."""
        from holdfast.store.files.staging import abandoned_stages  # noqa: PLC0415 - as above

        return abandoned_stages(self.path)

    @property
    def runs_folder(self) -> str:
        return runs_folder(self.path)

    @property
    def config_file(self) -> str:
        """The user's config file: `$HOLDFAST_CONFIG`, else `holdfast/config.toml` in the XDG config directory."""
        if named := os.environ.get("HOLDFAST_CONFIG"):
            return os.path.abspath(named)
        folder = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
        return os.path.join(folder, "holdfast", "config.toml")

    def check_writable(self) -> None:
        """Raise `BadInput` if the path is no folder and cannot become one, `StorageFailed` if it cannot be written."""
        path = self.path
        while not os.path.lexists(path) and path != os.path.dirname(path):
            path = os.path.dirname(path)
        advice = "set HOLDFAST_HOME to a writable folder"
        if not os.path.isdir(path):
            raise BadInput(f"runs cannot be kept in {self.path}: {path} is not a folder; {advice}")
        if not os.access(path, os.W_OK | os.X_OK):
            raise StorageFailed(f"runs cannot be kept in {self.path}: {path}: {os.strerror(errno.EACCES)}; {advice}")

    def file(self, *names: str) -> str:
        """Return the path of a file of the home itself, such as the agents' measurements."""
        return os.path.join(self.path, *names)

    def folder(self, run_id: str) -> str:
        """Return the run's folder on this machine: its worktrees, artifacts and trash are there with any backend."""
        return run_folder(self.path, run_id)

    def log_path(self, run_id: str) -> str:
        return f"{self.folder(run_id)}/{LOG}"

    def run_ids(self) -> list[str]:
        """Return the ids of all runs, sorted."""
        return self.index.run_ids()

    def is_owned(self, run_id: str) -> bool:
        """True when a process works on the run now."""
        return self.index.is_owned(run_id)

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
        raise NoSuchRun(f"there is no run {name!r} under {self.path}; `holdfast ls` lists them")

    def run_id_at(self, path: str) -> str | None:
        """Return the run whose folder or log is at a path; None when the path is neither."""
        if not os.path.exists(path):
            return None
        real = os.path.realpath(path)
        folder = os.path.dirname(real) if os.path.basename(real) == LOG else real
        if os.path.dirname(folder) != os.path.realpath(self.runs_folder):
            return None
        return os.path.basename(folder) if os.path.exists(os.path.join(folder, LOG)) else None


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
