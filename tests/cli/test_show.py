"""`show`: one run as it stands."""

import asyncio

import pytest

from holdfast.core.events.budget import UsageRecorded
from holdfast.core.events.checkpoint import Checkpoint
from holdfast.core.events.conversation import TurnStarted
from holdfast.core.events.effect import EffectIntended
from holdfast.core.events.plan import PlanCreated, PlannedTask
from holdfast.core.events.session import SessionEnd
from holdfast.core.events.task import TaskCompleted, TaskFailed, TaskStarted
from holdfast.core.events.work import VerdictGiven
from holdfast.core.messages.schema import UserMessage
from holdfast.engine.commands.send import send
from holdfast.engine.home import Home
from tests.cli.foreign import SEED_LOG, put
from tests.cli.owner import owner_of
from tests.cli.program import Program
from tests.cli.runs import DONE, make_run, resume_run
from tests.cli.scenes import FIRST_WAVE, SECOND_WAVE

RUN = "auth-abc234"

FAILED = f"""\
Needs a decision: holdfast resume {RUN} asks for it (details: holdfast analyze {RUN})
  A. Restart Task #1 from scratch: new branch, new agent; its work so far is saved
  B. Continue past it — skip Task #1, proceed to next wave
  C. Provide custom instructions
  D. Retry Task #1: keep its work and conversation"""


def test_a_run_is_told_on_one_page(holdfast: Program) -> None:
    plan = PlanCreated(tasks=[PlannedTask(id="1", summary="Design"), PlannedTask(id="2", summary="Build")])
    make_run(holdfast.home, RUN, plan, TaskStarted(task_id="1"), UsageRecorded(input_tokens=1900, dollars=0.25))
    later = (TaskCompleted(task_id="1"), Checkpoint(label="wave-1"), TaskFailed(task_id="2", error="no key"), DONE)
    resume_run(holdfast.home, RUN, *later)
    first, second = holdfast("show", RUN, "--json").object["state"]["sessions"]
    assert (
        holdfast("show", RUN).out
        == f"""\
{RUN}  done
  goal        Add OAuth login
  workflow    solo
  folder      {holdfast.home}/runs/{RUN}
  log         10 events in 2 sessions
  checkpoint  "wave-1" (seq 2), 2026-02-14 11:00:00
  spent       1,900 tokens, $0.25

tasks
  1         COMPLETE     Design
  2         FAILED       no key

needs you
  2: failed: no key  →  holdfast resume {RUN} --on-issue retry   (or restart, skip)

last session
  done         1
  failed       2

sessions and checkpoints
  {first}  run       2026-02-14 10:00:00  5 events, interrupted
  {second}  resume    2026-02-14 11:00:00  5 events, ended: all tasks done
                reached   2026-02-14 11:00:00  wave-1

Done. Merge it with: holdfast merge {RUN}
"""
    )


def test_json_holds_the_analysis_and_the_whole_state(holdfast: Program) -> None:
    make_run(holdfast.home, RUN, TaskStarted(task_id="1"), Checkpoint(label="one", plan_step="two"))
    found = holdfast("show", RUN, "--json").object
    assert (found["id"], found["status"], found["owner"]) == (RUN, "interrupted", None)
    assert found["analysis"]["decision"]["case"] == "auto"
    assert found["analysis"]["tasks"]["1"]["status"] == "IN_PROGRESS"
    assert found["state"]["run"]["goal"] == "Add OAuth login"


@pytest.mark.parametrize(
    ("events", "last_lines"),
    [
        ([DONE], f"Done. Merge it with: holdfast merge {RUN}"),
        ([Checkpoint(label="one", plan_step="wave-2")], f"Next: wave-2. Continue with: holdfast resume {RUN}"),
        ([Checkpoint(label="one")], f"Next: as planned. Continue with: holdfast resume {RUN}"),
        ([Checkpoint(label="one"), TaskFailed(task_id="1")], FAILED),
        (
            [Checkpoint(label="one"), SessionEnd(reason="stopped")],
            f"Next: as planned. Continue with: holdfast resume {RUN}",
        ),
    ],
)
def test_it_ends_with_how_it_would_go_on(holdfast: Program, events: list[SessionEnd], last_lines: str) -> None:
    make_run(holdfast.home, RUN, *events)
    assert holdfast("show", RUN).out.endswith(f"\n\n{last_lines}\n")


def test_a_run_at_work_names_its_owner(holdfast: Program) -> None:
    make_run(holdfast.home, RUN)
    with owner_of(holdfast.home, RUN) as owner:
        out = holdfast("show", RUN).out
        assert out.startswith(f"{RUN}  running\n")
        assert f"  owner       pid {owner.pid} on " in out
        assert "1 event, running\n" in out
        assert out.endswith(f"Running. Watch it with: holdfast attach {RUN}\n")
        assert holdfast("show", RUN, "--json").object["owner"]["pid"] == owner.pid
        owner.kill()
        assert holdfast("show", RUN, "--json").object.items() >= {"status": "interrupted", "owner": None}.items()


def test_what_was_begun_and_has_no_outcome_is_told(holdfast: Program) -> None:
    effect = EffectIntended(effect="e1", kind="commit")
    make_run(holdfast.home, RUN, effect, TurnStarted(conversation="c1", turn="t1"))
    out = holdfast("show", RUN).out
    assert "\nin progress\n  effect e1: commit (open)\n  turn t1 of c1\n" in out


