"""The runs there are, from the catalog. Opens a log only where the catalog is behind.

Imports as little as it can: `holdfast ls` must start as fast as Python does.
"""

from __future__ import annotations

from holdfast.engine.places import is_owned
from holdfast.leaf.rows import NamedTuple
from holdfast.store.files.catalog import Catalog, SearchHit, Summary, query_catalog

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_OPEN, _RUNNING, _INTERRUPTED = "open", "running", "interrupted"  # RunStatus, whose enum takes long to load


class ListedRun(NamedTuple):
    """`status` is what a person wants to know: running, interrupted, empty, or how it ended."""

    id: str
    status: str
    summary: Summary


def list_runs(home: str) -> list[ListedRun]:
    """Every run, the one that moved last first."""
    runs = query_catalog(home, lambda catalog: _current_summaries(home, catalog))
    runs.sort(key=lambda run: (run[1].updated or "", run[0]), reverse=True)
    return [
        ListedRun._make((run_id, _run_status(home, run_id, summary.condition), summary)) for run_id, summary in runs
    ]


def search_messages(home: str, query: str) -> list[SearchHit]:
    """Messages that contain these words, in any run, best first."""

    def found(catalog: Catalog) -> list[SearchHit]:
        _current_summaries(home, catalog)
        return catalog.search(query)

    return query_catalog(home, found)


def _current_summaries(home: str, catalog: Catalog) -> list[tuple[str, Summary]]:
    """What the catalog says of each run, after the rows that were behind have been made anew."""
    current, behind = catalog.listing(home)
    if not behind:
        return current
    from holdfast.engine.queries.catalog import index_runs  # noqa: PLC0415 - costs more than all the rest of a listing

    return current + [(row.id, row.summary) for row in index_runs(home, catalog, behind)]


def _run_status(home: str, run_id: str, condition: str) -> str:
    return condition if condition != _OPEN else status_of(condition, lambda: is_owned(home, run_id))


def status_of(condition: str, owned: Callable[[], bool]) -> str:
    """How a run stands, in one word, the same in every command. Who owns it is asked only where it matters."""
    if condition != _OPEN:
        return condition
    return _RUNNING if owned() else _INTERRUPTED
