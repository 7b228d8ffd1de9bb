"""The analysis, rule by rule of the Resume Protocol."""

from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.decide.analysis import (
    ActiveAgent,
    SeqGap,
    analyze,
    interrupted_sessions,
)
from holdfast.core.decide.resume import ResumeCase
from holdfast.core.events import Event
from holdfast.core.events.agent import AgentCompleted, AgentDied, AgentSpawned
from holdfast.core.events.checkpoint import Checkpoint
from holdfast.core.events.issue import BlockerReported, ErrorEncountered, WarningLogged
from holdfast.core.events.plan import PlanCreated, PlannedTask
from holdfast.core.events.session import SessionEnd, SessionStart
from holdfast.core.events.task import TaskCompleted, TaskFailed, TaskSkipped, TaskStarted
from tests.core import seed_protocol as seed
from tests.core.logs import analysis_of, entry, fold_all, fold_once, foreign, session_log
from tests.core.strategies import examples, sessions

EXAMPLE = (Path(__file__).parents[2] / "golden" / "resume-protocol-interrupted.jsonl").read_bytes()
RESUMED = (
    b'{"v":1,"ts":"2026-02-14T11:00:00.000Z","sid":"b5a4c3d2","seq":0,"type":"session.start","feature":"auth-system",'
    b'"agent":null,"pane_id":null,"data":{"command":"resume","feature":"auth-system",'
    b'"branch":"feature/auth-system","mode":"strict"}}\n'
    b'{"v":1,"ts":"2026-02-14T11:00:05.000Z","sid":"b5a4c3d2","seq":1,"type":"agent.spawned","feature":"auth-system",'
    b'"agent":null,"pane_id":null,"data":{"name":"service-eng","role":"Standard Coding Agent","task":"2",'
    b'"branch":"work/auth-system/api-service"}}\n'
    b'{"v":1,"ts":"2026-02-14T11:00:06.000Z","sid":"b5a4c3d2","seq":2,"type":"task.started","feature":"auth-system",'
    b'"agent":"service-eng","pane_id":null,"data":{"taskId":"2","summary":"Build API","agent":"service-eng",'
    b'"files":["src/api/service.ts"]}}\n'
)

START = SessionStart(command="implement")
RESUME = SessionStart(command="resume")
PLAN = PlanCreated(tasks=[PlannedTask(id="1"), PlannedTask(id="2"), PlannedTask(id="3")])
POINT = Checkpoint(label="wave-1-complete", branch="feature/x", plan_step="wave-2-start")
NO_RETURN = Checkpoint(label="half-way", plan_step="wave-2-start", resumable=False)
ERROR = ErrorEncountered(error="TypeError", file="a.py", line=42)
BLOCKER = BlockerReported(description="no key")
FAILED = TaskFailed(task_id="2", error="QA", attempts=3)


# The seed's own example


def test_the_protocols_own_example_gives_the_protocols_own_analysis() -> None:
    found = analysis_of(EXAMPLE)
    assert (found.feature, found.sid, found.interrupted) == ("auth-system", "f4e3d2c1", True)
    assert (found.events, found.first_seq, found.last_seq, found.gaps) == (11, 0, 10, ())
    assert found.checkpoint is not None
    assert (found.checkpoint.seq, found.checkpoint.label) == (7, "wave-1-complete")
    assert (found.checkpoint.branch, found.checkpoint.plan_step) == ("feature/auth-system", "wave-2-start")
    assert {name: task.status for name, task in found.tasks.items()} == {"1": "COMPLETE", "2": "IN_PROGRESS"}
    assert found.pending == ()
    assert found.active_agents == (
        ActiveAgent("service-eng", "Standard Coding Agent", "2", "work/auth-system/api-service"),
    )
    assert (found.issues, found.warnings, found.malformed, found.duplicates) == ((), (), (), ())
    assert found.interrupted_sessions == ("f4e3d2c1",)
    assert (found.decision.case, found.decision.next_step) == (ResumeCase.AUTO, "wave-2-start")
    assert (found.decision.affected, found.decision.options) == ((), ())


def test_the_protocols_example_keeps_what_its_tasks_say() -> None:
    tasks = analysis_of(EXAMPLE).tasks
    assert tasks["1"].files_changed == ["src/db/schema.ts", "src/db/migrations/001.ts"]
    assert (tasks["2"].summary, tasks["2"].agent, tasks["2"].files) == (
        "Build API",
        "service-eng",
        ["src/api/service.ts"],
    )


