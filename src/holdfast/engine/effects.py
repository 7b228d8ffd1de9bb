"""Intent, effect, outcome: the one way in which a run changes the world outside its log.

The intent is durable before anything is done, and the outcome before anything builds on it. For what a crash left
between the two, `settle` first makes sure that nobody of the old process tree is still at it, and then asks the
world. What cannot be told is recorded as unknown and stays open, for a person to look at.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.core.events.effect import EffectDidNotHappen, EffectHappened, EffectIntended, EffectUnknown
from holdfast.core.state import Effect
from holdfast.git.effects import EFFECTS, GitEffect, Happened, Probe, Site
from holdfast.leaf.errors import Denied, HoldfastError
from holdfast.leaf.ids import new_effect_id
from holdfast.leaf.process import end, marked
from holdfast.store.run import OwnedRun

RUN_MARK = "HOLDFAST_RUN"  # in the environment of every process that works for a run, and of all its children


async def perform(run: OwnedRun, run_id: str, effect: GitEffect, *, task: str | None = None) -> Mapping[str, Any]:
    """Do it once, whatever happens: returns its result, or raises after the log says that it did not happen."""
    effect_id = new_effect_id()
    arguments = msgspec.to_builtins(effect)
    await run.append(EffectIntended(effect=effect_id, kind=effect.kind, task=task, arguments=arguments))
    site = Site(effect_id, {RUN_MARK: run_id})
    try:
        result = await effect.perform(site)
    except HoldfastError as error:
        await run.append(_outcome(effect_id, await effect.probe(site), settled_by="run", otherwise=str(error)))
        raise
    await run.append(EffectHappened(effect=effect_id, result=result))
    return result


async def settle(run: OwnedRun, run_id: str) -> dict[str, Probe]:
    """Ask the world about every effect without an outcome, and write down what it says."""
    fence(run_id)
    answers: dict[str, Probe] = {}
    for effect_id, left_open in list(run.state.effects.items()):
        probe = await _probe(effect_id, left_open, run_id)
        answers[effect_id] = probe
        await run.append(_outcome(effect_id, probe, settled_by="probe"))
    return answers


def fence(run_id: str) -> None:
    """Nothing that an earlier session of this run started may still be writing when this one begins."""
    left = end(marked(RUN_MARK, run_id))
    if left:
        pids = ", ".join(str(process.pid) for process in left)
        raise Denied(f"processes of an earlier session of {run_id} will not die (pid {pids}); end them, then resume")


async def _probe(effect_id: str, left_open: Effect, run_id: str) -> Probe:
    kind = EFFECTS.get(left_open.kind)
    if kind is None:
        return Probe(Happened.UNKNOWN, {}, f"this version of Holdfast does not know effects of kind {left_open.kind}")
    effect = msgspec.convert(left_open.arguments, kind)
    try:
        return await effect.probe(Site(effect_id, {RUN_MARK: run_id}))
    except HoldfastError as error:
        return Probe(Happened.UNKNOWN, {}, str(error))


def _outcome(
    effect_id: str, probe: Probe, *, settled_by: str, otherwise: str | None = None
) -> EffectHappened | EffectDidNotHappen | EffectUnknown:
    match probe.happened:
        case Happened.YES:
            return EffectHappened(effect=effect_id, settled_by=settled_by, result=probe.result)
        case Happened.NO:
            return EffectDidNotHappen(effect=effect_id, settled_by=settled_by, reason=otherwise or probe.reason)
        case Happened.UNKNOWN:
            return EffectUnknown(effect=effect_id, reason=probe.reason or otherwise)
