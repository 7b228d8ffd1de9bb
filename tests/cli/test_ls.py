"""`ls`: the runs there are, and how each stands."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdfast.app.cli.inspect.ls import _age
from holdfast.core.events.budget import UsageRecorded
from holdfast.core.events.plan import PlanCreated, PlannedTask
from holdfast.core.events.session import SessionEnd
from holdfast.core.events.task import TaskCompleted, TaskStarted
from tests.cli.foreign import SEED_LOG, put
from tests.cli.owner import owner_of
from tests.cli.program import Program
from tests.cli.runs import DONE, ELEVEN, TEN, log_of, make_run, resume_run, tasks


def statuses(holdfast: Program, **how: bool) -> dict[str, str]:
    return {run["id"]: run["status"] for run in holdfast("ls", "--json", **how).objects}


def test_a_home_that_is_not_there_has_no_runs(holdfast: Program) -> None:
    outcome = holdfast("ls")
    assert outcome.out == ""
    assert outcome.err == "no runs yet; create one with: holdfast run GOAL, or try: holdfast demo\n"
    assert holdfast("ls", "--json").out == ""
    assert not os.path.exists(holdfast.home), "looking makes no home"


def test_a_run_is_one_line(holdfast: Program) -> None:
    plan = PlanCreated(tasks=[PlannedTask(id=str(number)) for number in (1, 2, 3)])
    make_run(holdfast.home, "auth-abc234", plan, *tasks(2), DONE, goal="Add OAuth login")
    columns = holdfast("ls").out.rstrip("\n").split("  ")
    assert (columns[:5], columns[6]) == (["auth-abc234", "done", "-", "2/3", "-"], "Add OAuth login")
    assert columns[5].rstrip("smhd").isdecimal(), "its age"


def test_json_tells_all_that_the_catalog_knows(holdfast: Program) -> None:
    make_run(holdfast.home, "auth-abc234", *tasks(2), UsageRecorded(input_tokens=5, output_tokens=7, dollars=0.5))
    resume_run(holdfast.home, "auth-abc234", SessionEnd(reason="wall_clock"))
    assert holdfast("ls", "--json").object == {
        "id": "auth-abc234",
        "status": "wall_clock",
        "slug": "auth",
        "goal": "Add OAuth login",
        "workflow": "solo",
        "repo": None,
        "condition": "wall_clock",
        "created": TEN,
        "updated": ELEVEN,
        "sessions": 2,
        "events": 9,
        "tasks_done": 2,
        "tasks": 2,
        "tokens": 12,
        "dollars": 0.5,
        "estimate": None,
        "unpriced": 0,
        "needs": 0,
        "want": None,
        "need": None,
        "adopted": None,
        "adopted_path": None,
        "adopted_session": None,
        "resumes_at": None,
    }


def test_the_run_that_moved_last_comes_first(holdfast: Program) -> None:
    make_run(holdfast.home, "early-abc234", at="2026-02-14T10:00:00.000Z")
    make_run(holdfast.home, "late-abc234", at="2026-02-14T12:00:00.000Z")
    make_run(holdfast.home, "middle-abc234", at="2026-02-14T11:00:00.000Z")
    assert list(statuses(holdfast)) == ["late-abc234", "middle-abc234", "early-abc234"]
    resume_run(holdfast.home, "early-abc234", at="2026-02-14T13:00:00.000Z")
    assert list(statuses(holdfast)) == ["early-abc234", "late-abc234", "middle-abc234"]


def test_a_run_runs_while_its_owner_lives_and_is_interrupted_when_it_was_killed(holdfast: Program) -> None:
    make_run(holdfast.home, "auth-abc234")
    assert statuses(holdfast) == {"auth-abc234": "interrupted"}
    with owner_of(holdfast.home, "auth-abc234") as owner:
        assert statuses(holdfast) == {"auth-abc234": "running"}
        owner.kill()
        assert statuses(holdfast) == {"auth-abc234": "interrupted"}
    with owner_of(holdfast.home, "auth-abc234") as owner:
        owner.end()
        assert statuses(holdfast) == {"auth-abc234": "done"}


@pytest.mark.parametrize(
    ("reason", "status"),
    [("all_done", "done"), (None, "done"), ("stopped", "stopped"), ("token_cap", "token_cap"), ("failed", "failed")],
)
def test_a_run_that_ended_stands_as_it_ended_in_every_command(
    holdfast: Program, reason: str | None, status: str
) -> None:
    make_run(holdfast.home, "auth-abc234", SessionEnd(reason=reason))
    assert statuses(holdfast) == {"auth-abc234": status}
    assert holdfast("show", "auth", "--json").object["status"] == status


def test_a_run_without_events_is_empty(holdfast: Program) -> None:
    put(holdfast.home, "runs", "auth-abc234", "events.jsonl", log=b"")
    assert statuses(holdfast) == {"auth-abc234": "empty"}
    assert holdfast("ls").lines[0].split()[:4] == ["auth-abc234", "empty", "-", "-"]


def test_a_log_of_another_tool_is_a_run_too(holdfast: Program) -> None:
    put(holdfast.home, "runs", "auth-abc234", "events.jsonl", log=SEED_LOG)
    found = holdfast("ls", "--json").object
    assert found.items() >= {"status": "interrupted", "slug": "auth-system", "goal": None, "tasks_done": 1}.items()
    line = holdfast("ls").lines[0]
    assert line.startswith("auth-abc234  interrupted  -  1/2  -  ")
    assert line.endswith("  auth-system")


def test_a_run_that_cannot_be_read_is_listed_as_such_with_the_others(holdfast: Program) -> None:
    make_run(holdfast.home, "good-abc234", DONE)
    make_run(holdfast.home, "log-abc234")
    make_run(holdfast.home, "folder-abc234")
    log_of(holdfast.home, "log-abc234").chmod(0)
    folder = log_of(holdfast.home, "folder-abc234").parent
    os.makedirs(os.path.join(holdfast.home, "runs", "odd-abc234", "events.jsonl"))
    Path(holdfast.home, "runs", "circle-abc234").symlink_to("circle-abc234")
    folder.chmod(0)
    try:
        for _ in range(2):
            assert statuses(holdfast, unprivileged=True) == {
                "good-abc234": "done",
                "log-abc234": "unreadable",
                "folder-abc234": "unreadable",
                "odd-abc234": "unreadable",
                "circle-abc234": "unreadable",
            }
    finally:
        folder.chmod(0o700)


def test_what_is_no_run_is_not_listed(holdfast: Program) -> None:
    make_run(holdfast.home, "good-abc234", DONE)
    runs = Path(holdfast.home, "runs")
    (runs / "a file").write_text("")
    (runs / "a folder").mkdir()
    (runs / "dangling").symlink_to("nowhere")
    assert statuses(holdfast) == {"good-abc234": "done"}


def test_a_folder_whose_name_is_no_text_does_not_hide_the_others(holdfast: Program) -> None:
    make_run(holdfast.home, "good-abc234", DONE)
    odd = os.path.join(os.fsencode(holdfast.home), b"runs", b"odd-\xff\x1b[31m")
    os.mkdir(odd)
    with open(os.path.join(odd, b"events.jsonl"), "wb"):
        pass
    out = holdfast("ls").out
    assert "good-abc234  done" in out
    assert "\x1b" not in out
    assert len(holdfast("ls", "--json").objects) == 2


def test_escape_sequences_in_a_goal_do_not_reach_the_terminal(holdfast: Program) -> None:
    make_run(holdfast.home, "auth-abc234", SessionEnd(reason="\x1b[31mred"), goal="a\x1b]0;owned\x07\nb")
    (line,) = holdfast("ls").lines
    assert not set(line) & {"\x1b", "\x07"}
    assert holdfast("ls", "--json").object["goal"] == "a\x1b]0;owned\x07\nb"


def test_a_thousand_runs_are_listed_without_opening_their_logs(holdfast: Program) -> None:
    for number in range(1000):
        line = SEED_LOG.replace(b"auth-system", b"feature-%03d" % number)
        put(holdfast.home, "runs", f"run{number:03}-abc234", "events.jsonl", log=line)
    before = holdfast("ls", "--json").out
    assert len({json.loads(line)["slug"] for line in before.splitlines()}) == 1000
    for log in Path(holdfast.home, "runs").glob("*/events.jsonl"):
        log.chmod(0)
    assert holdfast("ls", "--json", unprivileged=True).out == before


def test_a_run_that_grew_is_read_again_and_only_that_one(holdfast: Program) -> None:
    for name in ("grown-abc234", "still-abc234"):
        make_run(holdfast.home, name, TaskStarted(task_id="1"))
    holdfast("ls")
    resume_run(holdfast.home, "grown-abc234", TaskCompleted(task_id="1"), DONE)
    log_of(holdfast.home, "still-abc234").chmod(0)
    found = {run["id"]: run for run in holdfast("ls", "--json", unprivileged=True).objects}
    assert found["grown-abc234"].items() >= {"status": "done", "tasks_done": 1, "events": 6}.items()
    assert found["still-abc234"].items() >= {"status": "interrupted", "tasks_done": 0, "events": 3}.items()


def test_a_run_that_was_removed_is_gone(holdfast: Program) -> None:
    for name in ("here-abc234", "gone-abc234"):
        make_run(holdfast.home, name)
    assert len(statuses(holdfast)) == 2
    os.rename(log_of(holdfast.home, "gone-abc234").parent, os.path.join(holdfast.cwd, "elsewhere"))
    assert list(statuses(holdfast)) == ["here-abc234"]


def test_a_run_that_was_replaced_by_another_is_the_other(holdfast: Program) -> None:
    make_run(holdfast.home, "auth-abc234", goal="the first")
    assert holdfast("ls", "--json").object["goal"] == "the first"
    os.rename(log_of(holdfast.home, "auth-abc234").parent, os.path.join(holdfast.cwd, "elsewhere"))
    make_run(holdfast.home, "auth-abc234", goal="the other")
    assert holdfast("ls", "--json").object["goal"] == "the other"


@pytest.mark.parametrize("below", ["", "runs-of-mine"])
def test_home_that_is_a_file_is_bad_input_with_the_next_step(holdfast: Program, below: str) -> None:
    path = os.path.join(holdfast.cwd, "a-file")
    Path(path).touch()
    for command in (["ls"], ["doctor"], ["show", "x"]):
        complaint = holdfast(*command, code=2, env={"HOLDFAST_HOME": os.path.join(path, below).rstrip("/")}).complaint
        assert complaint.endswith(f"{path} is not a folder; set HOLDFAST_HOME to a writable folder")


@pytest.mark.parametrize("first", ["1999-12-31", "2000-02-28", "2023-12-30", "2024-02-28", "2100-02-27"])
def test_an_age_is_right_over_leap_days_and_ends_of_years(first: str) -> None:
    began = datetime.fromisoformat(f"{first}T23:59:30+00:00")
    for later, age in ((30, "30s"), (60, "1m"), (7_200, "2h"), (86_400 * 4, "4d"), (86_400 * 800, "800d")):
        now = began + timedelta(seconds=later)
        assert _age(began.strftime("%Y-%m-%dT%H:%M:%S.123Z"), now.timestamp()) == age
    assert _age(began.isoformat(), datetime(1990, 1, 1, tzinfo=UTC).timestamp()) == "0s"
    assert _age("yesterday", 0) == "-"
