"""The steps of an interview that other chats lack: its plan is accepted, and a run is prepared from it."""

from collections.abc import Awaitable, Callable

from holdfast.core.decide.actions import Action, ActionKind
from holdfast.core.decide.chat import queued_messages
from holdfast.core.decide.transitions import task_change
from holdfast.core.events import Event
from holdfast.core.events.inbox import InboxHandled
from holdfast.core.events.issue import WarningLogged
from holdfast.core.events.plan import PlanAccepted, RunPrepared
from holdfast.core.events.task import TaskCompleted
from holdfast.core.state import RunState
from holdfast.core.task_state import BEGUN_STATUSES, TaskStatus
from holdfast.engine.handover import new_prepared_id
from holdfast.engine.workspace.workspace import Workspace
from holdfast.git.seeds import seeds_from_commit
from holdfast.leaf.errors import BadInput, Denied, RunOwned


class InterviewSteps:
    def __init__(self, workspace: Workspace, prepare: Callable[[Workspace], Awaitable[str]]) -> None:
        self._workspace = workspace
        self._prepare = prepare
        self.steps: dict[ActionKind, Callable[[str, Action], Awaitable[None]]] = {
            ActionKind.ACCEPT_PLAN: self._accept_plan,
            ActionKind.PREPARE_RUN: self._prepare_run,
        }

    @property
    def _state(self) -> RunState:
        return self._workspace.effects.run.state

    async def _append(self, *events: Event) -> None:
        await self._workspace.effects.run.append(*events)

    async def _accept_plan(self, task_id: str, _: Action) -> None:
        """The files of the seeds are kept in a commit, so that the plan that was accepted is the one that is used."""
        key = queued_messages(self._state, task_id)[0]
        handled, by = InboxHandled(message=key), self._state.messages[key].sender
        interview, task = self._state.interview, self._state.tasks[task_id]
        if interview is None or task.status not in BEGUN_STATUSES:
            problem = "there is no plan to accept; ask the interviewer to submit its tasks"
            await self._append(WarningLogged(message=problem), handled)
            return
        snapshot = None
        if interview.seeds:
            snapshot = await self._workspace.snapshot(task_id, f"plan-{interview.revision}")
            try:
                await seeds_from_commit(self._workspace.repository, snapshot, snapshot, interview.seeds)
            except BadInput as error:
                await self._append(WarningLogged(message=f"the plan was not accepted: {error}"), handled)
                return
        run_id = new_prepared_id(self._state)
        accepted = PlanAccepted(revision=interview.revision, run_id=run_id, snapshot=snapshot, by=by)
        await self._append(accepted, *task_change(self._state, task_id, TaskStatus.IN_PROGRESS), handled)

    async def _prepare_run(self, task_id: str, _: Action) -> None:
        interview = self._state.interview
        run_id = (interview.run_id if interview is not None else None) or ""
        try:
            await self._prepare(self._workspace)
        except RunOwned:
            pass  # it exists, and its user has started it
        except (BadInput, Denied) as error:
            failed = RunPrepared(run_id=run_id, problem=str(error))
            await self._append(failed, *task_change(self._state, task_id, TaskStatus.REVIEW))
            return
        outcome = f"prepared {run_id}"
        await self._append(RunPrepared(run_id=run_id), TaskCompleted(task_id=task_id, outcome=outcome))
