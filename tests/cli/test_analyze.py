"""`analyze --json`: the Resume Protocol's phases 1 to 3, as a script gets them."""

from typing import Any

import pytest

from tests.cli.foreign import SEED_LOG, SEED_RESUMED, checkpoint, event, put, started
from tests.cli.owner import owner_of
from tests.cli.program import Program
from tests.cli.runs import DONE, make_run

PLAN = {
    "tasks": [{"id": "1", "summary": "Design schema"}, {"id": "2", "summary": "Build API"}, {"id": "3"}],
    "dependencies": [{"task_id": "3", "blocked_by": "2"}],
}


def analysed(holdfast: Program, *log: bytes) -> Any:
    return holdfast("analyze", put(holdfast.cwd, "events.jsonl", log=b"".join(log)), "--json").object


def test_the_seeds_example_is_read_as_the_seed_reads_it(holdfast: Program) -> None:
    found = analysed(holdfast, SEED_LOG)
    assert found["feature"] == "auth-system"
    assert found["sid"] == "f4e3d2c1"
    assert found["interrupted"] is True
    assert found["events"] == 11
    assert (found["first_seq"], found["last_seq"]) == (0, 10)
    assert found["gaps"] == []
    assert (
        found["checkpoint"].items()
        >= {
            "label": "wave-1-complete",
            "branch": "feature/auth-system",
            "plan_step": "wave-2-start",
            "seq": 7,
            "resumable": True,
        }.items()
    )
    assert found["tasks"] == {
        "1": {
            "status": "COMPLETE",
            "summary": "Design schema",
            "agent": "schema-designer",
            "files": ["src/db/schema.ts"],
            "files_changed": ["src/db/schema.ts", "src/db/migrations/001.ts"],
        },
        "2": {
            "status": "IN_PROGRESS",
            "summary": "Build API",
            "agent": "service-eng",
            "files": ["src/api/service.ts"],
        },
    }
    assert found["active_agents"] == ["service-eng"]
    assert (found["issues"], found["warnings"], found["malformed"]) == ([], [], [])
    assert found["decision"].items() >= {"case": "auto", "next_step": "wave-2-start", "options": []}.items()


def test_a_resumed_session_keeps_the_checkpoint_and_the_tasks_of_the_one_before(holdfast: Program) -> None:
    found = analysed(holdfast, SEED_LOG, SEED_RESUMED)
    assert (found["sid"], found["events"], found["interrupted"]) == ("b5a4c3d2", 3, True)
    assert found["checkpoint"]["label"] == "wave-1-complete"
    assert {name: task["status"] for name, task in found["tasks"].items()} == {"1": "COMPLETE", "2": "IN_PROGRESS"}
    assert found["active_agents"] == ["service-eng"]
    assert found["decision"]["case"] == "auto"


def test_a_session_that_ended_has_nothing_to_resume(holdfast: Program) -> None:
    found = analysed(holdfast, SEED_LOG, event("session.end", 11, {"reason": "done"}, sid="f4e3d2c1"))
    assert found["interrupted"] is False
    assert found["decision"].items() >= {"case": "complete", "next_step": None, "options": []}.items()


def test_an_interrupted_session_before_one_that_ended_is_the_one_to_resume(holdfast: Program) -> None:
    later = started(sid="s2") + event("session.end", 1, sid="s2")
    found = analysed(holdfast, started(), checkpoint(1), later)
    assert (found["sid"], found["interrupted"]) == ("s1", True)
    assert found["decision"]["case"] == "auto"


def test_of_several_interrupted_sessions_the_newest_comes_first(holdfast: Program) -> None:
    found = analysed(holdfast, started(), checkpoint(1), started(sid="s2"), started(sid="s3"))
    assert found["interrupted_sessions"] == ["s3", "s2", "s1"]
    assert found["sid"] == "s3"
    assert found["checkpoint"] is None, "it is another session's"


def test_every_interrupted_session_is_named_in_the_report(holdfast: Program) -> None:
    path = put(holdfast.cwd, "events.jsonl", log=started() + checkpoint(1) + started(sid="s2") + started(sid="s3"))
    out = holdfast("analyze", path).out
    assert all(sid in out for sid in ("s1", "s2", "s3"))


PLANNED = event("plan.created", 1, {"tasks": [{"id": "1"}, {"id": "2"}]})
ALL_DONE = event("task.completed", 3, {"taskId": "1"}) + event("task.skipped", 4, {"taskId": "2"})


