"""Applies the inbox: what a message means is committed together with the event that it was handled.

Messages to an agent are not applied here: they stay open until a prompt includes them.
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
from holdfast.core.log.codec import DECODE_ERRORS
from holdfast.core.messages.addressing import undeliverable_reason
from holdfast.core.messages.answers import APPROVAL_PREFIX
from holdfast.core.messages.schema import (
    ChangeRequest,
    PromptMessage,
    RefusedReport,
    Report,
    StopRequest,
    UserAnswer,
    decode_body,
)
from holdfast.core.messages.signals import (
    INTERVIEWER_ROLE,
    ReportBlocker,
    ReportProgress,
    RequestResearch,
    Signal,
    SubmitCase,
    SubmitDone,
    SubmitTasks,
    SubmitVerdict,
    read_signal,
)
from holdfast.core.phase_state import Approval
from holdfast.core.state import OpenMessage, RunState
from holdfast.core.summary.gates import change_target
from holdfast.core.task_state import Task, TaskStage, TaskStatus
from holdfast.core.work.workflow import Workflow
from holdfast.engine.agents.permissions import PermissionBroker
from holdfast.engine.inbox import handle_phase as phase_receiving
from holdfast.engine.inbox.handle_chat import (
    ChatCallbacks,
    ChatMessages,
    as_proposed,
    proposed_plan,
    undeliverable_in_chat,
)
from holdfast.leaf.errors import BadInput
from holdfast.store.run import OwnedRun


class InboxHandler:
    """`stop` is called when a user asks the run to stop."""

    def __init__(
        self,
        run: OwnedRun,
        permissions: PermissionBroker,
        workflow: Workflow,
        stop: Callable[[str], None],
        chat: ChatCallbacks | None = None,
    ) -> None:
        self._run = run
        self._workflow = workflow
        self._permissions = permissions
        self._stop = stop
        self._chat = ChatMessages(run, chat or ChatCallbacks())
        self._lock = asyncio.Lock()

    async def receive(self) -> None:
        """Read new messages, and apply every message that was not applied yet."""
        async with self._lock:  # two at once would both apply a message that neither has marked handled
            await self._run.consume_inbox()
            for key, message in list(self._run.state.messages.items()):
                await self._handle(key, message)

    async def _handle(self, key: str, message: OpenMessage) -> None:
        handled = InboxHandled(message=key)
        try:
            match decode_body(message.kind, message.body):
                case PromptMessage():
                    if (why := self._undeliverable_reason(message)) is not None:
                        await self._run.append(WarningLogged(message=why), handled)
                case UserAnswer() as answer:
                    await self._handle_answer(answer, message.sender, handled)
                case ChangeRequest() | StopRequest() | RefusedReport() | Report() as body:
                    await self._run.append(*self._events_for(key, body, message.sender), handled)
                case command:
                    await self._chat.handle(command, message, handled)
        except (*DECODE_ERRORS, BadInput) as error:
            ignored = f"a message of kind {message.kind} was ignored: {error}"
            await self._run.append(WarningLogged(message=ignored), handled)

    def _undeliverable_reason(self, message: OpenMessage) -> str | None:
        """Return why no prompt can include this message."""
        if message.conversation is not None:
            return undeliverable_in_chat(self._run.state, message) if self._run.state.is_chat else None
        why = undeliverable_reason(self._run.state, self._workflow, message.task)
        return f"a message to {message.task or 'any agent'} could not be delivered: {why}" if why is not None else None

    async def _handle_answer(self, answer: UserAnswer, by: str | None, handled: InboxHandled) -> None:
        if answer.request.startswith(APPROVAL_PREFIX):
            await self._run.append(*self._approval_events(handled.message, answer, by), handled)
        else:
            always = [*self._permissions.rule_events(answer.request, by)] if answer.always and answer.allow else []
            preferred = answer.option if not always else self._permissions.once_option(answer.request)
            option = self._permissions.option_for(answer.request, preferred, allow=answer.allow)
            answered = PermissionAnswered(
                request=answer.request,
                option=option,
                by=by or "user",
                message=handled.message,
                reason=None if answer.allow else answer.reason,
            )
            await self._permissions.apply_answer(answered, *always, handled)

    def _events_for(
        self, key: str, body: ChangeRequest | StopRequest | RefusedReport | Report, sender: str | None
    ) -> list[Event]:
        match body:
            case ChangeRequest():
                return self._change_events(key, body.text, sender)
            case StopRequest():
                if body.epoch == self._run.epoch:
                    self._stop(body.reason)
                return []
            case RefusedReport():
                return [_refused_event(self._run.state, body)]
            case Report():
                known = self._run.state.conversations.get(body.conversation or "")
                # the role on record, not the one the report claims
                role = body.role if known is None else known.role or "agent"
                if self._workflow.interview:
                    role = INTERVIEWER_ROLE
                signal = read_signal(role, body.tool, body.arguments)
                return _report_events(self._run.state, self._workflow, body.conversation, signal)

    def _change_events(self, key: str, text: str, by: str | None) -> list[Event]:
        if self._workflow.planner is None:
            raise BadInput(f"in the workflow {self._workflow.name} no phase plans; send a message to an agent instead")
        return [ChangeRequested(change=key, text=text, by=by)]

    def _approval_events(self, key: str, answer: UserAnswer, by: str | None) -> list[Event]:
        """Approved.

        Or changes are requested first; or, without an instruction, the run stops until the user decides.
        """
        name = answer.request.removeprefix(APPROVAL_PREFIX)
        phase = self._run.state.phases.get(name)
        if phase is None or phase.approval is not Approval.ASKED:
            raise BadInput(f"{name} does not ask for approval (any more)")
        answered = ApprovalAnswered(
            phase=name,
            round=phase.round,
            approved=answer.allow,
            by=by,
            message=key,
            reason=None if answer.allow else answer.changes or answer.reason,
        )
        if answer.allow:
            return [answered]
        spec = self._workflow.phase(name)
        if answer.changes and spec is not None and change_target(self._workflow, spec) is not None:
            return [answered, ChangeRequested(change=key, text=answer.changes, by=by)]
        reason = answer.changes or answer.reason
        why = f"denied: {reason}" if reason else "denied"
        return [answered, PhaseFailed(phase=name, round=phase.round, reason=why)]


def _refused_event(state: RunState, report: RefusedReport) -> ReportRefused:
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


def _report_events(state: RunState, workflow: Workflow, conversation_id: str | None, signal: Signal) -> list[Event]:
    """Return what an agent's report means for its task; a remark if it is late or from another conversation."""
    conversation = state.conversations.get(conversation_id or "")
    if conversation_id is not None and conversation is not None and conversation.about is not None:
        return phase_receiving.phase_report_events(state, workflow, conversation_id, signal)
    name = conversation.task if conversation is not None else None
    task = state.tasks.get(name or "")
    if name is None or task is None:
        return [WarningLogged(message=f"{signal.tool} came from a conversation without a task")]
    if isinstance(signal, SubmitTasks):
        return [proposed_plan(state, signal.overview, [as_proposed(task) for task in signal.tasks], signal.seeds)]
    if isinstance(signal, ReportProgress):
        return [ProgressReported(task_id=name, text=signal.text)]
    if task.status is not TaskStatus.IN_PROGRESS:
        return [WarningLogged(message=f"{signal.tool} came for {name}, which is {task.status}")]
    match signal:
        case ReportBlocker():
            needed = f" (needed: {signal.needed})" if signal.needed else ""
            return [BlockerReported(description=f"{signal.reason}{needed}", task_id=name)]
        case SubmitCase() | SubmitDone() if _is_awaited(state, task, conversation_id):
            case = CaseSubmitted(task_id=name, iteration=task.iteration, case=_raw(signal))
            learnt = signal.learnings if isinstance(signal, SubmitCase) else []
            return [case, *([LearningsProposed(task_id=name, learnings=learnt)] if learnt else [])]
        case RequestResearch() if conversation_id is not None and conversation_id == task.worker:
            return phase_receiving.research_events(state, conversation_id, signal)
        case SubmitVerdict() if conversation_id == task.evaluator and task.stage is TaskStage.EVALUATE:
            return [_verdict_event(name, task.iteration, signal)]
    return [WarningLogged(message=f"{signal.tool} came for {name} when it was not expected")]


def _is_awaited(state: RunState, task: Task, conversation_id: str | None) -> bool:
    """True if it is from the task's worker and about the current iteration."""
    worker = state.conversations.get(task.worker or "")
    of_this = conversation_id == task.worker and worker is not None and worker.turns > task.since
    return of_this and task.stage in (TaskStage.WORK, TaskStage.VALIDATE)


def _verdict_event(task_id: str, iteration: int, signal: SubmitVerdict) -> VerdictGiven:
    return VerdictGiven(
        task_id=task_id,
        iteration=iteration,
        accept=signal.accept,
        category=signal.category,
        concern=signal.concern,
        evidence=signal.evidence,
        next_step=signal.next_step,
    )


def _raw(signal: Signal) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(signal))