def test_the_protocols_example_resumed_and_cut_off_again_goes_on_from_the_same_checkpoint() -> None:
    found = analysis_of(EXAMPLE + RESUMED)
    assert (found.sid, found.events, found.first_seq, found.last_seq) == ("b5a4c3d2", 3, 0, 2)
    assert found.checkpoint is not None
    assert (found.checkpoint.sid, found.checkpoint.seq) == ("f4e3d2c1", 7)
    assert {name: task.status for name, task in found.tasks.items()} == {"1": "COMPLETE", "2": "IN_PROGRESS"}
    assert [agent.name for agent in found.active_agents] == ["service-eng"]
    assert found.interrupted_sessions == ("b5a4c3d2",)
    assert found.decision.case is ResumeCase.AUTO


def test_the_protocols_example_cut_off_anywhere_is_analyzed() -> None:
    lines = EXAMPLE.splitlines(keepends=True)
    cases = [analysis_of(b"".join(lines[:count])).decision.case for count in range(1, len(lines) + 1)]
    assert cases == [ResumeCase.NO_CHECKPOINT] * 7 + [ResumeCase.AUTO] * 4


# The rules, as a table


class Rule(NamedTuple):
    fact: str
    events: tuple[Event, ...]
    case: ResumeCase
    issues: tuple[str, ...] = ()


def rule(fact: str, *events: Event, case: ResumeCase, issues: tuple[str, ...] = ()) -> Rule:
    return Rule(fact, events, case, issues)


ERROR_ONLY = ("error.encountered",)
RULES = (
    rule("nothing since the checkpoint", START, PLAN, POINT, case=ResumeCase.AUTO),
    rule("work since the checkpoint", POINT, TaskStarted(task_id="2"), case=ResumeCase.AUTO),
    rule("an unresolved error", POINT, ERROR, case=ResumeCase.ISSUES, issues=ERROR_ONLY),
    rule("an error that does not say", POINT, ErrorEncountered(), case=ResumeCase.ISSUES, issues=ERROR_ONLY),
    rule("a resolved error", POINT, ErrorEncountered(error="E", resolved=True), case=ResumeCase.AUTO),
    rule(
        "an error resolved later",
        POINT,
        ERROR,
        ErrorEncountered(error="TypeError", file="a.py", resolved=True),
        case=ResumeCase.AUTO,
    ),
    rule(
        "another error resolved later",
        POINT,
        ERROR,
        ErrorEncountered(error="ValueError", file="a.py", resolved=True),
        case=ResumeCase.ISSUES,
        issues=ERROR_ONLY,
    ),
    rule("a blocker", POINT, BLOCKER, case=ResumeCase.ISSUES, issues=("blocker.reported",)),
    rule(
        "a blocker resolved", POINT, BLOCKER, BlockerReported(description="no key", resolved=True), case=ResumeCase.AUTO
    ),
    rule("a failed task", POINT, FAILED, case=ResumeCase.ISSUES, issues=("task.failed",)),
    rule("a failed task tried again", POINT, FAILED, TaskStarted(task_id="2"), case=ResumeCase.AUTO),
    rule("a failed task completed later", POINT, FAILED, TaskCompleted(task_id="2"), case=ResumeCase.AUTO),
    rule("a failed task skipped later", POINT, FAILED, TaskSkipped(task_id="2"), case=ResumeCase.AUTO),
    rule(
        "a failed task, another tried",
        POINT,
        FAILED,
        TaskStarted(task_id="3"),
        case=ResumeCase.ISSUES,
        issues=("task.failed",),
    ),
    rule("a task failed twice", POINT, FAILED, FAILED, case=ResumeCase.ISSUES, issues=("task.failed",)),
    rule(
        "several",
        POINT,
        ERROR,
        BLOCKER,
        FAILED,
        case=ResumeCase.ISSUES,
        issues=("error.encountered", "blocker.reported", "task.failed"),
    ),
    rule("issues before the checkpoint", ERROR, BLOCKER, FAILED, POINT, case=ResumeCase.AUTO),
    rule("issues between checkpoints", POINT, ERROR, FAILED, POINT, case=ResumeCase.AUTO),
    rule("a warning is no issue", POINT, WarningLogged(message="slow"), case=ResumeCase.AUTO),
    rule("nothing at all", START, case=ResumeCase.NO_CHECKPOINT),
    rule("no checkpoint, no plan", START, TaskStarted(task_id="1"), case=ResumeCase.NO_CHECKPOINT),
    rule("no checkpoint, a plan", START, PLAN, TaskStarted(task_id="1"), case=ResumeCase.NO_CHECKPOINT),
    rule("no checkpoint, issues", START, PLAN, ERROR, case=ResumeCase.ISSUES, issues=ERROR_ONLY),
    rule("a checkpoint not to resume from", START, PLAN, NO_RETURN, case=ResumeCase.NO_CHECKPOINT),
    rule("a checkpoint not to resume from, after a good one", POINT, NO_RETURN, case=ResumeCase.NO_CHECKPOINT),
    rule("a good checkpoint after one that is not", NO_RETURN, POINT, case=ResumeCase.AUTO),
    rule("issues after a checkpoint not to resume from", NO_RETURN, ERROR, case=ResumeCase.ISSUES, issues=ERROR_ONLY),
    rule("an end", START, PLAN, SessionEnd(), case=ResumeCase.COMPLETE),
    rule("an end with a reason", START, POINT, SessionEnd(reason="completed"), case=ResumeCase.COMPLETE),
    rule("an end with issues", START, POINT, ERROR, SessionEnd(), case=ResumeCase.COMPLETE, issues=ERROR_ONLY),
    rule("an end that is none yet", START, POINT, SessionEnd(reason="stopped"), case=ResumeCase.AUTO),
    rule("stopped without a checkpoint", START, SessionEnd(reason="wall_clock"), case=ResumeCase.NO_CHECKPOINT),
    rule(
        "stopped with issues", POINT, ERROR, SessionEnd(reason="token_cap"), case=ResumeCase.ISSUES, issues=ERROR_ONLY
    ),
)


