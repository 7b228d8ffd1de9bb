"""What a run needs from a person, and the decision how to resume it."""

from typing import Any

import msgspec

from holdfast.app.text.resume_report import format_report
from holdfast.core.conversation.call_text import decode_input
from holdfast.core.decide.analysis import Analysis
from holdfast.core.decide.resume import Choice, ResumeCase
from holdfast.core.events.conversation import FileDiff
from holdfast.core.events.issue import BlockerReported
from holdfast.core.state import CheckpointReached, EffectStatus, Issue, PermissionRequest, RunState
from holdfast.core.summary.gates import Gate, gate_of
from holdfast.core.summary.needs import Need, NeedKind


class OfferedOption(msgspec.Struct, frozen=True):
    id: str
    name: str
    kind: str


class RequestView(msgspec.Struct, frozen=True):
    """What an agent asks to do: exactly what would run or change."""

    conversation: str
    title: str
    kind: str | None
    command: str | None
    paths: list[str]
    diffs: list[FileDiff]
    input: Any
    note: str | None
    options: list[OfferedOption]


class AnswerView(msgspec.Struct, frozen=True):
    text: str
    allow: bool
    by: str | None
    at: str | None
    option: str | None
    reason: str | None
    changes: str | None
    applied: bool = False


class NeedView(msgspec.Struct, frozen=True):
    """`key` names it in an answer; `about` is a task. An `answer` was given and waits to be applied."""

    want: NeedKind
    text: str
    about: str | None
    key: str | None
    detail: list[str]
    answer: AnswerView | None
    request: RequestView | None
    gate: Gate | None


class CheckpointView(msgspec.Struct, frozen=True):
    label: str
    ts: str | None
    seq: int
    commit: str | None
    plan_step: str | None


class OptionView(msgspec.Struct, frozen=True):
    """`command` is the same choice on the command line."""

    key: str
    label: str
    choice: Choice
    warning: str | None
    command: str


class IssueView(msgspec.Struct, frozen=True):
    type: str
    text: str
    task: str | None
    agent: str | None
    seq: int
    sid: str | None


class EffectView(msgspec.Struct, frozen=True):
    key: str
    kind: str
    task: str | None
    status: EffectStatus
    reason: str | None


class DecisionView(msgspec.Struct, frozen=True):
    """How a run can continue. `expect` is the end of the log that this was decided from: send it with the choice."""

    case: ResumeCase
    needs_choice: bool
    next_step: str | None
    affected: list[str]
    chosen: str | None
    expect: int
    options: list[OptionView]
    checkpoint: CheckpointView | None
    issues: list[IssueView]
    unknown: list[EffectView]
    planned: bool
    interrupted: bool
    report: str


def need_view(need: Need, state: RunState) -> NeedView:
    permission = state.permissions.get(need.key or "") if need.want is NeedKind.PERMISSION else None
    given = need.answer
    answer = (
        AnswerView(given.text, given.allow, given.by, given.at, given.option, given.reason, given.changes)
        if given is not None
        else None
    )
    return NeedView(
        need.want,
        need.text,
        need.about,
        need.key,
        list(need.detail),
        answer,
        _request_view(permission) if permission is not None else None,
        gate_of(state, state.phase or "") if need.want is NeedKind.APPROVAL else None,
    )


def _request_view(permission: PermissionRequest) -> RequestView:
    return RequestView(
        permission.conversation,
        permission.title,
        permission.kind,
        permission.command,
        permission.paths,
        permission.diffs,
        decode_input(permission),
        permission.note,
        msgspec.json.decode(permission.options, type=list[OfferedOption]),
    )


def decision_view(run_id: str, analysis: Analysis, state: RunState, position: int) -> DecisionView:
    decision = analysis.decision
    return DecisionView(
        case=decision.case,
        needs_choice=decision.case in (ResumeCase.ISSUES, ResumeCase.NO_CHECKPOINT),
        next_step=decision.next_step,
        affected=list(decision.affected),
        chosen=str(decision.chosen) if decision.chosen is not None else None,
        expect=position,
        options=[
            OptionView(option.key, option.label, option.choice, option.warning, _command(run_id, option.choice))
            for option in decision.options
        ],
        checkpoint=checkpoint_view(analysis.checkpoint),
        issues=[_issue_view(issue) for issue in analysis.issues],
        unknown=[view for view in effect_views(state) if view.status == EffectStatus.UNKNOWN],
        planned=analysis.planned,
        interrupted=analysis.interrupted,
        report=format_report(analysis),
    )


def _command(run_id: str, choice: Choice) -> str:
    if choice is Choice.CUSTOM:
        return f'holdfast resume {run_id} --instructions "…"'
    return f"holdfast resume {run_id} --on-issue {choice}"


def checkpoint_view(reached: CheckpointReached | None) -> CheckpointView | None:
    if reached is None:
        return None
    return CheckpointView(reached.label, reached.ts, reached.seq, reached.commit, reached.plan_step)


def _issue_view(issue: Issue) -> IssueView:
    text = issue.detail.get("description" if issue.type == BlockerReported.type else "error")
    return IssueView(issue.type, str(text or issue.type), issue.task, issue.agent, issue.seq, issue.sid)


def effect_views(state: RunState) -> list[EffectView]:
    return [
        EffectView(key, effect.kind, effect.task, effect.status, effect.reason) for key, effect in state.effects.items()
    ]
