"""An effect by itself, at the place where a run would do it."""

from holdfast.engine.workspace.workspace import Workspace
from holdfast.git.effects import EffectSite, GitEffect, ProbeOutcome


def site(w: Workspace, effect: str = "0123456789abcdef") -> EffectSite:
    return EffectSite(w.run_id, effect, w.repository, w.effects.folder)


async def probe(w: Workspace, effect: GitEffect) -> ProbeOutcome:
    return (await effect.probe(site(w))).outcome
