"""Runs each check once on the untouched base, before any agent works: failures there say nothing about tasks.

The checks run in the run's own worktree, which is at the base until the first merge. Each result is in the log as soon
as it is known, so an interrupted baseline continues with the next check.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from holdfast.core.decide.baseline import check_key, excused_checks, is_baseline_due
from holdfast.core.events import Event
from holdfast.core.events.preparation import BaselineCheckFinished, BaselineFinished, BaselineStarted
from holdfast.core.state import BaselineCheck, RunState
from holdfast.engine.checks.validators import CheckPlace, ValidatorOutcome, run_validators, validators_for
from holdfast.engine.config.run_config import RunConfig
from holdfast.engine.workspace.workspace import Workspace
from holdfast.git.snapshot import restore_snapshot
from holdfast.git.worktrees.worktree import Worktree, status_of
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.workflows.validators import CheckCommand

_FAILPOINT = failpoint_pair("baseline.check")


class BaselineRunner:
    def __init__(self, workspace: Workspace, config: RunConfig) -> None:
        self._workspace = workspace
        self._config = config

    async def ensure(self) -> None:
        """Run what did not run yet. Does nothing once an agent was asked to work."""
        workflow = self._config.workflow
        has_checks = workflow.validate or any(phase.has_checks for phase in workflow.phases)
        if not (has_checks and self._config.settings.validators.baseline and is_baseline_due(self._state)):
            return
        place = CheckPlace.of(self._workspace, None, self._config.runtime_for_task())
        commands = await validators_for(place, self._config.settings.validators)
        if commands:
            await self._run(commands, place)

    @property
    def _state(self) -> RunState:
        return self._workspace.effects.run.state

    async def _append(self, *events: Event) -> None:
        await self._workspace.effects.run.append(*events)

    async def _run(self, commands: Sequence[CheckCommand], place: CheckPlace) -> None:
        tip = await self._workspace.tip()
        tree = await self._workspace.repository.tree_of(tip)
        names = [command.name for command in commands]
        runtime = place.role.runtime.kind if place.role.runtime.is_confined else None
        await self._append(BaselineStarted(tree=tree, checks=names, runtime=runtime))
        worktree = self._workspace.worktree()
        was_clean = (await status_of(worktree)).is_clean
        for command in commands:
            key = check_key(command.name, command.words)
            if key not in self._results:
                await run_validators([command], place, partial(self._record, key), failpoint=_FAILPOINT)
        if not (await status_of(worktree)).is_clean:
            await self._remove_changes(worktree, tip, was_clean=was_clean)
        await self._append(self._finished(commands, tree))

    async def _record(self, key: str, outcome: ValidatorOutcome) -> None:
        finished = BaselineCheckFinished(
            key=key,
            name=outcome.name,
            passed=outcome.passed,
            seconds=round(outcome.seconds, 3),
            exit_code=outcome.exit_code,
            output=outcome.output,
            problem=outcome.problem,
            flaky=outcome.flaky,
        )
        await self._append(finished)

    @property
    def _results(self) -> Mapping[str, BaselineCheck]:
        return self._state.baseline.checks if self._state.baseline is not None else {}

    def _finished(self, commands: Sequence[CheckCommand], tree: str) -> BaselineFinished:
        checks = [self._results[check_key(command.name, command.words)] for command in commands]
        required = [name for name, own in self._config.settings.validators.commands.items() if own.required]
        seeded = self._state.run is not None and self._state.run.seeded
        return BaselineFinished(
            tree=tree,
            checks=[check.name for check in checks],
            failed=[check.name for check in checks if not check.passed],
            excused=excused_checks(checks, required, seeded=seeded),
        )

    async def _remove_changes(self, worktree: Worktree, tip: str, *, was_clean: bool) -> None:
        """What the checks wrote would be in the way of merges. If anything else may be there, all is saved first.

        An interrupted removal is repeated: the baseline is not finished before it.
        """
        if was_clean:
            await restore_snapshot(worktree, tip)
        else:
            await self._workspace.restore(None, tip)
