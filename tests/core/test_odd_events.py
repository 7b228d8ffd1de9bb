"""Events that another tool wrote a little differently: what can be used of them is, and it is said."""

from typing import Any

import pytest

from holdfast.core.decide.resume import ResumeCase
from holdfast.core.log.codec import Line, parse
from holdfast.core.task_state import TaskStatus
from tests.core.logs import analysis_of, fold_all, foreign

_START = foreign("session.start", 0, data={"command": "implement"})
_CHECKPOINT = foreign("checkpoint", 1, data={"label": "one", "plan_step": "two"})


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("task.failed", {"taskId": "2", "error": {"message": "no"}, "attempts": "3"}),
        ("error.encountered", {"error": "no", "line": "42", "resolved": False}),
        ("error.encountered", {"error": "no", "resolved": "nearly"}),
        ("blocker.reported", {"description": ["no"]}),
    ],
)
def test_an_issue_with_odd_data_is_an_issue_all_the_same(kind: str, data: dict[str, object]) -> None:
    analysis = analysis_of(_START + _CHECKPOINT + foreign(kind, 2, data=data))
    assert analysis.decision.case is ResumeCase.ISSUES
    assert [issue.type for issue in analysis.issues] == [kind]
    assert "does not fit" in analysis.malformed[0].reason


def test_a_completed_task_with_odd_files_is_not_done_again() -> None:
    state = fold_all(_START + foreign("task.completed", 1, data={"taskId": 7, "files_changed": "all"}))
    assert state.tasks["7"].status is TaskStatus.COMPLETE


def test_a_session_that_ended_with_an_odd_summary_has_ended() -> None:
    analysis = analysis_of(_START + foreign("session.end", 1, data={"summary": {"done": 3}}))
    assert not analysis.interrupted


@pytest.mark.parametrize("flag", ["no", 0, None, [], {}])
def test_a_checkpoint_whose_flag_cannot_be_read_is_no_place_to_resume_from(flag: object) -> None:
    data = {"label": "one", "plan_step": "two", "resumable": flag}
    analysis = analysis_of(_START + foreign("checkpoint", 1, data=data))
    assert analysis.decision.case is ResumeCase.NO_CHECKPOINT


def test_what_an_event_cannot_do_without_is_not_made_up() -> None:
    state = fold_all(_START + foreign("task.completed", 1, data={"files_changed": []}))
    assert not state.tasks
    assert "taskId" in state.malformed[0].reason


@pytest.mark.parametrize(
    ("odd", "ts", "version"),
    [
        ({"ts": 1771063200}, "1771063200", 1),
        ({"ts": {"at": 1}}, None, 1),
        ({"v": "1"}, None, 1),
        ({"v": None}, None, 1),
        ({"feature": 7, "agent": ["a"]}, None, 1),
        ({"ts": 5, "v": 2}, "5", 2),
    ],
)
def test_a_line_with_an_odd_head_counts_when_it_says_who_which_and_what(
    odd: dict[str, Any], ts: str | None, version: int
) -> None:
    line = parse(foreign("task.started", 4, data={"a": 1}, **odd))
    assert isinstance(line, Line)
    assert (line.sid, line.seq, line.type, line.ts, line.v) == ("s1", 4, "task.started", ts, version)
    assert bytes(line.data) == b'{"a":1}'


def test_an_odd_head_keeps_data_that_no_encoder_would_write() -> None:
    line = parse(b'{"sid":"s1","seq":1,"type":"x","ts":5,"data":{"n":99999999999999999999999}}')
    assert isinstance(line, Line)
    assert bytes(line.data) == b'{"n":99999999999999999999999}'
