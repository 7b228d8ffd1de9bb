"""One run with everything that its page shows, except its events."""

import msgspec

from holdfast.app.text.rules import rule_text
from holdfast.app.tui.attention import ATTENTION_KEYS, Attention, AttentionKey, attention_of
from holdfast.app.web.shapes.board import status_words
from holdfast.app.web.shapes.conversation import ConversationView, SessionView, conversation_view, session_views
from holdfast.app.web.shapes.needs import (
    CheckpointView,
    DecisionView,
    EffectView,
    NeedView,
    checkpoint_view,
    decision_view,
    effect_views,
    need_view,
)
from holdfast.app.web.shapes.work import PhaseCard, TaskCard, WaveView, phase_cards, task_cards, wave_views
from holdfast.core.decide.resume import ResumeCase
from holdfast.core.run_status import RunStatus
from holdfast.core.state import RunState
from holdfast.core.summary.needs import Need, NeedKind
from holdfast.core.summary.spending import unpriced_count
from holdfast.core.task_state import TaskStatus
from holdfast.engine.queries.catalog import summarize
from holdfast.engine.queries.conversations import conversations_of
from holdfast.engine.queries.logs import RunView
from holdfast.engine.queries.runs import ListedRun

_MAX_WARNINGS = 20


class OwnerView(msgspec.Struct, frozen=True):
    """The process that owns the run."""

    pid: int
    since: str
    host: str
    epoch: int


class BudgetView(msgspec.Struct, frozen=True):
    """`dollars` is null when no agent reported a cost; `unpriced` counts the conversations without one.

    `estimate` is what agents that report no cost spent by a table of prices; null when there is none.
    """

    input_tokens: int
    output_tokens: int
    dollars: float | None
    estimate: float | None
    unpriced: int
    cap_tokens: int | None
    cap_dollars: float | None


class RuleView(msgspec.Struct, frozen=True):
    """What a person always allows in this run."""

    id: str
    text: str


class IntegrityView(msgspec.Struct, frozen=True):
    events: int
    repaired: int
    malformed: int
    duplicates: int
    unknown: int


class BaselineView(msgspec.Struct, frozen=True):
    name: str
    passed: bool
    excused: bool


class LimitView(msgspec.Struct, frozen=True):
    """What an agent waits for: it gets no prompt before `until`. `resets_at` is what its provider said."""

    agent: str
    kind: str
    until: str
    resets_at: str | None
    provider: str | None
    how: str | None
    attempts: int


class PublicationView(msgspec.Struct, frozen=True):
    """Work that left the run. `where`: a branch, a remote, or the address of a pull request."""

    kind: str
    where: str
    commit: str | None
    at: str | None


class ActionsView(msgspec.Struct, frozen=True):
    """What makes sense now."""

    resume: bool
    stop: bool
    send: bool
    accept: bool
    merge: bool
    push: bool
    pr: bool
    archive: bool
    reset: bool
    rewind: bool
    fork: bool


class RunDetail(msgspec.Struct, frozen=True):
    """`resumes_at`: when a run that waits for a provider or the next day gets a prompt again.

    `merged_into`: the user's branch that has all its work; null while some of it is merged nowhere.
    """

    id: str
    status: str
    status_text: str
    attention: AttentionKey
    needs_you: bool
    position: int
    slug: str | None
    goal: str | None
    workflow: str | None
    repo: str | None
    base: str | None
    branch: str | None
    folder: str
    created: str | None
    updated: str | None
    archived: bool
    is_chat: bool
    owner: OwnerView | None
    needs: list[NeedView]
    decision: DecisionView | None
    tasks_done: int
    tasks_total: int
    tasks: list[TaskCard]
    waves: list[WaveView]
    phase: str | None
    phases: list[PhaseCard]
    conversations: list[ConversationView]
    sessions: list[SessionView]
    checkpoint: CheckpointView | None
    budget: BudgetView
    effects: list[EffectView]
    rules: list[RuleView]
    integrity: IntegrityView
    baseline: list[BaselineView]
    warnings: list[str]
    actions: ActionsView
    resumes_at: str | None
    limits: list[LimitView]
    merged_into: str | None
    published: list[PublicationView]


