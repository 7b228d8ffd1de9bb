"""Several sessions in one log: which of them was interrupted, and which one a resume takes up."""

from holdfast.core.decide.analysis import (
    interrupted_sessions,
    session_lineage,
    session_to_resume,
)
from holdfast.core.decide.resume import ResumeCase
from holdfast.core.events.checkpoint import Checkpoint
from holdfast.core.events.issue import ErrorEncountered
from holdfast.core.events.plan import PlanCreated, PlannedTask
from holdfast.core.events.session import RunCreated, SessionEnd, SessionStart
from holdfast.core.events.task import TaskCompleted, TaskFailed, TaskStarted
from holdfast.core.state import RunState
from holdfast.core.task_state import TaskStatus
from tests.core.logs import analysis_of, entry, fold_all, session_log

START = SessionStart(command="implement")
RESUME = SessionStart(command="resume")
RUN = RunCreated(run_id="r1", goal="g")
PLAN = PlanCreated(tasks=[PlannedTask(id="1"), PlannedTask(id="2"), PlannedTask(id="3")])
POINT = Checkpoint(label="wave-1-complete", branch="feature/x", plan_step="wave-2-start")
ERROR = ErrorEncountered(error="TypeError", file="a.py", line=42)
FAILED = TaskFailed(task_id="2", error="QA", attempts=3)


def test_several_interrupted_sessions_come_newest_first() -> None:
    log = b"".join(session_log(START, PLAN, sid=sid) for sid in ("s1", "s2", "s3"))
    found = analysis_of(log)
    assert found.sid == "s3"
    assert interrupted_sessions(fold_all(log)) == ["s3", "s2", "s1"]


def test_a_resumed_session_cut_off_before_a_new_checkpoint_keeps_the_earlier_one() -> None:
    log = (
        session_log(START, PLAN, TaskCompleted(task_id="1"), POINT, TaskStarted(task_id="2"))
        + session_log(RESUME, TaskCompleted(task_id="2"), sid="s2")
        + session_log(RESUME, TaskStarted(task_id="3"), sid="s3")
    )
    found = analysis_of(log)
    assert found.checkpoint is not None
    assert (found.sid, found.checkpoint.sid, found.decision.case) == ("s3", "s1", ResumeCase.AUTO)
    assert {name: task.status.value for name, task in found.tasks.items()} == {
        "1": "COMPLETE",
        "2": "COMPLETE",
        "3": "IN_PROGRESS",
    }
    assert found.interrupted_sessions == ("s3",)


def test_issues_that_a_resume_decided_on_do_not_come_again() -> None:
    log = session_log(START, POINT, FAILED) + session_log(RESUME, TaskStarted(task_id="2"), sid="s2")
    assert analysis_of(log).decision.case is ResumeCase.AUTO


def test_an_interrupted_session_behind_a_finished_one_is_the_one_to_resume() -> None:
    log = session_log(START, PLAN, TaskCompleted(task_id="1"), POINT, ERROR) + session_log(
        START, Checkpoint(label="other"), TaskCompleted(task_id="8"), SessionEnd(), sid="s2"
    )
    found = analysis_of(log)
    assert (found.sid, found.interrupted, found.decision.case) == ("s1", True, ResumeCase.ISSUES)
    assert list(found.tasks) == ["1"]
    assert found.checkpoint is not None
    assert found.checkpoint.label == "wave-1-complete"


def test_a_resume_takes_up_the_interrupted_session_not_the_finished_one_before_it() -> None:
    log = (
        session_log(START, PLAN, TaskCompleted(task_id="1"), POINT)
        + session_log(START, TaskCompleted(task_id="8"), SessionEnd(), sid="s2")
        + session_log(RESUME, TaskStarted(task_id="2"), sid="s3")
    )
    state = fold_all(log)
    assert interrupted_sessions(state) == ["s3"]
    assert session_lineage(state, "s3") == {"s1", "s3"}
    found = analysis_of(log)
    assert {name: task.status.value for name, task in found.tasks.items()} == {"1": "COMPLETE", "2": "IN_PROGRESS"}
    assert found.decision.case is ResumeCase.AUTO


def test_a_resume_takes_up_the_newest_of_several_interrupted_sessions() -> None:
    log = session_log(START) + session_log(START, sid="s2") + session_log(RESUME, SessionEnd(), sid="s3")
    state = fold_all(log)
    assert session_lineage(state, "s3") == {"s2", "s3"}
    assert interrupted_sessions(state) == ["s1"]
    again = fold_all(log + session_log(RESUME, sid="s4"))
    assert session_lineage(again, "s4") == {"s1", "s4"}
    assert interrupted_sessions(again) == ["s4"]


def test_a_resume_of_nothing_interrupted_goes_on_with_the_session_before_it() -> None:
    log = session_log(START, PLAN, POINT, SessionEnd(reason="stopped")) + session_log(RESUME, sid="s2")
    state = fold_all(log)
    assert session_lineage(state, "s2") == {"s1", "s2"}
    assert analysis_of(log).decision.case is ResumeCase.AUTO


def test_in_the_log_of_one_run_every_session_goes_on_with_the_one_before() -> None:
    log = (
        session_log(START, RUN, PLAN, TaskCompleted(task_id="1"), POINT)
        + session_log(START, SessionEnd(reason="stopped"), sid="s2")
        + session_log(START, TaskStarted(task_id="2"), sid="s3")
    )
    state = fold_all(log)
    assert session_lineage(state, "s3") == {"s1", "s2", "s3"}
    assert interrupted_sessions(state) == ["s3"]
    assert analysis_of(log).tasks["1"].status is TaskStatus.COMPLETE


def test_a_fresh_session_stands_alone() -> None:
    state = fold_all(session_log(START, PLAN) + session_log(START, sid="s2"))
    assert session_lineage(state, "s1") == {"s1"}
    assert session_lineage(state, "s2") == {"s2"}


def test_when_none_was_interrupted_the_newest_is_the_one_to_look_at() -> None:
    state = fold_all(session_log(START, SessionEnd()) + session_log(START, SessionEnd(), sid="s2"))
    assert session_to_resume(state) == "s2"
    assert session_to_resume(RunState()) is None


def test_a_session_whose_start_was_lost_is_analyzed_by_itself() -> None:
    log = session_log(START, PLAN, TaskCompleted(task_id="1"), POINT) + entry(TaskStarted(task_id="9"), 4, "s2")
    found = analysis_of(log)
    assert (found.sid, list(found.tasks), found.checkpoint) == ("s2", ["9"], None)
