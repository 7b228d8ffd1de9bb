"""Prepares a run before any agent works: sets up worktrees, then runs the checks on the untouched base."""

import asyncio
import os

from holdfast.core.decide.actions import ActionKind
from holdfast.engine.checks.baseline import BaselineRunner
from holdfast.engine.checks.setup import WorktreeSetup
from holdfast.engine.config.run_config import RunConfig
from holdfast.engine.workspace.workspace import Workspace

_NEEDS_PREPARATION = frozenset(
    {
        ActionKind.WORK,
        ActionKind.CONVERSE,
        ActionKind.RESUME_AGENT,
        ActionKind.PROMPT,
        ActionKind.REVIEW,
        ActionKind.RESEARCH,
        ActionKind.CHECK,
    }
)


class Preparation:
    def __init__(self, workspace: Workspace, config: RunConfig) -> None:
        self._workspace = workspace
        self._setup = WorktreeSetup(workspace, config)
        self._baseline = BaselineRunner(workspace, config)
        self._lock = asyncio.Lock()

    async def before(self, kind: ActionKind) -> None:
        """Prepare the run's own worktree for the first action that needs it; others wait for that."""
        if kind not in _NEEDS_PREPARATION:
            return
        async with self._lock:
            if await self._has_worktree():
                await self._setup.ensure(None)
                await self._baseline.ensure()

    async def _has_worktree(self) -> bool:
        """Without a branch there is no worktree: the step that needs it reports that, with the remedy."""
        worktree = self._workspace.worktree()
        if not os.path.isdir(worktree.path):
            if await self._workspace.repository.commit_of(f"refs/heads/{worktree.branch}") is None:
                return False
            await self._workspace.open_worktree()
        await self._workspace.relink(None)
        return True

    async def of_task(self, task_id: str) -> None:
        """Set up the worktree of a task, if that is not done yet."""
        await self._setup.ensure(task_id)