@pytest.mark.parametrize(
    ("middle", "end", "case"),
    [
        (checkpoint(2), b"", "auto"),
        (b"", b"", "auto"),
        (checkpoint(2), event("session.end", 5), "complete"),
    ],
    ids=["with a checkpoint", "without one", "ended"],
)
def test_the_next_step_is_complete_when_every_task_is_done(
    holdfast: Program, middle: bytes, end: bytes, case: str
) -> None:
    found = analysed(holdfast, started(), PLANNED, middle, ALL_DONE, end)
    assert (found["decision"]["case"], found["decision"]["next_step"]) == (case, "complete")
    assert holdfast("analyze", found["log"]).out


def test_the_next_command_for_a_run_of_ours_is_named(holdfast: Program) -> None:
    make_run(holdfast.home, "auth-abc234")
    make_run(holdfast.home, "pay-abc234", DONE)
    for run_id, command in (("auth-abc234", "resume"), ("pay-abc234", "merge")):
        assert holdfast("analyze", run_id, "--json").object["next_command"] == f"holdfast {command} {run_id}"
        assert f"holdfast {command} {run_id}" in holdfast("analyze", run_id).out


def test_sessions_that_are_mixed_in_the_file_are_told_apart(holdfast: Program) -> None:
    found = analysed(
        holdfast,
        started(),
        started(sid="s2"),
        event("task.started", 1, {"taskId": "of-1"}),
        event("task.started", 1, {"taskId": "of-2"}, sid="s2"),
        event("session.end", 2),
    )
    assert (found["sid"], found["events"], found["gaps"]) == ("s2", 2, [])


def test_an_unresolved_error_and_a_failed_task_after_the_checkpoint_need_a_decision(holdfast: Program) -> None:
    found = analysed(
        holdfast,
        started(),
        event("plan.created", 1, PLAN),
        checkpoint(2),
        event("agent.spawned", 3, {"name": "service-eng", "task": "2"}),
        event("error.encountered", 4, {"file": "src/a.ts", "line": 42, "error": "TypeError"}, agent="service-eng"),
        event("task.failed", 5, {"taskId": "2", "error": "QA failed 3 rounds", "attempts": 3}),
    )
    error, failure = found["issues"]
    assert error.items() >= {"type": "error.encountered", "seq": 4, "file": "src/a.ts", "line": 42}.items()
    assert failure.items() >= {"type": "task.failed", "seq": 5, "taskId": "2", "attempts": 3}.items()
    assert found["tasks"]["2"].items() >= {"status": "FAILED", "error": "QA failed 3 rounds", "attempts": 3}.items()
    decision = found["decision"]
    assert (decision["case"], decision["next_step"], decision["affected"]) == ("issues", "wave-2-start", ["2"])
    assert [(option["key"], option["choice"]) for option in decision["options"]] == [
        ("A", "restart"),
        ("B", "skip"),
        ("C", "custom"),
        ("D", "retry"),
    ]
    assert decision["options"][1]["warning"] == "Task #3 would be missing its input"


def test_only_what_is_wrong_and_unresolved_keeps_it_from_going_on(holdfast: Program) -> None:
    cases = {
        "resolved": (event("error.encountered", 2, {"error": "E", "resolved": True}), "auto"),
        "unresolved": (event("error.encountered", 2, {"error": "E", "resolved": False}), "issues"),
        "not said": (event("error.encountered", 2, {"error": "E"}), "issues"),
        "blocker": (event("blocker.reported", 2, {"description": "no key"}), "issues"),
        "failure": (event("task.failed", 2, {"taskId": 1}), "issues"),
        "warning": (event("warning.logged", 2, {"message": "slow"}), "auto"),
        "unknown": (event("from.the.future", 2, {"taskId": 1}), "auto"),
    }
    for name, (line, _) in cases.items():
        put(holdfast.cwd, name, "events.jsonl", log=started(feature=name) + checkpoint(1) + line)
    found = {one["feature"]: one["decision"]["case"] for one in holdfast("analyze", ".", "--json").objects}
    assert found == {name: case for name, (_, case) in cases.items()}


def test_what_went_wrong_before_the_checkpoint_is_past(holdfast: Program) -> None:
    failure = event("task.failed", 1, {"taskId": "1", "error": "E"})
    found = analysed(holdfast, started(), failure, event("warning.logged", 2, {"message": "w"}), checkpoint(3))
    assert (found["issues"], found["warnings"], found["decision"]["case"]) == ([], [], "auto")
    assert found["tasks"]["1"]["status"] == "FAILED"


def test_warnings_after_the_checkpoint_are_told_for_context(holdfast: Program) -> None:
    found = analysed(holdfast, started(), checkpoint(1), event("warning.logged", 2, {"message": "slow"}))
    (warning,) = found["warnings"]
    assert warning.items() >= {"type": "warning.logged", "seq": 2, "message": "slow"}.items()


