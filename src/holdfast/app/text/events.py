"""Each event in one short line of words, for whoever watches; or nothing, for what only the machinery needs to know."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from holdfast.app.text.screen import counted, plain
from holdfast.core.conversation.call_text import lines_of, summary_of, visible
from holdfast.core.events import Event, budget, checkpoint, effect, inbox, issue, log, phase, plan, session, task, work
from holdfast.core.events import agent as agents
from holdfast.core.events import branch as branches
from holdfast.core.events import conversation as talk
from holdfast.core.state import RunState
from holdfast.core.summary.gates import gate_lines, gate_of
from holdfast.core.work.names import run_of_branch

_LONGEST = 400  # characters; a terminal shows fewer

SILENT: Final[frozenset[type[Event]]] = frozenset(
    {
        session.SettingsChosen,
        phase.WorkflowChosen,
        phase.PhaseDelivered,
        work.MemoryLoaded,
        work.ValidationStarted,
        agents.AgentSpawned,
        agents.AgentCompleted,
        branches.BranchCreated,
        branches.BranchDeleted,
        talk.ConversationStateChanged,
        talk.ConversationTokenStored,
        talk.ConversationDetached,
        talk.TurnStarted,
        talk.ToolDetailed,
        effect.EffectIntended,
        effect.EffectHappened,
        budget.UsageRecorded,
        inbox.InboxHandled,
    }
)


def told(event: Event) -> str | None:
    """One line, fit for a terminal. Whom it is about is told by `subject`."""
    tell = TOLD.get(type(event))
    words = tell(event) if tell is not None else None
    return plain(" ".join(words[: 4 * _LONGEST].split()))[:_LONGEST] if words else None


def detail(event: Event, state: RunState) -> tuple[str, ...]:
    """Further lines, of what a person has to see whole."""
    if isinstance(event, phase.ApprovalRequested):
        gate = gate_of(state, event.phase)
        return tuple(gate_lines(gate)) if gate is not None else ()
    return tuple(lines_of(event)) if isinstance(event, talk.PermissionRequested) else ()


def subject(event: Event, state: RunState) -> str:
    """Whom an event is about: a task, with the role of the agent when it is one's doing. Empty for the run itself."""
    known = state.conversations.get(getattr(event, "conversation", None) or "")
    if known is not None:
        role = known.role if known.role not in (None, "worker") else None
        return plain(" ".join(part for part in (known.task, role) if part) or known.agent or "")
    name = getattr(event, "task_id", None)
    name = name if name is not None else getattr(event, "task", None)
    name = name if name is not None else getattr(event, "phase", None)
    return plain(str(name)) if name is not None else ""


def tone(event: Event) -> str | None:
    """The colour in which it is told."""
    match event:
        case work.VerdictGiven() | work.ValidatorFinished() | work.ValidationFinished():
            return "green" if getattr(event, "accept", getattr(event, "passed", False)) else "yellow"
        case phase.PhaseCompleted():
            return {"failed": "yellow", "skipped": "dim"}.get(event.outcome, "green")
        case phase.ReviewGiven():
            return "green" if event.passed else "yellow"
        case talk.MessageRecorded() | talk.ToolCalled() | talk.AgentMisbehaved() | work.ProgressReported():
            return "dim"
        case issue.ErrorEncountered() if event.retried and not event.resolved:
            return "yellow"
        case issue.ErrorEncountered() | issue.BlockerReported():
            return "green" if event.resolved else "red"
        case _:
            return _TONES.get(type(event))


def is_bad(event: Event) -> bool:
    """True of what is told even to those who want to hear nothing."""
    return tone(event) == "red"


_TONES: Mapping[type[Event], str] = {
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
    talk.PermissionRequested: "yellow",
    talk.ToolBlocked: "yellow",
    talk.TurnInterrupted: "yellow",
    talk.TurnWasEmpty: "yellow",
    talk.RungFailed: "yellow",
    talk.ToolReturned: "yellow",
    agents.AgentDied: "yellow",
    issue.WarningLogged: "yellow",
    log.LogRepaired: "yellow",
    session.SessionStart: "cyan",
    session.SessionEnd: "cyan",
    session.RunResumed: "cyan",
}


# The words


def _and(words: str, more: object) -> str:
    return f"{words}: {more}" if more else words


def _plan(event: plan.PlanCreated) -> str:
    waves = f" in {counted(len(event.waves), 'wave')}" if len(event.waves) > 1 else ""
    return f"planned: {counted(len(event.tasks), 'task')}{waves}"


def _validator(event: work.ValidatorFinished) -> str:
    how = "passed" if event.passed else "failed"
    flaky = ", only the second time" if event.flaky else ""
    return _and(f"{event.name} {how}{flaky} ({event.seconds:.1f} s)", event.problem)


def _verdict(event: work.VerdictGiven) -> str:
    if event.accept:
        return f"accepted, iteration {event.iteration}"
    made_up = ", for want of a verdict" if event.synthetic else ""
    return _and(f"rejected, iteration {event.iteration}{made_up}", event.concern or event.category)


