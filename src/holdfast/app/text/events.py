"""Describes each event in one short line. Internal events have no description."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from holdfast.app.text.screen import format_time, pluralize, printable
from holdfast.core.conversation.call_text import call_lines, call_summary, to_printable
from holdfast.core.conversation.states import IMPORTED
from holdfast.core.end_reason import end_reason_text
from holdfast.core.events import (
    Event,
    adoption,
    budget,
    chat,
    checkpoint,
    effect,
    inbox,
    issue,
    log,
    phase,
    plan,
    preparation,
    provider,
    rewind,
    session,
    task,
    work,
)
from holdfast.core.events import agent as agents
from holdfast.core.events import branch as branches
from holdfast.core.events import conversation as conversations
from holdfast.core.messages.attachments import size_text
from holdfast.core.messages.schema import MessageKind, is_report
from holdfast.core.state import RunState
from holdfast.core.summary.gates import gate_lines, gate_of
from holdfast.core.text.excerpt import excerpt_lines
from holdfast.core.work.foreign_tools import tool_name
from holdfast.core.work.names import run_of_branch, short_point_name, task_of_branch

_MAX_LINE_CHARS = 400  # more than a terminal shows
_EXCERPT_LINES = 5  # from each end of a failed command's output

SILENT_EVENTS: Final[frozenset[type[Event]]] = frozenset(
    {
        session.SettingsChosen,
        phase.WorkflowChosen,
        phase.PhaseDelivered,
        work.MemoryLoaded,
        work.ValidationStarted,
        preparation.WorktreePrepared,
        agents.AgentSpawned,
        agents.AgentCompleted,
        branches.BranchCreated,
        branches.BranchDeleted,
        conversations.ConversationStateChanged,
        conversations.CommandsListed,
        conversations.ConversationTokenStored,
        conversations.ConversationDetached,
        conversations.TurnStarted,
        conversations.ToolDetailed,
        effect.EffectIntended,
        effect.EffectHappened,
        budget.UsageRecorded,
        inbox.InboxHandled,
    }
)


def describe_event(event: Event) -> str | None:
    """Return one line for a terminal, or None for an internal event. `event_subject` names the task."""
    describe = DESCRIPTIONS.get(type(event))
    text = describe(event) if describe is not None else None
    return printable(" ".join(text[: 4 * _MAX_LINE_CHARS].split()))[:_MAX_LINE_CHARS] if text else None


def event_details(event: Event, state: RunState) -> tuple[str, ...]:
    """Return the details of a request, which a person has to see in full; and the first and last lines of a failure."""
    if isinstance(event, _COMMAND_RESULTS) and not event.passed:
        return tuple(printable(line) for line in excerpt_lines(event.output, _EXCERPT_LINES, _EXCERPT_LINES))
    if isinstance(event, phase.ApprovalRequested):
        gate = gate_of(state, event.phase)
        return tuple(gate_lines(gate)) if gate is not None else ()
    return tuple(call_lines(event)) if isinstance(event, conversations.PermissionRequested) else ()


def event_subject(event: Event, state: RunState) -> str:
    """Return the task of an event, with the role of the agent if one acted. Empty for the run itself."""
    conversation = state.conversations.get(getattr(event, "conversation", None) or "")
    if conversation is not None:
        role = conversation.role if conversation.role not in (None, "worker") else None
        return printable(" ".join(part for part in (conversation.task, role) if part) or conversation.agent or "")
    name = getattr(event, "task_id", None)
    name = name if name is not None else getattr(event, "task", None)
    name = name if name is not None else getattr(event, "phase", None)
    return printable(str(name)) if name is not None else ""


_COMMAND_RESULTS = (work.ValidatorFinished, preparation.WorktreeSetupFinished, preparation.BaselineCheckFinished)


# Descriptions


def _with_detail(text: str, extra: object) -> str:
    return f"{text}: {extra}" if extra else text


def _plan(event: plan.PlanCreated) -> str:
    waves = f" in {pluralize(len(event.waves), 'wave')}" if len(event.waves) > 1 else ""
    return f"planned: {pluralize(len(event.tasks), 'task')}{waves}"


def _setup_command(event: preparation.WorktreeSetupFinished) -> str:
    result = "set up" if event.passed else "worktree setup failed"
    return _with_detail(f"{result}: {event.command} ({event.seconds:.1f} s)", event.problem)


def _baseline(event: preparation.BaselineFinished) -> str:
    if not event.failed:
        return f"{pluralize(len(event.checks), 'check')} passed before the work"
    names = ", ".join(event.failed)
    if len(event.failed) == len(event.checks):
        setup = "Does the project need a setup? Set worktree.setup, for example to npm ci or uv sync"
        text = f"every check fails on the untouched base ({names}), so the checks tell nothing about the work. {setup}"
        return text if event.excused else f"every check fails before the work: {names}"
    gated = [name for name in event.failed if name not in event.excused]
    still = f"; {', '.join(gated)} must pass nevertheless" if gated else ""
    excused = f"{', '.join(event.excused)} fail before the work, so they do not gate tasks" if event.excused else ""
    return f"{excused or f'{names} fail before the work'}{still}"


def _seeds(event: session.SeedsCommitted) -> str:
    changed = f"{pluralize(event.changed, 'uncommitted file')} of your checkout" if event.changed else ""
    seeds = "seed files" if event.seeds is None or event.seeds else ""
    return f"{' and '.join(filter(None, (changed, seeds)))} committed as {event.commit[:10]}"


def _validator(event: work.ValidatorFinished | preparation.BaselineCheckFinished) -> str:
    result = "passed" if event.passed else "failed"
    flaky = " on the second attempt" if event.flaky else ""
    if isinstance(event, work.ValidatorFinished) and event.excused:
        result = "failed as before the work"
    return _with_detail(f"{event.name} {result}{flaky} ({event.seconds:.1f} s)", event.problem)


def _verdict(event: work.VerdictGiven) -> str:
    if event.accept:
        return f"accepted, iteration {event.iteration}"
    synthetic = " (the evaluator gave no verdict)" if event.synthetic else ""
    return _with_detail(f"rejected, iteration {event.iteration}{synthetic}", event.concern or event.category)


def _checks(event: work.ValidationFinished) -> str:
    if not event.passed:
        return f"checks failed: {', '.join(event.failed)}"
    if event.excused:
        counted = f" of {event.ran}" if event.ran is not None else ""
        passed = f"{(event.ran or 0) - len(event.excused)}{counted} checks passed"
        return f"{passed}; failed as before the work, so not counted: {', '.join(event.excused)}"
    return "no checks to run" if event.ran == 0 else "all checks passed"


def _commit(event: work.TaskCommitted) -> str:
    return f"committed {event.commit[:10]}" if event.commit else "no changes, so no commit"


def _changed_commit(event: work.CommitChanged) -> str:
    reasons = {
        work.CHANGED_BY_HOOK: "a commit hook changed the checked files",
        work.CHANGED_BY_MERGE: "the run's branch was merged into the task's",
    }
    files = f" ({', '.join(event.files)})" if event.files else ""
    return f"{reasons.get(event.reason, 'the branch has unchecked commits')}{files}; checking {event.commit[:10]}"


def _merge(event: branches.BranchMerged) -> str:
    return f"merged {_short_branch(event.name)}{' into ' + _short_branch(event.target) if event.target else ''}"


def _short_branch(branch: str) -> str:
    """Return the task of a run's branch, or the whole name of another branch. `main` may be the user's, too."""
    if run_of_branch(branch) is None:
        return branch
    return task_of_branch(branch) or "the run's branch"


def _agent_name(agent: str | None) -> str:
    kind, _, file = (agent or "an agent").partition(":")
    return f"{kind} {file.rpartition('/')[2]}" if file else kind


def _attachment(event: conversations.ConversationAttached) -> str | None:
    return event.notice or (f"restored the agent ({event.rung})" if event.rung != "fresh" else None)


def _failed_recovery(event: conversations.RecoveryStrategyFailed) -> str:
    return _with_detail(
        "agent failed to start" if event.rung == conversations.START_STEP else f"{event.rung} failed", event.reason
    )


_FORM_TEXTS: Final[Mapping[str, str]] = {
    "image": "as an image",
    "audio": "as audio",
    "embedded": "with its text",
    "link": "as a link: the agent takes it in no other form, and reads the file itself",
    "missing": "missing: the file is not in the run's folder any more",
}


def _sent_files(event: conversations.FilesSent) -> str:
    parts = (
        f"{file.name} ({file.media_type}, {size_text(file.size)}) {_FORM_TEXTS.get(file.form, file.form)}"
        for file in event.sent
    )
    return f"sent {'; '.join(parts)}"


def _message(event: conversations.MessageRecorded) -> str | None:
    first = next((line for line in event.text.splitlines() if line.strip()), None)
    match event.speaker:
        case "agent":
            return f"“{first.strip()}”" if first else None
        case "system":
            return first
        case _:
            return None  # prompts and thoughts are in the log only


def _tool_call(event: conversations.ToolCalled) -> str:
    return event.tool + (f" {where}" if (where := _first_path(event.locations)) and where not in event.tool else "")


def _first_path(locations: msgspec.Raw) -> str:
    try:
        found: Any = msgspec.json.decode(locations)
        return str(found[0]["path"])
    except (msgspec.MsgspecError, LookupError, TypeError):
        return ""


def _blocked_call(event: conversations.ToolBlocked) -> str:
    called = f" ({to_printable(event.tool)})" if event.command is not None and event.tool not in event.command else ""
    return _with_detail(f"blocked: {to_printable(event.command or event.tool)}{called}", event.reason)


def _permission_answer(event: conversations.PermissionAnswered) -> str:
    return f"permission answer: {event.option or 'none'}{' (by ' + event.by + ')' if event.by else ''}"


def _inbox_message(event: inbox.InboxConsumed) -> str:
    if is_report(event.kind) or event.kind == MessageKind.REFUSED_REPORT:
        return ""  # the next event describes its effect
    try:
        body: Any = json.loads(bytes(event.body))
    except ValueError:
        body = None
    text = body.get("text") or body.get("summary") if isinstance(body, dict) else None
    return _with_detail(f"{event.kind} from {event.sender or 'an agent'}", text)


def _error(event: issue.ErrorEncountered) -> str:
    where = f" ({event.file}{':' + str(event.line) if event.line else ''})" if event.file else ""
    return f"{'resolved' if event.resolved else 'error'}: {event.error or 'no description'}{where}"


def _hook(event: work.HookRan) -> str | None:
    if event.problem is None and (event.outcome == "block" or not event.exit_code):
        return None  # for a block, the event of the blocked tool call is shown
    return _with_detail(f"hook {event.hook} failed", event.problem or f"exit {event.exit_code}")


def _quota(event: provider.QuotaHit) -> str:
    reset = f"resets at {format_time(event.resets_at)} UTC" if event.resets_at else "no reset time is known"
    return f"{event.agent}: usage limit reached; {reset}, next prompt at {format_time(event.until)} UTC"


def _outage(event: provider.OutageMet) -> str:
    why = f" ({event.detail})" if event.detail else ""
    return f"{event.agent}: its provider cannot be reached{why}; next prompt at {format_time(event.until)} UTC"


def _budget_caps(event: budget.BudgetSet) -> str:
    tokens = f"{event.tokens:,} tokens" if event.tokens is not None else None
    dollars = f"${event.dollars:.2f}" if event.dollars is not None else None
    return f"spending limit: {' and '.join(part for part in (tokens, dollars) if part) or 'none'}"


def _agent_fault(event: conversations.AgentMisbehaved) -> str:
    times = f" ({event.times} times)" if event.times > 1 else ""
    return _with_detail(f"agent misbehaved: {event.what}{times}", event.detail)


def _point_text(event: rewind.RunRewound | rewind.RunForked) -> str:
    return short_point_name(event.point) if event.point is not None else f"@{event.position}"


def _rewind(event: rewind.RunRewound) -> str:
    what = {"files": "the files went back", "conversation": "the conversation went back"}.get(event.only, "went back")
    return f"{'undid a rewind: ' if event.undoes is not None else ''}{what} to {_point_text(event)}"


DESCRIPTIONS: Final[Mapping[type[Event], Callable[[Any], str | None]]] = {
    session.SessionStart: lambda e: f"session started ({e.command})",
    session.SessionEnd: lambda e: _with_detail(f"session ended: {end_reason_text(e.reason)}", e.summary),
    session.RunCreated: lambda e: f"{e.workflow}: {e.goal}",
    session.SeedsCommitted: _seeds,
    session.ResumeChosen: lambda e: _with_detail(f"choice: {e.choice}", ", ".join(e.tasks) or None),
    session.RunResumed: lambda e: f"resumed (last stop: {e.last_stop or 'unknown'}): {e.summary}",
    adoption.RunAdopted: lambda e: f"adopted from {tool_name(e.tool)}: {e.path}",
    session.RunMoved: lambda e: f"the repository moved to {e.repo}",
    session.RunArchived: lambda _: "archived",
    rewind.RunRewound: _rewind,
    rewind.RunForked: lambda e: f"forked from {e.parent} at {_point_text(e)}",
    rewind.RewindFinished: lambda _: "worktrees and branches are at that point",
    plan.PlanCreated: _plan,
    plan.PlanProposed: lambda e: (
        f"proposed a plan: {pluralize(len(e.tasks), 'task')}, {pluralize(len(e.seeds), 'seed file')}"
        if e.by is None
        else f"the plan was changed by {e.by}: {pluralize(len(e.tasks), 'task')}"
    ),
    plan.PlanAccepted: lambda e: f"plan accepted{' by ' + e.by if e.by else ''}; preparing {e.run_id}",
    plan.RunPrepared: lambda e: (
        f"prepared {e.run_id}; start it with: holdfast resume {e.run_id}"
        if e.problem is None
        else f"no run was prepared: {e.problem}"
    ),
    plan.RunInterviewed: lambda e: (
        f"planned in the interview {e.run_id} with {_agent_name(e.agent)}{f', model {e.model}' if e.model else ''}: "
        f"{pluralize(e.turns, 'turn')}, {e.input_tokens + e.output_tokens} tokens"
    ),
    phase.PhaseStarted: lambda e: _with_detail(f"phase started{f', round {e.round}' if e.round > 1 else ''}", e.reason),
    phase.PhaseCompleted: lambda e: _with_detail(f"phase ended ({e.outcome})", e.reason),
    phase.PhaseFailed: lambda e: f"phase failed: {e.reason}",
    phase.PhaseReopened: lambda e: _with_detail("phase reopened", e.reason),
    phase.ArtifactStored: lambda e: f"submitted: {e.title}",
    phase.ReviewGiven: lambda e: _with_detail(f"review by {e.role} {'passed' if e.passed else 'failed'}", e.summary),
    phase.ApprovalRequested: lambda e: _with_detail("waiting for your approval", e.summary),
    phase.ApprovalAnswered: lambda e: f"{'approved' if e.approved else 'not approved'}{' by ' + e.by if e.by else ''}",
    phase.ChangeRequested: lambda e: f"change requested: {e.text}",
    phase.WorkPublished: lambda e: e.problem or _with_detail(f"pushed to {e.remote}", e.url),
    phase.ResearchRequested: lambda e: f"research requested: {e.topic}",
    phase.ResearchAnswered: lambda e: "research answered" if e.found else "research found no answer",
    phase.PreferencesProposed: lambda e: f"proposes {pluralize(len(e.preferences), 'preference')} for the {e.role}",
    task.TaskStarted: lambda e: _with_detail("started", e.summary),
    task.TaskCompleted: lambda e: _with_detail("done", e.outcome or e.summary),
    task.TaskFailed: lambda e: _with_detail("failed", e.error and end_reason_text(e.error)),
    task.TaskSkipped: lambda e: _with_detail("skipped", e.reason),
    task.WaveStarted: lambda e: f"wave {e.wave} started",
    task.WaveCompleted: lambda e: f"wave {e.wave} done",
    preparation.WorktreeSetupStarted: lambda e: f"setting up: {e.command}",
    preparation.WorktreeSetupFinished: _setup_command,
    preparation.BaselineStarted: lambda e: f"checking the untouched base: {', '.join(e.checks)}",
    preparation.BaselineCheckFinished: lambda e: _with_detail("before the work", _validator(e)),
    preparation.BaselineFinished: _baseline,
    work.CaseSubmitted: lambda e: f"{'ready' if bytes(e.case) == b'null' else 'gave a case'}, iteration {e.iteration}",
    work.ReportRefused: lambda e: f"{e.tool} rejected (attempt {e.attempt}): {e.error}",
    work.ValidatorFinished: _validator,
    work.ValidationFinished: _checks,
    work.VerdictGiven: _verdict,
    work.IterationEnded: lambda e: f"iteration {e.iteration} ended without a result: {end_reason_text(e.reason)}",
    work.TaskCommitted: _commit,
    work.CommitChanged: _changed_commit,
    work.CommitRefused: lambda e: _with_detail("commit hook failed; sent to the worker", " ".join(e.output.split())),
    work.MergeConflicted: lambda e: f"merge conflicts in {', '.join(e.files)}",
    work.TaskRestarted: lambda e: _with_detail("restarted from scratch", ", ".join(e.salvaged) or None),
    work.TaskReopened: lambda e: _with_detail("reopened", e.reason),
    work.LearningsProposed: lambda e: f"proposes {pluralize(len(e.learnings), 'learning')}" if e.learnings else None,
    work.ProgressReported: lambda e: e.text,
    work.HookRan: _hook,
    agents.AgentDied: lambda e: _with_detail(f"agent died ({e.name})", e.reason),
    branches.BranchMerged: _merge,
    branches.WorkspaceReconciled: lambda e: e.message,
    conversations.ConversationOpened: lambda e: (
        f"started {_agent_name(e.agent)}{' (' + e.role + ')' if e.role else ''}"
    ),
    conversations.ConversationAttached: _attachment,
    conversations.RecoveryStrategyFailed: _failed_recovery,
    conversations.ModeChanged: lambda e: f"mode: {e.mode}",
    conversations.FilesSent: _sent_files,
    conversations.AgentPlanned: lambda e: _agent_plan(e.entries),
    conversations.AgentMisbehaved: _agent_fault,
    conversations.PermissionRequested: lambda e: f"asks: {call_summary(e)}",
    conversations.PermissionAnswered: _permission_answer,
    conversations.ToolBlocked: _blocked_call,
    conversations.TurnEnded: lambda e: _turn_end(e) if e.stop_reason not in (None, "end_turn", IMPORTED) else None,
    conversations.TurnWasEmpty: lambda e: f"empty turn: no message and no tool call ({e.streak} in a row)",
    conversations.TurnInterrupted: lambda e: _with_detail("turn interrupted", e.reason),
    conversations.MessageRecorded: _message,
    conversations.ToolCalled: _tool_call,
    conversations.ToolReturned: lambda e: f"tool call {e.status}" if e.status != "completed" else None,
    chat.TaskStateChanged: lambda e: _with_detail("waiting for you", e.reason) if e.state == "review" else None,
    chat.TaskAccepted: lambda e: f"accepted{' by ' + e.by if e.by else ''}, iteration {e.iteration}",
    chat.IterationAccepted: lambda e: f"iteration {e.iteration} {'merged' if e.commit else 'had changed nothing'}",
    chat.OptionChosen: lambda e: f"{e.option}: {e.value or 'as the agent chooses'}",
    chat.RuleAdded: lambda e: f"always allowed in this run: {e.command or ', '.join(e.paths)}",
    chat.RuleRevoked: lambda e: f"no longer always allowed: rule {e.rule}",
    chat.MessageEdited: lambda e: f"message changed: {e.text}",
    chat.MessageDeleted: lambda e: f"message {e.message} taken back",
    effect.EffectDidNotHappen: lambda e: _with_detail("effect did not happen", e.reason),
    effect.EffectUnknown: lambda e: _with_detail("outcome of an effect is unknown", e.reason),
    checkpoint.Checkpoint: lambda e: f"checkpoint: {e.label}",
    issue.ErrorEncountered: _error,
    issue.BlockerReported: lambda e: _with_detail("unblocked" if e.resolved else "blocked", e.description),
    issue.WarningLogged: lambda e: f"warning: {e.message or 'no message'}",
    budget.BudgetSet: _budget_caps,
    provider.QuotaHit: _quota,
    provider.OutageMet: _outage,
    provider.LimitLifted: lambda e: f"{e.agent} gets prompts again{f', as {e.by} said' if e.by else ''}",
    inbox.InboxConsumed: _inbox_message,
    inbox.InboxRejected: lambda e: f"message skipped: {e.reason}",
    inbox.InboxReread: lambda _: "reading the inbox again from its start",
    log.LogWithheld: lambda e: f"{e.event} withheld (rule {e.rule})",
    log.RetentionApplied: lambda e: f"{e.events} events withheld by rule {e.rule} ({e.bytes} bytes)",
    log.LogRepaired: lambda e: f"set aside a torn write at the end of the log ({e.bytes} bytes): {e.reason}",
}


def _turn_end(event: conversations.TurnEnded) -> str:
    return f"turn ended: {event.stop_reason}{' by ' + event.by if event.by else ''}"


def _agent_plan(entries: msgspec.Raw) -> str | None:
    try:
        found: Any = msgspec.json.decode(entries)
        done = sum(entry.get("status") == "completed" for entry in found)
        current = next((entry.get("content") for entry in found if entry.get("status") == "in_progress"), None)
    except (msgspec.MsgspecError, AttributeError, TypeError):
        return None
    return _with_detail(f"agent's plan: {done} of {len(found)} done", current)
