"""Stopping runs whose database many machines share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.postgres.test_shared_limits import other_machine
from tests.support.cli_stage import Stage, worker
from tests.support.cluster import Cluster
from tests.support.postgres import PostgresServer
from tests.web.server import Server

__all__ = ["other_machine"]

_NO_ENGINE = "temporal://127.0.0.1:9/nothing"


@pytest.fixture
def cluster(tmp_path: Path, postgres: PostgresServer) -> Iterator[Cluster]:
    """Nothing places its runs: they wait."""
    found = Cluster(str(tmp_path), postgres.new_store_url(), _NO_ENGINE)
    try:
        yield found
    finally:
        found.close()


async def test_page_stops_a_run_that_waits_for_a_worker_as_the_command_does(cluster: Cluster) -> None:
    cluster.holdfast("run", "write hello.txt", "--on", "cluster", "--agent", cluster.book(), code=1)
    (run_id,) = await cluster.home.store.run_ids()
    assert await cluster.status(run_id) == "planned"
    environment = {**cluster.environment, "HOLDFAST_HOME": cluster.home.path}
    with Server.start(cluster.home.path, environment=environment) as server:
        answer = server.post(f"/runs/{run_id}/stop", {})
        assert (answer.status, answer.json) == (202, {"message": None})
        assert await cluster.status(run_id) == "stopped"


def test_stop_all_stops_the_runs_of_this_machine_and_names_the_others(stage: Stage, other_machine: Stage) -> None:
    agent = stage.book(worker({"hang": {"how": "turn", "seconds": 3600}}))
    mine, theirs = (
        str(each.holdfast("run", "hang", "--agent", agent, "--detach", "--json").object["run"])
        for each in (stage, other_machine)
    )
    stopped = stage.holdfast("stop", "--all")
    assert f"{mine} stopped" in stopped.out
    assert theirs not in stopped.out
    assert f"{theirs} continues" in stopped.err
    assert "holdfast stop --all --everywhere" in stopped.err
    (left,) = stage.holdfast("stop", "--all", "--json", code=4).objects
    assert (left["run"], left["stopped"]) == (theirs, False)
    (told,) = stage.holdfast("stop", "--all", "--everywhere", "--json").objects
    assert (told["run"], told["stopped"]) == (theirs, True)
