"""What is left of a run that a retention rule deleted: its summary, and the end of its chain."""

import os

import msgspec

from holdfast.core.summary.spending import unpriced_count
from holdfast.engine.home import Home
from holdfast.engine.queries.catalog import summarize
from holdfast.leaf.clock import now
from holdfast.leaf.errors import StorageFailed
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.leaf.files.disk import make_directories, replace
from holdfast.store.fold import fold_log

_FAILPOINT = failpoint_pair("tombstone.write")


class Tombstone(msgspec.Struct, frozen=True, kw_only=True):
    """`position` and `chain` are the end of the log: an anchor or a copy of the log can be compared with them."""

    run: str
    deleted: str
    goal: str | None
    workflow: str | None
    repo: str | None
    created: str | None
    updated: str | None
    sessions: int
    events: int
    tasks: int
    tasks_done: int
    tokens: int
    dollars: float | None
    estimate: float | None = None
    unpriced: int
    merged_into: str | None
    withheld: int
    position: int
    chain: str


async def write_tombstone(home: Home, run_id: str) -> Tombstone:
    """Write it durably, before the run is deleted."""
    folded = await fold_log(home.store.log(run_id), await home.store.snapshot(run_id))
    state = folded.fold.state
    summary = summarize(state)
    found = Tombstone(
        run=run_id,
        deleted=now(),
        goal=summary.goal,
        workflow=summary.workflow,
        repo=summary.repo,
        created=summary.created,
        updated=summary.updated,
        sessions=summary.sessions,
        events=summary.events,
        tasks=summary.tasks,
        tasks_done=summary.tasks_done,
        tokens=summary.tokens,
        dollars=summary.dollars,
        estimate=summary.estimate,
        unpriced=unpriced_count(state),
        merged_into=state.merged_into(),
        withheld=sum(part.events for part in state.withheld),
        position=folded.head.position,
        chain=folded.head.chain,
    )
    path = home.tombstone_file(run_id)
    make_directories(os.path.dirname(path))
    _FAILPOINT.before()
    replace(path, msgspec.json.format(msgspec.json.encode(found)) + b"\n")
    _FAILPOINT.after()
    return found


def read_tombstone(home: Home, run_id: str) -> Tombstone:
    """Return the tombstone of a run that was deleted."""
    path = home.tombstone_file(run_id)
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=Tombstone)
    except (OSError, msgspec.MsgspecError) as error:
        raise StorageFailed(f"{path} cannot be read: {error}; the run is deleted") from error
