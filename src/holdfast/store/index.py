"""The index of runs, the same for every backend: what listing and finding runs needs, without asyncio.

The catalog in it is derived from the logs: a row remembers the state of the log it was made from (its stamp), and a
listing tells which rows are outdated. Imports as little as possible: listing runs must start as fast as Python.
"""

from __future__ import annotations

from holdfast.leaf.rows import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from typing import Protocol, TypeVar

    T = TypeVar("T")

    class Catalog(Protocol):
        """The summaries of runs and their messages; open only while it is queried."""

        def listing(self) -> CatalogListing: ...

        def listing_of(self, repo: str) -> CatalogListing:
            """Like `listing`, but without the current rows of other repositories."""
            ...

        def put(
            self,
            row: CatalogRow,
            messages: Sequence[IndexedMessage] = (),
            *,
            old: CatalogRow | None = None,
            replace_messages: bool = False,
        ) -> None:
            """Store a row, and the messages since the `old` one; with `replace_messages`, instead of all earlier ones.

            Does nothing when the stored row is not `old` any more: another process was faster.
            """
            ...

        def forget(self, run_ids: Iterable[str]) -> None: ...

        def search(self, query: str, limit: int = 50) -> list[SearchHit]:
            """Return the messages that contain all words of the query, best first."""
            ...

    class RunIndex(Protocol):
        """Every function blocks, for about as long as reading a folder takes."""

        def run_ids(self) -> list[str]: ...

        def has_run(self, run_id: str) -> bool:
            """True for the id of a run. A path is not an id, wherever it leads."""
            ...

        def is_owned(self, run_id: str) -> bool:
            """True when a process owns the run now."""
            ...

        def owned(self, run_ids: Iterable[str]) -> set[str]:
            """Return which of these runs a process owns now."""
            ...

        def describe(self) -> str:
            """Say in one line what keeps the runs. Raises `StorageFailed` when it does not answer."""
            ...

        def stamp(self, run_id: str) -> LogStamp: ...

        def query(self, query: Callable[[Catalog], T]) -> T:
            """Open the catalog and query it; when it cannot be used, query an empty one in memory."""
            ...

        async def update(self, update: Callable[[Catalog], Awaitable[T]]) -> T:
            """The same for a coroutine function, which brings the catalog up to date."""
            ...


class LogStamp(NamedTuple):
    """Identifies the state of a log from which a row was made."""

    inode: int
    size: int
    mtime: int


UNKNOWN_STAMP = LogStamp(0, 0, 0)
"""The stamp of a log that cannot be read."""


class Summary(NamedTuple):
    """One run in one row. `condition` comes from the log: open, or how its last session ended.

    `dollars` is None when no agent reported a cost; `estimate` is what others cost by a table of prices; `unpriced`
    counts the conversations of which neither is known.
    `needs` counts the decisions that wait for a person; `want` and `need` are kind and text of the first.
    Of a parked run that needs no answer, `need` is the reason.
    `adopted` is the tool that began the work, with the path and the id of its session.
    `resumes_at` is when a provider's limit ends for which the run waits.
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
    estimate: float | None
    unpriced: int
    needs: int
    want: str | None
    need: str | None
    adopted: str | None
    adopted_path: str | None
    adopted_session: str | None
    resumes_at: str | None


class CatalogRow(NamedTuple):
    id: str
    stamp: LogStamp
    messages_until: int
    summary: Summary


class IndexedMessage(NamedTuple):
    position: int
    speaker: str
    text: str


class SearchHit(NamedTuple):
    run: str
    position: int
    speaker: str
    excerpt: str


class CatalogListing(NamedTuple):
    """The summaries of runs whose rows are current, and the outdated rows of the others (None without a row)."""

    current: list[tuple[str, Summary]]
    stale: dict[str, CatalogRow | None]


class WorkerRow(NamedTuple):
    """A worker of the cluster, as it described itself last."""

    name: str
    machine: str
    host: str
    version: str
    labels: tuple[str, ...]
    slots: int
    runs: tuple[str, ...]
    is_draining: bool
    seen_s: float  # ago
