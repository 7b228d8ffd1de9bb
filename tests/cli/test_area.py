"""The live area: what it says of a run, in whatever room there is."""

import pytest

from holdfast.app.text.live_area import elapsed, live_rows
from holdfast.app.text.screen import display_width
from holdfast.core.events import Event
from holdfast.core.events.budget import BudgetSet
from holdfast.core.events.session import RunCreated, SessionStart
from holdfast.core.events.task import TaskStarted
from holdfast.core.events.work import CaseSubmitted, VerdictGiven
from tests.cli.scenes import FIRST_WAVE, SECOND_WAVE
from tests.core.logs import fold_all, session_log

RUN = "auth-abc234"
CREATED = (SessionStart(), RunCreated(run_id=RUN, goal="g", workflow="waves"))
NOW = "2026-02-14T10:01:05.000Z"


def drawn(*events: Event, width: int = 100, height: int = 24) -> list[str]:
    state = fold_all(session_log(*CREATED, *events))
    return ["".join(span.text for span in row) for row in live_rows(state, RUN, NOW, width, height)]


def test_it_says_where_the_run_stands_and_who_is_at_what() -> None:
    head, first, second, question = drawn(*FIRST_WAVE, *SECOND_WAVE)
    assert head.startswith(f"── {RUN} · waves · wave 2 of 3 · 1 of 4 tasks · 1 m 05 s ──")
    assert head.endswith("── 16,300 tokens · $0.42 ")
    assert first.split(maxsplit=2) == ["T-2", "work", f"{'Run pytest tests/login -q':72}  1 m 05 s"]
    assert "waiting for your answer" in second
    assert question == f"  ? T-3 asks: Run rm -rf build  holdfast approve {RUN} 3f9a01bc22de"


def test_a_task_tells_its_stage_and_how_often_it_was_tried() -> None:
    rejected = VerdictGiven(task_id="T", iteration=1, accept=False)
    assert drawn(TaskStarted(task_id="T", summary="Build"), rejected)[1] == "  T  work      iteration 2  Build"
    assert drawn(TaskStarted(task_id="T"), CaseSubmitted(task_id="T", iteration=1))[1].endswith("running the checks")


def test_a_cap_is_told_with_what_was_spent() -> None:
    assert drawn(*FIRST_WAVE, BudgetSet(dollars=5))[0].endswith("$0.31 of $5.00 ")


@pytest.mark.parametrize("width", [20, 40, 79, 80, 81, 120, 200])
def test_no_row_is_wider_than_the_terminal(width: int) -> None:
    wide = TaskStarted(task_id="项目" * 30, summary="任务" * 100)
    rows = drawn(*FIRST_WAVE, *SECOND_WAVE, wide, width=width)
    assert max(map(display_width, rows)) < width


def test_there_are_no_more_rows_than_fit() -> None:
    many = [TaskStarted(task_id=f"T-{number}") for number in range(50)]
    rows = drawn(*many, height=10)
    assert len(rows) == 8
    assert rows[-1] == "  … and 44 more"
    assert len(drawn(*many, height=1)) == 1


def test_a_run_that_has_only_begun_has_a_head_line_too() -> None:
    assert len(drawn()) == 1


@pytest.mark.parametrize(
    ("since", "told"),
    [
        ("2026-02-14T10:01:05.000Z", "0 s"),
        ("2026-02-14T09:00:00.000Z", "1 h 01 m"),
        ("2026-02-14T10:59:00.000Z", "0 s"),
        (None, ""),
        ("yesterday", ""),
    ],
)
def test_time_is_told_as_people_do(since: str | None, told: str) -> None:
    assert elapsed(since, NOW) == told
