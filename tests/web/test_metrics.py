"""`/metrics` for Prometheus: behind the token, and true."""

import re

from tests.cli.runs import DONE, make_run, said, tasks
from tests.web.server import Server, receive

_LINE = re.compile(r'[a-z_]+(\{[a-z]+="(?:[^"\\\n]|\\.)*"\})? [0-9.e+-]+')


def values(server: Server) -> dict[str, float]:
    answer = server.send("GET", "/metrics", server.bearer)
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    lines = answer.body.decode().splitlines()
    named = [line for line in lines if not line.startswith("#")]
    assert all(_LINE.fullmatch(line) for line in named), named
    for line in named:
        assert f"# TYPE {re.split('[{ ]', line)[0]} " in answer.body.decode()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in named}


def test_numbers_are_those_of_the_runs(server: Server) -> None:
    before = values(server)
    make_run(server.home, "counted-hjkmnp", *tasks(3), said("hello"), DONE)
    with server.live() as socket:
        receive(socket, "hello")
        socket.send('{"sub": "counted-hjkmnp"}')
        receive(socket, "run")
        after = values(server)
    assert after['holdfast_runs{status="done"}'] == before.get('holdfast_runs{status="done"}', 0) + 1
    assert after["holdfast_tasks_done"] == before["holdfast_tasks_done"] + 3
    assert after["holdfast_server_clients"] == before["holdfast_server_clients"] + 1
    assert after["holdfast_server_viewers"] == before["holdfast_server_viewers"] + 1
    assert after["process_resident_memory_bytes"] > 1_000_000


def test_metrics_need_the_token(server: Server) -> None:
    for headers in ({}, {"Authorization": "Bearer x"}, {**server.bearer, "Host": "evil.test"}):
        answer = server.send("GET", "/metrics", headers)
        assert answer.status == 403
        assert b"holdfast_runs" not in answer.body
