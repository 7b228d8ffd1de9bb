"""The prompt that continues an interrupted turn has all that arrived since, and all that the log knows of the turn."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from holdfast.engine.home import Home
from holdfast.engine.reports.submit import Reporter, submit_report
from tests.support.cli_stage import EVALUATE, SUBMIT, Event, Stage, killed, wait_for_event, worker
from tests.support.pipelines import calls, file_of, plan
from tests.support.wait import until

WORDS = "mind the kelp"
MINDED = {"write": {"path": "kelp.txt", "text": "minded\n"}}
CONTINUED = "Your last turn was interrupted"
PLANNED = """\
name: planned
about: an agent plans it
shape: graph
case: true
phases:
- {name: planning, role: planner}
- {name: building, kind: tasks}
"""


def hang(mark: str) -> dict[str, Any]:
    return {"hang": {"how": "turn", "seconds": 100, "once": mark}}


def killed_hanging(stage: Stage, *command: str, times: int = 1, calls: int = 0) -> str:
    """Start a run, or go on with it, and kill it when its agent hangs for the first time, or the second.

    By then the log has so many tool calls, and all that came before them.
    """
    with stage.start(*command) as process:
        wait_for_event(process, "turn.started")
        for _ in range(calls):
            wait_for_event(process, "tool.called")
        hangs(stage, times)
        killed(process)
    return stage.only_run()


def hangs(stage: Stage, times: int = 1) -> None:
    asyncio.run(until(lambda: len([*Path(stage.folder).rglob("once/*")]) == times))


def turns(stage: Stage, run: str, role: str = "worker") -> list[Mapping[str, Any]]:
    """Of the agents in this role: each turn with its prompt and the messages that it delivered."""
    conversations = [d["conversation"] for d in stage.data(run, "conversation.opened") if d["role"] == role]
    prompts = {d["turn"]: d["text"] for d in stage.data(run, "message.recorded") if d["speaker"] in ("user", "system")}
    started = [d for d in stage.data(run, "turn.started") if d["conversation"] in conversations]
    return [{**one, "prompt": prompts[one["turn"]]} for one in started]


def place_of(stage: Stage, run: str, kind: str, **data: Any) -> int:
    """Where in the log the first such event is."""
    found: list[Event] = stage.events(run)
    return next(i for i, e in enumerate(found) if e["type"] == kind and data.items() <= e["data"].items())


def test_a_message_sent_before_the_resume_is_in_the_first_prompt_and_nothing_is_merged_without_it(stage: Stage) -> None:
    minds = {"when": f"(?s){CONTINUED}.*{WORDS}", "steps": [MINDED, SUBMIT]}
    agent = stage.book(EVALUATE, minds, worker(hang("hang"), SUBMIT), sessions={"interrupted": "next"})
    run = killed_hanging(stage, "run", stage.tasks("T-1"), "--workflow", "loop", "--agent", agent)
    stage.holdfast("send", run, WORDS)
    assert stage.resume(run)["ended"] == "all_done"
    first, second = turns(stage, run)
    assert WORDS not in first["prompt"]
    assert second["prompt"].count(WORDS) == 1
    (message,) = second["messages"]
    assert [d["message"] for d in stage.data(run, "inbox.handled")].count(message) == 1
    assert place_of(stage, run, "turn.started", turn=second["turn"]) < place_of(stage, run, "branch.merged")
    assert stage.file(run, "kelp.txt") == "minded"
    assert stage.subjects(run) == ["make T-1", "Merge task T-1"], "it was not opened again for the message"
    stage.holdfast("resume", run, code=4)


@pytest.mark.parametrize("policy", ["continue", "retry"])
def test_a_second_kill_in_that_turn_neither_loses_nor_doubles_the_message(stage: Stage, policy: str) -> None:
    hangs_again = {"when": f"(?s){WORDS}", "once": True, "steps": [hang("second"), SUBMIT]}
    minds = {"when": f"(?s){WORDS}.*and the rock", "steps": [MINDED, SUBMIT]}
    agent = stage.book(EVALUATE, minds, hangs_again, worker(hang("first"), SUBMIT), sessions={"interrupted": "next"})
    options = ("--workflow", "loop", "--agent", agent, "--set", f"after_interruption={policy}")
    run = killed_hanging(stage, "run", stage.tasks("T-1"), *options)
    stage.holdfast("send", run, WORDS)
    killed_hanging(stage, "resume", run, times=2)
    stage.holdfast("send", run, "and the rock", "--task", "T-1")
    assert stage.resume(run)["ended"] == "all_done"
    first, second, third = turns(stage, run)
    assert [len(turn["messages"]) for turn in (first, second, third)] == [0, 1, 1]
    assert [turn["prompt"].count(WORDS) for turn in (first, second, third)] == [0, 1, 1]
    assert third["prompt"].count("You are the worker on task") == 1
    assert third["prompt"].count("and the rock") == 1
    told_once = [d["message"] for d in stage.data(run, "inbox.handled")]
    assert len(told_once) == len(set(told_once)) == 2 + 2  # and a case, and a verdict
    assert stage.file(run, "kelp.txt") == "minded"


def test_an_agent_of_a_phase_gets_the_message_with_the_prompt_that_continues_its_turn(stage: Stage) -> None:
    plans = {"when": f"(?s){CONTINUED}.*{WORDS}", "steps": [plan("A")]}
    late = {"when": "You are the planner", "steps": [hang("hang"), plan("too-late")]}
    agent = stage.book(plans, late, EVALUATE, worker(SUBMIT), sessions={"interrupted": "next"})
    run = killed_hanging(stage, "run", "plan it", "--workflow", file_of(stage, PLANNED), "--agent", agent)
    stage.holdfast("send", run, WORDS)
    assert stage.resume(run)["ended"] == "all_done"
    assert [turn["prompt"].count(WORDS) for turn in turns(stage, run, "planner")] == [0, 1]
    assert list(stage.states(run)) == ["A"]


# What the log knows of its tool calls

ASKS = calls("request_research", topic="kelp", question="How does it hold on?")
ANSWERS = {
    "when": "How does it hold on",
    "steps": [calls("submit_research", topic="kelp", answer="by its root")],
}
SUBMITS = {"when": "by its root", "steps": [SUBMIT]}


def test_a_continued_turn_is_told_what_became_of_each_call(stage: Stage) -> None:
    steps: list[dict[str, Any]] = [
        {"tool": {"id": "1", "title": "Run tests", "content": ["3 passed"]}},
        {"tool_done": {"id": "1", "output": {"exitCode": 0}}},
        {"tool": {"id": "2", "title": "Read b.py"}},
        {"tool_failed": {"id": "2", "output": {"error": "no such file"}}},
        {"tool": {"id": "3", "title": "Edit c.py"}},
        hang("hang"),
    ]
    agent = stage.book(worker(*steps), sessions={"interrupted": "next"})
    run = killed_hanging(stage, "run", "go on", "--agent", agent, calls=3)
    stage.resume(run)
    _, second = turns(stage, run)
    assert "- `Run tests`: completed: 3 passed" in second["prompt"]
    assert "- `Read b.py`: failed: no such file" in second["prompt"]
    assert "- `Edit c.py`: it did not return; it may or may not have taken effect" in second["prompt"]


@pytest.mark.parametrize("arrived", [True, False])
def test_a_report_that_was_cut_off_is_known_to_have_arrived_or_not(stage: Stage, *, arrived: bool) -> None:
    asking = worker({"tool": {"title": "mcp__holdfast__request_research"}}, hang("hang"))
    agent = stage.book(EVALUATE, SUBMITS, ANSWERS, asking, sessions={"interrupted": "next"})
    with stage.start("run", stage.tasks("T-1"), "--workflow", "loop", "--agent", agent) as process:
        wait_for_event(process, "tool.called")
        run = stage.only_run()
        hangs(stage)
        if arrived:
            (conversation_id,) = (d["conversation"] for d in stage.data(run, "conversation.opened"))
            who = Reporter(Home(stage.home), run, "worker", conversation_id)
            asyncio.run(submit_report(who, "request_research", {"topic": "kelp", "question": "How does it hold on?"}))
        killed(process)
    stage.resume(run, code=0 if arrived else 1)
    prompt = turns(stage, run)[1]["prompt"]
    assert ("Holdfast received it; do not call it again" in prompt) is arrived
    assert ("Holdfast did not receive it" in prompt) is not arrived
    assert "is not known" not in prompt
    assert len(stage.data(run, "research.requested")) == arrived


def test_a_question_asked_again_after_a_kill_is_looked_into_once_and_answered(stage: Stage) -> None:
    """The agent does its turn again from the beginning, as some do, and asks again."""
    agent = stage.book(EVALUATE, SUBMITS, ANSWERS, worker(ASKS, hang("hang")))
    run = killed_hanging(stage, "run", stage.tasks("T-1"), "--workflow", "loop", "--agent", agent)
    assert stage.resume(run)["ended"] == "all_done"
    asked = [d for d in stage.data(run, "inbox.consumed") if d["kind"] == "signal.request_research"]
    assert len(asked) == 2
    assert [d["research"] for d in stage.data(run, "research.requested")] == ["research-1"]
    assert len(stage.prompts(run, "researcher")) == 1
    assert len([turn for turn in turns(stage, run) if "by its root" in turn["prompt"]]) == 1
    before = len(stage.events(run))
    stage.holdfast("resume", run, code=4)
    assert len(stage.events(run)) == before


def test_a_run_that_is_done_is_a_no_op_though_an_answer_came_too_late(stage: Stage) -> None:
    agent = stage.book(EVALUATE, ANSWERS, worker(ASKS, SUBMIT))
    run = stage.run(stage.tasks("T-1"), "--workflow", "loop", "--agent", agent)
    assert len(stage.data(run, "research.answered")) == 1
    before = len(stage.events(run))
    stage.holdfast("resume", run, code=4)
    assert len(stage.events(run)) == before


# What is told to an agent that cannot bring its session back


def test_injected_history_has_the_text_of_tool_results(stage: Stage) -> None:
    steps: list[dict[str, Any]] = [
        {"tool": {"id": "1", "title": "Run tests", "content": ["3 passed, 1 skipped"]}},
        {"tool_done": {"id": "1", "output": {"exitCode": 0}}},
        {"tool": {"id": "2", "title": "Run linter"}},
        {"tool_done": {"id": "2", "output": {"stdout": "line 7: too long é", "exitCode": 0}}},
        {"run": {"command": "echo kelp | tr a-z A-Z", "via": "client"}},
        {"tool": {"id": "3", "title": "Edit"}},
        hang("hang"),
    ]
    repeats = {"resume_context": True, "steps": [{"say": "{{prompt}}"}]}
    agent = stage.book(repeats, worker(*steps), agent={"load": "absent", "resume": "absent"})
    run = killed_hanging(stage, "run", "go on", "--agent", agent, calls=4)
    stage.resume(run)
    (heard,) = (d["text"] for d in stage.data(run, "message.recorded") if d["speaker"] == "agent")
    history = heard.partition("=== CURRENT REQUEST ===")[0]
    assert "[TOOL RESULT: Run tests] 3 passed, 1 skipped" in history
    assert "[TOOL RESULT: Run linter] line 7: too long é" in history
    assert "KELP" in history, "what a terminal of ours put out"
    assert "exitCode" not in history


@pytest.mark.parametrize(
    "can",
    [
        {"resume": "starts_new", "load": "absent"},
        {"resume": "starts_new", "load": "starts_new"},
        {"resume": "absent", "load": "starts_new"},
    ],
)
def test_an_agent_that_answers_a_resume_with_a_new_session_is_told_the_history(
    stage: Stage, can: dict[str, str]
) -> None:
    """It says yes and remembers nothing."""
    knows = {"resume_context": True, "steps": [{"say": "{{prompt}}"}]}
    found = ({"say": "I found the kelp"}, {"tool": "Look"}, hang("hang"))
    agent = stage.book(knows, worker(*found), agent=can)
    run = killed_hanging(stage, "run", "go on", "--agent", agent, calls=1)
    stage.resume(run)
    attached = stage.data(run, "conversation.attached")
    assert [d["rung"] for d in attached] == ["fresh", "history injection"]
    offered = [f"session/{name}" for name, how in can.items() if how == "starts_new"]
    assert [d["rung"] for d in stage.data(run, "conversation.rung_failed")] == offered
    heard = [d["text"] for d in stage.data(run, "message.recorded") if d["speaker"] == "agent"]
    assert "[ASSISTANT]: I found the kelp" in heard[-1]


def test_an_agent_that_has_its_session_resumes_it(stage: Stage) -> None:
    agent = stage.book(worker({"say": "I begin"}, hang("hang")), sessions={"interrupted": "next"})
    run = killed_hanging(stage, "run", "go on", "--agent", agent)
    stage.resume(run)
    assert [d["rung"] for d in stage.data(run, "conversation.attached")] == ["fresh", "session/resume"]
    assert stage.data(run, "conversation.rung_failed") == []


def test_research_that_nobody_waits_for_any_more_is_not_continued(stage: Stage) -> None:
    looks = {"when": "How does it hold on", "steps": [hang("hang")]}
    agent = stage.book(EVALUATE, looks, worker(ASKS, SUBMIT))
    with stage.start("run", stage.tasks("T-1"), "--workflow", "loop", "--agent", agent) as process:
        wait_for_event(process, "wave.completed")
        hangs(stage)
        killed(process)
    run = stage.only_run()
    assert stage.resume(run)["ended"] == "all_done"
    assert len(stage.prompts(run, "researcher")) == 1
    before = len(stage.events(run))
    stage.holdfast("resume", run, code=4)
    assert len(stage.events(run)) == before
