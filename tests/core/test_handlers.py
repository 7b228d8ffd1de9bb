"""What each event does to the state: one table, a row or more for every handler."""

import pytest
from msgspec import Raw, structs

from holdfast.core.events import TYPES
from holdfast.core.events.adoption import RunAdopted
from holdfast.core.events.agent import AgentCompleted, AgentDied, AgentSpawned
from holdfast.core.events.branch import BranchCreated, BranchDeleted, BranchMerged, WorkspaceReconciled
from holdfast.core.events.budget import BudgetSet, UsageRecorded
from holdfast.core.events.checkpoint import Checkpoint
from holdfast.core.events.conversation import (
    AgentMisbehaved,
    AgentPlanned,
    ConversationOpened,
    FilesSent,
    MessageRecorded,
    PermissionAnswered,
    PermissionRequested,
    RecoveryStrategyFailed,
    ToolCalled,
    TurnStarted,
)
from holdfast.core.events.effect import EffectDidNotHappen, EffectHappened, EffectIntended, EffectUnknown
from holdfast.core.events.inbox import InboxConsumed, InboxHandled, InboxRejected, InboxReread
from holdfast.core.events.issue import BlockerReported, ErrorEncountered, WarningLogged
from holdfast.core.events.log import LogRepaired, LogWithheld, RetentionApplied
from holdfast.core.events.plan import Dependency, PlanCreated, PlannedTask, PlannedWave, RunInterviewed
from holdfast.core.events.preparation import WorktreeSetupFinished, WorktreeSetupStarted
from holdfast.core.events.provider import LimitLifted, OutageMet, QuotaHit
from holdfast.core.events.rewind import BranchPoint, RewindFinished, RunForked, RunRewound
from holdfast.core.events.session import (
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
from holdfast.core.events.task import (
    TaskCompleted,
    TaskFailed,
    TaskSkipped,
    TaskStarted,
    WaveCompleted,
    WaveStarted,
)
from holdfast.core.events.work import HookRan, MemoryLoaded, ProgressReported
from holdfast.core.fold.handlers import HANDLERS
from holdfast.core.state import (
    AdoptedFrom,
    Agent,
    Branch,
    BranchStatus,
    Budget,
    CheckpointReached,
    Effect,
    EffectStatus,
    Issue,
    OpenMessage,
    OpenRewind,
    PendingChoice,
    RunInfo,
    RunState,
    WithheldPart,
)
from holdfast.core.task_state import Plan, Task, TaskStatus, Wave
from tests.core.logs import TS, Row, fold_once, row, session_log
from tests.core.test_chat_events import TABLE as CHAT
from tests.core.test_conversation_events import TABLE as CONVERSATIONS
from tests.core.test_interview_events import TABLE as INTERVIEW
from tests.core.test_phase_events import PHASES
from tests.core.test_preparation_events import PREPARATION
from tests.core.test_task_events import TABLE as STEPS

PLAN = PlanCreated(
    tasks=[PlannedTask(id="1", summary="Design", agent="designer"), PlannedTask(id=2)],
    waves=[PlannedWave(wave=2, task_ids=[2]), PlannedWave(wave=1, task_ids=["1"])],
    dependencies=[Dependency(task_id=2, blocked_by="1")],
)
SPAWNED = AgentSpawned(name="eng", role="coder", task=2, branch="work/2", pid=7)
OPENED = ConversationOpened(conversation="c", agent="claude", role="coder", task=2)
TURN = TurnStarted(conversation="c", turn="t1")
ASKED = PermissionRequested(
    conversation="c", request="p", title="Edit", kind="edit", paths=["a"], options=Raw(b"[]"), fingerprint="f"
)
ANSWERED = PermissionAnswered(request="p", option="y", by="user")
CALL = ToolCalled(conversation="c", call="k1", tool="edit", turn="t1")
INTENDED = EffectIntended(effect="e", kind="commit", task=2, arguments={"branch": "b"})
ERROR = ErrorEncountered(file="a.py", line=4, error="TypeError", attempts=1)
RETRIED = structs.replace(ERROR, retried=True)
BLOCKER = BlockerReported(description="no key", task_id=2)

TABLE = (
    row(
        "a run has its goal and the time it was made",
        RunCreated(run_id="r1", goal="g", workflow="loop", repo="/r", base="main", branch="b"),
        run=RunInfo("r1", "g", "loop", "/r", "main", "b", created=TS),
    ),
    row(
        "a run that was moved has its new place",
        RunCreated(run_id="r1", goal="g", repo="/r"),
        RunMoved(repo="/s"),
        run=RunInfo("r1", "g", "solo", "/s", created=TS),
    ),
    row(
        "a run that was archived says so",
        RunCreated(run_id="r1", goal="g"),
        RunArchived(),
        run=RunInfo("r1", "g", "solo", created=TS, archived=True),
    ),
    row(
        "an adopted run has its source",
        RunCreated(run_id="r1", goal="g"),
        RunAdopted(tool="tilth", version="0.2", path="/s/1", session="1"),
        run=RunInfo("r1", "g", "solo", created=TS, adopted=AdoptedFrom("tilth", "/s/1", TS, "0.2", "1")),
    ),
    row(
        "a branch that begins with its seeds is at their commit",
        SeedsCommitted(commit="c1", branch="holdfast/r1/main"),
        branches={"holdfast/r1/main": Branch(BranchStatus.IN_PROGRESS, tip="c1")},
    ),
    row(
        "a run without a count of its seeds has some",
        RunCreated(run_id="r1", goal="g"),
        SeedsCommitted(commit="c1", branch="holdfast/r1/main"),
        run=RunInfo("r1", "g", "solo", created=TS, seeded=True),
    ),
    row(
        "uncommitted changes of the user are no seeds",
        RunCreated(run_id="r1", goal="g"),
        SeedsCommitted(commit="c1", branch="holdfast/r1/main", changed=2, seeds=0),
        run=RunInfo("r1", "g", "solo", created=TS),
    ),
    row(
        "files that go back alone leave the state, and their branches have to follow",
        RunRewound(at=50, position=20, only="files", point="turn 1"),
        rewinding=OpenRewind(50, 20, "files", "turn 1"),
    ),
    row(
        "a rewind is over when worktrees and branches are there",
        RunRewound(at=50, position=20, only="files"),
        RewindFinished(),
        rewinding=None,
    ),
    row(
        "a fork has to make its branches",
        RunForked(parent="p", position=20, branches=[BranchPoint("b", "c0", "c1", "c1")], snapshots={"r": "c1"}),
        rewinding=OpenRewind(0, 0, "both", None, [BranchPoint("b", "c0", "c1", "c1")], {"r": "c1"}),
    ),
    *PREPARATION,
    row("a session names the feature", SessionStart(feature="auth"), feature="auth"),
    # the plan
    row(
        "a plan keeps its order, its waves by number and what waits for what",
        PLAN,
        plan=Plan(["1", "2"], {2: Wave(["2"]), 1: Wave(["1"])}, {"2": ["1"]}),
    ),
    row(
        "planned tasks are pending",
        PLAN,
        tasks={"1": Task(summary="Design", agent="designer", wants="designer"), "2": Task()},
    ),
    row(
        "a new plan keeps what its tasks came to",
        PLAN,
        TaskCompleted(task_id="1"),
        PlanCreated(tasks=[PlannedTask(id="1", summary="Redesign"), PlannedTask(id="3")]),
        tasks={"1": Task(TaskStatus.COMPLETE, summary="Redesign", agent="designer"), "3": Task()},
    ),
    row(
        "a wave started",
        PLAN,
        WaveStarted(wave=1),
        plan=Plan(["1", "2"], {2: Wave(["2"]), 1: Wave(["1"], started=True)}, {"2": ["1"]}),
    ),
    row("a wave completed", WaveCompleted(wave=3), plan=Plan(waves={3: Wave(completed=True)})),
    # tasks
    row(
        "a task started",
        TaskStarted(task_id=2, summary="Build", agent="eng", files=["a.py"]),
        tasks={"2": Task(TaskStatus.IN_PROGRESS, summary="Build", agent="eng", files=["a.py"], iteration=1)},
    ),
    row(
        "a task completed",
        PLAN,
        TaskCompleted(task_id="1", files_changed=["a.py"]),
        tasks={
            "1": Task(
                TaskStatus.COMPLETE, summary="Design", agent="designer", wants="designer", files_changed=["a.py"]
            ),
            "2": Task(),
        },
    ),
    row(
        "a task failed",
        TaskFailed(task_id="2", error="QA", attempts=3),
        tasks={"2": Task(TaskStatus.FAILED, error="QA", attempts=3)},
    ),
    row(
        "a failed task is an issue",
        TaskFailed(task_id=2, error="QA"),
        issues=[Issue("task.failed", 0, None, "2", {"taskId": 2, "error": "QA", "attempts": None}, "s1")],
    ),
    row(
        "a task that is tried again has no error",
        TaskFailed(task_id="2", error="QA", attempts=3),
        TaskStarted(task_id="2"),
        tasks={"2": Task(TaskStatus.IN_PROGRESS, iteration=1)},
    ),
    row("a failure that was tried again is no issue", TaskFailed(task_id=2), TaskStarted(task_id="2"), issues=[]),
    row("a failure that was skipped is no issue", TaskFailed(task_id=2), TaskSkipped(task_id="2"), issues=[]),
    row(
        "a task skipped",
        TaskSkipped(task_id="2", reason="chosen"),
        tasks={"2": Task(TaskStatus.SKIPPED, reason="chosen")},
    ),
    # agents and branches
    row("an agent spawned", SPAWNED, agents={"eng": Agent("s1", "coder", "2", "work/2")}),
    row("its branch is in progress", SPAWNED, branches={"work/2": Branch(BranchStatus.IN_PROGRESS, task="2")}),
    row(
        "an agent completed",
        SPAWNED,
        AgentCompleted(name="eng", result="success"),
        agents={"eng": Agent("s1", "coder", "2", "work/2", active=False, result="success")},
    ),
    row(
        "an agent died",
        SPAWNED,
        AgentDied(name="eng", reason="killed"),
        agents={"eng": Agent("s1", "coder", "2", "work/2", active=False, result="killed")},
    ),
    row("an agent that was never seen completed", AgentCompleted(name="x"), agents={"x": Agent("s1", active=False)}),
    row(
        "a branch created",
        BranchCreated(name="b", base="main", task=2),
        branches={"b": Branch(BranchStatus.IN_PROGRESS, task="2", base="main")},
    ),
    row(
        "a branch merged",
        BranchCreated(name="b", task=2),
        BranchMerged(name="b", target="main"),
        branches={"b": Branch(BranchStatus.MERGED, task="2", target="main")},
    ),
    row(
        "a branch deleted after its merge",
        BranchMerged(name="b", target="main"),
        BranchDeleted(name="b"),
        branches={"b": Branch(BranchStatus.DELETED, target="main")},
    ),
    row("a branch nobody knew deleted", BranchDeleted(name="b"), branches={"b": Branch(BranchStatus.DELETED)}),
    row(
        "an agent on a merged branch does not unmerge it",
        BranchMerged(name="work/2", target="main"),
        SPAWNED,
        branches={"work/2": Branch(BranchStatus.MERGED, target="main")},
    ),
    # effects
    row("an intent is open", INTENDED, effects={"e": Effect("commit", "2", {"branch": "b"})}),
    row("an effect happened", INTENDED, EffectHappened(effect="e"), effects={}),
    row("an effect that happened is counted", INTENDED, EffectHappened(effect="e"), effects_settled=1),
    row("an effect did not happen", INTENDED, EffectDidNotHappen(effect="e"), effects={}),
    row("an effect that did not happen is counted", INTENDED, EffectDidNotHappen(effect="e"), effects_settled=1),
    row(
        "an effect settled twice is counted once",
        INTENDED,
        EffectHappened(effect="e"),
        EffectHappened(effect="e", settled_by="probe"),
        effects_settled=1,
    ),
    row(
        "an unknown outcome stays open with its reason",
        INTENDED,
        EffectUnknown(effect="e", reason="no answer"),
        effects={"e": Effect("commit", "2", {"branch": "b"}, EffectStatus.UNKNOWN, "no answer")},
    ),
    row(
        "an unknown outcome can still be settled",
        INTENDED,
        EffectUnknown(effect="e"),
        EffectHappened(effect="e"),
        effects={},
    ),
    row("an outcome of what nobody intended", EffectUnknown(effect="e"), effects={}),
    # checkpoints, issues, warnings
    row(
        "a checkpoint reached",
        SessionStart(),
        Checkpoint(label="l", branch="b", commit="c", plan_step="p", resumable=False),
        checkpoints=[CheckpointReached("s1", 1, "l", "b", "c", "p", resumable=False, ts=TS)],
    ),
    row(
        "an unresolved error",
        ERROR,
        issues=[
            Issue(
                "error.encountered",
                0,
                detail={
                    "error": "TypeError",
                    "file": "a.py",
                    "line": 4,
                    "attempts": 1,
                    "resolved": False,
                    "retried": False,
                },
                sid="s1",
            )
        ],
    ),
    row("an error that is retried without asking", RETRIED, issues=[]),
    row("a retried error that was resolved", RETRIED, structs.replace(RETRIED, resolved=True), warnings=[]),
    row("a resolved error", ErrorEncountered(error="TypeError", resolved=True), issues=[]),
    row(
        "an error resolved later",
        ERROR,
        ErrorEncountered(file="a.py", line=9, error="TypeError", attempts=2, resolved=True),
        issues=[],
    ),
    row(
        "a blocker",
        BLOCKER,
        issues=[
            Issue(
                "blocker.reported",
                0,
                None,
                "2",
                {"description": "no key", "task_id": 2, "phase": None, "resolved": False},
                "s1",
            )
        ],
    ),
    row("a resolved blocker", BlockerReported(description="no key", resolved=True), issues=[]),
    row(
        "a blocker resolved later",
        BLOCKER,
        BlockerReported(description="no key", task_id="2", resolved=True),
        issues=[],
    ),
    row("a checkpoint leaves the issues before it behind", ERROR, BLOCKER, Checkpoint(label="l"), issues=[]),
    row(
        "a warning",
        WarningLogged(message="slow"),
        warnings=[Issue("warning.logged", 0, detail={"message": "slow"}, sid="s1")],
    ),
    row("a checkpoint leaves the warnings before it behind", WarningLogged(), Checkpoint(label="l"), warnings=[]),
    # the rest
    row("what a resume was told", RunResumed(summary="on", instructions="use SQLite"), instructions=["use SQLite"]),
    row(
        "a choice waits until a resume has acted on it",
        ResumeChosen(choice="restart", tasks=["2"], instructions="use the old schema"),
        choice=PendingChoice("restart", ["2"], "use the old schema"),
    ),
    row("a resume has acted on the choice", ResumeChosen(choice="skip"), RunResumed(summary="on"), choice=None),
    row("a decision leaves what stood in the way behind", ERROR, RunResumed(summary="on", decision="fix"), issues=[]),
    row(
        "settings replace settings",
        SettingsChosen(settings={"a": 1}),
        SettingsChosen(settings={"b": 2}),
        settings={"b": 2},
    ),
    row(
        "what was spent adds up",
        UsageRecorded(input_tokens=5, output_tokens=2, dollars=0.5),
        UsageRecorded(input_tokens=1, dollars=0.25),
        budget=Budget(6, 2, 0.75),
    ),
    row("caps replace caps", BudgetSet(tokens=5), BudgetSet(dollars=2.5), budget=Budget(cap_dollars=2.5)),
    row("the inbox cursor moves", InboxConsumed(cursor=7, message="m", kind="user"), inbox_cursor=7),
    row("consumed messages are counted", InboxConsumed(cursor=7, message="m", kind="user"), inbox_consumed=1),
    row(
        "a message stays open until it is acted on",
        InboxConsumed(cursor=7, message="m", kind="user", body=Raw(b'{"n":99999999999999999999}')),
        messages={"m": OpenMessage("user", body='{"n":99999999999999999999}')},
    ),
    row(
        "acted on, it is gone",
        InboxConsumed(cursor=7, message="m", kind="user"),
        InboxHandled(message="m"),
        messages={},
    ),
    row("a rejected message moves the cursor", InboxRejected(cursor=9, reason="no"), inbox_cursor=9),
    row("a rejected message is not consumed", InboxRejected(cursor=9, reason="no"), inbox_consumed=0),
    row(
        "the inbox cursor never goes back",
        InboxConsumed(cursor=9, message="m", kind="user"),
        InboxRejected(cursor=7, reason="no"),
        inbox_cursor=9,
    ),
    row(
        "nor by a message that comes late",
        InboxRejected(cursor=9, reason="no"),
        InboxConsumed(cursor=7, message="m", kind="user"),
        inbox_cursor=9,
    ),
    row(
        "but to read the inbox again",
        InboxConsumed(cursor=9, message="m", kind="user"),
        InboxReread(cursor=0),
        InboxRejected(cursor=7, reason="no"),
        inbox_cursor=7,
    ),
    row("whose message ends at the cursor", InboxConsumed(cursor=7, message="m", kind="user"), inbox_last="m"),
    row(
        "a rejected line is nobody's",
        InboxConsumed(cursor=7, message="m", kind="user"),
        InboxRejected(cursor=9, reason="no"),
        inbox_last=None,
    ),
    row(
        "a branch that was lost before anybody worked on it",
        WorkspaceReconciled(subject="b", action="recreate branch", message="lost", task="T-1"),
        tasks={},
    ),
    row(
        "a limit is lifted, an outage too",
        QuotaHit(agent="a", until=""),
        OutageMet(agent="b", until=""),
        LimitLifted(agent="a"),
        LimitLifted(agent="b"),
        limits={},
    ),
    row(
        "a retention rule",
        RetentionApplied(rule="transcripts", events=2, bytes=300, until=900, all_events=2, digest="d"),
        withheld=[WithheldPart("transcripts", 900, 2, 300, TS)],
    ),
    row("a repair", LogRepaired(position=0, bytes=3, kept_as="torn-1", reason="cut"), repairs=["torn-1"]),
    row("a message leaves nothing", MessageRecorded(conversation="c", speaker="agent", text="hi"), conversations={}),
)


@pytest.mark.parametrize("case", TABLE, ids=[case.fact for case in TABLE])
def test_fact(case: Row) -> None:
    assert getattr(fold_once(session_log(*case.events)).state, case.field) == case.expected


def test_the_table_has_a_row_for_every_event_type_that_is_handled() -> None:
    rows = (event for case in (*TABLE, *CONVERSATIONS, *STEPS, *PHASES, *CHAT, *INTERVIEW) for event in case.events)
    shown = {event.type for event in rows} | {SessionStart.type, SessionEnd.type}
    assert shown >= HANDLERS.keys()


def test_only_talk_and_remarks_have_no_handler() -> None:
    without_effect = (MessageRecorded, FilesSent, AgentPlanned, AgentMisbehaved, RecoveryStrategyFailed)
    remarks = (MemoryLoaded, ProgressReported, HookRan, WorktreeSetupStarted, WorktreeSetupFinished, RunInterviewed)
    assert TYPES.keys() - HANDLERS.keys() == {kind.type for kind in (*without_effect, *remarks, LogWithheld)}


def test_a_session_has_its_command_its_times_and_its_end() -> None:
    start = SessionStart(command="resume", branch="b", mode="strict")
    state = fold_once(session_log(start, SessionEnd(reason="stopped"), sid="s7")).state
    session = state.sessions["s7"]
    assert (session.command, session.branch, session.mode, session.is_resume) == ("resume", "b", "strict", True)
    assert (session.started, session.last, session.events, session.seen) == (TS, TS, 2, [[0, 1]])
    assert (session.ended, session.end_reason) == (True, "stopped")


def test_an_issue_names_the_task_of_the_agent_that_met_it() -> None:
    state = fold_once(session_log(SPAWNED, ERROR, WarningLogged(), agent="eng")).state
    assert [(found.agent, found.task) for found in [*state.issues, *state.warnings]] == [("eng", "2")] * 2


def test_an_issue_that_names_its_task_is_of_that_task_whoever_met_it() -> None:
    state = fold_once(session_log(SPAWNED, BlockerReported(task_id=9), TaskFailed(task_id=8), agent="eng")).state
    assert [issue.task for issue in state.issues] == ["9", "8"]


def test_an_issue_keeps_what_another_tool_wrote_into_it() -> None:
    state: RunState = fold_once(
        b'{"sid":"s","seq":0,"type":"error.encountered","data":{"error":"E","stack":["a"],"at":{"line":1}}}\n'
    ).state
    assert state.issues[0].detail == {"error": "E", "stack": ["a"], "at": {"line": 1}}


def test_a_blocker_resolved_later_leaves_other_blockers() -> None:
    other = BlockerReported(description="no network", task_id=2)
    state = fold_once(
        session_log(BLOCKER, other, BlockerReported(description="no key", task_id=2, resolved=True))
    ).state
    assert [issue.detail["description"] for issue in state.issues] == ["no network"]


def test_an_error_resolved_later_leaves_other_errors() -> None:
    other = ErrorEncountered(file="b.py", error="TypeError")
    resolved = ErrorEncountered(file="a.py", error="TypeError", resolved=True)
    state = fold_once(session_log(ERROR, other, resolved)).state
    assert [issue.detail["file"] for issue in state.issues] == ["b.py"]
