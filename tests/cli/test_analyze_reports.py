"""`analyze` for people: the reports of the Resume Protocol, in its words."""

from tests.cli.foreign import SEED_LOG, checkpoint, event, put, started
from tests.cli.program import Program


def reported(holdfast: Program, *log: bytes) -> str:
    return holdfast("analyze", put(holdfast.cwd, "events.jsonl", log=b"".join(log))).out


def test_without_issues_the_report_says_that_it_can_go_on_by_itself(holdfast: Program) -> None:
    assert (
        reported(holdfast, SEED_LOG)
        == """\
Resume Analysis for feature "auth-system":
=============================================

Session f4e3d2c1: INTERRUPTED, 11 events, seq 0-10, no gaps

Last checkpoint: "wave-1-complete" (seq 7), 2026-02-14 10:06:15

Task state:
  - Task #1: COMPLETE — Design schema
  - Task #2: IN_PROGRESS (interrupted) — Build API

Active agents at interruption:
  - service-eng (Task #2, branch: work/auth-system/api-service)

Auto-Resume:
  1. Checkpoint "wave-1-complete" found
  2. No unresolved errors, blockers, or failures after checkpoint
  3. Next step: wave-2-start
  4. It can continue without a decision
"""
    )


def test_issues_are_listed_with_the_choices_there_are(holdfast: Program) -> None:
    issues = (
        event("error.encountered", 11, {"file": "src/api/service.ts", "line": 42, "error": "TypeError"}, sid="f4e3d2c1")
        + event("task.failed", 12, {"taskId": "2", "error": "QA failed 3 rounds", "attempts": 3}, sid="f4e3d2c1")
        + event("blocker.reported", 13, {"description": "no key for the API"}, sid="f4e3d2c1")
    )
    assert (
        reported(holdfast, SEED_LOG, issues)
        == """\
Resume Analysis for feature "auth-system":
=============================================

Session f4e3d2c1: INTERRUPTED, 14 events, seq 0-13, no gaps

Last checkpoint: "wave-1-complete" (seq 7), 2026-02-14 10:06:15

Issues found after checkpoint:
  1. [error.encountered] src/api/service.ts:42 — TypeError (resolved: false)
  2. [task.failed] Task #2 — QA failed 3 rounds (attempts: 3)
  3. [blocker.reported] no key for the API

Active agents at interruption:
  - service-eng (Task #2, branch: work/auth-system/api-service)

Options:
  A. Restart Task #2 from scratch: new branch, new agent; its work so far is saved
  B. Continue past it — skip Task #2, proceed to next wave
  C. Provide custom instructions
  D. Retry Task #2: keep its work and conversation
"""
    )


def test_without_a_checkpoint_the_report_recommends_to_begin_again(holdfast: Program) -> None:
    plan = event("plan.created", 1, {"tasks": [{"id": "1"}, {"id": "2"}]})
    assert (
        reported(holdfast, started(), plan, event("task.started", 2, {"taskId": "1"}))
        == """\
Resume Analysis for feature "auth-system":
=============================================

Session s1: INTERRUPTED, 3 events, seq 0-2, no gaps

No checkpoint found — session interrupted during early execution.

Session state:
  - Plan created: yes
  - Tasks started: 1 (Task #1 — IN_PROGRESS)
  - Tasks completed: 0

Recommendation: Restart feature implementation from the beginning.
The plan from the interrupted session is available for reference.

Options:
  A. Restart from scratch (reuse existing plan)
  B. Restart from scratch (create new plan)
  C. Provide custom instructions
"""
    )


def test_issues_without_a_checkpoint_are_not_called_later_than_it(holdfast: Program) -> None:
    report = reported(holdfast, started(), event("error.encountered", 1, {"error": "E"}))
    assert "No checkpoint found." in report
    assert "Issues found:\n  1. [error.encountered] E (resolved: false)" in report
    assert "after checkpoint" not in report


def test_a_checkpoint_that_is_not_resumable_is_named_as_such(holdfast: Program) -> None:
    report = reported(holdfast, started(), checkpoint(1, resumable=False))
    assert 'Last checkpoint: "wave-1-complete" (seq 1), 2026-02-14 10:00:01' in report
    assert "It is not marked as a point to resume from." in report
    assert "  A. Restart from scratch" in report


def test_a_choice_that_leaves_a_task_without_its_input_carries_a_warning(holdfast: Program) -> None:
    plan = {"tasks": [{"id": "1"}, {"id": "2"}], "dependencies": [{"task_id": "2", "blocked_by": "1"}]}
    failed = event("task.failed", 3, {"taskId": "1"})
    report = reported(holdfast, started(), event("plan.created", 1, plan), checkpoint(2), failed)
    skip = "  B. Continue past it — skip Task #1, proceed to next wave\n"
    assert skip + "     warning: Task #2 would be missing its input\n" in report


def test_a_session_that_ended_is_said_to_have_nothing_to_resume(holdfast: Program) -> None:
    report = reported(holdfast, SEED_LOG, event("session.end", 11, sid="f4e3d2c1"))
    assert "Session f4e3d2c1: ended, 12 events" in report
    assert report.endswith("The session ended normally; nothing to resume.\n")
    assert "(interrupted)" not in report


def test_what_is_the_matter_with_the_log_is_never_silent(holdfast: Program) -> None:
    report = reported(
        holdfast,
        started(),
        b"garbage\n",
        checkpoint(1),
        checkpoint(1),
        event("warning.logged", 3, {"message": "the disk is slow"}),
        event("a.b", 7),
        b'{"sid":"s1","se',
    )
    assert "4 events, seq 0-7, 4 missing in 2 gaps" in report
    notes = report.partition("Notes on the log:\n")[2].splitlines()
    assert [note.partition(":")[0] for note in notes] == [
        "  - line 2",
        "  - line 4",
        "  - line 7",
        "  - seq 2 missing",
        "  - seq 4-6 missing",
        "  - warning (seq 3)",
    ]
    assert "the disk is slow" in report


def test_a_session_whose_beginning_is_lost_is_said_to_lack_it(holdfast: Program) -> None:
    assert "the session starts at seq 5: its first events are missing" in reported(holdfast, checkpoint(5))


def test_a_report_of_thousands_of_notes_stays_readable(holdfast: Program) -> None:
    report = reported(
        holdfast, started(), *(event("task.failed", n, {"taskId": n}) for n in range(1, 200)), b"{\n" * 99
    )
    assert len(report.splitlines()) < 80
    assert "… and 179 more (--json has them all)" in report
    assert "… and 79 more (--json has them all)" in report


def test_escape_sequences_in_a_log_do_not_reach_the_terminal(holdfast: Program) -> None:
    evil = "\x1b[2J\x9b31m\x07\r\n"
    report = reported(
        holdfast,
        started(feature=f"f{evil}"),
        event("agent.spawned", 1, {"name": f"n{evil}", "task": evil, "branch": evil}),
        checkpoint(2, evil, plan_step=evil),
        event("task.failed", 3, {"taskId": evil, "error": evil}),
        event("error.encountered", 4, {"error": evil, "file": evil}),
        event("warning.logged", 5, {"message": evil}),
        evil.encode(),
    )
    assert not set(report) & {"\x1b", "\x9b", "\x07", "\r"}
