"""What each event does to the state: one handler a type. Each knows the state and its line; none knows another."""

from bisect import insort
from collections.abc import Callable
from typing import Any, TypeVar

from holdfast.core.codec import Line, data_of
from holdfast.core.conversation import Rung
from holdfast.core.events import Event
from holdfast.core.events.agent import AgentCompleted, AgentDied, AgentSpawned
from holdfast.core.events.branch import BranchCreated, BranchDeleted, BranchMerged
from holdfast.core.events.budget import BudgetSet, UsageRecorded
from holdfast.core.events.checkpoint import Checkpoint
from holdfast.core.events.conversation import (
    ConversationAttached,
    ConversationDetached,
    ConversationOpened,
    ConversationStateChanged,
    ConversationTokenStored,
    ModeChanged,
    PermissionAnswered,
    PermissionRequested,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    TurnInterrupted,
    TurnStarted,
)
from holdfast.core.events.effect import EffectDidNotHappen, EffectHappened, EffectIntended, EffectUnknown
from holdfast.core.events.inbox import InboxConsumed, InboxHandled, InboxRejected
from holdfast.core.events.issue import BlockerReported, ErrorEncountered, WarningLogged
from holdfast.core.events.log import LogRepaired
from holdfast.core.events.plan import PlanCreated
from holdfast.core.events.session import UPKEEP, RunArchived, RunCreated, RunMoved, SessionEnd, SessionStart
from holdfast.core.events.task import (
    TaskCompleted,
    TaskFailed,
    TaskSkipped,
    TaskStarted,
    WaveCompleted,
    WaveStarted,
)
from holdfast.core.state import (
    KEPT,
    Agent,
    Branch,
    BranchStatus,
    CheckpointReached,
    Conversation,
    Effect,
    EffectStatus,
    Issue,
    OpenMessage,
    Permission,
    Plan,
    RunInfo,
    RunState,
    Task,
    TaskStatus,
    Turn,
    Wave,
)

E = TypeVar("E", bound=Event)
Handler = Callable[[RunState, Any, Any], None]  # of a line of talk (`core.talk`) there is the head alone
HANDLERS: dict[str, Handler] = {}


def _on(
    kind: type[E],
) -> Callable[[Callable[[RunState, Line, E], None]], Callable[[RunState, Line, E], None]]:
    def register(handler: Callable[[RunState, Line, E], None]) -> Callable[[RunState, Line, E], None]:
        HANDLERS[kind.type] = handler
        return handler

    return register


def _name(task: str | int | None) -> str | None:
    return None if task is None else str(task)


@_on(RunCreated)
def _run_created(state: RunState, line: Line, event: RunCreated) -> None:
    state.run = RunInfo(event.run_id, event.goal, event.workflow, event.repo, event.base, event.branch, created=line.ts)


@_on(RunMoved)
def _run_moved(state: RunState, _: Line, event: RunMoved) -> None:
    if state.run is not None:
        state.run.repo = event.repo


@_on(RunArchived)
def _run_archived(state: RunState, _: Line, __: RunArchived) -> None:
    if state.run is not None:
        state.run.archived = True


@_on(SessionStart)
def _session_start(state: RunState, line: Line, event: SessionStart) -> None:
    session = state.sessions[line.sid]
    session.command, session.started = event.command, line.ts
    session.branch, session.mode = event.branch, event.mode
    session.upkeep = state.run is not None and event.command in UPKEEP
    state.feature = line.feature or event.feature or state.feature
    begins = session.events == 1  # one that comes late, or again, does not wipe what its own session did
    if begins and state.run is None and not session.resumed:
        state.plan = None
        state.tasks.clear()
        state.agents.clear()
        state.checkpoints.clear()
        state.branches.clear()
        state.issues.clear()
        state.warnings.clear()


@_on(SessionEnd)
def _session_end(state: RunState, line: Line, event: SessionEnd) -> None:
    session = state.sessions[line.sid]
    session.ended, session.end_reason = True, event.reason


