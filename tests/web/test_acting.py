"""What the API does to runs: at work, dead, and when the server dies between two steps."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import failpoint_environment
from tests.support.cli_stage import HANG, HELLO, Stage, branch, killed, wait_for_event, worker
from tests.support.wait import until
from tests.web.server import Server, receive

ASK = {
    "permission": {
        "title": "Delete the notes",
        "kind": "delete",
        "allowed": [{"say": "yes"}],
        "rejected": [{"say": "no"}],
    }
}


@pytest.fixture
def server(stage_server: Server) -> Server:
    return stage_server


def request(stage: Stage, agent: str, **more: Any) -> dict[str, Any]:
    return {"goal": "say hello", "repo": stage.project.path, "agent": agent, **more}


async def ended(server: Server, run: str) -> dict[str, Any]:
    await until(lambda: server.get(f"/runs/{run}").json["status"] != "running")
    return dict(server.get(f"/runs/{run}").json)


async def test_run_is_created_merged_and_deleted(stage: Stage, server: Server) -> None:
    created = server.post("/runs", request(stage, stage.book(HELLO)), key="k1")
    assert created.status == 202, created
    run = created.json["id"]
    detail = await ended(server, run)
    assert (detail["status"], detail["tasks_done"]) == ("done", 1)
    assert detail["actions"]["merge"]
    merged = server.post(f"/runs/{run}/merge", {})
    assert (merged.status, merged.json["target"]) == (200, "main")
    assert stage.project.show("main:hello.txt") == "hello"
    assert server.post(f"/runs/{run}/merge", {}).json["already"]
    assert server.post(f"/runs/{run}/reset", {"confirm": "other"}).status == 422
    assert server.post(f"/runs/{run[:-2]}/reset", {"confirm": run}).status == 404
    with server.live() as socket:
        socket.send(f'{{"sub": "{run}"}}')
        receive(socket, "run")
        assert server.post(f"/runs/{run}/reset", {"confirm": run}).status == 200
        assert receive(socket, "resync") == {"type": "resync", "run": run, "reason": "deleted"}
    assert server.get("/runs").json["runs"] == []


async def test_retried_request_creates_one_run(stage: Stage, server: Server) -> None:
    """Also by another server: the run's id follows from the key."""
    body = request(stage, stage.book(HELLO))
    run = server.post("/runs", body, key="k1").json["id"]
    assert server.post("/runs", body, key="k1").json["id"] == run
    await ended(server, run)
    server.kill()
    with Server.start(stage.home, "--no-watch") as second:
        again = second.post("/runs", body, key="k1")
        assert (again.status, again.json) == (202, {"id": run, "pid": None, "warnings": []})
        assert len(second.get("/runs").json["runs"]) == 1
        assert second.post("/runs", body, key="k2").json["id"] != run


@pytest.mark.parametrize("point", ["runner.detach.before:1", "journal.append.before:1", "journal.append.after:1"])
async def test_server_killed_while_it_creates_a_run_leaves_one(stage: Stage, tmp_path: Path, point: str) -> None:
    """The retried request completes what the first began: one run, which is started once."""
    os.makedirs(stage.home, exist_ok=True)
    body = request(stage, stage.book(HELLO))
    with Server.start(stage.home, "--no-watch", environment=failpoint_environment(str(tmp_path), point)) as first:
        with pytest.raises((ConnectionError, OSError, Exception)):
            first.post("/runs", body, key="k1")
        assert first.was_killed()
    with Server.start(stage.home, "--no-watch") as second:
        run = second.post("/runs", body, key="k1").json["id"]
        assert (await ended(second, run))["status"] == "done"
        assert [row["id"] for row in second.get("/runs").json["runs"]] == [run]
    assert len(stage.data(run, "turn.started")) == 1


