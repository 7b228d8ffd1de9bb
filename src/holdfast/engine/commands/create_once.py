"""Creates or forks a run at most once for each key of a sender, who does not know whether an earlier request arrived.

The id of the run follows from the key, so a second request finds the run of the first, also after a crash of either.
What a killed request left without a plan can never continue: it is deleted, and created again.
"""

import hashlib
from contextlib import aclosing

from holdfast.core.events.rewind import RunForked
from holdfast.core.log.codec import CODEC, Line
from holdfast.engine.commands.archive import reset
from holdfast.engine.commands.create import RunRequest, prepare_run
from holdfast.engine.commands.fork import Fork, fork_run
from holdfast.engine.home import Home
from holdfast.engine.queries.logs import LogFilter, read_log, view_run
from holdfast.leaf.errors import RunExists, RunOwned
from holdfast.leaf.ids import run_id_suffix


async def create_once(home: Home, request: RunRequest, key: str) -> str:
    """Return the id of the run that was created with this key, now or earlier."""
    recorded = hashlib.sha256(key.encode()).hexdigest()  # keys are the sender's, and may be secret
    suffix = f"-{run_id_suffix(recorded)}"
    for run_id in [run_id for run_id in home.run_ids() if run_id.endswith(suffix)]:
        view = await view_run(home, run_id)
        if view.state.has_plan and view.state.settings.get("request") == recorded:
            return run_id
        if view.holder is not None:
            raise RunOwned(f"run {run_id} is being created; send the request again")
        if not view.state.has_plan:
            await reset(home, run_id)
    try:
        return await prepare_run(home, request._replace(key=recorded))
    except RunExists as error:
        raise RunOwned(f"{error}: it is being created; send the request again") from error


async def fork_once(home: Home, parent: str, at: str | None, name: str | None, key: str) -> Fork:
    """Return the fork that was made with this key, now or earlier."""
    recorded = hashlib.sha256(f"fork {parent} {key}".encode()).hexdigest()
    suffix = f"-{run_id_suffix(recorded)}"
    for run_id in [run_id for run_id in home.run_ids() if run_id.endswith(suffix)]:
        forked = await _fork_of(home, run_id)
        if forked is not None and forked.parent == parent:
            return Fork(run_id, parent, forked.point or "", forked.position)
        view = await view_run(home, run_id)
        if view.holder is not None:
            raise RunOwned(f"run {run_id} is being created; send the request again")
        if not view.state.has_plan:
            await reset(home, run_id)
    try:
        return await fork_run(home, parent, at, name, recorded)
    except RunExists as error:
        raise RunOwned(f"{error}: it is being created; send the request again") from error


async def _fork_of(home: Home, run_id: str) -> RunForked | None:
    async with aclosing(read_log(home, run_id, LogFilter((RunForked.type,)))) as lines:
        async for line in lines:
            event = CODEC.event(line.line) if isinstance(line.line, Line) else None
            if isinstance(event, RunForked):
                return event
    return None
