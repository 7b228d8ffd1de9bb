"""A run with something of everything, as agents leave it: for what shows runs to people."""

from msgspec import Raw

from holdfast.core.events import Event
from holdfast.core.events.branch import BranchCreated, BranchMerged
from holdfast.core.events.budget import UsageRecorded
from holdfast.core.events.checkpoint import Checkpoint
from holdfast.core.events.conversation import (
    ConversationOpened,
    ConversationStateChanged,
    MessageRecorded,
    PermissionRequested,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    TurnStarted,
)
from holdfast.core.events.plan import Dependency, PlanCreated, PlannedTask, PlannedWave
from holdfast.core.events.task import TaskCompleted, TaskStarted, WaveCompleted, WaveStarted
from holdfast.core.events.work import (
    CaseSubmitted,
    TaskCommitted,
    ValidationFinished,
    ValidatorFinished,
    VerdictGiven,
)

PLAN = PlanCreated(
    tasks=[
        PlannedTask(
            id="T-1",
            summary="Design the schema",
            description="Tables for users and tokens.",
            acceptance_criteria=["migrations run", "a token expires"],
        ),
        PlannedTask(id="T-2", summary="Build the login endpoint"),
        PlannedTask(id="T-3", summary="Build the token refresh"),
        PlannedTask(id="T-4", summary="Document it all"),
    ],
    waves=[
        PlannedWave(wave=1, task_ids=["T-1"]),
        PlannedWave(wave=2, task_ids=["T-2", "T-3"]),
        PlannedWave(wave=3, task_ids=["T-4"]),
    ],
    dependencies=[Dependency(task_id="T-2", blocked_by="T-1"), Dependency(task_id="T-4", blocked_by="T-3")],
)

_DIFF = Raw(
    b'[{"type":"diff","path":"db/schema.sql","oldText":"create table users (\\n  id int\\n);\\n",'
    b'"newText":"create table users (\\n  id int,\\n  name text\\n);\\n"}]'
)


def sits_down(conversation: str, task: str, role: str = "worker", agent: str = "claude") -> list[Event]:
    return [
        ConversationOpened(conversation=conversation, agent=agent, role=role, task=task),
        ConversationStateChanged(conversation=conversation, state="running"),
        TurnStarted(conversation=conversation, turn=f"{conversation}-1"),
    ]


def calls(conversation: str, call: str, tool: str, path: str | None = None) -> ToolCalled:
    locations = Raw(f'[{{"path":"{path}"}}]'.encode()) if path else Raw(b"null")
    return ToolCalled(conversation=conversation, call=call, tool=tool, input=Raw(b'{"n":1}'), locations=locations)


def says(conversation: str, text: str, speaker: str = "agent") -> MessageRecorded:
    return MessageRecorded(conversation=conversation, speaker=speaker, text=text)


FIRST_WAVE: list[Event] = [
    PLAN,
    WaveStarted(wave=1),
    BranchCreated(name="holdfast/auth/T-1", task="T-1"),
    TaskStarted(task_id="T-1", summary="Design the schema", agent="claude"),
    *sits_down("c1", "T-1"),
    says("c1", "Design tables for users and tokens.", "user"),
    says("c1", "I will look at the present schema first.\nThen I write the migration."),
    calls("c1", "k1", "Read db/schema.sql", "db/schema.sql"),
    ToolReturned(conversation="c1", call="k1", output=Raw(b'"create table users (id int);"')),
    calls("c1", "k2", "Edit db/schema.sql", "db/schema.sql"),
    ToolReturned(conversation="c1", call="k2", content=_DIFF),
    UsageRecorded(input_tokens=10_200, output_tokens=2_100, dollars=0.31, conversation="c1", task="T-1"),
    CaseSubmitted(task_id="T-1", iteration=1, case=Raw(b'{"summary":"done"}')),
    TurnEnded(conversation="c1", turn="c1-1", stop_reason="end_turn"),
    ValidatorFinished(task_id="T-1", name="pytest", passed=True, seconds=3.2),
    ValidationFinished(task_id="T-1", passed=True),
    VerdictGiven(
        task_id="T-1", iteration=1, accept=False, category="weak_test", concern="the test cannot fail", next_step="…"
    ),
    VerdictGiven(task_id="T-1", iteration=2, accept=True),
    TaskCommitted(task_id="T-1", commit="c0ffee1234567890"),
    BranchMerged(name="holdfast/auth/T-1", target="holdfast/auth/main"),
    TaskCompleted(task_id="T-1", summary="Design the schema", files_changed=["db/schema.sql"]),
    WaveCompleted(wave=1),
    Checkpoint(label="wave-1", commit="c0ffee1234567890", plan_step="wave-2"),
]

SECOND_WAVE: list[Event] = [
    WaveStarted(wave=2),
    TaskStarted(task_id="T-2", summary="Build the login endpoint", agent="claude"),
    *sits_down("c2", "T-2"),
    TaskStarted(task_id="T-3", summary="Build the token refresh", agent="codex"),
    *sits_down("c3", "T-3", agent="codex"),
    calls("c2", "k1", "Run pytest tests/login -q"),
    says("c3", "The refresh token must rotate, or a stolen one lives for ever."),
    PermissionRequested(
        conversation="c3",
        request="3f9a01bc22de",
        title="Run rm -rf build",
        kind="execute",
        options=Raw(b'[{"id":"y","name":"Allow","kind":"allow_once"}]'),
    ),
    UsageRecorded(input_tokens=4_000, dollars=0.11, conversation="c2", task="T-2"),
]
