"""One event of every type, with every field filled: what the golden lines are made from."""

from msgspec import Raw

from holdfast.core.events import Event
from holdfast.core.events.agent import AgentCompleted, AgentDied, AgentSpawned
from holdfast.core.events.branch import BranchCreated, BranchDeleted, BranchMerged
from holdfast.core.events.budget import BudgetSet, UsageRecorded
from holdfast.core.events.checkpoint import Checkpoint
from holdfast.core.events.conversation import (
    AgentMisbehaved,
    AgentPlanned,
    ConversationAttached,
    ConversationDetached,
    ConversationOpened,
    ConversationStateChanged,
    ConversationTokenStored,
    MessageRecorded,
    ModeChanged,
    PermissionAnswered,
    PermissionRequested,
    RungFailed,
    ToolBlocked,
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
from holdfast.core.events.plan import Dependency, PlanCreated, PlannedTask, PlannedWave
from holdfast.core.events.session import RunArchived, RunCreated, RunMoved, SessionEnd, SessionStart
from holdfast.core.events.task import (
    TaskCompleted,
    TaskFailed,
    TaskSkipped,
    TaskStarted,
    WaveCompleted,
    WaveStarted,
)

_ALL: tuple[Event, ...] = (
    SessionStart(command="resume", feature="auth", branch="holdfast/auth/main", mode="strict", host="box", pid=4711),
    SessionEnd(reason="completed", summary="2 tasks merged"),
    RunCreated(
        run_id="auth-abc234",
        goal="add OAuth login — “safely”",
        workflow="waves",
        repo="/srv/repo",
        base="main",
        branch="holdfast/auth/main",
    ),
    RunMoved(repo="/srv/elsewhere"),
    RunArchived(salvaged=["refs/holdfast/salvage/auth-abc234/2/0f0f0f0f0f0f0f0f"]),
    PlanCreated(
        tasks=[PlannedTask(id="1", summary="Design schema", agent="schema-designer"), PlannedTask(id=2)],
        waves=[PlannedWave(wave=1, task_ids=["1"]), PlannedWave(wave=2, task_ids=[2])],
        dependencies=[Dependency(task_id=2, blocked_by="1")],
    ),
    TaskStarted(task_id="1", summary="Design schema", agent="schema-designer", files=["src/db/schema.ts"]),
    TaskCompleted(task_id="1", summary="Design schema", files_changed=["src/db/schema.ts"]),
    TaskFailed(task_id=2, error="QA failed 3 rounds", attempts=3),
    TaskSkipped(task_id="2", reason="chosen by the user"),
    WaveStarted(wave=1),
    WaveCompleted(wave=1),
    AgentSpawned(name="service-eng", role="coder", task="2", branch="work/auth/api", pid=4712),
    AgentCompleted(name="service-eng", result="success"),
    AgentDied(name="service-eng", reason="killed by signal 9"),
    BranchCreated(name="work/auth/api", base="holdfast/auth/main", task="2"),
    BranchMerged(name="work/auth/api", target="holdfast/auth/main", conflicts=False),
    BranchDeleted(name="work/auth/api"),
    ConversationOpened(conversation="c1", agent="claude", role="coder", task="2"),
    ConversationStateChanged(conversation="c1", state="running", reason="prompted"),
    ConversationTokenStored(conversation="c1", token="tok-1"),
    ConversationAttached(
        conversation="c1",
        rung="session/load",
        notice="The agent loaded its own session again.",
        pid=4712,
        start_time=99,
        boot_id="b0b0",
        program="claude-code",
        version="2.1",
    ),
    ConversationDetached(conversation="c1", reason="it was killed by SIGKILL"),
    RungFailed(conversation="c1", rung="session/resume", reason="method not found"),
    ModeChanged(conversation="c1", mode="plan"),
    AgentPlanned(conversation="c1", entries=Raw(b'[{"content":"look","status":"pending"}]')),
    AgentMisbehaved(conversation="c1", what="a line that is no JSON", detail="npm warn", times=3),
    PermissionRequested(
        conversation="c1",
        request="p1",
        title="Edit a.py",
        kind="edit",
        call="k1",
        paths=["a.py"],
        options=Raw(b'[{"id":"y","name":"Allow","kind":"allow_once"}]'),
        fingerprint="f1",
    ),
    PermissionAnswered(request="p1", option="y", by="user"),
    ToolBlocked(conversation="c1", tool="rm -rf /", reason="a hook refused"),
    TurnStarted(conversation="c1", turn="t1", messages=["m1"]),
    TurnEnded(conversation="c1", turn="t1", stop_reason="end_turn"),
    TurnInterrupted(conversation="c1", turn="t2", reason="the runner died"),
    MessageRecorded(conversation="c1", speaker="agent", text='a "quoted"\nline, ünïcode 🪸', turn="t1", more=True),
    ToolCalled(
        conversation="c1",
        call="k1",
        tool="edit",
        turn="t1",
        input=Raw(b'{"path":"a.py","n":1}'),
        kind="edit",
        locations=Raw(b'[{"path":"a.py"}]'),
    ),
    ToolReturned(
        conversation="c1",
        call="k1",
        status="failed",
        output=Raw(b'["no such file"]'),
        content=Raw(b'[{"type":"content"}]'),
    ),
    EffectIntended(effect="e1", kind="commit", task="2", arguments={"branch": "work/auth/api", "parents": [1, 2.5]}),
    EffectHappened(effect="e1", settled_by="probe", result={"commit": "c0ffee"}),
    EffectDidNotHappen(effect="e2", settled_by="probe", reason="no commit carries the trailer"),
    EffectUnknown(effect="e3", reason="the remote did not answer"),
    Checkpoint(
        label="wave-1-complete", branch="holdfast/auth/main", commit="c0ffee", plan_step="wave-2-start", resumable=False
    ),
    ErrorEncountered(error="TypeError", file="src/api/service.ts", line=42, attempts=1, resolved=True),
    BlockerReported(description="no key for the service", task_id="2", resolved=True),
    WarningLogged(message="slow tests"),
    UsageRecorded(input_tokens=1200, output_tokens=300, dollars=0.125, conversation="c1", task="2"),
    BudgetSet(tokens=1_000_000, dollars=5.5),
    InboxConsumed(cursor=230, message="m1", kind="user", sender="ann", body=Raw(b'{"text":"go on"}')),
    InboxHandled(message="m1"),
    InboxRejected(cursor=310, reason="not a message"),
    LogRepaired(position=4096, bytes=17, kept_as="events.torn-1", reason="cut short: the JSON ends in the middle"),
)

EXAMPLES: dict[str, Event] = {event.type: event for event in _ALL}
