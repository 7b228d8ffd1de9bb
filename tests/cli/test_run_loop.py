"""Worker, validators and evaluator, one task after the other."""

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.support.cli_stage import ACCEPT, EVALUATE, HANG, REJECT, SUBMIT, Stage, killed, wait_for_event, worker
from tests.support.repositories import put_program

CHECK = 'validators.commands={"check": {"command": ["sh", "-c", "cat note.txt; ! grep -q bad note.txt"]}}'


DIES_OVER_A_DIFF = """\
case " $* " in *" diff "*) kill -9 $$ ;; esac
exec {} "$@"
"""


def writes(text: str) -> dict[str, object]:
    return {"write": {"path": "note.txt", "text": text}}


def test_what_validators_and_evaluators_said_is_told_to_whoever_comes_next(stage: Stage) -> None:
    agent = stage.book(
        {"when": "(?s)You are the evaluator.*Prior iterations", "steps": [ACCEPT]},
        {"when": "You are the evaluator", "steps": [{"mcp": {"tool": "submit_verdict", "arguments": REJECT}}]},
        worker(writes("a bad one\n"), SUBMIT),
        {"when": "The validators do not pass", "steps": [writes("a good one\n"), SUBMIT]},
        {"when": "The evaluator rejected your case", "steps": [writes("a better one\n"), SUBMIT]},
    )
    run = stage.run("--workflow", "loop", stage.tasks("T-1"), "--agent", agent, "--set", CHECK)

    begin, repair, again = stage.prompts(run, "worker")
    assert "Prior iterations" not in begin
    assert "a bad one" in repair
    assert "It proves nothing." in again
    first, second = stage.prompts(run, "evaluator")
    assert "Prior iterations" not in first
    assert "It proves nothing." in second
    assert "+a better one" in second

    assert [d["passed"] for d in stage.data(run, "validation.finished")] == [False, True, True]
    verdicts = [json.loads(line) for line in Path(stage.home_of(run), "ledger", "T-1.jsonl").read_text().splitlines()]
    assert [(v["iteration"], v["accept"], v["category"]) for v in verdicts] == [
        (2, False, "weak_test"),
        (3, True, None),
    ]
    assert stage.file(run, "note.txt") == "a better one"
    assert stage.subjects(run) == ["make T-1", "Merge task T-1"]


def test_a_worker_that_submits_nothing_is_asked_for_it_and_then_fails(stage: Stage) -> None:
    agent = stage.book(worker({"say": "I think it is done"}))
    run = stage.run("--workflow", "loop", stage.tasks("T-1"), "--agent", agent, "--set", "caps.iterations=2", code=1)
    _, nudge = stage.prompts(run)
    assert nudge.startswith("Your turn ended without a report")
    assert [(d["error"], d["attempts"]) for d in stage.data(run, "task.failed")] == [("no_case", 2)]
    assert stage.states(run) == {"T-1": "FAILED"}


def test_an_evaluator_without_a_verdict_has_rejected(stage: Stage) -> None:
    agent = stage.book(worker(writes("one\n"), SUBMIT), {"when": "You are the evaluator", "steps": [{"say": "Hm."}]})
    options = ("--workflow", "loop", stage.tasks("T-1"), "--agent", agent, "--set", "caps.evaluator_calls=1")
    run = stage.run(*options, code=1)
    (verdict,) = stage.data(run, "verdict.given")
    assert (verdict["accept"], verdict["synthetic"]) == (False, True)
    assert len(stage.prompts(run, "evaluator")) == 3
    assert len(stage.prompts(run, "worker")) == 1  # whatever it did, nobody may judge it
    assert [d["error"] for d in stage.data(run, "task.failed")] == ["evaluator_cap"]
    assert "no verdict" in Path(stage.home_of(run), "ledger", "T-1.jsonl").read_text()


@pytest.mark.torture
def test_an_evaluator_that_was_killed_after_its_verdict_is_not_waited_for(stage: Stage) -> None:
    agent = stage.book(worker(writes("one\n"), SUBMIT), {"when": "You are the evaluator", "steps": [ACCEPT, HANG]})
    with stage.start("run", "--workflow", "loop", stage.tasks("T-1"), "--agent", agent) as process:
        wait_for_event(process, "verdict.given")
        stage.hangs()
        killed(process)
    run = stage.only_run()
    assert stage.resume(run)["ended"] == "all_done"
    assert len(stage.prompts(run, "evaluator")) == 1
    (evaluator,) = [d["conversation"] for d in stage.data(run, "conversation.opened") if d["role"] == "evaluator"]
    states = [d["state"] for d in stage.data(run, "conversation.state_changed") if d["conversation"] == evaluator]
    assert states[-1] == "completed"


def test_an_evaluator_that_was_never_spoken_to_keeps_no_later_session_from_work(stage: Stage) -> None:
    """It was about to be told what changed when git died; then another was to judge, and then there was more to do."""
    agent = stage.book(EVALUATE, worker(writes("one\n"), SUBMIT), {"when": "and more", "steps": [SUBMIT]})
    dying = put_program(f"{stage.folder}/bin/git", DIES_OVER_A_DIFF.format(shutil.which("git")))
    path = f"{os.path.dirname(dying)}:{os.environ['PATH']}"
    options = ("--workflow", "loop", stage.tasks("T-1"), "--agent", agent)
    run = stage.run(*options, code=1, env={"PATH": path})
    other = stage.book(EVALUATE, name="other")
    stage.resume(run, "--set", f"roles.evaluator.agent={other}")
    stage.holdfast("send", run, "and more")
    assert stage.resume(run)["ended"] == "all_done"
    conversations = stage.holdfast("show", run, "--json").object["state"]["conversations"].values()
    assert sorted(conversation["state"] for conversation in conversations if conversation["role"] == "evaluator") == [
        "cancelled",
        "completed",
        "completed",
    ]
