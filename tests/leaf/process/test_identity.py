"""Facts of processes: which of them live, and which came of which."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from holdfast.leaf.process.env_markers import marked_processes
from holdfast.leaf.process.fd_marker import marker_fds, processes_holding
from holdfast.leaf.process.identity import (
    ProcessIdentity,
    ProcessTable,
    identify,
    is_working_in,
    kill_processes,
    kill_until_none_left,
    own_identity,
)
from tests.support.lingering_threads import FIRST_THREAD_LEAVES

MARK = "HOLDFAST_TEST_MARK"


def test_a_process_lives_as_long_as_any_of_its_threads(tmp_path: Path) -> None:
    """Its first one shows nothing any more, but for its end."""
    tether = os.fspath(tmp_path / "tether")
    with marker_fds(tether) as held:
        program = subprocess.Popen(
            [sys.executable, "-c", FIRST_THREAD_LEAVES],
            env={MARK: os.fspath(tmp_path)},
            pass_fds=held,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
        )
    with program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline()
            identity = identify(program.pid)
            assert identity is not None
            assert marked_processes(MARK, os.fspath(tmp_path)) == processes_holding(tether) == [identity]
            assert is_working_in(program.pid, os.fspath(tmp_path))
            assert identity in ProcessTable().descendants(own_identity())
            assert kill_processes([identity]) == []
            assert not identity.is_alive()
        finally:
            program.kill()


def test_all_that_came_of_a_process_is_found_at_once() -> None:
    script = "sleep 600 & echo $!; wait"
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, start_new_session=True) as shell:
        try:
            assert shell.stdout is not None
            sleep = int(shell.stdout.readline())
            families, root = ProcessTable(), identify(shell.pid)
            assert root is not None
            assert families.descendants(root) == [identify(sleep)]
            assert root in families.children_of(own_identity())
            assert {root, identify(sleep)} <= {*families.descendants(own_identity())}
            assert families.descendants(root._replace(start_time=root.start_time - 1)) == [], (
                "another had that pid before"
            )
        finally:
            os.killpg(shell.pid, 9)


def test_more_processes_are_ended_at_once_than_files_may_be_open(tmp_path: Path) -> None:
    value = os.fspath(tmp_path)
    script = "for _ in $(seq 100); do sleep 600 & done"
    subprocess.run(["sh", "-c", script], env={**os.environ, MARK: value}, check=True)
    assert len(marked_processes(MARK, value)) == 100
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))\n"
        "from holdfast.leaf.process.env_markers import marked_processes\n"
        "from holdfast.leaf.process.identity import kill_processes\n"
        f"print(kill_processes(marked_processes({MARK!r}, {value!r})))"
    )
    try:
        told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert told.stdout == "[]\n", told.stderr
        assert marked_processes(MARK, value) == []
    finally:
        kill_processes(marked_processes(MARK, value))


def test_who_was_missed_once_is_looked_for_again() -> None:
    """Somebody who is another process every moment may be missed by a look, and be there in the next."""
    with subprocess.Popen(["sleep", "600"]) as one, subprocess.Popen(["sleep", "600"]) as other:
        looks = iter([[one], [], [], [other], [], [], []])
        try:
            assert (
                kill_until_none_left(lambda: [identity for each in next(looks) if (identity := identify(each.pid))])
                == []
            )
            assert [one.wait(), other.poll()] == [-signal.SIGKILL] * 2
            assert next(looks, None) is None
        finally:
            one.kill()
            other.kill()


def test_where_nobody_was_found_one_look_is_enough() -> None:
    looks: Iterator[list[ProcessIdentity]] = iter([[]])
    assert kill_until_none_left(lambda: next(looks)) == []
