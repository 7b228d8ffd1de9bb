"""The log names each agent, each session and each death, the same way everywhere."""

import socket

from tests.support.cli_stage import EVALUATE, HANG, HELLO, SUBMIT, Stage, branch, killed, wait_for_event, worker
from tests.support.pipelines import calls, file_of

DIES = worker({"write": {"path": "a.txt", "text": "a\n"}}, {"crash": {"how": "kill", "once": True}}, SUBMIT)
UNCHECKED = """\
name: unchecked
about: a check that is not there
phases:
- name: sizing
  role: architect
  validators: [small]
  on_fail: sizing
- name: building
  kind: tasks
"""


def test_start_and_envelope_name_the_same_agent(stage: Stage) -> None:
    agent = stage.book(EVALUATE, worker({"write": {"path": "a.txt", "text": "a\n"}}, SUBMIT))
    run = stage.run("--workflow", "loop", stage.tasks("T-1"), "--agent", agent)
    (started,) = stage.events(run, "task.started")
    spawned = stage.events(run, "agent.spawned")
    assert [event["data"]["name"] for event in spawned] == ["worker of T-1", "evaluator of T-1"]
    assert [event["agent"] for event in spawned] == ["worker of T-1", "evaluator of T-1"]
    assert started["agent"] == started["data"]["agent"] == "worker of T-1"
    assert spawned[0]["data"]["branch"] == branch(run, "T-1")
    attached = stage.data(run, "conversation.attached")
    assert [event["data"]["pid"] for event in spawned] == [d["pid"] for d in attached]
    about = {(event["type"], event["agent"]) for event in stage.events(run)}
    assert about >= {
        ("case.submitted", "worker of T-1"),
        ("verdict.given", "evaluator of T-1"),
        ("task.completed", "worker of T-1"),
        ("session.start", None),
        ("checkpoint", None),
    }
    roles = {d["conversation"]: f"{d['role']} of T-1" for d in stage.data(run, "conversation.opened")}
    said = stage.events(run, "message.recorded") + stage.events(run, "turn.ended")
    assert {(event["data"]["conversation"], event["agent"]) for event in said} == set(roles.items())
    over = [(d["name"], d["result"]) for d in stage.data(run, "agent.completed")]
    assert over == [("evaluator of T-1", "completed"), ("worker of T-1", "completed")]


def test_session_start_is_filled(stage: Stage) -> None:
    run = stage.run("say hello", "--agent", stage.book(HELLO), "--name", "greeting")
    stage.holdfast("archive", run)
    starts = stage.data(run, "session.start")
    assert [d["command"] for d in starts] == ["plan", "run", "archive"]
    for start in starts:
        known = (start["feature"], start["mode"], start["branch"], start["host"])
        assert known == ("greeting", "solo", branch(run), socket.gethostname())


def test_killed_agent_is_recorded_as_died(stage: Stage) -> None:
    run = stage.run("--workflow", "loop", stage.tasks("T-1"), "--agent", stage.book(EVALUATE, DIES))
    (died,) = stage.events(run, "agent.died")
    assert (died["agent"], died["data"]["name"]) == ("worker of T-1", "worker of T-1")
    assert "SIGKILL" in died["data"]["reason"]
    workers = [d["pid"] for d in stage.data(run, "agent.spawned") if d["name"] == "worker of T-1"]
    assert len(set(workers)) == 2


def test_agent_of_a_killed_runner_is_recorded_as_died(stage: Stage) -> None:
    agent = stage.book(EVALUATE, worker(HANG, {"write": {"path": "a.txt", "text": "a\n"}}, SUBMIT))
    with stage.start("run", "--workflow", "loop", stage.tasks("T-1"), "--agent", agent) as process:
        wait_for_event(process, "turn.started")
        stage.hangs()
        killed(process)
    run = stage.only_run()
    (active,) = stage.holdfast("analyze", stage.home_of(run), "--json").object["active_agents"]
    assert active == "worker of T-1"
    stage.resume(run)
    assert [event["agent"] for event in stage.events(run, "agent.died")] == ["worker of T-1"]


def test_conversation_ends_when_another_agent_takes_over(stage: Stage) -> None:
    first = stage.book(worker(HANG, SUBMIT))
    with stage.start("run", "--workflow", "loop", stage.tasks("T-1"), "--agent", first) as process:
        wait_for_event(process, "turn.started")
        stage.hangs()
        killed(process)
    run = stage.only_run()
    second = stage.book(EVALUATE, worker({"write": {"path": "note.txt", "text": "a\n"}}, SUBMIT), name="second")
    assert stage.resume(run, "--agent", second)["ended"] == "all_done"
    before, after, _ = [d["conversation"] for d in stage.data(run, "conversation.opened")]
    changed = [d for d in stage.data(run, "conversation.state_changed") if d["conversation"] == before]
    assert changed[-1]["state"] == "cancelled"
    assert "took over" in changed[-1]["reason"]
    conversations = stage.holdfast("show", run, "--json").object["state"]["conversations"]
    assert (conversations[before]["state"], conversations[after]["state"]) == ("cancelled", "waiting_for_input")


def test_attached_conversation_names_its_runtime(stage: Stage) -> None:
    run = stage.run("say hello", "--agent", stage.book(HELLO))
    assert [(d["runtime"], d["container"]) for d in stage.data(run, "conversation.attached")] == [("local", None)]


def test_session_that_fails_records_its_error(stage: Stage) -> None:
    """The phase asks for a check that nobody configured."""
    agent = stage.book({"when": "You are the architect", "steps": [calls("submit_document", title="A", text="b")]})
    flow = file_of(stage, UNCHECKED, "unchecked.yaml")
    stage.holdfast("run", "a note", "--workflow", flow, "--agent", agent, "--set", "validators.detect=false", code=2)
    *_, error, end = stage.events(stage.only_run())
    assert (error["type"], end["type"], end["data"]["reason"]) == ("error.encountered", "session.end", "error")
    assert error["data"]["error"] == end["data"]["summary"]
    assert (error["data"]["resolved"], error["data"]["retried"]) == (False, True)