@_on(PlanCreated)
def _plan_created(state: RunState, _: Line, event: PlanCreated) -> None:
    blocked_by: dict[str, list[str]] = {}
    for dependency in event.dependencies:
        blocked_by.setdefault(str(dependency.task_id), []).append(str(dependency.blocked_by))
    state.plan = Plan(
        order=[str(task.id) for task in event.tasks],
        waves={wave.wave: Wave([str(task) for task in wave.task_ids]) for wave in event.waves},
        blocked_by=blocked_by,
    )
    known = set(state.plan.order)
    state.tasks = {n: t for n, t in state.tasks.items() if n in known or t.status is not TaskStatus.PENDING}
    for planned in event.tasks:
        task = state.tasks.setdefault(str(planned.id), Task())
        task.summary, task.agent = planned.summary or task.summary, planned.agent or task.agent


@_on(TaskStarted)
def _task_started(state: RunState, _: Line, event: TaskStarted) -> None:
    task = _moved(state, event.task_id, TaskStatus.IN_PROGRESS)
    task.summary = event.summary or task.summary
    task.agent, task.files = event.agent or task.agent, event.files


@_on(TaskCompleted)
def _task_completed(state: RunState, _: Line, event: TaskCompleted) -> None:
    task = _moved(state, event.task_id, TaskStatus.COMPLETE)
    task.summary = event.summary or task.summary
    task.files_changed = event.files_changed


@_on(TaskSkipped)
def _task_skipped(state: RunState, _: Line, event: TaskSkipped) -> None:
    _moved(state, event.task_id, TaskStatus.SKIPPED).reason = event.reason


@_on(TaskFailed)
def _task_failed(state: RunState, line: Line, event: TaskFailed) -> None:
    task = _moved(state, event.task_id, TaskStatus.FAILED)
    task.error, task.attempts = event.error, event.attempts
    _keep(state, state.issues, line, _issue(state, line, event, task=str(event.task_id)))


def _moved(state: RunState, task_id: str | int, status: TaskStatus) -> Task:
    """The task in its new status. An earlier failure of it no longer stands: the task went on since."""
    name = str(task_id)
    state.issues = [i for i in state.issues if not (i.type == TaskFailed.type and i.task == name)]
    task = state.tasks.setdefault(name, Task())
    task.status, task.error, task.attempts, task.reason = status, None, None, None
    return task


@_on(WaveStarted)
def _wave_started(state: RunState, _: Line, event: WaveStarted) -> None:
    _wave(state, event.wave).started = True


@_on(WaveCompleted)
def _wave_completed(state: RunState, _: Line, event: WaveCompleted) -> None:
    _wave(state, event.wave).completed = True


def _wave(state: RunState, number: int) -> Wave:
    if state.plan is None:
        state.plan = Plan()
    return state.plan.waves.setdefault(number, Wave())


@_on(AgentSpawned)
def _agent_spawned(state: RunState, line: Line, event: AgentSpawned) -> None:
    state.agents[event.name] = Agent(line.sid, event.role, _name(event.task), event.branch)
    if event.branch is not None:
        state.branches.setdefault(event.branch, Branch(BranchStatus.IN_PROGRESS, task=_name(event.task)))


@_on(AgentCompleted)
def _agent_completed(state: RunState, line: Line, event: AgentCompleted) -> None:
    agent = state.agents.setdefault(event.name, Agent(line.sid))
    agent.active, agent.result = False, event.result


@_on(AgentDied)
def _agent_died(state: RunState, line: Line, event: AgentDied) -> None:
    agent = state.agents.setdefault(event.name, Agent(line.sid))
    agent.active, agent.result = False, event.reason


@_on(BranchCreated)
def _branch_created(state: RunState, _: Line, event: BranchCreated) -> None:
    state.branches[event.name] = Branch(BranchStatus.IN_PROGRESS, task=_name(event.task), base=event.base)


@_on(BranchMerged)
def _branch_merged(state: RunState, _: Line, event: BranchMerged) -> None:
    branch = state.branches.setdefault(event.name, Branch(BranchStatus.IN_PROGRESS))
    branch.status, branch.target = BranchStatus.MERGED, event.target


@_on(BranchDeleted)
def _branch_deleted(state: RunState, _: Line, event: BranchDeleted) -> None:
    state.branches.setdefault(event.name, Branch(BranchStatus.DELETED)).status = BranchStatus.DELETED