@pytest.mark.parametrize("given_rule", RULES, ids=[each.fact for each in RULES])
def test_rule(given_rule: Rule) -> None:
    found = analysis_of(session_log(*given_rule.events))
    assert found.decision.case is given_rule.case
    assert tuple(issue.type for issue in found.issues) == given_rule.issues
    assert found.interrupted is not any(isinstance(event, SessionEnd) for event in given_rule.events)


@pytest.mark.parametrize(
    "reason",
    ["stopped", "interrupted", "wall_clock", "token_cap", "cost_cap", "iter_cap", "evaluator_cap", "error", "parked"],
)
def test_an_end_whose_reason_says_unfinished_is_not_complete(reason: str) -> None:
    found = analysis_of(session_log(START, POINT, SessionEnd(reason=reason)))
    assert (found.interrupted, found.interrupted_sessions) == (False, ())
    assert found.decision.case is ResumeCase.AUTO


def test_what_happened_after_the_checkpoint_is_told_apart_by_number_not_by_place() -> None:
    late = entry(START) + entry(POINT, 5) + entry(ERROR, 4)
    early = entry(START) + entry(ERROR, 6) + entry(POINT, 5)
    assert analysis_of(late).decision.case is ResumeCase.AUTO
    assert analysis_of(early).decision.case is ResumeCase.ISSUES


def test_warnings_since_the_checkpoint_are_shown() -> None:
    found = analysis_of(session_log(WarningLogged(message="old"), POINT, WarningLogged(message="new")))
    assert [warning.detail["message"] for warning in found.warnings] == ["new"]


def test_a_repeated_number_that_replaces_an_issue_undoes_it() -> None:
    assert analysis_of(session_log(START, POINT, FAILED) + entry(WarningLogged(), 2)).decision.case is ResumeCase.AUTO


def test_a_repeated_number_that_replaces_the_checkpoint_undoes_it() -> None:
    found = analysis_of(session_log(START, ERROR, POINT) + entry(WarningLogged(), 2))
    assert (found.checkpoint, found.decision.case) == (None, ResumeCase.ISSUES)


def test_damage_is_passed_on() -> None:
    found = analysis_of(b"garbage\n" + session_log(START, POINT) + entry(POINT, 1) + b'{"sid":\n')
    assert [note.line for note in found.malformed] == [1, 5]
    assert found.decision.case is ResumeCase.AUTO


@pytest.mark.parametrize("log", [b"", b"\n\n", b"garbage\n"])
def test_a_log_without_any_event_has_nothing_to_resume(log: bytes) -> None:
    found = analysis_of(log)
    assert (found.sid, found.interrupted, found.events, found.first_seq, found.last_seq) == (None, False, 0, None, None)
    assert (found.interrupted_sessions, found.decision.case) == ((), ResumeCase.COMPLETE)


# Agents and tasks