async def test_server_killed_after_a_message_has_sent_it_once(stage: Stage, tmp_path: Path) -> None:
    run = stage.run("say hello", "--agent", stage.book(HELLO))
    crash = failpoint_environment(str(tmp_path), "inbox.append.after:1")
    with Server.start(stage.home, "--no-watch", environment=crash) as first:
        with pytest.raises((ConnectionError, OSError, Exception)):
            first.post(f"/runs/{run}/messages", {"text": "also in French"}, key="m1")
        assert first.was_killed()
    with Server.start(stage.home, "--no-watch") as second:
        sent = second.post(f"/runs/{run}/messages", {"text": "also in French"}, key="m1")
        assert sent.status == 202
        queued = second.get(f"/runs/{run}/queued").json["messages"]
        assert [(each["id"], each["text"]) for each in queued] == [(sent.json["message"], "also in French")]
        changed = second.post(f"/runs/{run}/messages/{sent.json['message']}", {"text": None})
        assert changed.status in (202, 422)


async def test_retried_fork_makes_one_run(stage: Stage, tmp_path: Path) -> None:
    """Also when the server was killed before the fork had its past."""
    parent = stage.run("say hello", "--agent", stage.book(HELLO))
    crash = failpoint_environment(str(tmp_path), "run.fork.before:1")
    with Server.start(stage.home, "--no-watch", environment=crash) as first:
        with pytest.raises((ConnectionError, OSError, Exception)):
            first.post(f"/runs/{parent}/fork", {}, key="f1")
        assert first.was_killed()
    with Server.start(stage.home, "--no-watch") as second:
        forked = second.post(f"/runs/{parent}/fork", {}, key="f1")
        assert forked.status == 202, forked
        second.kill()
    with Server.start(stage.home, "--no-watch") as third:
        assert third.post(f"/runs/{parent}/fork", {}, key="f1").json == forked.json
        assert {row["id"] for row in third.get("/runs").json["runs"]} == {parent, forked.json["id"]}
        assert third.post(f"/runs/{parent}/fork", {}, key="f2").json["id"] != forked.json["id"]


def test_runner_refuses_a_choice_for_another_state(stage: Stage) -> None:
    """The log may move between the server's answer and the runner's start: the runner looks again, as the owner."""
    blocked = worker({"mcp": {"tool": "report_blocker", "arguments": {"reason": "no key", "needed": "a key"}}})
    run = stage.run("say hello", "--agent", stage.book(blocked), code=1)
    end = Path(stage.home_of(run), "events.jsonl").stat().st_size
    before = stage.events(run)
    stage.holdfast("resume", run, "--on-issue", "skip", "--expect", str(end - 1), "--quiet", code=5)
    assert stage.events(run) == before
    stage.holdfast("resume", run, "--on-issue", "skip", "--expect", str(end), "--quiet")


async def test_queued_message_is_changed_and_taken_back(stage: Stage, server: Server) -> None:
    agent = stage.book(worker(HANG))
    run = server.post("/runs", request(stage, agent, workflow="chat", goal="You are the worker on task `?")).json["id"]
    await until(lambda: bool(server.get(f"/runs/{run}/conversations").json["conversations"]))
    await until(stage.has_hung)
    message = server.post(f"/runs/{run}/messages", {"text": "one"}, key="m").json["message"]
    assert server.post(f"/runs/{run}/messages/{message}", {"text": "two"}).status == 202
    await until(lambda: [each["text"] for each in server.get(f"/runs/{run}/queued").json["messages"]] == ["two"])
    headers = {**server.bearer, "Content-Type": "application/json", "X-Holdfast": "1"}
    assert server.send("DELETE", f"/api/v1/runs/{run}/messages/{message}", headers).status == 202
    await until(lambda: server.get(f"/runs/{run}/queued").json["messages"] == [])
    assert server.send("DELETE", f"/api/v1/runs/{run}/messages/{message}", server.bearer).status == 415
    assert server.send("DELETE", f"/api/v1/runs/{run}/messages/none", headers).status in (404, 409, 422)
    server.post(f"/runs/{run}/stop", {})
    await until(lambda: server.get(f"/runs/{run}").json["owner"] is None)


