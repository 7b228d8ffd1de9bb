"""Facts of processes: which of them live, and which came of which."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

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
from holdfast.leaf.process.proc import START_TIME, pids, stat_fields
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


def test_a_scan_for_younger_processes_finds_one_that_has_the_pid_of_an_older() -> None:
    """The older was seen by an earlier scan; a scan reads no process twice."""
    sleep = ["sleep", "600"]
    for _ in range(100):  # another process of the machine may take the pid first
        with subprocess.Popen(sleep) as old:
            first = identify(old.pid)
            assert first is not None
            assert old.pid in pids(first.start_time)
            assert old.pid not in pids(first.start_time + 1)
            old.kill()
        _wait_until_after(first.start_time)
        if not _next_pid_will_be(old.pid):
            pytest.skip("the next pid can only be chosen by root")
        with subprocess.Popen(sleep) as young:
            second = identify(young.pid)
            assert second is not None
            found = young.pid in pids(first.start_time + 1)
            table = ProcessTable(first.start_time + 1).children_of(own_identity())
            young.kill()
        assert found
        assert second in table
        if young.pid == old.pid:
            return
    pytest.fail("no process had the pid of the one before it")


def _next_pid_will_be(pid: int) -> bool:
    try:
        Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1), encoding="ascii")
    except OSError:
        return False
    return True


def _wait_until_after(start_time: int) -> None:
    """Until a process that starts now has a later start time; the kernel counts in hundredths of a second."""
    while True:
        with subprocess.Popen(["true"]) as process:
            fields = stat_fields(process.pid)
        if fields is not None and int(fields[START_TIME]) > start_time:
            return


def test_a_table_of_younger_processes_has_all_that_came_of_them() -> None:
    with subprocess.Popen(
        ["sh", "-c", "sleep 600 & echo $!; wait"], stdout=subprocess.PIPE, start_new_session=True
    ) as shell:
        try:
            assert shell.stdout is not None
            sleep, root = identify(int(shell.stdout.readline())), identify(shell.pid)
            assert root is not None
            for _ in range(2):
                table = ProcessTable(root.start_time)
                assert table.descendants(root) == [sleep]
                assert root in table.children_of(own_identity())
                assert root.pid in table.pids_since(root.start_time)
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
