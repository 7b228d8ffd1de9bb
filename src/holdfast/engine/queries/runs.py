"""The runs of a home, from the catalog: a log is opened only when it has changed.

Imports as little as possible: `holdfast ls` must start as fast as Python.
"""

from __future__ import annotations

from holdfast.leaf.rows import NamedTuple
from holdfast.store.index import SearchHit, Summary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holdfast.engine.home import Home
    from holdfast.store.index import Catalog

    Progress = Callable[[int, int], None]  # how many are done, of how many

__all__ = ["ListedRun", "SearchHit", "Summary", "current_runs", "list_runs", "search_messages", "status_of"]

_OPEN, _RUNNING, _INTERRUPTED = "open", "running", "interrupted"  # RunStatus, whose enum takes long to load


_CONDITION = Summary._fields.index("condition")  # by its index it is quicker, and a listing has thousands


class ListedRun(NamedTuple):
    """`status` is what a person wants to know: running, interrupted, empty, or how it ended."""

    id: str
    status: str
    summary: Summary


def current_runs(home: Home) -> list[ListedRun] | None:
    """Like `list_runs`, but blocks and needs no event loop; None when the catalog is outdated (await `list_runs`)."""
    current, stale = home.index.query(lambda catalog: catalog.listing())
    return None if stale else _newest_first(home, current)


async def list_runs(home: Home, repo: str | None = None, progress: Progress | None = None) -> list[ListedRun]:
    """Return all runs, or those of one repository, the most recently active first.

    Reports how many of the outdated runs are read.
    """

    async def update(catalog: Catalog) -> list[ListedRun]:
        return _newest_first(home, await _update_catalog(home, catalog, repo, progress))

    return await home.index.update(update)


async def search_messages(home: Home, query: str) -> list[SearchHit]:
    """Return the messages of any run that contain these words, best first."""

    async def search(catalog: Catalog) -> list[SearchHit]:
        await _update_catalog(home, catalog)
        return catalog.search(query)

    return await home.index.update(search)


async def _update_catalog(
    home: Home, catalog: Catalog, repo: str | None = None, progress: Progress | None = None
) -> list[tuple[str, Summary]]:
    from holdfast.engine.queries.catalog import update_catalog  # noqa: PLC0415 - slower than all the rest of a listing

    return await update_catalog(home, catalog, repo, progress)


def _newest_first(home: Home, runs: Iterable[tuple[str, Summary]]) -> list[ListedRun]:
    ordered = sorted(runs, key=lambda run: (run[1].updated or "", run[0]), reverse=True)
    still_open = [run_id for run_id, summary in ordered if summary.condition == _OPEN]
    owned = home.index.owned(still_open)
    statuses = {run_id: status_of(_OPEN, lambda: run_id in owned) for run_id in still_open}  # noqa: B023 - called here
    return [
        ListedRun._make((run_id, statuses.get(run_id) or summary[_CONDITION], summary)) for run_id, summary in ordered
    ]


def status_of(condition: str, owned: Callable[[], bool]) -> str:
    """Return a run's status in one word, the same in every command. Calls `owned` only when it matters."""
    if condition != _OPEN:
        return condition
    return _RUNNING if owned() else _INTERRUPTED