async def test_key_of_another_request_is_refused(stage: Stage, server: Server) -> None:
    run = stage.run("say hello", "--agent", stage.book(HELLO))
    assert server.post(f"/runs/{run}/messages", {"text": "one"}, key="k").status == 202
    assert server.post(f"/runs/{run}/messages", {"text": "two"}, key="k").status == 422
    assert server.post(f"/runs/{run}/messages", {"text": "one"}, key="").status == 422


async def test_first_answer_counts(stage: Stage, server: Server) -> None:
    agent = stage.book(worker(ASK))
    run = server.post("/runs", request(stage, agent)).json["id"]
    await until(lambda: bool(server.get(f"/runs/{run}").json["needs"]))
    (need,) = server.get(f"/runs/{run}").json["needs"]
    assert need["request"]["title"] == "Delete the notes"
    assert {option["kind"] for option in need["request"]["options"]} >= {"allow_once"}
    answer = {"request": need["key"], "allow": True}
    first = server.post(f"/runs/{run}/answers", answer, key="a")
    assert (first.status, first.json["applied_by"]) == (202, "runner")
    second = server.post(f"/runs/{run}/answers", {**answer, "allow": False}, key="b")
    assert (second.status, second.json["reason"]) == (409, "answered")
    await ended(server, run)
    assert server.post(f"/runs/{run}/answers", answer, key="a").json["message"] == first.json["message"]
    assert server.post(f"/runs/{run}/answers", answer).status == 409
    assert [data["allow"] for data in stage.data(run, "permission.answered") if "allow" in data] in ([], [True])


async def test_interrupted_run_is_told_and_resumed_once(stage: Stage, server: Server) -> None:
    """The page is told that a runner died, although that writes nothing; a stale choice is refused."""
    agent = stage.book(
        worker(HANG, {"write": {"path": "hello.txt", "text": "hello\n"}}), sessions={"interrupted": "again"}
    )
    with stage.start("run", "say hello", "--agent", agent) as process:
        wait_for_event(process, "turn.started")
        run = stage.only_run()
        await until(stage.has_hung)
        with server.live() as socket:
            socket.send(f'{{"sub": "{run}"}}')
            while not receive(socket, "run")["owned"]:
                pass
            killed(process)
            while (told := receive(socket, "run"))["owned"]:
                pass
            assert told["status"] == "interrupted"
    decision = server.get(f"/runs/{run}").json["decision"]
    assert decision["case"] == "auto"
    stale = server.post(f"/runs/{run}/resume", {"expect": decision["expect"] - 1})
    assert (stale.status, stale.json["reason"]) == (409, "moved")
    started = server.post(f"/runs/{run}/resume", {"expect": decision["expect"]})
    assert started.status == 202, started
    assert (await ended(server, run))["status"] == "done"
    assert len(stage.events(run, "session.start")) == 3


async def test_decision_is_asked_for_and_taken(stage: Stage, server: Server) -> None:
    blocked = worker({"mcp": {"tool": "report_blocker", "arguments": {"reason": "no key", "needed": "a key"}}})
    run = stage.run("say hello", "--agent", stage.book(blocked), code=1)
    decision = server.get(f"/runs/{run}").json["decision"]
    assert decision["needs_choice"]
    undecided = server.post(f"/runs/{run}/resume", {})
    assert (undecided.status, undecided.json["reason"]) == (409, "decision")
    assert server.post(f"/runs/{run}/resume", {"choice": "dance"}).status == 422
    assert server.post(f"/runs/{run}/resume", {"choice": "custom"}).status == 422
    skip = next(option for option in decision["options"] if option["choice"] == "skip")
    assert skip["command"] == f"holdfast resume {run} --on-issue skip"
    taken = server.post(f"/runs/{run}/resume", {"choice": "skip", "expect": decision["expect"]})
    assert taken.status == 202, taken
    assert (await ended(server, run))["tasks"][0]["status"] == "SKIPPED"