def test_the_tasks_are_a_tree_with_all_that_is_known_of_each(holdfast: Program) -> None:
    make_run(holdfast.home, RUN, *FIRST_WAVE, *SECOND_WAVE)
    out = holdfast("show", RUN).out
    assert (
        """
tasks
  wave 1  done
    T-1       COMPLETE     Design the schema  [accepted after 2 verdicts; commit c0ffee1234]
  wave 2  in progress
    T-2       IN_PROGRESS  Build the login endpoint  [work]
    T-3       IN_PROGRESS  Build the token refresh  [work]
  wave 3
    T-4       PENDING      Document it all  [after T-3]
"""
        in out
    )
    assert "reached   2026-02-14 10:00:00  wave-1 at c0ffee1234, then wave-2\n" in out


def test_a_task_says_where_it_stands_and_what_was_wrong(holdfast: Program) -> None:
    rejected = VerdictGiven(task_id="1", iteration=1, accept=False, category="weak_test")
    make_run(holdfast.home, RUN, TaskStarted(task_id="1", summary="Design"), rejected)
    assert "  1         IN_PROGRESS  Design  [work, iteration 2; rejected: weak_test]" in holdfast("show", RUN).lines


def test_what_needs_the_user_comes_with_the_command_that_answers(holdfast: Program) -> None:
    make_run(holdfast.home, RUN, *FIRST_WAVE, *SECOND_WAVE)
    asyncio.run(send(Home(holdfast.home), RUN, UserMessage("use sqlite")))
    needed = holdfast("show", RUN).out.partition("\nneeds you\n")[2].partition("\n\n")[0].splitlines()
    assert needed == [
        f"  T-3: Run rm -rf build  →  holdfast approve {RUN} 3f9a01bc22de   (or deny)",
        f"  not taken in yet: use sqlite  →  deliver it with: holdfast resume {RUN}",
    ]
    found = holdfast("show", RUN, "--json").object
    assert [(need["want"], need["key"] is None) for need in found["needs"]] == [
        ("permission", False),
        ("message", False),
    ]
    assert found["digest"]["completed"] == ["T-1"]


def test_a_run_that_is_done_and_was_sent_words_is_one_to_resume(holdfast: Program) -> None:
    make_run(holdfast.home, RUN, *FIRST_WAVE, DONE)
    assert holdfast("show", RUN).lines[-1] == f"Done. Merge it with: holdfast merge {RUN}"
    asyncio.run(send(Home(holdfast.home), RUN, UserMessage("use sqlite")))
    assert holdfast("show", RUN).lines[-1].endswith(f"holdfast resume {RUN}")


def test_what_the_last_session_did_and_left_is_told(holdfast: Program) -> None:
    make_run(holdfast.home, RUN, *FIRST_WAVE, DONE)
    resume_run(holdfast.home, RUN, *SECOND_WAVE)
    told = holdfast("show", RUN).out.partition("\nlast session\n")[2].partition("\n\n")[0].splitlines()
    assert told == [
        "  spent        4,000 tokens, $0.11",
        "  interrupted  T-2 (work), in the middle of a turn: Run pytest tests/login -q",
        "  interrupted  T-3 (work), in the middle of a turn",
    ]


def test_what_is_odd_about_the_log_is_counted(holdfast: Program) -> None:
    log = SEED_LOG + b"noise\n" + SEED_LOG.splitlines(keepends=True)[-1] + SEED_LOG.replace(b"task.", b"tusk.")
    put(holdfast.home, "runs", RUN, "events.jsonl", log=log)
    first = next(line for line in holdfast("show", RUN).lines if line.startswith("  log "))
    assert first == "  log         11 events in 1 session (1 unreadable line, 12 duplicate lines, 3 unknown events)"


def test_a_run_without_events_is_empty(holdfast: Program) -> None:
    put(holdfast.home, "runs", RUN, "events.jsonl", log=b"")
    outcome = holdfast("show", RUN)
    assert outcome.lines[0] == f"{RUN}  empty"
    assert outcome.lines[-1] == "Nothing to resume."
    assert holdfast("show", RUN, "--json").object["status"] == "empty"


def test_a_hundred_tasks_do_not_fill_the_screen(holdfast: Program) -> None:
    make_run(holdfast.home, RUN, PlanCreated(tasks=[PlannedTask(id=number) for number in range(100)]))
    outcome = holdfast("show", RUN)
    assert "  … and 70 more (--json has them all)" in outcome.lines
    assert len(outcome.lines) < 50


def test_escape_sequences_in_a_run_do_not_reach_the_terminal(holdfast: Program) -> None:
    evil = "\x1b[2J\x9b31m\x07\r\n"
    make_run(
        holdfast.home,
        RUN,
        PlanCreated(tasks=[PlannedTask(id=evil, summary=evil)]),
        EffectIntended(effect=evil, kind=evil),
        Checkpoint(label=evil, plan_step=evil),
        SessionEnd(reason=evil),
        goal=evil,
    )
    assert not set(holdfast("show", RUN).out) & {"\x1b", "\x9b", "\x07", "\r"}
