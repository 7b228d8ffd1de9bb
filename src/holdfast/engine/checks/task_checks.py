"""The checks of a task. What is captured before them is what they run on, what is judged, and what is committed."""

from collections.abc import Mapping, Sequence

from holdfast.core.events import Event
from holdfast.core.events.issue import WarningLogged
from holdfast.core.events.work import ValidationFinished, ValidationStarted, ValidatorFinished
from holdfast.core.state import Task
from holdfast.engine.checks.validators import CheckPlace, Outcome, run_validators, validators_for
from holdfast.engine.config.run_config import Terms
from holdfast.engine.workspace.task_tree import Capture, capture, commits_left_behind, take_over
from holdfast.engine.workspace.workspace import Workspace
from holdfast.git.snapshot import changed_files
from holdfast.leaf.errors import Denied
from holdfast.workflows.validators import Command

BRANCH, NESTED, LEFT_BEHIND = "branch of the worktree", "nested repositories", "commits left behind"
SUBMODULES = "changes inside submodules"
_NAMED = 20  # files or commits in a message


class Checks:
    """What stands between a worker's word that its task is done, and anybody's verdict on it."""

    def __init__(self, workspace: Workspace, terms: Terms) -> None:
        self._workspace = workspace
        self._terms = terms

    async def run(self, name: str) -> None:
        """Capture the task's files, run the project's checks on them, and tell the log what came of it.

        What keeps the files from being captured goes back to the worker, as a check that failed.
        """
        task = self._task(name)
        if task.recheck is not None and task.unchecked is not None and task.tree is not None:
            await self._run_again(name, task.unchecked, task.tree)
            return
        astray = await take_over(self._workspace, name)
        if astray is not None:
            await self._refuse(name, BRANCH, astray)
            return
        taken = await capture(self._workspace, name)
        if taken.nested:
            await self._refuse(name, NESTED, self._told_of_nested(name, taken.nested))
            return
        doubts = await self._doubts(name, taken)
        if doubts and not any(_failed_before(task, check) for check in (LEFT_BEHIND, SUBMODULES)):
            await self._send_back(name, doubts)
            return
        await self._run(name, taken)

    async def _doubts(self, name: str, taken: Capture) -> dict[str, str]:
        """What may be work that the tree does not have. The worker is told once; it decides whether it is."""
        left = await commits_left_behind(self._workspace, name, taken.tree)
        return {
            **({LEFT_BEHIND: self._told_of_left_behind(name, left)} if left else {}),
            **({SUBMODULES: self._told_of_dirty(name, taken.dirty)} if taken.dirty else {}),
        }

    async def _run(self, name: str, taken: Capture) -> None:
        """Once more, when they changed files of the task, as one that formats does: then on what they made of them."""
        failed, commands = await self._checked(name, taken)
        if commands and not failed:
            now = await capture(self._workspace, name, within=taken.tree)
            if now.tree != taken.tree:
                taken = taken._replace(tree=now.tree)
                failed, _ = await self._checked(name, taken)
                await self._warn_of_changes(name, taken.tree)
        await self._tell(ValidationFinished(task_id=name, passed=not failed, failed=failed, tree=taken.tree))

    async def _run_again(self, name: str, commit: str, tree: str) -> None:
        """On a commit that is not of the tree that was checked: the worktree has its files, and may have more."""
        if (await capture(self._workspace, name, within=tree)).tree != tree:
            await self._workspace.restore(name, commit)
        failed, _ = await self._checked(name, Capture(tree, commit))
        await self._tell(ValidationFinished(task_id=name, passed=not failed, failed=failed, tree=tree))

    async def _checked(self, name: str, taken: Capture) -> tuple[list[str], Sequence[Command]]:
        """Which of them failed, and which there are."""
        workspace = self._workspace
        place = CheckPlace.of(workspace, name, self._terms.runtime_for_task(self._task(name).wants))
        validate = self._terms.workflow.validate
        commands = await validators_for(place, self._terms.settings.validators) if validate else ()
        await self._tell(ValidationStarted(task_id=name, tree=taken.tree, head=taken.head, merging=taken.merging))

        async def done(outcome: Outcome) -> None:
            await self._tell(_finished(name, outcome, place))

        outcomes = await run_validators(commands, place, done)
        return [outcome.name for outcome in outcomes if not outcome.passed], commands

    async def _warn_of_changes(self, name: str, tree: str) -> None:
        now = (await capture(self._workspace, name, within=tree)).tree
        if now != tree:
            files = (await changed_files(self._workspace.repository, tree, now))[:_NAMED]
            told = f"{name}: files changed while the checks ran ({', '.join(files)}); what is committed is from before"
            await self._tell(WarningLogged(message=told))

    async def _refuse(self, name: str, check: str, told: str) -> None:
        """Tell the worker, in a new iteration. `Denied` when it was told, and that did not help: a person has to."""
        if _failed_before(self._task(name), check):
            raise Denied(f"{told}; then holdfast resume {self._workspace.run_id}")
        await self._send_back(name, {check: told})

    async def _send_back(self, name: str, told: Mapping[str, str]) -> None:
        """End the iteration; the worker is told why, check by check."""
        failed = [ValidatorFinished(task_id=name, name=check, passed=False, output=why) for check, why in told.items()]
        finished = ValidationFinished(task_id=name, passed=False, failed=list(told))
        await self._tell(ValidationStarted(task_id=name), *failed, finished)

    def _told_of_nested(self, name: str, nested: Sequence[str]) -> str:
        path = self._workspace.worktree(name).path
        return (
            f"{_some(nested)} in {path} are git repositories of their own, so their files would not be in the task's "
            "commit. Delete the .git in each to make its files part of the task, move the folder out of the worktree "
            "if it is not part of it, or register it with git submodule add"
        )

    def _told_of_dirty(self, name: str, submodules: Sequence[str]) -> str:
        path = self._workspace.worktree(name).path
        return (
            f"The submodules {_some(submodules)} in {path} have changes that are in no commit, so they would not be in "
            "the task's commit. If they are the work of this task, commit them inside the submodule; if they are not, "
            "say so and end"
        )

    def _told_of_left_behind(self, name: str, commits: Sequence[str]) -> str:
        tree = self._workspace.worktree(name)
        return (
            f"Nothing is changed on {tree.branch}, but commits were made in {tree.path} that are not on it: "
            f"{_some([commit[:12] for commit in commits])}. If they are the work of this task, bring them here with "
            "git merge or git cherry-pick; if nothing had to be changed, say so and end"
        )

    def _task(self, name: str) -> Task:
        return self._workspace.hands.run.state.tasks[name]

    async def _tell(self, *events: Event) -> None:
        await self._workspace.hands.run.append(*events)


def _failed_before(task: Task, check: str) -> bool:
    return any(one.name == check and not one.passed for one in task.checks)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _finished(name: str, outcome: Outcome, place: CheckPlace) -> ValidatorFinished:
    return ValidatorFinished(
        task_id=name,
        name=outcome.name,
        passed=outcome.passed,
        seconds=round(outcome.seconds, 3),
        exit_code=outcome.exit_code,
        output=outcome.output,
        problem=outcome.problem,
        flaky=outcome.flaky,
        runtime=place.role.runtime.kind if place.role.runtime.is_confined else None,
    )