async def test_stopped_run_outlives_the_server(stage: Stage, server: Server) -> None:
    """Neither the end of the server nor its death ends a run; and its token is not in the runner's environment."""
    agent = stage.book(worker(HANG))
    run = server.post("/runs", request(stage, agent)).json["id"]
    await until(stage.has_hung)
    pid = server.get(f"/runs/{run}").json["owner"]["pid"]
    assert server.token.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
    assert server.token.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
    server.kill()
    os.kill(pid, 0)
    with Server.start(stage.home, "--no-watch") as second:
        assert second.get(f"/runs/{run}").json["status"] == "running"
        assert second.post(f"/runs/{run}/merge", {}).status == 409
        assert second.post(f"/runs/{run}/stop", {}).status == 202
        await until(lambda: second.get(f"/runs/{run}").json["owner"] is None)
        assert second.get(f"/runs/{run}").json["status"] == "stopped"
        assert second.post(f"/runs/{run}/stop", {}).status == 409
        code, err = second.stop()
    assert (code, server.token in err) == (130, False)
    assert branch(run) in stage.project.branches()


async def test_chat_is_started_by_its_message(stage: Stage, server: Server) -> None:
    agent = stage.book({"when": "hello", "steps": [{"say": "hello to you"}]})
    run = server.post("/runs", request(stage, agent, workflow="chat", goal="hello")).json["id"]
    await until(lambda: bool(server.get(f"/runs/{run}/conversations").json["conversations"]))
    (conversation,) = server.get(f"/runs/{run}/conversations").json["conversations"]
    await until(lambda: server.get(f"/runs/{run}/conversations/{conversation['id']}/status").json["turns"] == 1)
    server.post(f"/runs/{run}/stop", {})
    await until(lambda: server.get(f"/runs/{run}").json["status"] != "running")
    sent = server.post(f"/runs/{run}/messages", {"text": "hello again", "conversation": conversation["id"]}, key="m")
    assert sent.status == 202
    await until(lambda: server.get(f"/runs/{run}/conversations/{conversation['id']}/status").json["turns"] == 2)
    server.post(f"/runs/{run}/stop", {})
    await until(lambda: server.get(f"/runs/{run}").json["status"] != "running")
    resumed = server.post(f"/runs/{run}/conversations/{conversation['id']}/resume", {})
    assert (resumed.status, resumed.json["is_agent_running"]) == (202, True), resumed
    assert resumed.json["turns"] == 2
    server.post(f"/runs/{run}/stop", {})
    await until(lambda: server.get(f"/runs/{run}").json["status"] != "running")


def test_settings_are_changed_in_the_users_file(server: Server) -> None:
    file = Path(f"{server.home}.config.toml")
    file.write_text("# mine\nparallel = 3 # three\n\n[caps]\niterations = 4\n", encoding="utf-8")
    assert server.post("/settings", {"key": "parallel", "value": 5}).json["setting"]["value"] == 5
    assert server.post("/settings", {"key": "caps.dollars", "value": 2.5}).json["setting"]["value"] == 2.5
    assert server.post("/settings", {"key": "chat.idle", "value": "1h"}).status == 200
    assert server.post("/settings", {"key": "caps.iterations", "value": None}).status == 200
    for key, value in (("parallel", "many"), ("nonsense", 1), ("x y", 1), ("parallel", 0), ("caps", None)):
        assert server.post("/settings", {"key": key, "value": value}).status in (200, 422)
    text = file.read_text(encoding="utf-8")
    assert text.startswith("# mine\nparallel = 5\n")
    assert "[chat]\nidle" in text


def test_probe_is_followed_live(stage: Stage, server: Server) -> None:
    answer = server.post("/agents/nobody/probe", {})
    assert answer.status == 404
    book = stage.book({"steps": [{"say": "fine"}]}, name="probed")
    config = Path(f"{server.home}.config.toml")
    command = f"{sys.executable} -m holdfast agent playbook {book.partition(':')[2]}"
    config.write_text(f"[agents.mine]\ncommand = {command!r}\n", encoding="utf-8")
    job = server.post("/agents/mine/probe", {}).json["job"]
    with server.live() as socket:
        socket.send(f'{{"sub": "job:{job}"}}')
        while not (told := receive(socket, "job"))["done"]:
            pass
    assert told["error"] is None, told
    assert server.get("/agents").json["agents"][-1]["name"] or told["result"]["turn"]
