"""A crash on a stage, and what must be the same after it as if there had been none."""

import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from typing import Any

from holdfast.engine.home import Home
from holdfast.engine.workspace.workspace import Workspace, open_workspace
from holdfast.leaf.process.env_markers import RUN_MARK, marked_processes
from holdfast.leaf.process.identity import identify
from tests.support import effect_child as git_orchestrator
from tests.support.effect_scenes import build, effect_of, scene_of
from tests.support.effect_stage import Stage
from tests.support.processes import Child, child
from tests.support.repository_fingerprint import assert_sound, fingerprint, happened, salvaged


class Play:
    """A scene that can be played again and again, each time from its beginning."""

    def __init__(self, stage: Stage, kind: str, run_id: str, saved: str) -> None:
        self.stage = stage
        self.kind = kind
        self.run_id = run_id
        self._saved = saved
        self._expected: dict[str, Any] = {}
        self._salvaged: set[str] = set()
        self._before = 0

    @classmethod
    async def prepare(cls, stage: Stage, kind: str) -> "Play":
        stage.set_up()
        run_id = await build(stage, scene_of(kind))
        saved = f"{stage.folder}.saved"
        stage.copy_to(saved)
        play = cls(stage, kind, run_id, saved)
        await play._watch_it_undisturbed()
        return play

    async def _watch_it_undisturbed(self) -> None:
        self._before = (await happened(self.stage, self.run_id))[self.effect]
        with self.orchestrator() as orchestrator:
            assert orchestrator.hear() == "done"
            orchestrator.wait()
        await assert_sound(self.stage, self.run_id)
        self._expected = fingerprint(self.stage, self.run_id)
        self._salvaged = salvaged(self.stage)
        assert await self.happened() == 1

    @property
    def effect(self) -> str:
        return effect_of(self.kind)

    async def happened(self) -> int:
        return (await happened(self.stage, self.run_id))[self.effect] - self._before

    def set_back(self) -> None:
        self.stage.set_back(self._saved)

    def orchestrator(self, stop: str | None = None) -> AbstractContextManager[Child]:
        return self.orchestrator_of(self.kind, stop)

    def orchestrator_of(self, kind: str, stop: str | None = None) -> AbstractContextManager[Child]:
        environment = self.stage.environment_with_faulty_git
        return child(git_orchestrator.perform, environment, self.stage.home, self.run_id, kind, stop)

    @asynccontextmanager
    async def reopened(self) -> AsyncIterator[Workspace]:
        async with open_workspace(Home(self.stage.home), self.run_id, "resume") as workspace:
            assert marked_processes(RUN_MARK, self.run_id) == [], "whoever was left is dead before anything is done"
            yield workspace

    async def finish(self) -> None:
        """Reopen, which settles; act again only if the log says that it did not happen."""
        async with self.reopened() as workspace:
            if not await self.happened():
                await scene_of(self.kind).act(workspace)

    async def must_be_as_if_nothing_had_been(self) -> None:
        await assert_sound(self.stage, self.run_id)
        for what, found in fingerprint(self.stage, self.run_id).items():
            assert found == self._expected[what], what
        assert salvaged(self.stage) >= self._salvaged, "saved before it was taken away"
        assert await self.happened() == 1, "exactly once"


Prepared = Callable[[str], Awaitable[Play]]  # what the fixture gives: the play of a kind, at its beginning


def kill(who: str, orchestrator: Child, run_id: str) -> None:
    """The `orchestrator` alone, its whole process `group`, `git` alone, or `both`."""
    if who == "group":
        os.killpg(orchestrator.pid, signal.SIGKILL)
    if who in ("orchestrator", "both", "group"):
        orchestrator.kill()
    if who in ("git", "both"):
        _kill_gits(run_id)


def _kill_gits(run_id: str) -> None:
    """SIGKILL every git and gh that works for this run, and nothing else."""
    for process in marked_processes(RUN_MARK, run_id):
        with suppress(OSError), open(f"/proc/{process.pid}/comm", encoding="utf-8") as file:
            if file.read().startswith(("git", "gh")) and identify(process.pid) == process:
                os.kill(process.pid, signal.SIGKILL)
