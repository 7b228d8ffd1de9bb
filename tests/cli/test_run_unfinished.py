"""Runs that end without finished work: each has its own reason, exit code 1, and a resume that continues."""

from tests.support.cli_stage import Stage, killed, wait_for_event, worker
from tests.support.pipelines import NEVER, SMALL, STRICT, TEAM, file_of, phase_rows, small

PAST = SMALL.replace("  on_fail: fixing\n", "  on_fail: fixing\n  limit: 1\n  on_limit: completing\n")
GIVEN = ("--set", "approvals=given", "--set", "publish=nothing")
EDIT = {
    "permission": {
        "title": "Edit answer.txt",
        "kind": "edit",
        "allowed": [{"write": {"path": "answer.txt", "text": "allowed\n"}}],
        "rejected": [{"say": "I was not allowed to."}],
    }
}


def agree(stage: Stage, run: str, reason: str) -> None:
    """Every command gives the same reason, and none calls it done."""
    assert stage.data(run, "session.end")[-1]["reason"] == reason
    (listed,) = [one for one in stage.holdfast("ls", "--json").objects if one["id"] == run]
    assert listed["status"] == reason
    shown = stage.holdfast("show", run, "--json").object
    assert (shown["status"], shown["analysis"]["decision"]["case"]) == (reason, "issues")
    assert stage.holdfast("wait", run, "--json", code=1).object["status"] == reason
    stage.holdfast("resume", run, code=6)  # not a terminal: a person decides


def test_review_that_reaches_its_limit_is_not_success(stage: Stage) -> None:
    """Also when the workflow goes on to its end; retried, the run continues with fixing, never with completing."""
    agent = stage.book(STRICT, NEVER, *TEAM)
    checks = ("--set", "validators.detect=false")
    flow = file_of(stage, PAST, "past.yaml")
    ended = stage.ended("run", "a note", "--workflow", flow, "--agent", agent, *checks, *GIVEN, code=1)
    run = str(ended["run"])
    assert ended["ended"] == "review_cap"
    before = phase_rows(stage, run)
    assert before[-4:] == ["reviewing 1", "reviewing 1 failed", "completing 1", "completing 1 done"]
    assert [d["phase"] for d in stage.data(run, "phase.failed")] == ["reviewing"]
    agree(stage, run, "review_cap")
    assert stage.resume(run, "--on-issue", "fix", *GIVEN)["ended"] == "all_done"
    assert phase_rows(stage, run)[len(before) :] == [
        *("fixing 1", "fixing 1 done", "reviewing 2", "reviewing 2 passed", "completing 2", "completing 2 done"),
    ]
    stage.holdfast("resume", run, code=4)


def test_review_limit_without_a_way_past_it_has_the_same_reason(stage: Stage) -> None:
    run = str(stage.ended(*small(stage, stage.book(NEVER, *TEAM), *GIVEN), code=1)["run"])
    assert "completing 1" not in phase_rows(stage, run)
    agree(stage, run, "review_cap")


def test_review_limit_is_remembered_over_a_kill_and_an_approval(stage: Stage) -> None:
    agent = stage.book(NEVER, *TEAM, sessions={"interrupted": "again"})
    flow, checks = file_of(stage, PAST, "past.yaml"), ("--set", "validators.detect=false", "--set", "publish=nothing")
    with stage.start("run", "a note", "--workflow", flow, "--agent", agent, *checks) as process:
        wait_for_event(process, "phase.completed", phase="reviewing", outcome="failed")
        killed(process)
    run = stage.only_run()
    assert stage.resume(run, code=6)["ended"] == "waiting"
    stage.holdfast("approve", run)
    assert stage.resume(run, code=1)["ended"] == "review_cap"
    assert [d["phase"] for d in stage.data(run, "phase.failed")] == ["reviewing"]


def test_task_whose_tool_calls_were_all_denied_is_not_done(stage: Stage) -> None:
    ended = stage.ended("run", "x", "--agent", stage.book(worker(EDIT)), "--allow", "deny-all", code=1)
    run = str(ended["run"])
    assert ended["ended"] == "refused"
    assert stage.states(run) == {"T-1": "FAILED"}
    assert stage.data(run, "task.completed") == []
    agree(stage, run, "refused")
    again = stage.resume(run, "--on-issue", "fix", "--allow", "allow-all")
    assert again["ended"] == "all_done"


def test_task_that_was_refused_by_a_person_is_not_done(stage: Stage) -> None:
    with stage.start("run", "x", "--agent", stage.book(worker(EDIT))) as process:
        wait_for_event(process, "permission.requested")
        run = stage.only_run()
        stage.holdfast("deny", run)
        assert wait_for_event(process, "session.end")["data"]["reason"] == "refused"
        assert process.wait() == 1


def test_refusal_that_left_a_change_is_done(stage: Stage) -> None:
    wrote = worker({"write": {"path": "note.txt", "text": "x\n"}}, EDIT)
    veto = 'hooks.pre_tool=[["sh", "-c", "! grep -q answer"]]'
    run = stage.run("x", "--agent", stage.book(wrote), "--allow", "allow-all", "--set", veto)
    assert len(stage.data(run, "tool.blocked")) == 1
    assert stage.file(run, "note.txt") == "x"


def test_task_that_changes_nothing_without_a_refusal_is_done(stage: Stage) -> None:
    run = stage.run("explain the code", "--agent", stage.book(worker({"say": "It adds numbers."})))
    assert stage.states(run) == {"T-1": "COMPLETE"}
