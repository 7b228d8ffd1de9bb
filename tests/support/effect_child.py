"""The child that performs an act on a stage, and can be stopped between an intent, its effect and its outcome."""

import asyncio
import os
from collections.abc import Awaitable, Callable

from holdfast.core.events import Draft, Event
from holdfast.core.events.effect import EffectDidNotHappen, EffectHappened, EffectIntended, EffectUnknown
from holdfast.core.events.session import SessionStart
from holdfast.engine.home import Home
from holdfast.engine.workspace.effects import EffectRunner
from holdfast.engine.workspace.repository import open_owned_repository
from holdfast.engine.workspace.workspace import Workspace, open_workspace
from holdfast.leaf.errors import HoldfastError
from holdfast.store.base import Batch, Position
from holdfast.store.files.layout import run_folder
from holdfast.store.files.store import FileStore
from holdfast.store.run import OwnedRun, open_run
from tests.support.effect_scenes import effect_of, scene_of

Report = Callable[[str], None]

INTENT, EFFECT = "intent is durable", "effect is done"


class StoppingRun(OwnedRun):
    """Stops for ever after the intent of one kind, or before its outcome."""

    def __init__(self, run: OwnedRun, kind: str, stop: str | None, report: Report) -> None:
        self.__dict__.update(run.__dict__)
        self._append: Callable[..., Awaitable[Batch]] = self.__dict__.pop("append")
        self._kind, self._stop, self._report = kind, stop, report
        self._watched: set[str] = set()

    async def append(self, *drafts: Draft | Event, expect: Position | None = None) -> Batch:
        for event in drafts:
            if isinstance(event, EffectIntended) and event.kind == self._kind:
                self._watched.add(event.effect)
                batch = await self._append(*drafts, expect=expect)
                await self._at(INTENT)
                return batch
            if isinstance(event, EffectHappened | EffectDidNotHappen | EffectUnknown) and event.effect in self._watched:
                await self._at(EFFECT)
        return await self._append(*drafts, expect=expect)

    async def _at(self, point: str) -> None:
        if point == self._stop:
            self._report(point)
            await asyncio.Event().wait()


def perform(report: Report, environment: dict[str, str], home: str, run_id: str, kind: str, stop: str | None) -> None:
    """Own the run and act; `stop` says where to stop and be killed. Reports how it ended, when it did."""
    os.environ.update(environment)
    os.setsid()
    try:
        asyncio.run(_perform(report, home, run_id, kind, stop))
    except HoldfastError as error:
        report(f"{type(error).__name__}: {error}")
    else:
        report("done")


async def _perform(report: Report, home: str, run_id: str, kind: str, stop: str | None) -> None:
    store = FileStore(home)
    async with open_run(store, run_id) as run:
        await run.begin_session(SessionStart(command="run", pid=os.getpid()))
        stopping = StoppingRun(run, effect_of(kind), stop, report)
        folder = run_folder(store.home, run_id)
        repository = await open_owned_repository(Home(home), run.state.run, run_id)
        hands = EffectRunner(stopping, run_id, repository, folder)
        await scene_of(kind).act(Workspace(hands))


def settle(report: Report, environment: dict[str, str], home: str, run_id: str) -> None:
    """Reopen the run, which settles what was left, and no more."""
    os.environ.update(environment)

    async def reopen() -> None:
        async with open_workspace(Home(home), run_id, "resume"):
            report("settled")

    asyncio.run(reopen())
