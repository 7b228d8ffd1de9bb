"""The runs there are, from the catalog. Opens a log only where the catalog is behind.

Imports as little as it can: `holdfast ls` must start as fast as Python does.
"""

from typing import NamedTuple

from holdfast.engine.places import is_owned
from holdfast.store.catalog import Catalog, Hit, Row, Summary


class ListedRun(NamedTuple):
    """`status` is what a person wants to know: running, interrupted, empty, or how it ended."""

    id: str
    status: str
    summary: Summary


def list_runs(home: str) -> list[ListedRun]:
    """Every run, the one that moved last first."""
    listed = [ListedRun(row.id, _status(home, row), row.summary) for row in _current(home)]
    return sorted(listed, key=lambda run: (run.summary.updated or "", run.id), reverse=True)


def search_messages(home: str, words: str) -> list[Hit]:
    """Messages that contain these words, in any run, best first."""
    _current(home)
    return Catalog(home).search(words)


def _current(home: str) -> list[Row]:
    """The catalog's rows, after those that were behind have been made anew."""
    catalog = Catalog(home)
    rows, behind = catalog.listing()
    if not behind:
        return rows
    from holdfast.engine.indexing import index_runs  # noqa: PLC0415 - costs more than all the rest of a listing

    return rows + index_runs(home, catalog, behind)


def _status(home: str, row: Row) -> str:
    if row.summary.condition != "open":
        return row.summary.condition
    return "running" if is_owned(home, row.id) else "interrupted"