def _committed(event: work.TaskCommitted) -> str:
    return f"committed {event.commit[:10]}" if event.commit else "changed nothing, so there is no commit"


def _commit_changed(event: work.CommitChanged) -> str:
    who = {
        work.HOOK: "a commit hook changed what was checked",
        work.MERGE: "the run's branch was merged into the task's",
    }
    files = f" ({', '.join(event.files)})" if event.files else ""
    return f"{who.get(event.reason, 'there are commits that were not checked')}{files}; checking {event.commit[:10]}"


def _merged(event: branches.BranchMerged) -> str:
    return f"merged {_leaf(event.name)}{' into ' + _leaf(event.target) if event.target else ''}"


def _leaf(branch: str) -> str:
    """A run's own branches are known by their last word; any other by its name."""
    return branch.rpartition("/")[2] if run_of_branch(branch) is not None else branch


def _short(agent: str | None) -> str:
    kind, _, file = (agent or "an agent").partition(":")
    return f"{kind} {file.rpartition('/')[2]}" if file else kind


def _attached(event: talk.ConversationAttached) -> str | None:
    return event.notice or (f"the agent is back ({event.rung})" if event.rung != "fresh" else None)


def _said(event: talk.MessageRecorded) -> str | None:
    first = next((line for line in event.text.splitlines() if line.strip()), None)
    match event.speaker:
        case "agent":
            return f"“{first.strip()}”" if first else None
        case "system":
            return first
        case _:
            return None  # what we told it is in the log; what it thinks is its own


def _called(event: talk.ToolCalled) -> str:
    return event.tool + (f" {where}" if (where := _place(event.locations)) and where not in event.tool else "")


def _place(locations: msgspec.Raw) -> str:
    try:
        found: Any = msgspec.json.decode(locations)
        return str(found[0]["path"])
    except (msgspec.MsgspecError, LookupError, TypeError):
        return ""


def _blocked(event: talk.ToolBlocked) -> str:
    called = f" ({visible(event.tool)})" if event.command is not None and event.tool not in event.command else ""
    return _and(f"blocked: {visible(event.command or event.tool)}{called}", event.reason)


def _answered(event: talk.PermissionAnswered) -> str:
    return f"answered: {event.option or 'nobody chose'}{' (' + event.by + ')' if event.by else ''}"


def _taken_in(event: inbox.InboxConsumed) -> str:
    if event.kind.startswith("signal."):
        return ""  # what it means is told next
    try:
        body: Any = json.loads(bytes(event.body))
    except ValueError:
        body = None
    words = body.get("text") or body.get("summary") if isinstance(body, dict) else None
    return _and(f"{event.kind} from {event.sender or 'an agent'}", words)


def _error(event: issue.ErrorEncountered) -> str:
    where = f" ({event.file}{':' + str(event.line) if event.line else ''})" if event.file else ""
    return f"{'resolved' if event.resolved else 'error'}: {event.error or 'unnamed'}{where}"


def _hook(event: work.HookRan) -> str | None:
    if event.problem is None and (event.outcome == "block" or not event.exit_code):
        return None  # of a block, the tool call that was blocked is told
    return _and(f"the hook {event.hook} failed", event.problem or f"exit {event.exit_code}")


def _caps(event: budget.BudgetSet) -> str:
    tokens = f"{event.tokens:,} tokens" if event.tokens is not None else None
    dollars = f"${event.dollars:.2f}" if event.dollars is not None else None
    return f"may spend {' and '.join(part for part in (tokens, dollars) if part) or 'without a cap'}"


def _misbehaved(event: talk.AgentMisbehaved) -> str:
    times = f" ({event.times} times)" if event.times > 1 else ""
    return _and(f"odd: {event.what}{times}", event.detail)


