"""What is pushed: to the page over one WebSocket, to programs as a stream of events."""

import json
from typing import Any

import pytest
from websockets.sync.client import ClientConnection

from tests.cli.runs import DONE, make_run, resume_run, said
from tests.web.conftest import RUN
from tests.web.server import Server, receive, stream


def subscribe(socket: ClientConnection, name: str, after: int | None = None) -> None:
    socket.send(json.dumps({"sub": name, "after": after}))


def texts(lines: list[Any]) -> list[str]:
    return [line["event"]["data"]["text"] for line in lines if line["event"]["type"] == "message.recorded"]


def test_board_tells_all_runs_and_then_only_what_changed(server: Server) -> None:
    with server.live() as socket:
        assert receive(socket, "hello")["server"] == server.get("/server").json["server"]
        subscribe(socket, "board")
        first = receive(socket, "board")
        assert first["full"]
        make_run(server.home, "second-bcdefg", DONE)
        changed: set[str] = set()
        while "second-bcdefg" not in changed:  # what the test before did to a run may be told now
            change = receive(socket, "board")
            assert not change["full"]
            changed |= {row["id"] for row in change["runs"]}
        assert RUN not in changed


def test_lines_follow_a_position_without_gaps_or_repeats(server: Server) -> None:
    run = make_run(server.home, "lines-cdefgh", *(said(f"say {number}") for number in range(300)))
    page = server.get(f"/runs/{run}/events?limit=1").json
    assert page["has_older"]
    with server.live() as socket:
        subscribe(socket, run, 0)
        position, found = 0, list[Any]()
        while position < page["end"]:
            message = receive(socket, "events")
            assert message["start"] == position
            position = message["end"]
            found += message["lines"]
        resume_run(server.home, run, said("later"))
        while "later" not in texts(found):
            message = receive(socket, "events")
            assert message["start"] == position
            position = message["end"]
            found += message["lines"]
    assert texts(found) == [*(f"say {number}" for number in range(300)), "later"]
    assert found[-1]["position"] == position


def test_hints_and_pages_agree_about_positions(server: Server) -> None:
    """Pages backwards, pages forwards and the stream give the same lines."""
    run = make_run(server.home, "pages-defghj", *(said(f"say {number}") for number in range(100)), DONE)
    whole = server.get(f"/runs/{run}/events?limit=500").json["lines"]
    back: list[Any] = []
    before = ""
    while True:
        page = server.get(f"/runs/{run}/events?limit=7{before}").json
        back = page["lines"] + back
        before = f"&before={page['start']}"
        if not page["has_older"]:
            break
    forth: list[Any] = []
    after = 0
    while True:
        page = server.get(f"/runs/{run}/events?limit=9&after={after}").json
        forth += page["lines"]
        after = page["end"]
        if not page["has_newer"]:
            break
    assert back == forth == whole
    assert [line["id"] for line in stream(server, run, 0, len(whole))] == [line["position"] for line in whole]


def test_page_has_only_what_was_asked_for(server: Server) -> None:
    run = make_run(server.home, "asked-efghjk", said("one"), DONE)
    lines = server.get(f"/runs/{run}/events?types=session.*").json["lines"]
    assert [line["event"]["type"] for line in lines] == ["session.start", "session.end"]
    lines = server.get(f"/runs/{run}/events?conversation=c").json["lines"]
    assert texts(lines) == ["one"]
    assert server.get(f"/runs/{run}/events?conversation=d").json["lines"] == []


@pytest.mark.parametrize("query", ["before=-1", "after=x", "after=999999999", "limit=x", "abandoned=maybe"])
def test_wrong_page_is_one_clear_error(server: Server, query: str) -> None:
    answer = server.get(f"/runs/{RUN}/events?{query}")
    assert answer.status in (404, 422)
    assert answer.json["error"]


def test_stream_continues_after_the_last_id(server: Server) -> None:
    run = make_run(server.home, "stream-ghjkmn", *(said(f"say {number}") for number in range(20)))
    first = stream(server, run, 0, 10)
    resume_run(server.home, run, said("later"))
    rest = stream(server, run, None, 14, {"Last-Event-ID": str(first[-1]["id"])})
    spoken = [each["event"]["data"]["text"] for each in first + rest if each["event"]["type"] == "message.recorded"]
    assert spoken == [*(f"say {number}" for number in range(20)), "later"]


def test_nonsense_is_answered_and_does_not_end_the_connection(server: Server) -> None:
    with server.live() as socket:
        for text in ("", "{", "[]", '{"sub": 7}', '{"sub": "../x"}', '{"sub": "job:x"}', "\0", '{"after": 1e99}'):
            socket.send(text)
        for _ in range(8):
            assert receive(socket, "error")["error"]
        socket.send('{"ping": 3}')
        assert receive(socket, "pong")["ping"] == 3
