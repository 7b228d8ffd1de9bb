"""Acting on what came into the inbox: each message becomes what it means, in the same commit that calls it handled.

Words for an agent are not acted on here: they stay with the run until a prompt takes them along.
"""

import asyncio
from collections.abc import Callable

import msgspec

from holdfast.core.events import Event
from holdfast.core.events.conversation import PermissionAnswered
from holdfast.core.events.inbox import InboxHandled
from holdfast.core.events.issue import BlockerReported, WarningLogged
from holdfast.core.events.phase import ApprovalAnswered, ChangeRequested, PhaseFailed
from holdfast.core.events.work import (
    CaseSubmitted,
    LearningsProposed,
    ProgressReported,
    ReportRefused,
    VerdictGiven,
)
from holdfast.core.log.codec import UNREADABLE
from holdfast.core.messages.addressing import FOR_AGENTS, is_for_nobody
from holdfast.core.messages.answers import APPROVAL
from holdfast.core.messages.reports import REFUSED, SIGNAL, RefusedReport, Report
from holdfast.core.messages.signals import (
    ReportBlocker,
    ReportProgress,
    RequestResearch,
    Signal,
    SubmitCase,
    SubmitDone,
    SubmitVerdict,
    read_signal,
)
from holdfast.core.state import Approval, OpenMessage, RunState, Stage, Task, TaskStatus
from holdfast.core.summary.gates import change_target
from holdfast.core.work.workflow import Workflow
from holdfast.engine.agents.permissions import Desk
from holdfast.engine.inbox import handle_phase as phase_receiving
from holdfast.engine.inbox.answers import ANSWER, Answer
from holdfast.engine.inbox.send import CHANGE, STOP, StopRequest, Words
from holdfast.leaf.errors import BadInput
from holdfast.store.run import OwnedRun


class Receiver:
    """`stop` is called when somebody asks the run to stop."""

    def __init__(self, run: OwnedRun, desk: Desk, workflow: Workflow, stop: Callable[[str], None]) -> None:
        self._run = run
        self._workflow = workflow
        self._desk = desk
        self._stop = stop
        self._acting = asyncio.Lock()

    async def receive(self) -> None:
        """Take in what came, and act on all that was taken in and not acted on yet."""
        async with self._acting:  # two at once would both act on what neither has called handled
            await self._run.take_in()
            for key, message in list(self._run.state.messages.items()):
                if message.kind not in FOR_AGENTS:
                    await self._act(key, message)
                elif (why := self._is_lost(message)) is not None:
                    await self._run.append(WarningLogged(message=why), InboxHandled(message=key))

    def _is_lost(self, message: OpenMessage) -> str | None:
        """Why no prompt can take these words along."""
        if message.conversation is not None:
            return None
        try:
            msgspec.json.decode(message.body, type=Words)
        except UNREADABLE as error:
            return _passed_over(message, error)
        why = is_for_nobody(self._run.state, self._workflow, message.task)
        return f"words for {message.task or 'anyone'} reached nobody: {why}" if why is not None else None

    async def _act(self, key: str, message: OpenMessage) -> None:
        handled = InboxHandled(message=key)
        try:
            if message.kind == ANSWER:
                await self._answered(msgspec.json.decode(message.body, type=Answer), message.sender, handled)
            else:
                await self._run.append(*self._meaning(key, message), handled)
        except (*UNREADABLE, BadInput) as error:
            await self._run.append(WarningLogged(message=_passed_over(message, error)), handled)

    async def _answered(self, given: Answer, by: str | None, handled: InboxHandled) -> None:
        if given.request.startswith(APPROVAL):
            await self._run.append(*self._approval(handled.message, given, by), handled)
        else:
            option = self._desk.option_for(given.request, given.option, allow=given.allow)
            answered = PermissionAnswered(
                request=given.request,
                option=option,
                by=by or "user",
                message=handled.message,
                reason=None if given.allow else given.reason,
            )
            await self._desk.apply(answered, handled)

    def _meaning(self, key: str, message: OpenMessage) -> list[Event]:
        if message.kind == CHANGE:
            return self._wish(key, msgspec.json.decode(message.body, type=Words).text, message.sender)
        if message.kind == STOP:
            asked = msgspec.json.decode(message.body, type=StopRequest)
            if asked.epoch == self._run.epoch:
                self._stop(asked.reason)
            return []
        if message.kind == REFUSED:
            return [_refused(self._run.state, msgspec.json.decode(message.body, type=RefusedReport))]
        if message.kind.startswith(SIGNAL):
            report = msgspec.json.decode(message.body, type=Report)
            conversation = self._run.state.conversations.get(report.conversation or "")
            role = report.role if conversation is None else conversation.role or "agent"  # not what the report claims
            signal = read_signal(role, message.kind.removeprefix(SIGNAL), report.signal)
            return _reported(self._run.state, self._workflow, report.conversation, signal)
        raise BadInput("nobody here knows what it means")

    def _wish(self, key: str, text: str, by: str | None) -> list[Event]:
        if self._workflow.planner is None:
            raise BadInput(f"in the workflow {self._workflow.name} nobody plans; send words to an agent instead")
        return [ChangeRequested(change=key, text=text, by=by)]

    def _approval(self, key: str, given: Answer, by: str | None) -> list[Event]:
        """Approved; to be changed before; or, without a word, the end of it until somebody says how to go on."""
        name = given.request.removeprefix(APPROVAL)
        phase = self._run.state.phases.get(name)
        if phase is None or phase.approval is not Approval.ASKED:
            raise BadInput(f"{name} does not ask for approval (any more)")
        answered = ApprovalAnswered(
            phase=name,
            round=phase.round,
            approved=given.allow,
            by=by,
            message=key,
            reason=None if given.allow else given.changes or given.reason,
        )
        if given.allow:
            return [answered]
        spec = self._workflow.phase(name)
        if given.changes and spec is not None and change_target(self._workflow, spec) is not None:
            return [answered, ChangeRequested(change=key, text=given.changes, by=by)]
        reason = given.changes or given.reason
        why = f"denied: {reason}" if reason else "denied"
        return [answered, PhaseFailed(phase=name, round=phase.round, reason=why)]


