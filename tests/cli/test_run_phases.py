"""Workflows of phases, as users run them."""

from pathlib import Path

import pytest

from holdfast.core.events.conversation import ConversationOpened
from holdfast.core.events.phase import PhaseStarted
from holdfast.core.events.session import SessionStart
from holdfast.store.files.store import FileStore
from holdfast.store.run import open_run
from tests.support.cli_stage import SUBMIT, Stage, alive, killed, wait_for_event, worker
from tests.support.pipelines import NEVER, REVIEWER, STRICT, TEAM, calls, file_of, phase_rows, plan, small

GIVEN = ("--set", "approvals=given")
AGAIN = {"interrupted": "again"}
WHOLE = [
    *("planning 1", "planning 1 done"),
    *("implementing 1", "implementing 1 done"),
    *("reviewing 1", "reviewing 1 failed"),
    *("fixing 1", "fixing 1 done"),
    *("reviewing 2", "reviewing 2 passed"),
    *("completing 1", "completing 1 done"),
]


def assert_whole(stage: Stage, run: str) -> None:
    """Every phase was gone through once, every task merged once, and nothing is left over."""
    assert phase_rows(stage, run) == WHOLE
    assert stage.states(run) == {"A": "COMPLETE", "fix-1": "COMPLETE"}
    assert stage.subjects(run) == ["make A", "Merge task A", "Fix what the review found", "Merge task fix-1"]
    assert [d["remote"] for d in stage.data(run, "work.published")] == ["origin"]
    assert stage.data(run, "phase.failed") == []
    assert len(stage.data(run, "plan.created")) == 2
    assert len(stage.data(run, "review.given")) == 2
    assert alive(stage) == []
    stage.holdfast("verify", run)
    stage.holdfast("resume", run, code=4)


def test_a_pipeline_goes_from_a_plan_over_a_failed_review_and_its_fix_to_the_end(stage: Stage) -> None:
    agent = stage.book(STRICT, NEVER, *TEAM)
    run = str(stage.ended(*small(stage, agent, *GIVEN))["run"])
    assert_whole(stage, run)
    (fix,) = [prompt for prompt in stage.prompts(run, "worker") if "worker on task `fix-1`" in prompt]
    assert "there is no note" in fix
    artifacts = Path(stage.home_of(run), "artifacts")
    assert "## A: make A" in (artifacts / "planning" / "planning.md").read_text()
    assert "**fix-1**" in (artifacts / "completing" / "summary.md").read_text()
    shown = stage.holdfast("show", run).out
    assert "reviewing, round 2: passed" in shown


@pytest.mark.torture
@pytest.mark.timeout(600)
def test_killed_in_every_phase_it_goes_on_in_that_phase_and_ends_as_one_that_was_not(stage: Stage) -> None:
    agent = stage.book(STRICT, NEVER, *TEAM, sessions=AGAIN)
    points: list[tuple[str, dict[str, object]]] = [
        ("phase.started", {"phase": "planning"}),
        ("phase.delivered", {"phase": "planning"}),
        ("task.committed", {}),
        ("review.given", {"passed": False}),
        ("phase.started", {"phase": "fixing"}),
        ("turn.started", {}),
        ("approval.requested", {}),
    ]
    command = small(stage, agent)
    for kind, data in points:
        with stage.start(*command) as process:
            wait_for_event(process, kind, **data)
            killed(process)
        command = ["resume", stage.only_run(), *GIVEN]
    run = stage.only_run()
    stage.resume(run, *GIVEN)
    assert_whole(stage, run)
    assert len(stage.events(run, "session.start")) == len(points) + 2  # and the plan, and the last


def test_what_a_person_wants_changed_is_planned_built_and_asked_about_again(stage: Stage) -> None:
    more = {"when": "(?s)You are the planner.*a second note", "steps": [plan("A", "B")]}
    agent = stage.book(more, REVIEWER, *TEAM)
    run = str(stage.ended(*small(stage, agent), code=6)["run"])
    assert "completing asks for your approval" in stage.holdfast("show", run).out
    page = Path(stage.home_of(run), "artifacts", "planning", "planning.md")
    page.write_text("my own plan\n")
    stage.resume(run, code=6)  # nobody answered: it asks no second time
    (warning,) = stage.data(run, "warning.logged")
    assert "artifacts/planning/planning.md was edited after it was handed in; the log decides" in warning["message"]
    assert [one.read_text() for one in page.parent.glob("planning.edited-*.md")] == ["my own plan\n"]
    assert "## A: make A" in page.read_text()
    stage.holdfast("deny", run, "--changes", "a second note, please")
    stage.resume(run, code=6)
    assert [row for row in phase_rows(stage, run) if row.startswith(("planning", "completing"))] == [
        *("planning 1", "planning 1 done", "completing 1", "planning 2", "planning 2 done", "completing 2"),
    ]
    assert stage.subjects(run) == ["make A", "Merge task A", "make B", "Merge task B"]  # A was not done again
    stage.holdfast("approve", run)
    stage.resume(run)
    assert stage.states(run) == {"A": "COMPLETE", "B": "COMPLETE"}
    assert len(stage.data(run, "approval.requested")) == 2


