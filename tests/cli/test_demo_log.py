"""`demo log`: a log that is whole whatever happens to its writers, on this very disk."""

import os
import re
import resource
import select
import shlex
import signal
import sys
from pathlib import Path

import pytest

from tests.cli.program import Program, finished
from tests.cli.runs import log_of
from tests.support.wait import PATIENCE


def test_the_demo_tells_its_story_and_leaves_a_run_to_look_at(holdfast: Program) -> None:
    outcome = holdfast("demo", "log", cold=True)
    out = outcome.out
    assert outcome.err == ""
    assert 'Resume Analysis for feature "auth-system"' in out
    assert len(re.findall(r"pid \d+ +killed after +\d+ acknowledged events; none lost", out)) == 4
    assert "57 bytes of half a line" in out
    assert re.search(r"\d+ events acknowledged, 0 lost, log intact", out)
    (run_id,) = os.listdir(os.path.join(holdfast.home, "runs"))

    assert (
        holdfast("ls", "--json", cold=True).object.items() >= {"id": run_id, "status": "done", "tasks_done": 4}.items()
    )
    assert holdfast("show", "survivor").out.startswith(f"{run_id}  done\n")
    assert re.search(r"\d repaired torn write", holdfast("show", run_id).out), "a kill may tear one more"
    ended = holdfast("logs", run_id, "--type", "session.end", "--json", cold=True).object
    assert ended["data"]["reason"] == "all_done"
    assert holdfast("verify", run_id).out.startswith(f"intact  {run_id}")
    assert len(holdfast("ls", "--search", "line 7 north", "--json", cold=True).objects) == 4
    steps = out.partition("Look at the run:\n")[2].splitlines()
    assert len(steps) == 4
    for step in steps:  # they work as they stand
        program, _, arguments = step.strip().partition("holdfast ")
        assert program in ("", f"{sys.executable} -m "), step
        holdfast(*shlex.split(arguments))


def test_quiet_tells_the_verdict_only(holdfast: Program) -> None:
    (line,) = holdfast("demo", "log", "--quiet", cold=True).lines
    assert re.fullmatch(r"survivor-\w{6}: \d{4} events acknowledged, 0 lost, log intact", line)


def test_json_is_one_object(holdfast: Program) -> None:
    found = holdfast("demo", "log", "--json", cold=True).object
    assert (found["lost"], found["whole"]) == (0, True)
    assert found["acknowledged"] >= 1000
    assert log_of(holdfast.home, found["run"]).is_file()


def test_a_home_that_may_not_be_written_is_told_in_one_line(holdfast: Program) -> None:
    os.makedirs(holdfast.home)
    os.chmod(holdfast.home, 0o500)
    complaint = holdfast("demo", "log", "--quiet", unprivileged=True, code=1).complaint
    assert complaint.startswith(f"cannot create {holdfast.home}")


@pytest.mark.parametrize("limit", [3_000, 30_000])
def test_a_disk_that_takes_no_more_is_told_in_one_line(holdfast: Program, limit: int) -> None:
    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    complaint = holdfast("demo", "log", "--quiet", preexec_fn=small_files, code=1).complaint
    assert "File too large" in complaint
    assert "events.jsonl" in complaint


def test_ctrl_c_ends_it_at_once_and_leaves_no_writer_behind(holdfast: Program) -> None:
    with holdfast.start("demo", "log", env={"PYTHONUNBUFFERED": "1"}) as process:
        assert process.stdout is not None
        while b"killed after" not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGINT)
        assert finished(process, code=130).err == ""
    for pid in writers_of(holdfast.home):  # at the latest when it finds its reader gone
        wait_for_the_end_of(pid)


def writers_of(home: str) -> list[int]:
    """Processes that were started to write into this home."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue  # it ended meanwhile
        if os.fsencode(home) in command:
            found.append(int(folder.name))
    return found


def wait_for_the_end_of(pid: int) -> None:
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        ended, _, _ = select.select([process], [], [], PATIENCE)
        assert ended, f"pid {pid} lives on"
    finally:
        os.close(process)
