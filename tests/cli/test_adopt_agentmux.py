"""`holdfast adopt` of AgentMux sessions: they continue in the phase in which AgentMux itself would continue."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli import foreign_sessions as foreign
from tests.cli.adopter import Adopter

FAILED_REVIEW = {"reviewer_logic": {"verdict": "fail", "review_text": "verdict: fail\n\nf1 is empty"}}


def set_state(session: Path, **values: Any) -> None:
    file = session / "state.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


def delete(session: Path, *names: str) -> None:
    for name in names:
        path = session / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def implementing(session: Path) -> None:
    set_state(session, phase="implementing", implementation_completed_group_ids=[], last_event="plan_written")
    delete(session, "07_review", "08_completion", "06_implementation/done_1")


def implementing_with_a_report_that_was_not_applied(session: Path) -> None:
    implementing(session)
    events = (session / "tool_events.jsonl").read_bytes()
    cursor = {"version": 1, "applied_cursor": events.index(b'{"tool": "submit_done"')}
    (session / "tool_event_state.json").write_text(json.dumps(cursor))


def implementing_after_product_management(session: Path) -> None:
    """No file says that product management is over: a tool event does, and the documents after it."""
    implementing(session)
    set_state(session, product_manager=True)


def fixing(session: Path) -> None:
    """AgentMux deletes the markers of finished sub-plans when it starts to fix."""
    set_state(session, phase="fixing", last_event="review_failed", review_iteration=1, review_results=FAILED_REVIEW)
    set_state(session, implementation_completed_group_ids=[])
    delete(session, "06_implementation/done_1", "07_review/review_reviewer_logic.yaml", "07_review/review.md")
    (session / "07_review" / "fix_request.md").write_text("## Review: reviewer_logic\n\nf1 is empty\n")


def fixing_with_only_its_request(session: Path) -> None:
    fixing(session)
    set_state(session, review_results={})


def failed_while_fixing(session: Path) -> None:
    fixing(session)
    set_state(session, phase="failed", last_event="run_failed")


def failed_when_it_was_fixed(session: Path) -> None:
    failed_while_fixing(session)
    set_state(session, review_results={})
    (session / "06_implementation" / "done_1").touch()


def reviewing_once_more(session: Path) -> None:
    set_state(session, phase="reviewing", review_iteration=1, review_results={})
    delete(session, "07_review")


def reviewing_without_an_answer_of_each_reviewer(session: Path) -> None:
    set_state(session, phase="reviewing", reviewer_nominations=["reviewer_logic", "reviewer_quality"])


def reviewed_by_an_older_version(session: Path) -> None:
    set_state(session, phase="failed", review_results={})
    (session / "07_review" / "review_reviewer_logic.yaml").rename(session / "07_review" / "review.yaml")


def reviewed_in_a_text_only(session: Path) -> None:
    set_state(session, phase="failed", review_results={})
    delete(session, "07_review/review_reviewer_logic.yaml")
    (session / "07_review" / "review.md").write_text("verdict: FAIL\n\n## Summary\n\nf1 is empty\n")


def architecting(session: Path) -> None:
    """Its document is there, but the agent has not said that it is complete."""
    set_state(session, phase="architecting", implementation_completed_group_ids=[])
    delete(session, "04_planning", "06_implementation", "07_review", "08_completion")


@pytest.mark.parametrize(
    ("change", "next_step", "phase"),
    [
        (implementing, "continue with the unfinished sub-plans", "implementing"),
        (implementing_with_a_report_that_was_not_applied, "continue with the review", "reviewing"),
        (implementing_after_product_management, "continue with the unfinished sub-plans", "implementing"),
        (fixing, "the review failed", "fixing"),
        (fixing_with_only_its_request, "the review failed", "fixing"),
        (failed_while_fixing, "the review failed", "fixing"),
        (failed_when_it_was_fixed, "continue with the review", "reviewing"),
        (reviewing_once_more, "continue with the review", "reviewing"),
        (reviewing_without_an_answer_of_each_reviewer, "continue with the review", "reviewing"),
        (reviewed_by_an_older_version, "the review passed", "completing"),
        (reviewed_in_a_text_only, "the review failed", "fixing"),
        (architecting, "continue with the architecture", "architecting"),
    ],
)
def test_continues_in_the_phase_of_agentmux(
    adopter: Adopter, tmp_path: Path, change: Callable[[Path], None], next_step: str, phase: str
) -> None:
    session, _ = foreign.agentmux(tmp_path, "happy")
    change(session)
    before = foreign.fingerprint(session)
    found = adopter.adopt(session, "--agent", adopter.stage.book())
    assert found["next"].startswith(next_step)
    adopter("resume", found["run"], "--quiet", code=6 if phase == "completing" else 1)  # its agents have no script
    assert adopter.events(found["run"], "phase.started")[-1]["phase"] == phase
    assert foreign.fingerprint(session) == before


def test_requested_change_leads_to_a_new_plan(adopter: Adopter, tmp_path: Path) -> None:
    session, _ = foreign.agentmux(tmp_path, "happy", phase="planning", last_event="changes_requested", subplan_count=0)
    (session / "08_completion" / "changes.md").write_text("Add f9.txt, too.\n")
    found = adopter.adopt(session, "--agent", adopter.stage.book())
    assert found["next"].startswith("a change was asked for")
    adopter("resume", found["run"], "--quiet", code=1)
    assert adopter.events(found["run"], "phase.started")[-1]["phase"] == "planning"
    prompts = [event["text"] for event in adopter.events(found["run"], "message.recorded")]
    assert any("Add f9.txt, too." in text for text in prompts)


def test_work_on_a_branch_that_was_never_made_is_taken_from_the_checkout(adopter: Adopter, tmp_path: Path) -> None:
    session, repo = foreign.agentmux(tmp_path, "happy")
    implementing(session)
    foreign.git(repo, "checkout", "-q", "main")
    foreign.git(repo, "branch", "-D", "feature/happy")
    found = adopter.adopt(session, "--agent", adopter.stage.book())
    assert any("has no branch feature/happy" in finding for finding in found["findings"])
    assert foreign.git(repo, "show", f"holdfast/{found['run']}/main:f1.txt") == "from AgentMux"


def test_plan_with_a_cycle_and_a_task_twice_is_repaired(adopter: Adopter, tmp_path: Path) -> None:
    session, _ = foreign.agentmux(tmp_path, "happy")
    implementing(session)
    order = [{"index": 1}, {"index": 2}, {"index": 1}]
    plans = [{"index": 1, "title": "one"}, {"index": 2, "title": "two"}, {"index": 2, "title": "again"}, "no plan"]
    plan = {"version": 2, "groups": [{"group_id": "g1", "mode": "serial", "plans": order}], "subplans": plans}
    (session / "04_planning" / "plan.yaml").write_text(json.dumps(plan))
    found = adopter.adopt(session, "--agent", adopter.stage.book())
    assert found["tasks"] == {"P1": "pending", "P2": "pending"}
    assert any("wait for each other" in finding for finding in found["findings"])
    assert any("P2 twice" in finding for finding in found["findings"])


def test_pid_that_another_program_has_by_now_is_no_sign_of_life(adopter: Adopter, tmp_path: Path) -> None:
    session, repo = foreign.agentmux(tmp_path, "happy")
    for folder, code in ((tmp_path, 0), (repo, 5)):
        process = subprocess.Popen(["cat"], cwd=folder, stdin=subprocess.PIPE)
        try:
            (session / "runtime_state.json").write_text(json.dumps({"version": 2, "process_pids": {"%1": process.pid}}))
            adopter("adopt", os.fspath(session), "--dry-run", "--agent", adopter.stage.book(), code=code)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait()
