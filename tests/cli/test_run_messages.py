"""A message reaches its agent once, whoever is killed when."""

import asyncio
import json
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from msgspec import Raw

from holdfast.core.events.session import SessionStart
from holdfast.store.base import Message
from holdfast.store.files.store import FileStore
from holdfast.store.run import open_run
from tests.support.cli_stage import BLOCKED, EVALUATE, HANG, SUBMIT, Stage, killed, wait_for_event, worker

WORDS = "mind the kelp"


def told_of(stage: Stage, run: str) -> list[str]:
    return [text for text in stage.prompts(run) if WORDS in text]


def test_one_sent_while_the_agent_works_comes_with_its_next_turn(stage: Stage) -> None:
    agent = stage.book(worker({"say": "I begin"}, {"wait_for": f"{stage.folder}/go"}))
    with stage.start("run", "go on", "--agent", agent) as process:
        wait_for_event(process, "turn.started")
        run = stage.only_run()
        assert stage.holdfast("send", run, WORDS).out == "message queued; delivered with the next prompt\n"
        open(f"{stage.folder}/go", "w").close()
        process.communicate()
        assert process.returncode == 0
    assert told_of(stage, run) == [WORDS]


@pytest.mark.torture
def test_one_sent_before_the_runner_dies_is_delivered_by_the_next(stage: Stage) -> None:
    agent = stage.book(worker(HANG))
    with stage.start("run", "go on", "--agent", agent) as process:
        wait_for_event(process, "turn.started")
        run = stage.only_run()
        stage.holdfast("send", run, WORDS)
        wait_for_event(process, "inbox.consumed")
        stage.hangs()
        killed(process)
    stage.holdfast("send", run, "and the rock", "--task", "T-1")  # while nobody is there
    assert stage.resume(run)["ended"] == "all_done"
    assert len(told_of(stage, run)) == 1
    assert len([text for text in stage.prompts(run) if "and the rock" in text]) == 1


@pytest.mark.torture
def test_one_that_was_delivered_is_not_delivered_again(stage: Stage) -> None:
    heard = {"when": WORDS, "steps": [HANG, {"say": "heard"}]}
    agent = stage.book(heard, worker({"say": "done"}))
    run = stage.run("go on", "--agent", agent)
    stage.holdfast("send", run, WORDS)
    with stage.start("resume", run) as process:
        wait_for_event(process, "turn.started")
        stage.hangs()
        killed(process)
    assert stage.resume(run)["ended"] == "all_done"
    delivered = [d for d in stage.data(run, "turn.started") if d["messages"]]
    assert len(delivered) == 1
    assert len(stage.data(run, "inbox.handled")) == 1
    assert "nothing to resume" in stage.holdfast("resume", run, code=4).err


@pytest.mark.torture
def test_nobody_waits_for_one_that_another_is_about_to_be_told(stage: Stage) -> None:
    """C has the message in its first prompt, and its agent takes its time to start; A goes on meanwhile."""
    begins = worker({"say": "I begin"}, {"wait_for": f"{stage.folder}/sent"}, {"say": "I think"}, task="A")
    reports = {"when": "Your turn ended without a report", "steps": [SUBMIT]}
    agent = stage.book(EVALUATE, begins, reports, worker({"wait_for": f"{stage.folder}/told"}, SUBMIT))
    start = f"until [ -e {stage.folder}/go ]; do sleep 0.1; done; exec {sys.executable} -m holdfast agent playbook"
    slow = json.dumps(["sh", "-c", f"{start} {agent.removeprefix('playbook:')}"])
    tasks = stage.tasks("A", "B", {"id": "C", "agent": "slow"})
    options = ("--workflow", "waves", tasks, "--agent", agent, "--set", f"agents.slow.command={slow}")
    with stage.start("run", *options) as process:
        for _ in "AB":
            wait_for_event(process, "turn.started")
        run = stage.only_run()
        stage.holdfast("send", run, WORDS)
        wait_for_event(process, "inbox.consumed")
        open(f"{stage.folder}/told", "w").close()
        wait_for_event(process, "memory.loaded", taskId="C")
        open(f"{stage.folder}/sent", "w").close()
        wait_for_event(process, "task.completed", taskId="A")
        open(f"{stage.folder}/go", "w").close()
        process.communicate()
        assert process.returncode == 0
    assert len(told_of(stage, run)) == 1


