"""The gate of a phase: it shows what is to be approved, takes changes whatever kind of phase it is, and waits."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.boards import board
from tests.cli.program import finished
from tests.support.cli_stage import SUBMIT, Stage, killed, wait_for_event, worker
from tests.support.pipelines import REVIEWER, TEAM, calls, file_of, phase_rows, plan
from tests.support.wait import PATIENCE

HEAD = "name: short\nabout: with a gate\ncase: true\nphases:\n"
CHECKS = ("--set", "validators.detect=false")
WANTED = "a second note, please"
BUILDING = "- {name: building, kind: tasks}\n"
PLANNED = "- {name: planning, role: planner, approval: true}\n" + BUILDING
MORE = {"when": f"(?s)You are the planner.*{WANTED}", "steps": [plan("A", "B")]}


def begun(stage: Stage, phases: str, *turns: dict[str, Any]) -> str:
    flow = file_of(stage, HEAD + phases, "short.yaml")
    agent = stage.book(*turns, sessions={"interrupted": "again"})
    return str(stage.ended("run", "a note", "--workflow", flow, "--agent", agent, *CHECKS, code=6)["run"])


def gate_in(stage: Stage, run: str) -> dict[str, Any]:
    (need,) = stage.holdfast("show", run, "--json").object["needs"]
    assert need["want"] == "approval"
    gate: dict[str, Any] = need["gate"]
    return gate


def test_gate_shows_the_document_and_then_what_changed_in_it(stage: Stage) -> None:
    run = begun(stage, PLANNED, MORE, *TEAM)
    (document,) = gate_in(stage, run)["documents"]
    assert document["text"] == Path(stage.home_of(run), document["path"]).read_text()
    assert (document["title"], document["changed"]) == ("Plan", None)
    assert "## A: make A" in stage.holdfast("show", run).out
    stage.holdfast("deny", run, "--changes", WANTED)
    stage.resume(run, code=6)
    (document,) = gate_in(stage, run)["documents"]
    assert "+## B: make B" in document["changed"].splitlines()
    assert "## A: make A" not in document["changed"].splitlines()
    shown = stage.holdfast("show", run).out
    assert "+## B: make B" in shown
    assert [one["documents"] for one in stage.data(run, "approval.requested")] == [[document["path"]]] * 2
    stage.holdfast("approve", run)
    stage.resume(run)
    assert stage.states(run) == {"A": "COMPLETE", "B": "COMPLETE"}


def test_run_shows_the_document_as_it_asks(stage: Stage) -> None:
    flow = file_of(stage, HEAD + PLANNED, "short.yaml")
    command = ("run", "a note", "--workflow", flow, "--agent", stage.book(*TEAM), *CHECKS)
    said = stage.holdfast(*command, code=6).err
    assert "## A: make A" in said
    assert "artifacts/planning/planning.md" in said


def test_attach_shows_the_document(stage: Stage) -> None:
    go = Path(stage.folder, "go")
    planner = {
        "when": "You are the planner",
        "steps": [{"wait_for": {"path": str(go), "timeout": PATIENCE}}, plan("A")],
    }
    flow = file_of(stage, HEAD + PLANNED, "short.yaml")
    command = ("run", "a note", "--workflow", flow, "--agent", stage.book(planner, *TEAM), *CHECKS)
    with stage.start(*command) as process:
        wait_for_event(process, "turn.started")
        with stage.holdfast.start("attach", stage.only_run()) as watcher:
            assert watcher.stderr is not None
            assert b"attached" in watcher.stderr.readline()
            go.touch()
            said = finished(watcher).err
        finished(process, code=6)
    assert "## A: make A" in said
    assert "artifacts/planning/planning.md" in said


async def test_top_shows_the_document(stage: Stage) -> None:
    begun(stage, PLANNED, *TEAM)
    async with board(stage.home, size=(120, 50)) as screen:
        await screen.until("## A: make A", "artifacts/planning/planning.md")
        await screen.press("a")
        await screen.until("approve", "## A: make A")


def test_nothing_says_that_a_waiting_run_continues_by_itself(stage: Stage) -> None:
    run = begun(stage, PLANNED, *TEAM)
    seen = stage.holdfast("show", run, "--json").object
    assert (seen["status"], seen["analysis"]["decision"]["case"]) == ("waiting", "waiting")
    (analysis,) = stage.holdfast("analyze", run, "--json").objects
    assert analysis["decision"]["case"] == "waiting"
    for shown in ("show", "analyze"):
        assert "by itself" not in stage.holdfast(shown, run).out
    stage.resume(run, code=6)
    assert stage.holdfast("show", run, "--json").object["analysis"]["decision"]["case"] == "waiting"
    stage.holdfast("approve", run)
    stage.resume(run)
    assert stage.holdfast("show", run, "--json").object["analysis"]["decision"]["case"] == "complete"


WRITER = {"when": f"(?s)worker on task(?s:.)*{WANTED}", "steps": [{"write": {"path": "b.txt", "text": "b\n"}}, SUBMIT]}
FIRST = worker({"write": {"path": "a.txt", "text": "a\n"}}, SUBMIT)
SIZER = {"when": "You are the architect", "steps": [calls("submit_document", title="Size", text="small\n")]}
RESIZER = {
    "when": f"(?s)You are the architect.*{WANTED}",
    "steps": [calls("submit_document", title="Size", text="two\n")],
}
BUILT, BUILT_AGAIN = ("building 1", "building 1 done"), ("building 2", "building 2 done")
AGENT = "- {name: sizing, role: architect, approval: true}\n" + BUILDING
TASKS = "- {name: building, kind: tasks, approval: true}\n"
REVIEW = BUILDING + "- {name: reviewing, kind: review, roles: [reviewer], approval: true}\n"
COMPLETE = BUILDING + "- {name: completing, kind: complete, approval: true}\n"


@pytest.mark.parametrize(
    ("phases", "rows"),
    [
        pytest.param(AGENT, ["sizing 1", "sizing 2", "sizing 2 done", "building 1", "building 1 done"], id="agent"),
        pytest.param(TASKS, ["building 1", "building 2", "building 2 done"], id="tasks"),
        pytest.param(
            REVIEW,
            [*BUILT, "reviewing 1", *BUILT_AGAIN, "reviewing 2", "reviewing 2 passed"],
            id="review",
        ),
        pytest.param(
            COMPLETE,
            [*BUILT, "completing 1", *BUILT_AGAIN, "completing 2", "completing 2 done"],
            id="complete",
        ),
    ],
)
def test_changes_are_made_at_every_gate_where_nobody_plans(stage: Stage, phases: str, rows: list[str]) -> None:
    run = begun(stage, phases, RESIZER, SIZER, WRITER, FIRST, REVIEWER)
    stage.holdfast("deny", run, "--changes", WANTED)
    with stage.start("resume", run) as process:  # and a kill does not lose it
        wait_for_event(process, "phase.started")
        killed(process)
    stage.resume(run, code=6)
    assert any(WANTED in prompt for prompt in stage.prompts(run))
    stage.holdfast("approve", run)
    stage.resume(run)
    assert phase_rows(stage, run) == rows
    if phases != AGENT:
        assert stage.file(run, "b.txt") == "b"
        assert stage.states(run) == {"T-1": "COMPLETE", "fix-1": "COMPLETE"}
    assert stage.holdfast("show", run, "--json").object["state"]["changes"] == {}
    stage.holdfast("resume", run, code=4)


def test_gate_that_nobody_can_change_says_so_and_stays_open(stage: Stage) -> None:
    run = begun(stage, "- {name: reviewing, kind: review, roles: [reviewer], approval: true}\n", REVIEWER)
    assert "--reason" in stage.holdfast("deny", run, "--changes", WANTED, code=2).complaint
    assert [one["summary"] for one in gate_in(stage, run)["reviews"]] == ["read"]
    stage.holdfast("approve", run)
    stage.resume(run)