TOLD: Final[Mapping[type[Event], Callable[[Any], str | None]]] = {
    session.SessionStart: lambda e: f"{e.command} begins",
    session.SessionEnd: lambda e: _and(f"the sitting ended ({e.reason or 'normally'})", e.summary),
    session.RunCreated: lambda e: f"{e.workflow}: {e.goal}",
    session.SeedsCommitted: lambda e: f"seed files committed as {e.commit[:10]}",
    session.ResumeChosen: lambda e: _and(f"chosen: {e.choice}", ", ".join(e.tasks) or None),
    session.RunResumed: lambda e: f"resumed (last stop: {e.last_stop or 'unknown'}): {e.summary}",
    session.RunMoved: lambda e: f"the repository is now at {e.repo}",
    session.RunArchived: lambda _: "archived",
    plan.PlanCreated: _plan,
    phase.PhaseStarted: lambda e: _and(f"the phase begins{f', round {e.round}' if e.round > 1 else ''}", e.reason),
    phase.PhaseCompleted: lambda e: _and(f"the phase is over ({e.outcome})", e.reason),
    phase.PhaseFailed: lambda e: f"the phase failed: {e.reason}",
    phase.PhaseReopened: lambda e: _and("the phase goes on", e.reason),
    phase.ArtifactStored: lambda e: f"handed in: {e.title}",
    phase.ReviewGiven: lambda e: _and(f"{e.role} {'passes it' if e.passed else 'does not pass it'}", e.summary),
    phase.ApprovalRequested: lambda e: _and("asks for your approval", e.summary),
    phase.ApprovalAnswered: lambda e: f"{'approved' if e.approved else 'not approved'}{' by ' + e.by if e.by else ''}",
    phase.ChangeRequested: lambda e: f"to be changed: {e.text}",
    phase.WorkPublished: lambda e: e.problem or _and(f"pushed to {e.remote}", e.url),
    phase.ResearchRequested: lambda e: f"asks to look into {e.topic}",
    phase.ResearchAnswered: lambda e: "answered" if e.found else "nobody found an answer",
    phase.PreferencesProposed: lambda e: f"proposes {counted(len(e.preferences), 'preference')} for the {e.role}",
    task.TaskStarted: lambda e: _and("started", e.summary),
    task.TaskCompleted: lambda e: _and("done", e.outcome or e.summary),
    task.TaskFailed: lambda e: _and("failed", e.error),
    task.TaskSkipped: lambda e: _and("skipped", e.reason),
    task.WaveStarted: lambda e: f"wave {e.wave} begins",
    task.WaveCompleted: lambda e: f"wave {e.wave} is done",
    work.CaseSubmitted: lambda e: f"says it is done, iteration {e.iteration}",
    work.ReportRefused: lambda e: f"{e.tool} was refused (attempt {e.attempt}): {e.error}",
    work.ValidatorFinished: _validator,
    work.ValidationFinished: lambda e: "all checks passed" if e.passed else f"checks failed: {', '.join(e.failed)}",
    work.VerdictGiven: _verdict,
    work.IterationEnded: lambda e: f"iteration {e.iteration} came to nothing: {e.reason}",
    work.TaskCommitted: _committed,
    work.CommitChanged: _commit_changed,
    work.CommitRefused: lambda e: _and("a commit hook refused; telling the worker", " ".join(e.output.split())),
    work.MergeConflicted: lambda e: f"does not merge as it is: {', '.join(e.files)}",
    work.TaskRestarted: lambda e: _and("restarts from scratch", ", ".join(e.salvaged) or None),
    work.TaskReopened: lambda e: _and("to be done again", e.reason),
    work.LearningsProposed: lambda e: f"proposes {counted(len(e.learnings), 'learning')}" if e.learnings else None,
    work.ProgressReported: lambda e: e.text,
    work.HookRan: _hook,
    agents.AgentDied: lambda e: _and(f"the agent {e.name} died", e.reason),
    branches.BranchMerged: _merged,
    branches.WorkspaceReconciled: lambda e: e.message,
    talk.ConversationOpened: lambda e: f"{_short(e.agent)} sits down{' as ' + e.role if e.role else ''}",
    talk.ConversationAttached: _attached,
    talk.RungFailed: lambda e: _and(f"could not come back by {e.rung}", e.reason),
    talk.ModeChanged: lambda e: f"mode: {e.mode}",
    talk.AgentPlanned: lambda e: _entries(e.entries),
    talk.AgentMisbehaved: _misbehaved,
    talk.PermissionRequested: lambda e: f"asks: {summary_of(e)}",
    talk.PermissionAnswered: _answered,
    talk.ToolBlocked: _blocked,
    talk.TurnEnded: lambda e: f"stopped: {e.stop_reason}" if e.stop_reason not in (None, "end_turn") else None,
    talk.TurnWasEmpty: lambda e: f"empty turn: no message and no tool call ({e.streak} in a row)",
    talk.TurnInterrupted: lambda e: _and("cut off in the middle of a turn", e.reason),
    talk.MessageRecorded: _said,
    talk.ToolCalled: _called,
    talk.ToolReturned: lambda e: f"a tool call was {e.status}" if e.status != "completed" else None,
    effect.EffectDidNotHappen: lambda e: _and("did not happen", e.reason),
    effect.EffectUnknown: lambda e: _and("whether it happened is not known", e.reason),
    checkpoint.Checkpoint: lambda e: f"checkpoint: {e.label}",
    issue.ErrorEncountered: _error,
    issue.BlockerReported: lambda e: _and("no longer blocked" if e.resolved else "blocked", e.description),
    issue.WarningLogged: lambda e: f"warning: {e.message or 'unnamed'}",
    budget.BudgetSet: _caps,
    inbox.InboxConsumed: _taken_in,
    inbox.InboxRejected: lambda e: f"a message was passed over: {e.reason}",
    inbox.InboxReread: lambda _: "the inbox is read again from its beginning",
    log.LogRepaired: lambda e: f"a torn end of the log was set aside ({e.bytes} bytes): {e.reason}",
}


def _entries(entries: msgspec.Raw) -> str | None:
    try:
        found: Any = msgspec.json.decode(entries)
        done = sum(one.get("status") == "completed" for one in found)
        now = next((one.get("content") for one in found if one.get("status") == "in_progress"), None)
    except (msgspec.MsgspecError, AttributeError, TypeError):
        return None
    return _and(f"its own plan: {done} of {len(found)} done", now)