def test_one_for_a_task_that_is_skipped_meanwhile_is_told_to_have_reached_nobody(stage: Stage) -> None:
    fails = {"mcp": {"tool": "report_blocker", "arguments": {"reason": "no kelp here"}}}
    run = stage.run(stage.tasks("T-1"), "--agent", stage.book(worker(fails)), code=1)
    stage.holdfast("send", run, WORDS, "--task", "T-1")
    stage.resume(run, "--on-issue", "skip")
    assert told_of(stage, run) == []
    assert any("a message to T-1 could not be delivered" in d["message"] for d in stage.data(run, "warning.logged"))
    assert "nothing to resume" in stage.holdfast("resume", run, code=4).err
    assert "the message cannot be delivered" in stage.holdfast("send", run, WORDS, "--task", "T-1", code=2).complaint


ODD = {
    "user": b'{"text":5}',
    "research": b'["no words"]',
    "answer": b'{"request":"r"}',
    "stop": b'"now"',
    "change": b'{"text":null}',
    "signal.submit_case": b'{"role":"worker","signal":{}}',
    "hail": b"null",
}


@pytest.mark.parametrize("consumed", [False, True])
def test_messages_that_say_nothing_to_anybody_are_passed_over_and_told(stage: Stage, *, consumed: bool) -> None:
    """Also those that a session took in, and then died."""
    run = stage.holdfast("plan", "go on", "--agent", stage.book(worker({"say": "done"})), "--json").object["run"]
    asyncio.run(_put(stage.home, run, ODD.items(), consumed=consumed))
    stage.holdfast("send", run, WORDS)
    assert stage.resume(run)["ended"] == "all_done"
    warned = [d["message"] for d in stage.data(run, "warning.logged") if "was ignored" in d["message"]]
    assert [text.partition(" was ignored")[0] for text in warned] == [f"a message of kind {kind}" for kind in ODD]
    assert len(told_of(stage, run)) == 1
    assert "nothing to resume" in stage.holdfast("resume", run, code=4).err


async def _put(home: str, run: str, messages: Iterable[tuple[str, bytes]], *, consumed: bool) -> None:
    store = FileStore(home)
    for kind, body in messages:
        await store.inbox(run).put(Message(id=kind, kind=kind, sender="somebody", body=Raw(body)))
    if consumed:
        async with open_run(store, run) as session:
            await session.begin_session(SessionStart(command="run"))
            await session.consume_inbox()


def test_words_for_a_phase_reach_its_workers_or_are_refused_where_no_agent_hears_them(stage: Stage) -> None:
    phases = "- {name: building, kind: tasks}\n- {name: reading, kind: review, roles: [reviewer]}\n"
    workflow = Path(stage.folder, "mine.yaml")
    workflow.write_text(f"name: mine\nabout: it is read in the end\nphases:\n{phases}", encoding="utf-8")
    passes = {"mcp": {"tool": "submit_review", "arguments": {"passed": True, "summary": "fine"}}}
    agent = stage.book(worker({"say": "done"}), {"when": "You are a reviewer", "steps": [passes]})
    planned = stage.holdfast("plan", "go on", "--workflow", str(workflow), "--agent", agent, "--json")
    run = planned.object["run"]
    stage.holdfast("send", run, WORDS, "--task", "building")
    refused = stage.holdfast("send", run, "look well", "--task", "reading", code=2).complaint
    assert refused == "the message cannot be delivered: reading has no agent that receives messages"
    body = b'{"text":"look well","task":"reading"}'  # as a version that did not refuse it sent it
    asyncio.run(_put(stage.home, run, [("user", body)], consumed=False))
    assert stage.resume(run)["ended"] == "all_done"
    assert len(told_of(stage, run)) == 1
    assert any("a message to reading could not be delivered" in d["message"] for d in stage.data(run, "warning.logged"))
    assert "nothing to resume" in stage.holdfast("resume", run, code=4).err


def test_what_a_skipped_task_was_told_opens_no_finished_one(stage: Stage) -> None:
    """Its agent answered the words by a blocker, and died in the same turn."""
    dying = {"crash": {"how": "kill", "once": "dead"}}
    made = worker({"write": {"path": "b.txt", "text": "b\n"}}, SUBMIT, task="B")
    agent = stage.book(EVALUATE, worker(BLOCKED, dying, task="A"), made)
    planned = stage.holdfast("plan", stage.tasks("A", "B"), "--workflow", "waves", "--agent", agent, "--json")
    run = str(planned.object["run"])
    stage.holdfast("send", run, WORDS)
    stage.holdfast("send", run, f"{WORDS}, too", "--task", "A")
    stage.resume(run, code=1)
    assert stage.states(run) == {"A": "FAILED", "B": "COMPLETE"}
    assert stage.resume(run, "--on-issue", "skip")["ended"] == "all_done"
    assert stage.states(run) == {"A": "SKIPPED", "B": "COMPLETE"}
    assert stage.data(run, "task.reopened") == []
    stage.holdfast("resume", run, code=4)
