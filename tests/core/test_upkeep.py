"""Merging, pushing, repairing: none of it moves the work, so after it a run stands where it stood."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.decide.analysis import Analysis, interrupted_sessions, session_lineage, session_to_resume
from holdfast.core.decide.resume import ResumeCase
from holdfast.core.events import Event
from holdfast.core.events.agent import AgentSpawned
from holdfast.core.events.checkpoint import Checkpoint
from holdfast.core.events.effect import EffectHappened, EffectIntended
from holdfast.core.events.issue import ErrorEncountered
from holdfast.core.events.plan import PlanCreated, PlannedTask
from holdfast.core.events.session import MAINTENANCE_COMMANDS, RunCreated, SessionEnd, SessionStart
from holdfast.core.events.task import TaskStarted
from tests.core.logs import analysis_of, fold_all, session_log

RUN = RunCreated(run_id="r1", goal="g", repo="/r/.git")
WORK: tuple[Event, ...] = (
    SessionStart(command="run"),
    RUN,
    PlanCreated(tasks=[PlannedTask(id="1"), PlannedTask(id="2")]),
    Checkpoint(label="c", plan_step="next"),
    TaskStarted(task_id="1", agent="eng"),
    AgentSpawned(name="eng", role="coder", task="1"),
)
INTERRUPTED = session_log(*WORK, sid="work")
EFFECT = (EffectIntended(effect="e1", kind="push", arguments={}), EffectHappened(effect="e1"))
DONE = SessionEnd(reason="all_done")
REFUSED = SessionEnd(reason="error", summary="no")

ENDS = {"done": (*EFFECT, DONE), "refused": (REFUSED,), "killed": (EFFECT[0],), "killed-at-once": ()}


def upkeep(command: str, *events: Event, sid: str = "care") -> bytes:
    return session_log(SessionStart(command=command), *events, sid=sid)


def essence(analysis: Analysis) -> object:
    return msgspec.to_builtins(analysis)


@pytest.mark.parametrize("events", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("command", sorted(MAINTENANCE_COMMANDS))
def test_an_interrupted_run_is_as_interrupted_after_upkeep(command: str, events: tuple[Event, ...]) -> None:
    before = analysis_of(INTERRUPTED)
    after = analysis_of(INTERRUPTED + upkeep(command, *events))
    assert essence(after) == essence(before)
    assert after.interrupted
    assert [agent.name for agent in after.active_agents] == ["eng"]
    assert after.decision.case is ResumeCase.AUTO


@pytest.mark.parametrize("command", sorted(MAINTENANCE_COMMANDS))
def test_the_issues_and_the_decision_that_they_need_stay(command: str) -> None:
    issues = session_log(*WORK, ErrorEncountered(error="TypeError"), sid="work")
    after = analysis_of(issues + upkeep(command, *EFFECT, DONE))
    assert essence(after) == essence(analysis_of(issues))
    assert after.decision.case is ResumeCase.ISSUES


def test_a_finished_run_stays_finished_though_upkeep_was_killed() -> None:
    finished = session_log(*WORK, DONE, sid="work")
    after = analysis_of(finished + upkeep("push", EFFECT[0]))
    assert not after.interrupted
    assert after.decision == analysis_of(finished).decision


def test_a_resume_after_upkeep_goes_on_with_the_work_and_not_with_the_upkeep() -> None:
    log = INTERRUPTED + upkeep("merge", *EFFECT, DONE) + session_log(SessionStart(command="resume"), sid="again")
    state = fold_all(log)
    assert session_lineage(state, "again") == {"again", "work"}
    assert interrupted_sessions(state) == ["again"]
    assert session_to_resume(state) == "again"


def test_in_a_log_of_another_tool_the_same_words_are_work() -> None:
    """Only a run of ours has upkeep: elsewhere `merge` may be what the session was for."""
    log = session_log(SessionStart(command="implement"), sid="one") + upkeep("merge", TaskStarted(task_id="1"))
    assert analysis_of(log).sid == "care"


@given(st.lists(st.tuples(st.sampled_from(sorted(MAINTENANCE_COMMANDS)), st.sampled_from(sorted(ENDS))), max_size=6))
def test_however_much_upkeep_there_was(sessions: list[tuple[str, str]]) -> None:
    log = INTERRUPTED + b"".join(
        upkeep(command, *ENDS[end], sid=f"care-{number}") for number, (command, end) in enumerate(sessions)
    )
    assert essence(analysis_of(log)) == essence(analysis_of(INTERRUPTED))
