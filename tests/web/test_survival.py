"""The server is killed: runs do not notice, clients continue where they were, and another supervisor takes over."""

import json
import os
import signal
from typing import Any

from tests.support.cli_stage import HANG, Stage, worker
from tests.support.wait import until
from tests.web.server import Server, receive, stream

ASK = {"permission": {"title": "Continue", "kind": "other", "allowed": [{"say": "yes"}], "rejected": [{"say": "no"}]}}
TALK = [
    step for number in range(60) for step in ({"say": f"say {number}\n"}, {"write": {"path": "n", "text": str(number)}})
]


def lines_in_log(stage: Stage, run: str) -> list[tuple[str, int]]:
    return [(event["sid"], event["seq"]) for event in stage.events(run)]


def seen(lines: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return [(line["event"]["sid"], line["event"]["seq"]) for line in lines]


async def test_clients_of_a_killed_server_get_every_event_once(stage: Stage, port: int) -> None:
    """By the stream and by the WebSocket, in the order of the log; and the runner is the same as before."""
    os.makedirs(stage.home, exist_ok=True)
    agent = stage.book(worker(*TALK, ASK, *TALK))
    with Server.start(stage.home, "--no-watch", port=port) as first:
        body = {"goal": "talk", "repo": stage.project.path, "agent": agent}
        run = first.post("/runs", body).json["id"]
        streamed = stream(first, run, 0, 40)
        with first.live() as live:
            live.send(json.dumps({"sub": run, "after": 0}))
            message = receive(live, "events")
            pushed, position = message["lines"], message["end"]
            first.kill()
    with Server.start(stage.home, "--no-watch", port=port) as second:
        await until(lambda: bool(second.get(f"/runs/{run}").json["needs"]))
        detail = second.get(f"/runs/{run}").json
        answer = {"request": detail["needs"][0]["key"], "allow": True}
        assert second.post(f"/runs/{run}/answers", answer, key="a").status == 202
        await until(lambda: second.get(f"/runs/{run}").json["owner"] is None)
        expected = lines_in_log(stage, run)
        with second.live() as live:
            live.send(json.dumps({"sub": run, "after": position}))
            while len(pushed) < len(expected):
                message = receive(live, "events")
                assert message["start"] == position
                position = message["end"]
                pushed += message["lines"]
        last = {"Last-Event-ID": str(streamed[-1]["id"])}
        streamed += stream(second, run, None, len(expected) - len(streamed), last)
        assert second.get(f"/runs/{run}").json["status"] == "done"
    assert seen(streamed) == expected
    assert seen(pushed) == expected
    (session,) = [data for data in stage.data(run, "session.start") if data["command"] != "plan"]
    assert session["pid"] == detail["owner"]["pid"]


async def test_one_of_several_supervisors_resumes_a_run(stage: Stage) -> None:
    """Of two servers and `watch` one resumes it, once; when that is killed, another does."""
    os.makedirs(stage.home, exist_ok=True)
    agent = stage.book(worker(HANG), sessions={"interrupted": "again"})
    options = ("--set", "resume.back_off=0", "--detach", "--json")
    began = stage.holdfast("run", "hang", "--agent", agent, *options).object
    run = began["run"]
    await until(stage.has_hung)
    with Server.start(stage.home) as first, Server.start(stage.home) as second:
        await until(lambda: first.get("/server").json["supervising"] or second.get("/server").json["supervising"])
        assert first.get("/server").json["supervising"] is not second.get("/server").json["supervising"]
        active, waiting = (first, second) if first.get("/server").json["supervising"] else (second, first)
        with stage.start("watch") as watch:
            os.kill(began["pid"], signal.SIGKILL)
            await until(lambda: len(stage.data(run, "session.start")) == 3)
            active.kill()
            watch.send_signal(signal.SIGTERM)  # it may have been quicker than the other server
            watch.communicate()
            await until(lambda: waiting.get("/server").json["supervising"])
        await until(lambda: waiting.get(f"/runs/{run}").json["status"] == "done")
    assert len(stage.data(run, "session.start")) == 3