def _passed_over(message: OpenMessage, error: Exception) -> str:
    return f"a message of kind {message.kind} was passed over: {error}"


def _refused(state: RunState, report: RefusedReport) -> ReportRefused:
    conversation = state.conversations.get(report.conversation or "")
    task = state.tasks.get(conversation.task or "") if conversation is not None else None
    return ReportRefused(
        conversation=report.conversation,
        tool=report.tool,
        attempt=(conversation.refused if conversation is not None else 0) + 1,
        error=report.error,
        raw=report.raw,
        task_id=conversation.task if conversation is not None else None,
        iteration=task.iteration if task is not None else None,
    )


def _reported(state: RunState, workflow: Workflow, conversation: str | None, signal: Signal) -> list[Event]:
    """What an agent's report means for its task; a remark when it comes too late, or from somebody else."""
    told = state.conversations.get(conversation or "")
    if conversation is not None and told is not None and told.about is not None:
        return phase_receiving.reported(state, workflow, conversation, signal)
    name = told.task if told is not None else None
    task = state.tasks.get(name or "")
    if name is None or task is None:
        return [WarningLogged(message=f"{signal.tool} came from a conversation that works on no task")]
    if isinstance(signal, ReportProgress):
        return [ProgressReported(task_id=name, text=signal.text)]
    if task.status is not TaskStatus.IN_PROGRESS:
        return [WarningLogged(message=f"{signal.tool} came for {name}, which is {task.status}")]
    match signal:
        case ReportBlocker():
            needed = f" (needed: {signal.needed})" if signal.needed else ""
            return [BlockerReported(description=f"{signal.reason}{needed}", task_id=name)]
        case SubmitCase() | SubmitDone() if _is_awaited(state, task, conversation):
            case = CaseSubmitted(task_id=name, iteration=task.iteration, case=_raw(signal))
            learnt = signal.learnings if isinstance(signal, SubmitCase) else []
            return [case, *([LearningsProposed(task_id=name, learnings=learnt)] if learnt else [])]
        case RequestResearch() if conversation is not None and conversation == task.worker:
            return phase_receiving.requested(state, conversation, signal)
        case SubmitVerdict() if conversation == task.evaluator and task.stage is Stage.EVALUATE:
            return [_verdict(name, task.iteration, signal)]
    return [WarningLogged(message=f"{signal.tool} came for {name} when nobody waited for it")]


def _is_awaited(state: RunState, task: Task, conversation: str | None) -> bool:
    """By its worker, of what it did in this iteration."""
    worker = state.conversations.get(task.worker or "")
    of_this = conversation == task.worker and worker is not None and worker.turns > task.since
    return of_this and task.stage in (Stage.WORK, Stage.VALIDATE)


def _verdict(task: str, iteration: int, signal: SubmitVerdict) -> VerdictGiven:
    return VerdictGiven(
        task_id=task,
        iteration=iteration,
        accept=signal.accept,
        category=signal.category,
        concern=signal.concern,
        evidence=signal.evidence,
        next_step=signal.next_step,
    )


def _raw(signal: Signal) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(signal))