def test_a_skipped_task_is_skipped(holdfast: Program) -> None:
    found = analysed(holdfast, started(), event("task.skipped", 1, {"taskId": 7, "reason": "not needed"}))
    assert found["tasks"] == {"7": {"status": "SKIPPED", "reason": "not needed"}}


def test_a_task_that_is_only_planned_has_no_state_yet(holdfast: Program) -> None:
    found = analysed(holdfast, started(), event("plan.created", 1, PLAN), event("task.started", 2, {"taskId": "1"}))
    assert list(found["tasks"]) == ["1"]
    assert found["pending"] == ["2", "3"]


def test_without_a_checkpoint_it_is_restarted_from_the_beginning(holdfast: Program) -> None:
    found = analysed(holdfast, started(), event("plan.created", 1, PLAN), event("task.started", 2, {"taskId": "1"}))
    assert found["checkpoint"] is None
    assert found["decision"]["case"] == "no_checkpoint"
    assert [(option["key"], option["label"]) for option in found["decision"]["options"]] == [
        ("A", "Restart from scratch (reuse existing plan)"),
        ("B", "Restart from scratch (create new plan)"),
        ("C", "Provide custom instructions"),
    ]


def test_a_checkpoint_that_is_not_resumable_is_no_place_to_resume_from_by_itself(holdfast: Program) -> None:
    found = analysed(holdfast, started(), checkpoint(1, resumable=False))
    assert found["checkpoint"]["resumable"] is False
    assert found["decision"]["case"] == "no_checkpoint"
    assert [option["key"] for option in found["decision"]["options"]] == ["A", "B", "C"]


def test_agents_that_completed_or_died_are_not_active(holdfast: Program) -> None:
    names = ["a", "b", "c"]
    spawned = [event("agent.spawned", seq, {"name": name}) for seq, name in enumerate(names, start=1)]
    over = [event("agent.completed", 4, {"name": "a"}), event("agent.died", 5, {"name": "b"})]
    assert analysed(holdfast, started(), *spawned, *over)["active_agents"] == ["c"]


def test_a_gap_is_told_as_the_seed_tells_it(holdfast: Program) -> None:
    found = analysed(holdfast, started(), checkpoint(14), event("task.started", 17, {"taskId": "1"}))
    assert found["gaps"] == [
        {"after_seq": 0, "expected_seq": 1, "actual_seq": 14, "missing_count": 13},
        {"after_seq": 14, "expected_seq": 15, "actual_seq": 17, "missing_count": 2},
    ]
    assert found["decision"]["case"] == "auto", "a checkpoint is a known-good anchor"


def test_lines_that_stand_out_of_order_are_no_gap(holdfast: Program) -> None:
    found = analysed(holdfast, started(), checkpoint(2), event("task.started", 1, {"taskId": "1"}))
    assert (found["gaps"], found["duplicates"], found["events"]) == ([], [], 3)


def test_of_two_lines_with_one_number_the_later_counts(holdfast: Program) -> None:
    found = analysed(
        holdfast,
        started(),
        checkpoint(1, "earlier", plan_step="wrong"),
        event("task.failed", 2, {"taskId": "1"}),
        checkpoint(1, "later", plan_step="right"),
        event("task.completed", 2, {"taskId": "1"}),
    )
    assert found["checkpoint"]["label"] == "later"
    assert found["tasks"] == {"1": {"status": "COMPLETE"}}
    assert (found["issues"], found["decision"]["next_step"]) == ([], "right")
    assert [note["line"] for note in found["duplicates"]] == [4, 5]
    assert found["events"] == 3


def test_a_run_of_ours_is_analysed_by_its_name(holdfast: Program) -> None:
    put(holdfast.home, "runs", "auth-system-abc234", "events.jsonl", log=SEED_LOG)
    for name in ("auth-system-abc234", "auth-system-a", "auth-system"):
        assert holdfast("analyze", name, "--json").object["sid"] == "f4e3d2c1"


def test_a_run_at_work_is_said_to_be_and_analysed_all_the_same(holdfast: Program) -> None:
    put(holdfast.home, "runs", "auth-system-abc234", "inbox.jsonl", log=b"")
    put(holdfast.home, "runs", "auth-system-abc234", "events.jsonl", log=SEED_LOG)
    with owner_of(holdfast.home, "auth-system-abc234"):
        outcome = holdfast("analyze", "auth-system", "--json")
    assert outcome.object["decision"]["case"] == "auto"
    assert outcome.err.startswith("auth-system-abc234 is running:")
