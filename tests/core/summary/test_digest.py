"""While you were away: what a stretch of a log comes to, and what a run wants from a person."""

from msgspec import Raw

from holdfast.core.events import Event
from holdfast.core.events.branch import BranchMerged
from holdfast.core.events.budget import UsageRecorded
from holdfast.core.events.conversation import (
    ConversationOpened,
    ConversationStateChanged,
    PermissionAnswered,
    PermissionRequested,
    ToolCalled,
    TurnEnded,
    TurnInterrupted,
    TurnStarted,
)
from holdfast.core.events.effect import EffectIntended, EffectUnknown
from holdfast.core.events.inbox import InboxConsumed, InboxHandled
from holdfast.core.events.issue import BlockerReported
from holdfast.core.events.session import RunCreated, SessionEnd, SessionStart
from holdfast.core.events.task import TaskCompleted, TaskFailed, TaskSkipped, TaskStarted
from holdfast.core.events.work import TaskCommitted, VerdictGiven
from holdfast.core.log.codec import Line, parse
from holdfast.core.state import RunState
from holdfast.core.summary.digest import Digest, DigestBuilder
from holdfast.core.summary.needs import Need, NeedKind, needs_of
from tests.core.logs import fold_all, session_log

CREATED = (SessionStart(), RunCreated(run_id="r-aaaaaa", goal="g"))


def state_of(*events: Event) -> RunState:
    return fold_all(session_log(*CREATED, *events))


def digest_of(*events: Event) -> Digest:
    gatherer = DigestBuilder()
    for raw in reversed(session_log(*CREATED, *events).splitlines()):
        line = parse(raw)
        assert isinstance(line, Line)
        gatherer.add(line)
    return gatherer.build(state_of(*events))


def test_what_happened_is_counted_in_the_order_of_the_log() -> None:
    digest = digest_of(
        TaskCompleted(task_id="1"),
        TaskCompleted(task_id="2"),
        TaskCompleted(task_id="1"),
        TaskFailed(task_id="3"),
        TaskSkipped(task_id="4"),
        TaskCommitted(task_id="1", commit="c0ffee"),
        TaskCommitted(task_id="2", commit=None),
        BranchMerged(name="b"),
        VerdictGiven(task_id="1", iteration=1, accept=False),
        VerdictGiven(task_id="1", iteration=2, accept=True),
        TurnEnded(conversation="c", turn="t"),
        TurnInterrupted(conversation="c", turn="u"),
        UsageRecorded(input_tokens=10, output_tokens=5, dollars=0.5),
        SessionEnd(reason="stopped"),
    )
    assert (digest.completed, digest.failed, digest.skipped, digest.merged) == (["1", "2"], ["3"], ["4"], ["b"])
    assert (digest.commits, digest.accepted, digest.rejected) == (1, 1, 1)
    assert (digest.turns, digest.cut_turns, digest.tokens, digest.dollars) == (1, 1, 15, 0.5)
    assert (digest.sittings, digest.ended, digest.events) == (1, "stopped", 16)


def test_a_stretch_whose_cost_was_not_told_has_none_and_says_of_how_many() -> None:
    silent = (TurnStarted(conversation="c", turn="t"), TurnEnded(conversation="c", turn="t"))
    tells = (
        TurnStarted(conversation="d", turn="u"),
        UsageRecorded(conversation="d", dollars=0.0, priced=True),
        TurnEnded(conversation="d", turn="u"),
    )
    unknown, both = digest_of(*silent), digest_of(*silent, *tells)
    assert (unknown.dollars, unknown.unpriced) == (None, 1)
    assert (both.dollars, both.unpriced) == (0.0, 1)


def test_what_was_cut_off_is_told_with_the_calls_that_never_came_back() -> None:
    digest = digest_of(
        TaskStarted(task_id="1"),
        ConversationOpened(conversation="c", role="worker", task="1"),
        TurnStarted(conversation="c", turn="t"),
        ToolCalled(conversation="c", call="k", tool="edit a.py"),
        TaskStarted(task_id="2"),
        TurnStarted(conversation="d", turn="u"),
    )
    assert digest.interrupted == [
        "1 (work), in the middle of a turn: edit a.py",
        "2 (work), between two steps",
        "turn u of d",
    ]


def test_a_question_is_a_need_until_it_is_answered() -> None:
    asked = PermissionRequested(conversation="c", request="p1", title="Edit a.py")
    opened = ConversationOpened(conversation="c", task="1")
    assert needs_of(state_of(opened, asked)) == [Need(NeedKind.PERMISSION, "Edit a.py", "1", "p1")]
    assert needs_of(state_of(opened, asked, PermissionAnswered(request="p1", option="y"))) == []


def test_an_effect_is_a_need_when_nobody_knows_whether_it_happened() -> None:
    intended = EffectIntended(effect="e", kind="push", task="1")
    assert needs_of(state_of(intended)) == []
    told = "it is unknown whether a push happened: no answer"
    assert needs_of(state_of(intended, EffectUnknown(effect="e", reason="no answer"))) == [
        Need(NeedKind.EFFECT, told, "1", "e")
    ]


def test_failures_and_blockers_are_needs() -> None:
    state = state_of(TaskFailed(task_id="1", error="no key"), BlockerReported(description="no network", task_id="2"))
    assert needs_of(state) == [
        Need(NeedKind.FAILURE, "failed: no key", "1", "1"),
        Need(NeedKind.ISSUE, "no network", "2"),
    ]


def test_an_agent_waits_for_a_person_only_when_the_session_ended_for_that() -> None:
    waiting = (
        TaskStarted(task_id="1"),
        ConversationOpened(conversation="c", agent="claude", role="worker", task="1"),
        ConversationStateChanged(conversation="c", state="waiting_for_input"),
    )
    assert needs_of(state_of(*waiting)) == []
    assert [need.want for need in needs_of(state_of(*waiting, SessionEnd(reason="waiting")))] == [NeedKind.INSTRUCTIONS]


def test_words_are_a_need_until_they_are_delivered() -> None:
    sent = InboxConsumed(cursor=1, message="m", kind="user", body=Raw(b'{"text":"use sqlite","task":"1"}'))
    assert needs_of(state_of(sent)) == [Need(NeedKind.MESSAGE, "not delivered yet: use sqlite", "1", "m")]
    assert needs_of(state_of(sent, InboxHandled(message="m"))) == []
