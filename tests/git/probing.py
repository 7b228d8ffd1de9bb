"""An effect by itself, at the place where a run would do it."""

from holdfast.engine.workspace.workspace import Workspace
from holdfast.git.effects import GitEffect, Happened, Site


def site(w: Workspace, effect: str = "0123456789abcdef") -> Site:
    return Site(w.run_id, effect, w.repository, w.hands.folder)


async def probe(w: Workspace, effect: GitEffect) -> Happened:
    return (await effect.probe(site(w))).happened