def test_whoever_is_denied_what_it_planned_plans_anew_also_when_the_runner_dies_over_it(stage: Stage) -> None:
    more = {"when": "(?s)You are the planner.*a second note", "steps": [plan("A", "B")]}
    agent = stage.book(more, *TEAM)
    text = "name: short\nabout: a plan, and its tasks\ncase: true\nphases:\n"
    phases = "- {name: planning, role: planner, approval: true}\n- {name: building, kind: tasks}\n"
    flow = file_of(stage, text + phases, "short.yaml")
    checks = ("--set", "validators.detect=false")
    run = str(stage.ended("run", "a note", "--workflow", flow, "--agent", agent, *checks, code=6)["run"])
    stage.holdfast("deny", run, "--changes", "a second note, please")
    with stage.start("resume", run) as process:
        wait_for_event(process, "phase.started", phase="planning")
        killed(process)
    stage.resume(run, code=6)
    assert phase_rows(stage, run) == ["planning 1", "planning 2"]
    assert stage.states(run) == {"A": "PENDING", "B": "PENDING"}
    stage.holdfast("approve", run)
    stage.resume(run)
    assert stage.subjects(run) == ["make A", "Merge task A", "make B", "Merge task B"]
    assert len(stage.data(run, "approval.requested")) == 2


async def test_a_phase_whose_agent_was_never_started_when_a_change_came_is_gone_through_anew(stage: Stage) -> None:
    """The runner had noted whom it was to speak to in a second review, and was killed there."""
    agent = stage.book({"when": "(?s)You are the planner.*a second", "steps": [plan("A", "B")]}, REVIEWER, *TEAM)
    run = str(stage.ended(*small(stage, agent), code=6)["run"])
    async with open_run(FileStore(stage.home), run) as session:
        await session.begin_session(SessionStart(command="resume"))
        opened = ConversationOpened(conversation="unheard", agent=agent, role="reviewer", about="reviewing")
        await session.append(PhaseStarted(phase="reviewing", round=2), opened)
    stage.holdfast("send", run, "--change", "a second note, please")
    stage.resume(run, code=6)
    assert [row for row in phase_rows(stage, run) if row.startswith(("reviewing", "completing"))] == [
        *("reviewing 1", "reviewing 1 passed", "completing 1", "reviewing 2"),
        *("reviewing 3", "reviewing 3 passed", "completing 2"),
    ]
    (unheard,) = [one for one in stage.data(run, "conversation.state_changed") if one["conversation"] == "unheard"]
    assert (unheard["state"], unheard["reason"]) == ("cancelled", "reviewing begins anew")


@pytest.mark.torture
def test_research_that_was_cut_off_is_done_and_its_answer_reaches_whoever_asked_once(stage: Stage) -> None:
    asks = calls("request_research", topic="notes", question="Where do notes live?")
    agent = stage.book(
        {"when": "You are the planner", "steps": [asks, {"say": "I wait."}]},
        {"when": "What was found out about notes", "steps": [plan("A")]},
        {"when": "You are a researcher", "steps": [calls("submit_research", topic="notes", answer="Under the sea.")]},
        worker({"write": {"path": "A.txt", "text": "x\n"}}, SUBMIT),
        sessions=AGAIN,
    )
    text = "name: short\nabout: a plan and its tasks\ncase: true\nphases:\n- {name: planning, role: planner}\n"
    flow = file_of(stage, f"{text}- {{name: building, kind: tasks}}\n", "short.yaml")
    with stage.start(
        "run", "a note", "--workflow", flow, "--agent", agent, "--set", "validators.detect=false"
    ) as process:
        wait_for_event(process, "turn.started")
        wait_for_event(process, "turn.started")  # the researcher's
        killed(process)
    run = stage.only_run()
    Path(flow).unlink()  # the run has its own
    stage.resume(run)
    assert phase_rows(stage, run) == ["planning 1", "planning 1 done", "building 1", "building 1 done"]
    (answer,) = [prompt for prompt in stage.prompts(run, "planner") if "Under the sea." in prompt]
    assert answer.startswith("```text\nWhat was found out about notes")
    assert len(stage.data(run, "research.answered")) == 1
