"""The commands on runs in a database, as a user types them; and what happens to agents when it is out of reach."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.leaf.process.env_markers import RUN_MARK, marked_processes
from tests.cli.program import finished
from tests.store.postgres.conftest import stage_on
from tests.support.cli_stage import HANG, HELLO, Stage, killed, wait_for_event, worker
from tests.support.postgres import PostgresServer, postgres_server, programs_folder
from tests.support.wait import PATIENCE, at_some_pace, until

HANGS = worker({"hang": {"how": "turn", "seconds": 3600}})


def test_work_is_done_shown_searched_messaged_rewound_forked_merged_and_reset(stage: Stage) -> None:
    more = {"when": "and say goodbye", "steps": [{"write": {"path": "bye.txt", "text": "bye\n"}}, {"say": "goodbye"}]}
    run = stage.run("say hello", "--agent", stage.book(more, HELLO))
    assert stage.file(run, "hello.txt") == "hello"
    holdfast = stage.holdfast
    assert [row["id"] for row in holdfast("ls", "--json").objects] == [run]
    assert "all done" in holdfast("show", run).out or "done" in holdfast("show", run).out
    assert holdfast("logs", run, "--json").out.encode() == stage.log(run)
    assert "[done]" in holdfast("ls", "--search", "done").out
    assert "intact" in holdfast("verify", run).out
    assert "COMPLETE" in holdfast("analyze", run).out
    assert "+hello" in holdfast("diff", run).out
    holdfast("send", run, "and say goodbye")
    assert stage.resume(run)["ended"] == "all_done"
    assert stage.file(run, "bye.txt") == "bye"
    assert holdfast("show", run, "--points", "--json").objects[-1]["label"] == "start"
    holdfast("rewind", run, "--to", "turn-1", "-y")
    assert holdfast("ls", "--json").object["status"] == "rewound"
    assert "goodbye" not in holdfast("logs", run).out
    assert holdfast("ls", "--search", "goodbye").lines == []
    holdfast("rewind", run, "--undo", "-y")
    assert holdfast("ls", "--json").object["status"] == "done"
    assert stage.file(run, "bye.txt") == "bye"
    holdfast("rewind", run, "--to", "turn-1", "-y")
    holdfast("send", run, "and say goodbye")
    assert stage.resume(run)["ended"] == "all_done"
    assert stage.file(run, "bye.txt") == "bye"
    forked = str(holdfast("fork", run, "--json").object["run"])
    assert {row["id"] for row in holdfast("ls", "--json").objects} == {run, forked}
    holdfast("export", run, "-o", os.path.join(stage.folder, "page.html"))
    holdfast("merge", run)
    assert "intact" in holdfast("verify", run).out
    holdfast("reset", forked, "-y")
    holdfast("archive", run)
    holdfast("reset", run, "-y")
    assert holdfast("ls", "--json").out == ""
    assert os.listdir(os.path.join(stage.home, "runs")) == []


def test_run_that_hangs_is_seen_as_running_and_stopped_from_outside(stage: Stage) -> None:
    with stage.start("run", "hang", "--agent", stage.book(HANGS)) as process:
        wait_for_event(process, "message.recorded", speaker="user")
        (row,) = stage.holdfast("ls", "--json").objects
        assert row["status"] == "running"
        assert stage.holdfast("resume", row["id"], code=5).complaint.startswith(f"run {row['id']} is owned by pid")
        stage.holdfast("stop", row["id"])
        finished(process, process.wait(PATIENCE))
    assert stage.holdfast("ls", "--json").objects[0]["status"] == "stopped"


def test_killed_runner_is_resumed_at_once_on_its_own_machine(stage: Stage) -> None:
    with stage.start("run", "hang", "--agent", stage.book(worker(HANG, {"say": "done"}))) as process:
        stage.hangs()
        killed(process)
    assert stage.holdfast("ls", "--json").objects[0]["status"] == "interrupted"
    assert stage.resume(stage.only_run())["ended"] == "all_done"
    assert stage.data(stage.only_run(), "session.start")[-1]["command"] == "resume"


def test_agents_do_not_see_the_way_to_the_store(stage: Stage) -> None:
    names = "HOLDFAST_STORE|PGPASSWORD|PGPASSFILE"
    parent = "tr '\\0' '\\n' < /proc/$PPID/cmdline"
    look = f"env | grep -E '{names}' > seen.txt; {parent} | grep -F postgresql: >> seen.txt; true"
    seen = {"run": look}
    agent = stage.book(worker(seen, {"write": {"path": "done.txt", "text": "x\n"}}))
    run = stage.run("look", "--agent", agent, env={"PGPASSWORD": "geheim", "PGPASSFILE": "/root/pass"})
    assert stage.file(run, "seen.txt") == ""
    assert b"geheim" not in stage.log(run)
    assert b"postgresql://" not in stage.log(run)


def test_doctor_and_config_name_the_store_and_whether_it_answers(stage: Stage) -> None:
    assert "0 runs in Postgres 18" in stage.holdfast("doctor").err
    assert "0 runs in Postgres 18" in stage.holdfast("config", "store").err
    away = {"HOLDFAST_STORE": "postgresql://me:geheim@127.0.0.1:1/work"}
    told = stage.holdfast("doctor", env=away, code=1)
    assert "postgresql://me@127.0.0.1:1/work" in told.out
    assert "does not answer" in told.out
    assert "geheim" not in told.out + told.err
    assert "does not answer" in stage.holdfast("ls", env=away, code=1).complaint


def test_listing_runs_in_files_loads_no_driver(stage: Stage) -> None:
    code = (
        "import sys, holdfast.app.cli.main as main; sys.argv = ['holdfast', 'ls']\n"
        "try: main.main(['ls'])\nexcept SystemExit: pass\n"
        "print([name for name in ('asyncpg', 'temporalio', 'asyncio', 'ssl') if name in sys.modules], file=sys.stderr)"
    )
    environment = stage.holdfast.environment()
    del environment["HOLDFAST_STORE"]
    command = [sys.executable, "-P", "-c", code]
    told = subprocess.run(command, env=environment, cwd=stage.folder, capture_output=True, text=True, check=True)
    assert told.stderr.splitlines()[-1] == "[]"


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    if programs_folder() is None:
        pytest.skip("NOT TESTED: the store on Postgres; there is no Postgres for this platform")
    with postgres_server() as server:
        yield server


async def test_agents_are_dead_before_the_lease_ends_when_the_store_is_out_of_reach(
    server: PostgresServer, tmp_path: Path
) -> None:
    """Frozen, not stopped: as in a network that is cut, nobody is told anything."""

    async def attempt(slower: int) -> None:
        folder, lease_s = os.path.join(tmp_path, str(slower)), 4.0 * slower
        os.mkdir(folder)
        stage = stage_on(server.new_store_url(), folder, None)
        agent = stage.book(HANGS)
        with stage.start("run", "hang", "--agent", agent, env={"HOLDFAST_LEASE": str(lease_s)}) as process:
            wait_for_event(process, "message.recorded", speaker="user")
            run = stage.only_run()
            assert marked_processes(RUN_MARK, run)
            server.freeze()
            frozen_at = time.monotonic()
            try:
                await until(lambda: not marked_processes(RUN_MARK, run))
                assert time.monotonic() - frozen_at < lease_s, "another machine may own the run by now"
            finally:
                server.thaw()
            told = finished(process, 5)
            assert "is not ours any more" in told.err
        assert stage.holdfast("ls", "--json").objects[0]["status"] == "interrupted"

    await at_some_pace(attempt)
