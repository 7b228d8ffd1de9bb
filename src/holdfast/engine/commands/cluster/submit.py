"""Submits runs to the cluster: Postgres has the run already, and Temporal is asked to place it."""

import asyncio
import subprocess

import msgspec

from holdfast.engine.commands.cluster.engine_address import SEEN_OPTION, EngineAddress, Placement, chosen_engine
from holdfast.engine.config.config import load_config
from holdfast.engine.home import Home
from holdfast.engine.queries.logs import end_of_log, view_run
from holdfast.leaf.errors import BadInput, HoldfastError
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.leaf.process.own_program import holdfast_command

_FAILPOINT = failpoint_pair("cluster.submit")
_PROGRAM = "holdfast.engine.commands.cluster.submit_program"
_TIMEOUT_S = 60.0


async def submit_run(home: Home, run_id: str, *options: str, engine: EngineAddress | None = None) -> None:
    """Ask Temporal to place a run, or to wake it. `options` are those of `holdfast resume`. Twice is once."""
    state = (await view_run(home, run_id)).state
    if state.run is None or state.run.remote is None:
        raise BadInput(f"run {run_id} is a run of this machine; continue it with: holdfast resume {run_id}")
    seen = f"{SEEN_OPTION}={await end_of_log(home, run_id)}"
    placement = Placement(run_id, state.run.needs[0] if state.run.needs else None, [*options, seen])
    await place(home, placement, engine)


async def place(home: Home, placement: Placement, engine: EngineAddress | None = None) -> None:
    """Raises `HoldfastError` unless Temporal has answered that it has the run."""
    address = engine or chosen_engine(home)
    heartbeat_s = load_config(home=home).settings.cluster.heartbeat
    request = {"engine": address, "placement": placement, "heartbeat_s": heartbeat_s}
    _FAILPOINT.before()
    answer = await asyncio.to_thread(_run_program, msgspec.json.encode(request))
    _FAILPOINT.after()
    if answer is not None:
        raise HoldfastError(
            f"run {placement.run_id} is recorded, but Temporal at {address} did not take it: {answer}. "
            f"Submit it again with: holdfast resume {placement.run_id}"
        )


def _run_program(request: bytes) -> str | None:
    """Return the problem; None when Temporal has the run. Only the printed answer counts, never the exit code."""
    try:
        done = subprocess.run(
            holdfast_command(module=_PROGRAM), input=request, capture_output=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {_TIMEOUT_S:.0f} s"
    try:
        answer = msgspec.json.decode(done.stdout)
    except msgspec.DecodeError:
        error = done.stderr.decode(errors="replace").strip().splitlines()
        return error[-1] if error else f"the submitting program ended with code {done.returncode}"
    return answer.get("problem") if isinstance(answer, dict) else "an answer that is none"
