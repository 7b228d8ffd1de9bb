"""`selftest`: a verdict about this disk, and nothing left behind."""

import asyncio
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.program import Program, finished
from tests.cli.terminal import shown
from tests.support.memory import in_memory
from tests.support.wait import until

CHECKS = [
    *("file system", "room", "fdatasync", "kill -9", "rename", "append"),
    *("flock", "inotify", "processes", "tree kill", "clock", "git", "resume"),
]


@pytest.fixture
def tmp_path(disk: Path) -> Path:
    """In memory it says, and rightly, that nothing holds there."""
    return disk


def test_every_check_is_one_object_and_nothing_is_left_behind(holdfast: Program) -> None:
    found = holdfast("selftest", "--quick", "--json", cold=True).objects
    assert [one["check"] for one in found] == CHECKS
    assert {one["at"] for one in found} == {holdfast.home}
    assert all(one["measured"] for one in found)
    assert not os.path.exists(holdfast.home)


@pytest.mark.parametrize("span", ["1s", "0s"])
def test_doubt_about_the_resume_is_no_success(holdfast: Program, span: str) -> None:
    """However slow this machine is, or how quick: in a second nobody shows that killed runs come back."""
    found = {one["check"]: one for one in holdfast("selftest", "--time", span, "--json", code=1, cold=True).objects}
    assert [*found] == CHECKS
    assert found["resume"]["verdict"] == "doubt"
    assert found["resume"]["advice"].endswith("holdfast selftest --time 1m")
    assert not os.path.exists(holdfast.home)
    told = holdfast("selftest", "--time", span, code=1, cold=True).lines[-1]
    assert told.startswith("No result: resume.")
    assert "Passed" not in told


def test_deadline_in_a_later_run_is_doubt_too(holdfast: Program) -> None:
    """The first run came back; the second one may hang in its recovery."""
    with holdfast.start("selftest", "--time", "30m", "--json") as process:
        asyncio.run(until(lambda: any(Path(holdfast.home).glob("selftest-*/play-2"))))
        process.send_signal(signal.SIGALRM)  # as the kernel does at the deadline
        found = {one["check"]: one for one in finished(process, code=1).objects}
    assert found["resume"]["verdict"] == "doubt"
    assert found["resume"]["advice"].endswith("holdfast selftest --time 1h")


def test_a_span_that_is_none(holdfast: Program) -> None:
    assert "is not a duration" in holdfast("selftest", "--time", "soon", code=2).complaint


@pytest.mark.torture
def test_people_get_a_line_a_check_within_eighty_columns(holdfast: Program) -> None:
    shows = shown(holdfast, "selftest", NO_COLOR="1")
    assert "… resume\r" in shows
    lines = [line.rpartition("\x1b[K")[2] for line in shows.splitlines()]
    assert [line[7:18].strip() for line in lines[1:] if line[:5] in ("holds", "doubt")] == CHECKS
    assert [line for line in lines[1:] if len(line) > 80] == []
    assert lines[-1].startswith("Passed: ")


@pytest.mark.torture
def test_a_repository_on_another_disk_is_looked_at_too(holdfast: Program) -> None:
    with in_memory() as folder:
        if os.stat(folder).st_dev == os.stat(holdfast.cwd).st_dev:
            pytest.skip("NOT TESTED: there is no second file system here")
        subprocess.run(["git", "init", "--quiet", folder], check=True)
        found = holdfast.elsewhere(cwd=folder)("selftest", "--quick", "--json", code=1, cold=True).objects
        git = os.path.join(folder, ".git")
        assert [one["check"] for one in found if one["at"] == git] == CHECKS[:6]
        assert {one["check"] for one in found if one["verdict"] == "fails"} == {"file system"}  # it is in memory
        assert not [name for name in os.listdir(git) if name.startswith("selftest")]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_one_that_is_cut_off(holdfast: Program, number: int) -> None:
    """Interrupted, it tidies up; killed, the next one does."""
    os.makedirs(holdfast.home)
    with holdfast.start("selftest", "--json") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(number)
        process.wait()
    left = os.listdir(holdfast.home)
    assert (process.returncode, len(left)) == ((130, 0) if number == signal.SIGINT else (-number, 1))
    with holdfast.start("selftest", "--json") as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert not set(left) & set(os.listdir(holdfast.home))
        process.send_signal(signal.SIGINT)
        finished(process, 130)
    assert os.listdir(holdfast.home) == []


def test_a_folder_that_is_not_there(holdfast: Program, tmp_path: Path) -> None:
    assert "is not an existing folder" in holdfast("selftest", "--at", str(tmp_path / "none"), code=2).complaint