@_on(ConversationOpened)
def _conversation_opened(state: RunState, _: Line, event: ConversationOpened) -> None:
    conversation = _conversation(state, event.conversation)
    conversation.agent, conversation.role, conversation.task = event.agent, event.role, _name(event.task)


@_on(ConversationStateChanged)
def _conversation_state_changed(state: RunState, _: Line, event: ConversationStateChanged) -> None:
    _conversation(state, event.conversation).state = event.state


@_on(ConversationTokenStored)
def _conversation_token_stored(state: RunState, _: Line, event: ConversationTokenStored) -> None:
    _conversation(state, event.conversation).token = event.token


@_on(ConversationAttached)
def _conversation_attached(state: RunState, _: Line, event: ConversationAttached) -> None:
    conversation = _conversation(state, event.conversation)
    conversation.started = True
    if event.rung == Rung.INJECT:
        conversation.blank = True
    conversation.pid, conversation.start_time, conversation.boot_id = event.pid, event.start_time, event.boot_id


@_on(ConversationDetached)
def _conversation_detached(state: RunState, _: Line, event: ConversationDetached) -> None:
    conversation = _conversation(state, event.conversation)
    conversation.pid = conversation.start_time = conversation.boot_id = None


@_on(ModeChanged)
def _mode_changed(state: RunState, _: Line, event: ModeChanged) -> None:
    _conversation(state, event.conversation).mode = event.mode


@_on(PermissionRequested)
def _permission_requested(state: RunState, _: Line, event: PermissionRequested) -> None:
    turn = _conversation(state, event.conversation).turn
    state.permissions[event.request] = Permission(
        event.conversation,
        event.title,
        event.kind,
        event.paths,
        bytes(event.options).decode(),
        event.fingerprint,
        turn.turn if turn is not None else None,
    )
    if event.fingerprint is not None:
        state.granted.pop(event.fingerprint, None)


@_on(PermissionAnswered)
def _permission_answered(state: RunState, _: Line, event: PermissionAnswered) -> None:
    """An answer for a turn that is over is kept: the agent will ask again when it is back."""
    asked = state.permissions.pop(event.request, None)
    if asked is None or asked.fingerprint is None or event.option is None:
        return
    turn = _conversation(state, asked.conversation).turn
    if turn is None or turn.turn != asked.turn:
        state.granted[asked.fingerprint] = event.option


@_on(TurnStarted)
def _turn_started(state: RunState, line: Line, event: TurnStarted) -> None:
    conversation = _conversation(state, event.conversation)
    conversation.turns += 1
    conversation.turn = Turn(event.turn, started=line.ts, messages=event.messages)


@_on(TurnEnded)
def _turn_ended(state: RunState, _: Line, event: TurnEnded) -> None:
    conversation = _conversation(state, event.conversation)
    conversation.turn, conversation.blank = None, False


@_on(TurnInterrupted)
def _turn_interrupted(state: RunState, _: Line, event: TurnInterrupted) -> None:
    conversation = _conversation(state, event.conversation)
    conversation.interrupted_turns += 1
    conversation.turn = None


@_on(ToolCalled)
def _tool_called(state: RunState, _: Line, event: ToolCalled) -> None:
    turn = _conversation(state, event.conversation).turn
    if turn is not None:
        turn.calls[event.call] = event.tool


@_on(ToolReturned)
def _tool_returned(state: RunState, _: Line, event: ToolReturned) -> None:
    turn = _conversation(state, event.conversation).turn
    if turn is not None:
        turn.calls.pop(event.call, None)


def _conversation(state: RunState, name: str) -> Conversation:
    found = state.conversations.get(name)
    if found is None:
        found = state.conversations[name] = Conversation()
    return found


@_on(EffectIntended)
def _effect_intended(state: RunState, _: Line, event: EffectIntended) -> None:
    state.effects[event.effect] = Effect(event.kind, _name(event.task), event.arguments)


@_on(EffectHappened)
def _effect_happened(state: RunState, _: Line, event: EffectHappened) -> None:
    _settle(state, event.effect)


@_on(EffectDidNotHappen)
def _effect_did_not_happen(state: RunState, _: Line, event: EffectDidNotHappen) -> None:
    _settle(state, event.effect)


def _settle(state: RunState, effect: str) -> None:
    if state.effects.pop(effect, None) is not None:
        state.effects_settled += 1


