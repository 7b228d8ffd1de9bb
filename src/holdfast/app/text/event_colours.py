"""Chooses the colour of each event's line, which also tells errors apart."""

from collections.abc import Mapping

from holdfast.core.events import Event, effect, issue, log, phase, preparation, provider, session, task, work
from holdfast.core.events import agent as agents
from holdfast.core.events import branch as branches
from holdfast.core.events import conversation as conversations


def event_colour(event: Event) -> str | None:
    """Return the colour of an event's line."""
    match event:
        case work.ValidationFinished(passed=True, excused=[_, *_]):
            return "yellow"
        case work.VerdictGiven() | work.ValidationFinished() | work.ValidatorFinished():
            return "green" if getattr(event, "accept", getattr(event, "passed", False)) else "yellow"
        case preparation.WorktreeSetupFinished():
            return "green" if event.passed else "red"
        case preparation.BaselineFinished():
            return _baseline_colour(event)
        case phase.PhaseCompleted():
            return {"failed": "yellow", "skipped": "dim"}.get(event.outcome, "green")
        case phase.ReviewGiven():
            return "green" if event.passed else "yellow"
        case (
            conversations.MessageRecorded()
            | conversations.ToolCalled()
            | conversations.AgentMisbehaved()
            | work.ProgressReported()
        ):
            return "dim"
        case issue.ErrorEncountered() if event.retried and not event.resolved:
            return "yellow"
        case issue.ErrorEncountered() | issue.BlockerReported():
            return "green" if event.resolved else "red"
        case _:
            return _COLOURS.get(type(event))


def _baseline_colour(event: preparation.BaselineFinished) -> str:
    if len(event.failed) == len(event.checks):
        return "red"
    return "yellow" if event.failed else "green"


def is_error(event: Event) -> bool:
    """Whether the event is shown even with `--quiet`."""
    return event_colour(event) == "red"


_COLOURS: Mapping[type[Event], str] = {
    task.TaskCompleted: "green",
    phase.PhaseStarted: "cyan",
    phase.PhaseFailed: "red",
    phase.PhaseReopened: "yellow",
    phase.ApprovalRequested: "yellow",
    phase.ChangeRequested: "yellow",
    task.WaveCompleted: "green",
    branches.BranchMerged: "green",
    branches.WorkspaceReconciled: "yellow",
    task.TaskFailed: "red",
    effect.EffectUnknown: "red",
    task.TaskSkipped: "yellow",
    work.IterationEnded: "yellow",
    work.ReportRefused: "yellow",
    work.CommitChanged: "yellow",
    work.CommitRefused: "yellow",
    work.MergeConflicted: "yellow",
    work.TaskReopened: "yellow",
    work.TaskRestarted: "yellow",
    conversations.PermissionRequested: "yellow",
    conversations.ToolBlocked: "yellow",
    conversations.TurnInterrupted: "yellow",
    conversations.TurnWasEmpty: "yellow",
    conversations.RecoveryStrategyFailed: "yellow",
    conversations.ToolReturned: "yellow",
    agents.AgentDied: "yellow",
    issue.WarningLogged: "yellow",
    provider.QuotaHit: "yellow",
    provider.OutageMet: "yellow",
    log.LogRepaired: "yellow",
    session.SessionStart: "cyan",
    session.SessionEnd: "cyan",
    session.RunResumed: "cyan",
}
