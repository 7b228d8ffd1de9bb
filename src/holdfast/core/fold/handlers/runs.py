"""Handlers of run and session events: creation, settings, start and end, usage."""

from holdfast.core.events.adoption import RunAdopted
from holdfast.core.events.budget import BudgetSet, UsageRecorded
from holdfast.core.events.log import LogRepaired, RetentionApplied
from holdfast.core.events.session import (
    MAINTENANCE_COMMANDS,
    ResumeChosen,
    RunArchived,
    RunCreated,
    RunMoved,
    RunResumed,
    SeedsCommitted,
    SessionEnd,
    SessionStart,
    SettingsChosen,
)
from holdfast.core.fold.handlers.base import on
from holdfast.core.log.codec import Line
from holdfast.core.state import AdoptedFrom, Branch, BranchStatus, PendingChoice, RunInfo, RunState, WithheldPart
from holdfast.core.task_index import drop_task_index


@on(RunCreated)
def _run_created(state: RunState, line: Line, event: RunCreated) -> None:
    state.run = RunInfo(event.run_id, event.goal, event.workflow, event.repo, event.base, event.branch, created=line.ts)
    state.run.remote, state.run.needs = event.remote, event.needs


@on(RunAdopted)
def _run_adopted(state: RunState, line: Line, event: RunAdopted) -> None:
    if state.run is not None:
        state.run.adopted = AdoptedFrom(event.tool, event.path, line.ts, event.version, event.session)


@on(SeedsCommitted)
def _seeds_committed(state: RunState, _: Line, event: SeedsCommitted) -> None:
    branch = state.branches.setdefault(event.branch, Branch(BranchStatus.IN_PROGRESS))
    branch.tip = event.commit
    if state.run is not None:
        state.run.seeded = event.seeds is None or event.seeds > 0


@on(ResumeChosen)
def _resume_chosen(state: RunState, _: Line, event: ResumeChosen) -> None:
    state.choice = PendingChoice(event.choice, event.tasks, event.instructions)


@on(RunResumed)
def _run_resumed(state: RunState, _: Line, event: RunResumed) -> None:
    """The open issues were decided on; the recorded choice is carried out."""
    state.choice = None
    if event.decision is not None:
        state.issues.clear()
    if event.instructions is not None:
        state.instructions.append(event.instructions)
    for conversation in state.conversations.values():
        conversation.cuts = conversation.empty = 0


@on(SettingsChosen)
def _settings_chosen(state: RunState, _: Line, event: SettingsChosen) -> None:
    state.settings = event.settings


@on(RunMoved)
def _run_moved(state: RunState, _: Line, event: RunMoved) -> None:
    if state.run is not None:
        state.run.repo = event.repo


@on(RunArchived)
def _run_archived(state: RunState, _: Line, __: RunArchived) -> None:
    if state.run is not None:
        state.run.archived = True


@on(SessionStart)
def _session_start(state: RunState, line: Line, event: SessionStart) -> None:
    session = state.sessions[line.sid]
    session.command, session.started, session.machine = event.command, line.ts, event.machine
    session.branch, session.mode = event.branch, event.mode
    session.upkeep = state.run is not None and event.command in MAINTENANCE_COMMANDS
    state.feature = line.feature or event.feature or state.feature
    begins = session.events == 1  # a late or repeated start must not erase the work of its own session
    if begins and state.run is None and not session.is_resume:
        state.plan = None
        state.tasks.clear()
        drop_task_index(state)
        state.agents.clear()
        state.checkpoints.clear()
        state.branches.clear()
        state.issues.clear()
        state.warnings.clear()


@on(SessionEnd)
def _session_end(state: RunState, line: Line, event: SessionEnd) -> None:
    session = state.sessions[line.sid]
    session.ended, session.end_reason, session.end_detail = True, event.reason, event.summary


@on(UsageRecorded)
def _usage_recorded(state: RunState, _: Line, event: UsageRecorded) -> None:
    state.budget.input_tokens += event.input_tokens
    state.budget.output_tokens += event.output_tokens
    priced = event.priced or event.dollars > 0
    if priced:
        state.budget.dollars = (state.budget.dollars or 0.0) + event.dollars
    task = state.tasks.get(str(event.task)) if event.task is not None else None
    if task is not None:
        task.tokens += event.input_tokens + event.output_tokens
        task.dollars += event.dollars + (event.estimate or 0.0)
    if event.estimate is not None:
        state.budget.estimate = (state.budget.estimate or 0.0) + event.estimate
    conversation = state.conversations.get(event.conversation or "")
    if conversation is not None:
        conversation.tokens += event.input_tokens + event.output_tokens
        if event.estimate is not None:
            conversation.estimate = (conversation.estimate or 0.0) + event.estimate
        conversation.cost += event.dollars
        conversation.dollars += event.dollars
        conversation.priced = conversation.priced or priced


@on(BudgetSet)
def _budget_set(state: RunState, _: Line, event: BudgetSet) -> None:
    state.budget.cap_tokens, state.budget.cap_dollars = event.tokens, event.dollars


@on(LogRepaired)
def _log_repaired(state: RunState, _: Line, event: LogRepaired) -> None:
    state.repairs.append(event.kept_as)


@on(RetentionApplied)
def _retention_applied(state: RunState, line: Line, event: RetentionApplied) -> None:
    state.withheld.append(WithheldPart(event.rule, event.until, event.events, event.bytes, line.ts))