def run_detail(view: RunView, needs: list[Need], position: int) -> RunDetail:
    state, info = view.state, view.state.run
    summary = summarize(state)
    attention = attention_of(ListedRun(view.run_id, view.status, summary))
    running = view.status == RunStatus.RUNNING
    return RunDetail(
        id=view.run_id,
        status=str(view.status),
        status_text=status_words(view.status),
        attention=ATTENTION_KEYS[attention],
        needs_you=attention <= Attention.MESSAGE,
        position=position,
        slug=summary.slug,
        goal=summary.goal,
        workflow=summary.workflow,
        repo=summary.repo,
        base=info.base if info is not None else None,
        branch=info.branch if info is not None else None,
        folder=view.folder,
        created=summary.created,
        updated=summary.updated,
        archived=info is not None and info.archived,
        is_chat=state.is_chat,
        owner=_owner(view),
        needs=[need_view(need, state) for need in needs],
        decision=None if running else decision_view(view.run_id, view.analysis, state, position),
        tasks_done=sum(task.status is TaskStatus.COMPLETE for task in state.tasks.values()),
        tasks_total=len(state.tasks),
        tasks=task_cards(state),
        waves=wave_views(state),
        phase=state.phase,
        phases=phase_cards(state),
        conversations=[conversation_view(state, status) for status in conversations_of(view)],
        sessions=session_views(state, running=running),
        checkpoint=checkpoint_view(state.checkpoints[-1] if state.checkpoints else None),
        budget=_budget(state),
        effects=effect_views(state),
        rules=[RuleView(rule, rule_text(state, rule)) for rule in state.rules],
        integrity=IntegrityView(
            state.events,
            len(state.repairs),
            len(state.malformed) + state.notes_dropped,
            len(state.duplicates),
            sum(state.unknown_types.values()),
        ),
        baseline=[
            BaselineView(check.name, check.passed, check.excused)
            for check in (state.baseline.checks.values() if state.baseline is not None else ())
        ],
        warnings=[str(issue.detail.get("message", issue.type)) for issue in state.warnings[-_MAX_WARNINGS:]],
        actions=_actions(view, has_message=any(need.want is NeedKind.MESSAGE for need in needs)),
        resumes_at=summary.resumes_at,
        limits=[
            LimitView(agent, str(each.kind), each.until, each.resets_at, each.provider, each.how, each.attempts)
            for agent, each in state.limits.items()
        ],
        merged_into=state.merged_into(),
        published=[PublicationView(kind, made.where, made.commit, made.at) for kind, made in state.published.items()],
    )


def _owner(view: RunView) -> OwnerView | None:
    holder = view.holder
    return OwnerView(holder.pid, holder.since, holder.host, holder.epoch) if holder is not None else None


def _budget(state: RunState) -> BudgetView:
    spent = state.budget
    return BudgetView(
        spent.input_tokens,
        spent.output_tokens,
        spent.dollars,
        spent.estimate,
        unpriced_count(state),
        spent.cap_tokens,
        spent.cap_dollars,
    )


def _actions(view: RunView, *, has_message: bool) -> ActionsView:
    """`has_message`: one waits to be delivered, which reopens also a finished run."""
    state, info = view.state, view.state.run
    ours = info is not None and info.repo is not None
    alive = ours and info is not None and not info.archived and not state.is_missing_plan
    running = view.status == RunStatus.RUNNING
    finished = view.analysis.decision.case is ResumeCase.COMPLETE
    at_rest = alive and not running
    has_work = any(branch.tip or branch.committed or branch.unsaved for branch in state.branches.values())
    return ActionsView(
        resume=at_rest and (not finished or has_message or bool(state.messages)),
        stop=running,
        send=alive,
        accept=alive and state.is_chat,
        merge=at_rest and has_work,
        push=at_rest and has_work,
        pr=at_rest and has_work,
        archive=at_rest,
        reset=not running,
        rewind=alive and state.has_plan,
        fork=alive and state.has_plan,
    )
