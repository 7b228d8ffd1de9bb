"""Runs the checks of a task. The tree captured before them is what they run on, and what is evaluated and committed."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from holdfast.core.decide.baseline import is_excused
from holdfast.core.events import Event
from holdfast.core.events.issue import WarningLogged
from holdfast.core.events.work import ValidationFinished, ValidationStarted, ValidatorFinished
from holdfast.core.task_state import Task
from holdfast.engine.checks.validators import CheckPlace, ValidatorOutcome, run_validators, validators_for
from holdfast.engine.config.run_config import RunConfig
from holdfast.engine.workspace.task_tree import Capture, capture, commits_left_behind, take_over_head
from holdfast.engine.workspace.workspace import Workspace
from holdfast.git.snapshot import changed_files
from holdfast.leaf.errors import Denied

BRANCH_CHECK, NESTED_CHECK, LEFT_BEHIND_CHECK = "branch of the worktree", "nested repositories", "commits left behind"
SUBMODULES = "changes inside submodules"
_MAX_NAMED = 20  # files or commits in a message


class _CheckResults(NamedTuple):
    ran: int
    failed: list[str]  # which passed on the untouched base
    excused: list[str]  # which failed there, too


class TaskChecks:
    """Runs between a worker's case and its evaluation."""

    def __init__(self, workspace: Workspace, config: RunConfig) -> None:
        self._workspace = workspace
        self._config = config

    async def run(self, task_id: str) -> None:
        """Capture the task's files, run the project's checks on them, and record the result.

        A problem that prevents the capture goes back to the worker as a failed check.
        """
        task = self._task(task_id)
        if task.recheck is not None and task.unchecked is not None and task.tree is not None:
            await self._revalidate(task_id, task.unchecked, task.tree)
            return
        astray = await take_over_head(self._workspace, task_id)
        if astray is not None:
            await self._refuse(task_id, BRANCH_CHECK, astray)
            return
        captured = await capture(self._workspace, task_id)
        if captured.nested:
            await self._refuse(task_id, NESTED_CHECK, self._describe_nested(task_id, captured.nested))
            return
        doubts = await self._doubts(task_id, captured)
        if doubts and not any(_has_failed_before(task, check) for check in (LEFT_BEHIND_CHECK, SUBMODULES)):
            await self._send_back(task_id, doubts)
            return
        await self._validate(task_id, captured)

    async def _doubts(self, name: str, captured: Capture) -> dict[str, str]:
        """Return what may be work that the tree lacks. The worker is asked once, and decides."""
        left = await commits_left_behind(self._workspace, name, captured.tree)
        return {
            **({LEFT_BEHIND_CHECK: self._describe_left_behind(name, left)} if left else {}),
            **({SUBMODULES: self._told_of_dirty(name, captured.dirty)} if captured.dirty else {}),
        }

    async def _validate(self, task_id: str, captured: Capture) -> None:
        """Run the checks again if they changed files of the task, as a formatter does: then on the changed files."""
        checked = await self._run_commands(task_id, captured)
        if checked.ran and not checked.failed:
            now = await capture(self._workspace, task_id, within=captured.tree)
            if now.tree != captured.tree:
                captured = captured._replace(tree=now.tree)
                checked = await self._run_commands(task_id, captured)
                await self._warn_of_changes(task_id, captured.tree)
        await self._append(_finished(task_id, checked, captured.tree))

    async def _revalidate(self, task_id: str, commit: str, tree: str) -> None:
        """Check a commit with another tree than the checked one: the worktree has its files, and may have more."""
        if (await capture(self._workspace, task_id, within=tree)).tree != tree:
            await self._workspace.restore(task_id, commit)
        checked = await self._run_commands(task_id, Capture(tree, commit))
        await self._append(_finished(task_id, checked, tree))

    async def _run_commands(self, task_id: str, captured: Capture) -> _CheckResults:
        workspace = self._workspace
        place = CheckPlace.of(workspace, task_id, self._config.runtime_for_task(self._task(task_id).wants))
        validate = self._config.workflow.validate
        commands = await validators_for(place, self._config.settings.validators) if validate else ()
        await self._append(
            ValidationStarted(task_id=task_id, tree=captured.tree, head=captured.head, merging=captured.merging)
        )

        state = self._workspace.effects.run.state
        excused = {command.name for command in commands if is_excused(state, command.name, command.words)}

        async def done(outcome: ValidatorOutcome) -> None:
            await self._append(_finished_event(task_id, outcome, place, excused=outcome.name in excused))

        outcomes = await run_validators(commands, place, done)
        failed = [outcome.name for outcome in outcomes if not outcome.passed]
        return _CheckResults(
            len(commands),
            [name for name in failed if name not in excused],
            [name for name in failed if name in excused],
        )

    async def _warn_of_changes(self, task_id: str, tree: str) -> None:
        now = (await capture(self._workspace, task_id, within=tree)).tree
        if now != tree:
            files = (await changed_files(self._workspace.repository, tree, now))[:_MAX_NAMED]
            warning = (
                f"{task_id}: files changed while the checks ran ({', '.join(files)}); "
                f"the commit has them as they were before the checks"
            )
            await self._append(WarningLogged(message=warning))

    async def _refuse(self, task_id: str, check: str, message: str) -> None:
        """Send a failed check to the worker in a new iteration.

        Raises `Denied` if that was done before and did not help: then a person must act.
        """
        if _has_failed_before(self._task(task_id), check):
            raise Denied(f"{message}; then holdfast resume {self._workspace.run_id}")
        await self._send_back(task_id, {check: message})

    async def _send_back(self, name: str, reasons: Mapping[str, str]) -> None:
        """End the iteration; the worker gets the reasons, check by check."""
        failed = [
            ValidatorFinished(task_id=name, name=check, passed=False, output=why) for check, why in reasons.items()
        ]
        finished = ValidationFinished(task_id=name, passed=False, failed=list(reasons))
        await self._append(ValidationStarted(task_id=name), *failed, finished)

    def _describe_nested(self, task_id: str, nested: Sequence[str]) -> str:
        path = self._workspace.worktree(task_id).path
        return (
            f"{_join_limited(nested)} in {path} are git repositories of their own, "
            "so their files would not be in the task's "
            "commit. Delete the .git in each to make its files part of the task, move the folder out of the worktree "
            "if it is not part of it, or register it with git submodule add"
        )

    def _told_of_dirty(self, name: str, submodules: Sequence[str]) -> str:
        path = self._workspace.worktree(name).path
        return (
            f"The submodules {_join_limited(submodules)} in {path} have changes that "
            "are in no commit, so they would not be in "
            "the task's commit. If they are the work of this task, commit them inside the submodule; if they are not, "
            "say so and end"
        )

    def _describe_left_behind(self, task_id: str, commits: Sequence[str]) -> str:
        tree = self._workspace.worktree(task_id)
        return (
            f"Nothing is changed on {tree.branch}, but commits were made in {tree.path} that are not on it: "
            f"{_join_limited([commit[:12] for commit in commits])}. If they are the "
            "work of this task, bring them here with "
            "git merge or git cherry-pick; if nothing had to be changed, say so and end"
        )

    def _task(self, task_id: str) -> Task:
        return self._workspace.effects.run.state.tasks[task_id]

    async def _append(self, *events: Event) -> None:
        await self._workspace.effects.run.append(*events)


def _has_failed_before(task: Task, check: str) -> bool:
    return any(result.name == check and not result.passed for result in task.checks)


def _join_limited(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return ", ".join(names[:_MAX_NAMED]) + more


def _finished(task_id: str, checked: _CheckResults, tree: str) -> ValidationFinished:
    return ValidationFinished(
        task_id=task_id,
        passed=not checked.failed,
        failed=checked.failed,
        tree=tree,
        ran=checked.ran,
        excused=checked.excused,
    )


def _finished_event(task_id: str, outcome: ValidatorOutcome, place: CheckPlace, *, excused: bool) -> ValidatorFinished:
    return ValidatorFinished(
        task_id=task_id,
        name=outcome.name,
        passed=outcome.passed,
        seconds=round(outcome.seconds, 3),
        exit_code=outcome.exit_code,
        output=outcome.output,
        problem=outcome.problem,
        flaky=outcome.flaky,
        runtime=place.role.runtime.kind if place.role.runtime.is_confined else None,
        excused=excused and not outcome.passed,
    )
