"""Words in a turn that was cut off reach whoever goes on, by whichever way; and who goes on knows what it is about."""

import signal
from pathlib import Path

import pytest

from tests.support.cli_stage import ACCEPT, EVALUATE, SUBMIT, Stage, worker
from tests.support.pipelines import calls, file_of, plan

WORDS = "mind the kelp"
WRITES = {"write": {"path": "kelp.txt", "text": "minded\n"}}
MINDS = {"when": f"(?s)You are the worker on task.*{WORDS}", "steps": [WRITES, SUBMIT]}
IGNORES = worker(SUBMIT)
WILL_NOT = {"end": "refusal"}
PLANNING = """\
name: planned
about: somebody plans it
shape: graph
case: true
phases:
- {name: planning, role: planner}
- {name: building, kind: tasks}
"""


def dies(stage: Stage, *arguments: str, at: str = "prompt.before:1") -> None:
    passes = Path(stage.folder, "passes")
    passes.touch()
    armed = {"HOLDFAST_CRASH": at, "HOLDFAST_CRASH_FILE": str(passes)}
    stage.holdfast(*arguments, code=-signal.SIGKILL, cold=True, env=armed)


def planned(stage: Stage, agent: str, *options: str) -> str:
    command = ("plan", stage.tasks("T-1"), "--agent", agent, *options, "--json")
    run = str(stage.holdfast(*command).object["run"])
    stage.holdfast("send", run, WORDS)
    return run


def test_another_agent_that_takes_the_place_of_one_that_was_cut_off_is_told_them(stage: Stage) -> None:
    run = planned(stage, stage.book(EVALUATE, MINDS, IGNORES), "--workflow", "loop")
    dies(stage, "resume", run)
    other = stage.book(EVALUATE, MINDS, IGNORES, name="other")
    assert stage.resume(run, "--agent", other)["ended"] == "all_done"
    assert stage.file(run, "kelp.txt") == "minded"
    assert len(stage.data(run, "inbox.handled")) == 1 + 2  # and a case, and a verdict


@pytest.mark.torture
def test_they_are_told_when_the_task_is_written_anew_meanwhile(stage: Stage) -> None:
    run = planned(stage, stage.book(EVALUATE, MINDS, IGNORES), "--workflow", "loop")
    dies(stage, "resume", run)
    stage.tasks({"id": "T-1", "description": "and be polite"})
    assert stage.resume(run)["ended"] == "all_done"
    assert stage.file(run, "kelp.txt") == "minded"
    _, again = stage.prompts(run, "worker")
    assert "and be polite" in again
    assert again.count(WORDS) == 1


def test_a_message_to_a_model_that_refused_is_in_the_prompt_of_the_retry(stage: Stage) -> None:
    """A refusal ends the task at once; a resume that retries it restates the message."""
    will_not = {"when": WORDS, "once": True, "steps": [WILL_NOT]}
    run = planned(stage, stage.book(EVALUATE, will_not, MINDS, IGNORES), "--workflow", "loop")
    assert stage.resume(run, code=1)["ended"] == "declined"
    assert stage.resume(run, "--on-issue", "retry")["ended"] == "all_done"
    assert stage.file(run, "kelp.txt") == "minded"


@pytest.mark.torture
def test_who_is_asked_how_to_go_on_need_not_say_all_of_it_again(stage: Stage) -> None:
    minds = {"when": f"(?s)You are the worker on task.*{WORDS}.*and the rock", "steps": [WRITES]}
    run = planned(stage, stage.book(minds, worker()), "--workflow", "solo", "--set", "after_interruption=ask")
    dies(stage, "resume", run)
    assert stage.resume(run, code=6)["ended"] == "waiting"
    stage.holdfast("send", run, "and the rock")
    assert stage.resume(run)["ended"] == "all_done"
    assert stage.file(run, "kelp.txt") == "minded"
    _, told = stage.prompts(run)
    assert told.count(WORDS) == told.count("and the rock") == 1


def test_in_a_conversation_that_goes_on_they_are_not_told_twice(stage: Stage) -> None:
    run = planned(stage, stage.book(EVALUATE, MINDS, IGNORES), "--workflow", "loop")
    dies(stage, "resume", run)
    assert stage.resume(run)["ended"] == "all_done"
    assert stage.file(run, "kelp.txt") == "minded"
    _, again = stage.prompts(run, "worker")
    assert again.startswith("Your last turn was interrupted")
    assert again.count(WORDS) == 1


@pytest.mark.torture
def test_another_agent_is_told_all_that_one_before_it_had_to_be_told_once(stage: Stage) -> None:
    says_nothing = worker({"say": "done"})
    run = planned(stage, stage.book(EVALUATE, says_nothing), "--workflow", "loop")
    dies(stage, "resume", run, at="effect.snapshot.take.after:1")
    other = stage.book(EVALUATE, worker(SUBMIT), name="other")
    assert stage.resume(run, "--agent", other)["ended"] == "all_done"
    _, told = stage.prompts(run, "worker")
    assert told.startswith("You are the worker on task `T-1`")
    assert [d["reason"] for d in stage.data(run, "iteration.ended")] == ["no_case"]


def test_an_evaluator_that_heard_nothing_is_told_all_of_it(stage: Stage) -> None:
    will_not = {"when": "You are the evaluator", "once": True, "steps": [WILL_NOT]}
    agent = stage.book(will_not, {"when": "(?s)You are the evaluator.*kelp.txt", "steps": [ACCEPT]}, MINDS)
    run = planned(stage, agent, "--workflow", "loop")
    assert stage.resume(run)["ended"] == "all_done"
    assert len(stage.prompts(run, "evaluator")) == 2


@pytest.mark.parametrize("other", [False, pytest.param(True, marks=pytest.mark.torture)])
def test_an_agent_of_a_phase_is_told_them_with_all_else(stage: Stage, *, other: bool) -> None:
    """One that heard nothing of its first prompt, and another that takes the place of one that was cut off."""
    plans = {"when": f"(?s)You are the planner.*{WORDS}", "steps": [plan("A")]}
    will_not = {"when": "You are the planner", "once": True, "steps": [WILL_NOT]}
    agent = stage.book(*([] if other else [will_not]), plans, EVALUATE, worker(SUBMIT))
    command = ("plan", "mind it", "--workflow", file_of(stage, PLANNING), "--agent", agent, "--json")
    run = str(stage.holdfast(*command).object["run"])
    stage.holdfast("send", run, WORDS)
    more: tuple[str, ...] = ()
    if other:
        dies(stage, "resume", run)
        more = ("--agent", stage.book(plans, EVALUATE, worker(SUBMIT), name="other"))
    assert stage.resume(run, *more)["ended"] == "all_done"
    assert [WORDS in prompt for prompt in stage.prompts(run, "planner")] == [True, True]
    assert [WORDS in prompt for prompt in stage.prompts(run, "worker")] == [False]


def test_a_researcher_that_heard_nothing_is_told_the_question(stage: Stage) -> None:
    asks = calls("request_research", topic="kelp", question="how does it hold on?")
    will_not = {"when": "You are a researcher", "once": True, "steps": [WILL_NOT]}
    answers = {"when": "how does it hold on", "steps": [calls("submit_research", topic="kelp", answer="by its root")]}
    agent = stage.book(EVALUATE, worker(asks), {"when": "by its root", "steps": [SUBMIT]}, will_not, answers)
    run = stage.run(stage.tasks("T-1"), "--workflow", "loop", "--agent", agent)
    assert ["how does it hold on" in prompt for prompt in stage.prompts(run, "researcher")] == [True, True]