@_on(EffectUnknown)
def _effect_unknown(state: RunState, _: Line, event: EffectUnknown) -> None:
    effect = state.effects.get(event.effect)
    if effect is not None:
        effect.status, effect.reason = EffectStatus.UNKNOWN, event.reason


@_on(Checkpoint)
def _checkpoint(state: RunState, line: Line, event: Checkpoint) -> None:
    reached = CheckpointReached(
        line.sid,
        line.seq,
        event.label,
        event.branch,
        event.commit,
        event.plan_step,
        event.resumable,
        ts=line.ts,
    )
    order = {sid: rank for rank, sid in enumerate(state.sessions)}
    insort(state.checkpoints, reached, key=lambda point: (order[point.sid], point.seq))
    if _is_newest(state, line.sid):
        state.issues = [i for i in state.issues if i.sid == line.sid and i.seq > line.seq]
        state.warnings = [w for w in state.warnings if w.sid == line.sid and w.seq > line.seq]


@_on(ErrorEncountered)
def _error_encountered(state: RunState, line: Line, event: ErrorEncountered) -> None:
    if not event.resolved:
        _keep(state, state.issues, line, _issue(state, line, event))
        return
    same = {"file": event.file, "error": event.error}
    state.issues = [
        issue
        for issue in state.issues
        if issue.type != event.type or {key: issue.detail.get(key) for key in same} != same
    ]


@_on(BlockerReported)
def _blocker_reported(state: RunState, line: Line, event: BlockerReported) -> None:
    said = data_of(line)
    found = _issue(state, line, event, task=_name(event.task_id or said.get("taskId") or said.get("task")))
    if not event.resolved:
        _keep(state, state.issues, line, found)
        return
    same = (event.type, found.task, event.description)
    state.issues = [i for i in state.issues if (i.type, i.task, i.detail.get("description")) != same]


@_on(WarningLogged)
def _warning_logged(state: RunState, line: Line, event: WarningLogged) -> None:
    _keep(state, state.warnings, line, _issue(state, line, event))


def _keep(state: RunState, kept: list[Issue], line: Line, issue: Issue) -> None:
    """Not what an older session still writes, nor what stands later in the file but came before the checkpoint."""
    last = state.checkpoints[-1] if state.checkpoints else None
    passed = last is not None and last.sid == line.sid and line.seq < last.seq
    if _is_newest(state, line.sid) and not passed:
        kept.append(issue)
        del kept[:-KEPT]


def _is_newest(state: RunState, sid: str) -> bool:
    return sid == next(reversed(state.sessions))


def _issue(state: RunState, line: Line, event: Event, task: str | None = None) -> Issue:
    worker = state.agents.get(line.agent) if line.agent is not None else None
    if task is None and worker is not None:
        task = worker.task
    return Issue(event.type, line.seq, line.agent, task, detail=data_of(line), sid=line.sid)


@_on(UsageRecorded)
def _usage_recorded(state: RunState, _: Line, event: UsageRecorded) -> None:
    state.budget.input_tokens += event.input_tokens
    state.budget.output_tokens += event.output_tokens
    state.budget.dollars += event.dollars


@_on(BudgetSet)
def _budget_set(state: RunState, _: Line, event: BudgetSet) -> None:
    state.budget.cap_tokens, state.budget.cap_dollars = event.tokens, event.dollars


@_on(InboxConsumed)
def _inbox_consumed(state: RunState, _: Line, event: InboxConsumed) -> None:
    state.inbox_cursor = max(state.inbox_cursor, event.cursor)
    state.inbox_consumed += 1
    state.messages[event.message] = OpenMessage(event.kind, event.sender, bytes(event.body).decode())


@_on(InboxHandled)
def _inbox_handled(state: RunState, _: Line, event: InboxHandled) -> None:
    state.messages.pop(event.message, None)


@_on(InboxRejected)
def _inbox_rejected(state: RunState, _: Line, event: InboxRejected) -> None:
    state.inbox_cursor = max(state.inbox_cursor, event.cursor)


@_on(LogRepaired)
def _log_repaired(state: RunState, _: Line, event: LogRepaired) -> None:
    state.repairs.append(event.kept_as)
