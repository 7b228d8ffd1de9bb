"""Sets up a new worktree: ignored files of the user's checkout, then the project's own commands.

Done once for each worktree. It is complete only when the log says so: an interrupted setup is repeated from its start,
and so is the setup of a worktree that was made again.
"""

import asyncio
import json
import shlex
import time
from collections.abc import Sequence

from holdfast.core.config.settings import WorktreeSettings
from holdfast.core.events import Event
from holdfast.core.events.issue import WarningLogged
from holdfast.core.events.preparation import WorktreePrepared, WorktreeSetupFinished, WorktreeSetupStarted
from holdfast.core.text.excerpt import excerpt_lines
from holdfast.core.text.fingerprint import fingerprint
from holdfast.engine.checks.validators import CheckPlace, describe_problem, run_in_place
from holdfast.engine.config.run_config import RoleRuntime, RunConfig
from holdfast.engine.workspace.workspace import Workspace
from holdfast.git.repository import worktree_top
from holdfast.git.worktrees.supplied import SuppliedFiles, supply_files
from holdfast.git.worktrees.worktree import Worktree, status_of, sync_worktree
from holdfast.leaf.errors import BadInput
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.workflows.validators import CheckCommand

_FAILPOINT_SUPPLY = failpoint_pair("worktree.supply")
_FAILPOINT_COMMAND = failpoint_pair("worktree.setup")
_KEPT_LINES = 20  # from each end of the output
_SHOWN_LINES = 5  # in an error
_MAX_NAMED = 5  # files in a message


class SetupFailed(BadInput):
    """A setup command failed. Nothing in the worktree can be trusted to work, so the session ends."""

    def __init__(self, summary: str, output: str, advice: str) -> None:
        super().__init__(f"{summary}; {advice}")
        shown = [f"    {line}" for line in excerpt_lines(output, _SHOWN_LINES, _SHOWN_LINES)]
        self._lines = (summary, *shown, advice)

    @property
    def lines(self) -> tuple[str, ...]:
        return self._lines


class WorktreeSetup:
    """Sets up the worktrees of one run."""

    def __init__(self, workspace: Workspace, config: RunConfig) -> None:
        self._workspace = workspace
        self._config = config
        self._locks: dict[str | None, asyncio.Lock] = {}

    async def ensure(self, task_id: str | None) -> None:
        """Set up the worktree of a task, or the run's own, unless that is done. Raises `SetupFailed`."""
        settings = self._config.settings.worktree
        if not (settings.setup or settings.copy or settings.link):
            return
        async with self._locks.setdefault(task_id, asyncio.Lock()):
            role = self._role(task_id)
            key = _setup_key(settings, role)
            branch = self._workspace.effects.run.state.branches.get(self._workspace.place(task_id).branch)
            if branch is None or branch.prepared != key:
                await self._set_up(task_id, settings, role, key)

    def _role(self, task_id: str | None) -> RoleRuntime:
        """Where the checks of that worktree run."""
        task = self._workspace.effects.run.state.tasks.get(task_id or "")
        return self._config.runtime_for_task(task.wants if task is not None else None)

    async def _set_up(self, task_id: str | None, settings: WorktreeSettings, role: RoleRuntime, key: str) -> None:
        worktree = self._workspace.worktree(task_id)
        was_clean = (await status_of(worktree)).is_clean
        supplied = await self._supply(worktree, settings)
        place = CheckPlace.of(self._workspace, task_id, role)
        for command in settings.setup:
            await self._run_command(task_id, CheckCommand("setup", command, settings.timeout), place)
        changed = [change.path for change in (await status_of(worktree)).changes] if was_clean else []
        await sync_worktree(worktree)
        prepared = WorktreePrepared(
            task=task_id,
            key=key,
            copied=list(supplied.copied),
            linked=list(supplied.linked),
            left_out=list(supplied.left_out),
        )
        await self._append(*_warnings(self._workspace.place(task_id).folder, supplied, changed), prepared)

    async def _supply(self, worktree: Worktree, settings: WorktreeSettings) -> SuppliedFiles:
        if not (settings.copy or settings.link):
            return SuppliedFiles()
        folder = self._workspace.effects.run.state.settings.get("folder")
        try:
            checkout = await worktree_top(folder) if isinstance(folder, str) else None
        except BadInput:
            checkout = None
        if checkout is None:
            reason = f"the checkout {folder} is not there"
            return SuppliedFiles(left_out=tuple(f"{path}: {reason}" for path in (*settings.copy, *settings.link)))
        _FAILPOINT_SUPPLY.before()
        supplied = await supply_files(worktree, checkout, settings.copy, settings.link)
        _FAILPOINT_SUPPLY.after()
        return supplied

    async def _run_command(self, task_id: str | None, command: CheckCommand, place: CheckPlace) -> None:
        text = shlex.join(command.words)
        await self._append(WorktreeSetupStarted(task=task_id, command=text))
        started, output, code = time.monotonic(), "", None
        try:
            _FAILPOINT_COMMAND.before()
            ended = await run_in_place(command, place)
            _FAILPOINT_COMMAND.after()
            output, code = ended.output, ended.code
            problem = describe_problem(command, ended)
        except BadInput as error:
            problem = str(error)
        excerpt = "\n".join(excerpt_lines(output, _KEPT_LINES, _KEPT_LINES))
        finished = WorktreeSetupFinished(
            task=task_id,
            command=text,
            passed=problem is None,
            seconds=round(time.monotonic() - started, 3),
            exit_code=code,
            output=excerpt,
            problem=problem,
            runtime=place.role.runtime.kind if place.role.runtime.is_confined else None,
        )
        await self._append(finished)
        if problem is not None:
            redacted = self._workspace.effects.run.redactor.redact_text(excerpt)
            advice = (
                f"try it with: cd {shlex.quote(place.cwd)} && {text}; "
                f"then continue with: holdfast resume {self._workspace.run_id}"
            )
            raise SetupFailed(f"worktree.setup failed: {text}: {problem}", redacted, advice)

    async def _append(self, *events: Event) -> None:
        await self._workspace.effects.run.append(*events)


def _setup_key(settings: WorktreeSettings, role: RoleRuntime) -> str:
    runtime = role.runtime
    parts = [settings.setup, settings.copy, settings.link, runtime.kind, runtime.image]
    return fingerprint(json.dumps(parts).encode())


def _warnings(folder: str, supplied: SuppliedFiles, changed: Sequence[str]) -> list[Event]:
    texts = [f"{folder} lacks {reason}" for reason in supplied.left_out]
    if changed:
        more = f" and {len(changed) - _MAX_NAMED} more" if changed[_MAX_NAMED:] else ""
        texts.append(
            f"the setup of {folder} changed {', '.join(changed[:_MAX_NAMED])}{more}, which git does not ignore; "
            "it becomes part of the work. Add it to .gitignore"
        )
    return [WarningLogged(message=text) for text in texts]