@pytest.mark.parametrize(
    ("events", "active"),
    [
        ((AgentSpawned(name="a"), AgentSpawned(name="b")), ["a", "b"]),
        ((AgentSpawned(name="a"), AgentSpawned(name="b"), AgentCompleted(name="a")), ["b"]),
        ((AgentSpawned(name="a"), AgentDied(name="a")), []),
        ((AgentSpawned(name="a"), AgentCompleted(name="a"), AgentSpawned(name="a")), ["a"]),
        ((AgentCompleted(name="a"),), []),
    ],
)
def test_active_agents_are_those_that_were_spawned_and_not_heard_the_end_of(
    events: tuple[Event, ...], active: list[str]
) -> None:
    assert [agent.name for agent in analysis_of(session_log(START, *events)).active_agents] == active


def test_agents_of_an_earlier_session_are_not_active_in_this_one() -> None:
    log = session_log(START, AgentSpawned(name="a")) + session_log(RESUME, AgentSpawned(name="b"), sid="s2")
    assert [agent.name for agent in analysis_of(log).active_agents] == ["b"]


def test_planned_tasks_that_nobody_began_are_pending() -> None:
    found = analysis_of(session_log(START, PLAN, TaskCompleted(task_id="1"), TaskSkipped(task_id="2")))
    assert found.pending == ("3",)
    assert {name: task.status for name, task in found.tasks.items()} == {"1": "COMPLETE", "2": "SKIPPED"}


def test_tasks_that_a_new_plan_left_out_are_not_pending() -> None:
    new = PlanCreated(tasks=[PlannedTask(id="2"), PlannedTask(id="9")])
    found = analysis_of(session_log(START, PLAN, TaskCompleted(task_id="1"), new))
    assert found.pending == ("2", "9")
    assert list(found.tasks) == ["1"]


# Gaps


def test_a_gap_is_noted_as_the_protocol_notes_it() -> None:
    found = analysis_of(b"".join(foreign("x", seq) for seq in (13, 14, 17, 20)))
    assert found.gaps == (SeqGap(14, 15, 17, 2), SeqGap(17, 18, 20, 2))
    assert (found.first_seq, found.last_seq, found.events) == (13, 20, 4)


@given(st.sets(st.integers(0, 40), min_size=1).flatmap(lambda seqs: st.permutations(sorted(seqs))))
@examples(100)
def test_gaps_are_those_that_the_protocol_detects(seqs: list[int]) -> None:
    found = analyze(fold_once(b"".join(foreign("x", seq) for seq in seqs)).state)
    assert [msgspec.to_builtins(gap) for gap in found.gaps] == seed.detect_gaps([{"seq": seq} for seq in seqs])


# Against the protocol's own snippets, on random logs


@given(
    sessions(
        types=(
            "session.start",
            "task.started",
            "task.completed",
            "task.failed",
            "agent.spawned",
            "agent.completed",
            "checkpoint",
            "error.encountered",
            "blocker.reported",
            "warning.logged",
            "message.recorded",
        ),
        most=1,
    )
)
@examples(100)
def test_the_analysis_of_one_session_is_the_protocols(log: bytes) -> None:
    found, events = analysis_of(log), seed.records(log)
    last = seed.last_checkpoint(events)
    assert (found.checkpoint.seq if found.checkpoint else None) == (last["seq"] if last else None)
    assert {name: task.status.value for name, task in found.tasks.items()} == seed.task_state(events)
    assert {agent.name for agent in found.active_agents} >= set(seed.active_agents(events))
    assert [issue.seq for issue in found.warnings if issue.type == "warning.logged"] == [
        event["seq"] for event in seed.post_checkpoint(events, "warning.logged")
    ]
    theirs = seed.post_checkpoint(events, *seed.ISSUES)
    ours = {issue.seq for issue in found.issues}
    assert ours <= {event["seq"] for event in theirs}
    for event in theirs:
        assert event["seq"] in ours or was_settled(event, events), event


def was_settled(issue: seed.Record, events: list[seed.Record]) -> bool:
    """The issues that are none: resolved at once or later, retried without asking, or of a task that went on since."""
    if issue["data"].get("resolved") or issue["data"].get("retried"):
        return True
    later = [event for event in events if event["seq"] > issue["seq"]]
    if issue["type"] == "task.failed":
        return any(
            event["type"].startswith("task.") and str(event["data"]["taskId"]) == str(issue["data"]["taskId"])
            for event in later
        )
    return any(event["type"] == issue["type"] and event["data"]["resolved"] for event in later)


@given(sessions(types=("session.end", "task.started", "checkpoint", "message.recorded")))
@examples(50)
def test_without_resumes_the_interrupted_sessions_are_the_protocols(log: bytes) -> None:
    assert interrupted_sessions(fold_all(log)) == seed.interrupted_sessions(seed.records(log))
