"""What the dashboard says, of values alone."""

from typing import Any

import pytest

from holdfast.app.text.log_lines import EventLine
from holdfast.app.text.screen import display_width
from holdfast.app.text.spans import Span, fit_row, row_text
from holdfast.app.tui.attention import Attention, attention_of, filter_runs, sort_by_attention
from holdfast.app.tui.details import log_rows
from holdfast.app.tui.help_text import KEYS, keys_row
from holdfast.app.tui.run_list import age, choose_columns, heading_row, run_row, summary_row
from holdfast.engine.queries.runs import ListedRun
from holdfast.store.index import Summary

NOW = "2026-02-14T10:00:00.000Z"


def listed(status: str = "done", want: str | None = None, run_id: str = "auth-abc234", **more: Any) -> ListedRun:
    facts: dict[str, Any] = {
        "slug": "auth",
        "goal": "Add OAuth login",
        "workflow": "waves",
        "repo": "/src/web/.git",
        "condition": status,
        "created": NOW,
        "updated": NOW,
        "sessions": 1,
        "events": 10,
        "tasks_done": 2,
        "tasks": 5,
        "tokens": 100,
        "dollars": 1.5,
        "estimate": None,
        "unpriced": 0,
        "needs": 1 if want else 0,
        "want": want,
        "need": f"a {want}" if want else None,
        "adopted": None,
        "adopted_path": None,
        "adopted_session": None,
        "resumes_at": None,
        **more,
    }
    return ListedRun(run_id, status, Summary(**facts))


@pytest.mark.parametrize(
    ("status", "want", "call"),
    [
        ("running", "permission", Attention.REQUEST),
        ("interrupted", "permission", Attention.REQUEST),
        ("waiting", "approval", Attention.REQUEST),
        ("interrupted", None, Attention.TROUBLE),
        ("failed", "failure", Attention.TROUBLE),
        ("wall_clock", None, Attention.TROUBLE),
        ("parked", None, Attention.TROUBLE),
        ("unreadable", None, Attention.TROUBLE),
        ("stopped", "failure", Attention.TROUBLE),
        ("stopped", "effect", Attention.TROUBLE),
        ("waiting", "words", Attention.MESSAGE),
        ("running", "failure", Attention.RUNNING),
        ("running", None, Attention.RUNNING),
        ("stopped", None, Attention.IDLE),
        ("stopped", "message", Attention.IDLE),
        ("planned", None, Attention.IDLE),
        ("quota", None, Attention.IDLE),
        ("outage", None, Attention.IDLE),
        ("day_budget", None, Attention.IDLE),
        ("quota", "failure", Attention.TROUBLE),
        ("done", None, Attention.FINISHED),
        ("done", "message", Attention.FINISHED),
        ("archived", "failure", Attention.FINISHED),
        ("empty", None, Attention.FINISHED),
    ],
)
def test_how_much_a_run_wants_a_person(status: str, want: str | None, call: Attention) -> None:
    assert attention_of(listed(status, want)) is call


def test_what_calls_loudest_comes_first_and_equals_keep_their_order() -> None:
    runs = [
        listed("done", run_id="a"),
        listed("running", run_id="b"),
        listed("failed", "failure", run_id="c"),
        listed("running", run_id="d"),
        listed("running", "permission", run_id="e"),
    ]
    assert [run.id for run in sort_by_attention(runs)] == ["e", "c", "b", "d", "a"]


@pytest.mark.parametrize("words", ["", "AUTH", "waves running", "oauth  add", "/src/web"])
def test_a_filter_looks_into_all_that_is_known(words: str) -> None:
    assert filter_runs([listed("running")], words)
    assert not filter_runs([listed("running")], f"{words} nowhere")


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120, 200])
def test_no_row_is_wider_than_the_terminal_and_columns_stand_in_line(width: int) -> None:
    runs = [
        listed("running", "permission", need="May I? " * 50, needs=3),
        listed("interrupted", run_id="x" * 120, goal="数据库迁移" * 40),
        listed("done", goal="two\nlines", updated=None, dollars=1234.5),
    ]
    columns = choose_columns(runs, NOW, width)
    rows = [row_text(row) for row in (heading_row(columns), *(run_row(run, NOW, columns) for run in runs))]
    assert all(display_width(row) <= max(width, 40) for row in rows), rows
    status = rows[0].index("STATUS")
    assert [row[status:].split()[0] for row in rows[1:]] == ["running", "interrupted", "done"]
    if width >= 80:
        assert "(and 2 more)" in rows[1] or "…" in rows[1]
        assert "COST" in rows[0]


@pytest.mark.parametrize(
    ("since", "told"),
    [
        (NOW, "now"),
        ("2026-02-14T09:59:01.000Z", "now"),
        ("2026-02-14T09:55:00.000Z", "5m"),
        ("2026-02-14T07:00:00.000Z", "3h"),
        ("2026-02-12T07:00:00.000Z", "2d"),
        ("2027-01-01T00:00:00.000Z", "now"),
        (None, "-"),
        ("yesterday", "-"),
    ],
)
def test_an_age_is_short(since: str | None, told: str) -> None:
    assert age(since, NOW) == told


def test_all_runs_in_one_row() -> None:
    runs = [listed("running"), listed("failed", "failure"), listed("done")]
    assert row_text(summary_row(runs, 3)) == " holdfast 3 runs · 1 needs you · 1 running · $4.50"
    assert row_text(summary_row(runs[2:], 0)) == " holdfast 1 run, 0 shown · $1.50"


def test_a_cost_that_nobody_knows_is_said_to_be_unknown() -> None:
    runs = [listed(dollars=None, unpriced=2), listed(dollars=None), listed(unpriced=1), listed(dollars=0.0)]
    columns = choose_columns(runs, NOW, 120)
    rows = [row_text(run_row(run, NOW, columns)) for run in runs]
    costs = [row.partition("now")[2].partition("waves")[0].strip() for row in rows]
    assert costs == ["unknown", "-", "$1.50 + unknown", "$0.00"]
    assert row_text(summary_row(runs, 4)) == " holdfast 4 runs · $1.50 + unknown"
    assert row_text(summary_row(runs[:1], 1)) == " holdfast 1 run · unknown"


def test_the_keys_are_named_where_there_is_room() -> None:
    assert display_width(row_text(keys_row(80))) <= 80
    assert all(name in row_text(keys_row(80)) for _, name, _ in KEYS)
    assert row_text(keys_row(40)).split() == [key for key, _, _ in KEYS]


def test_a_line_of_the_log_is_cut_to_the_terminal() -> None:
    lines = [EventLine("10:00:00", "T-1 evaluator of much", "w" * 200, None, is_error=False)]
    (row,) = log_rows(lines, 60)
    assert row_text(row).startswith("10:00:00  T-1 evaluat…  www")
    assert display_width(row_text(row)) == 60


@pytest.mark.parametrize("width", range(12))
def test_a_row_is_cut_where_there_is_no_more_room(width: int) -> None:
    row = [Span("one "), Span("数据 ", "bold"), Span("three")]
    assert display_width(row_text(fit_row(row, width))) <= width
    assert row_text(fit_row(row, 14)) == "one 数据 three"
