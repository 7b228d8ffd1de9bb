"""A file that a process was given to hold: by it alone one is found that shed its environment and went elsewhere."""

import asyncio
import io
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.agents.builtin.shell import Shell
from holdfast.agents.launch import Launch
from holdfast.agents.process.tree import spawn
from holdfast.engine.workspace.effects import fence
from holdfast.leaf.process.fd_marker import is_open_in_any_process, marker_fds, processes_holding
from holdfast.leaf.process.identity import ProcessIdentity, identify
from holdfast.leaf.process.proc import pids
from tests.agents.company import is_alive
from tests.support.hopping_process import hopping

STRAY = """
setsid env -i sh -c 'cd /; exec sleep 600' >/dev/null 2>&1 &
until [ "$(readlink /proc/$!/cwd)" = / ]; do :; done
echo $!
"""
LIKE_NODE = f"""
import contextlib, os, subprocess, sys
for fd in range(3, 100):
    with contextlib.suppress(OSError):
        os.set_inheritable(fd, False)
subprocess.run(["sh", "-c", {STRAY!r}], close_fds=False)
sys.stdin.read()
"""


@pytest.fixture
def tether(tmp_path: os.PathLike[str]) -> str:
    return os.path.join(tmp_path, "tether")


def marked_as(tether: str, name: str) -> str:
    """A mark that no tree of another test has, which may run beside this one."""
    return f"{tether}/{name}"


def launch(tether: str, name: str, *command: str) -> Launch:
    return Launch(command, os.path.dirname(tether), {}, marked_as(tether, name), fd_marker=tether)


@pytest.mark.parametrize(
    "command",
    [
        ("sh", "-c", f"({STRAY}); sleep 600"),
        ("sh", "-c", STRAY),
        ("bash", "-c", f"exec 200>lock; {STRAY}"),
        (sys.executable, "-IS", "-c", LIKE_NODE),
    ],
    ids=[
        "while its root lives",
        "when its root has left",
        "after a script took the number that all scripts take",
        "let through by an agent that hides what is its own",
    ],
)
async def test_who_went_elsewhere_without_a_trace_dies_with_its_tree_and_no_other(
    tether: str, command: tuple[str, ...]
) -> None:
    async with spawn(launch(tether, "other", "sh", "-c", f"{STRAY} sleep 600")) as other:
        spared = int(await other.stdout.readline())
        async with spawn(launch(tether, "one", *command)) as tree:
            stray = int(await tree.stdout.readline())
        assert not is_alive(stray)
        assert is_alive(spared)
    assert not is_alive(spared)


async def test_who_shed_all_else_and_is_another_process_every_moment_dies_with_its_tree(tether: str) -> None:
    with hopping(os.path.dirname(tether)) as hopper:
        script = f"cd /; setsid env -i {shlex.join(hopper)}; echo; exec sleep 600"
        async with spawn(launch(tether, "one", "sh", "-c", script)) as tree:
            await tree.stdout.readline()
        for _ in range(20):
            assert processes_holding(tether) == []


async def test_what_the_built_in_agents_shell_left_is_found_when_all_are_dead(tether: str) -> None:
    folder = os.path.dirname(tether)
    code = (
        f"import asyncio; print(asyncio.run({Shell(folder, dict(os.environ), 's')!r}.run({STRAY!r}, 'c', 20)).output)"
    )
    names = f"from {Shell.__module__} import Shell; "
    with marker_fds(tether) as held:
        agent = subprocess.run(
            [sys.executable, "-c", names + code], pass_fds=held, capture_output=True, text=True, check=True
        )
    stray = int(agent.stdout)
    assert is_alive(stray)
    await asyncio.to_thread(fence, "a run", tether)
    assert not is_alive(stray)


def test_who_only_reads_it_does_not_hold_it(tether: str) -> None:
    Path(tether).touch()
    with subprocess.Popen(["tail", "-f", tether], stdout=subprocess.DEVNULL) as reader:
        try:
            while not is_open_in_any_process(tether):
                assert reader.poll() is None
            assert processes_holding(tether) == []
            fence("a run", tether)
            assert is_alive(reader.pid)
        finally:
            reader.kill()


def test_who_only_asks_about_a_file_does_not_have_it_open(tether: str) -> None:
    """Several may ask at once."""
    Path(tether).touch()
    asking = os.open(tether, os.O_PATH)
    assert not is_open_in_any_process(tether)
    os.close(asking)
    with open(tether, encoding="utf-8"):
        assert is_open_in_any_process(tether)


def test_it_is_held_where_few_files_may_be_open(tether: str) -> None:
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
        "from holdfast.leaf.process.fd_marker import is_open_in_any_process, marker_fds, processes_holding\n"
        f"path = {tether!r}\n"
        "with marker_fds(path, 'a mark'):\n"
        "    print(len(processes_holding(path, 'a mark')), processes_holding(path, 'another'))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "1 []\n"


@contextmanager
def holder(tether: str, mark: str, program: str = "input()") -> Iterator[ProcessIdentity]:
    """A process that was given the tether, as an agent is."""
    with marker_fds(tether, mark) as held:
        process = subprocess.Popen([sys.executable, "-IS", "-c", program], pass_fds=held, stdin=subprocess.PIPE)
    with process:
        try:
            identity = identify(process.pid)
            assert identity is not None
            yield identity
        finally:
            process.kill()


def test_who_started_before_the_first_that_was_given_it_is_not_looked_at(tether: str) -> None:
    with holder(tether, "a mark") as early:
        assert processes_holding(tether, "a mark", pids(early.start_time)) == [early]
        assert processes_holding(tether, "a mark", pids(early.start_time + 1)) == []


def test_it_is_found_where_links_do_not_show_how_a_file_is_open(tether: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on gVisor, where every link shows all permissions."""
    real = os.lstat
    monkeypatch.setattr(os, "lstat", lambda path: os.stat_result((0o120777, *real(path)[1:])))
    with holder(tether, "a mark") as found:
        assert processes_holding(tether, "a mark", pids(found.start_time)) == [found]


async def test_a_tree_spares_who_was_there_before_it(tether: str) -> None:
    with holder(tether, marked_as(tether, "one")) as early:
        later = early
        while later.start_time == early.start_time:  # the kernel counts in hundredths of a second
            async with spawn(launch(tether, "other", "sleep", "600")) as other:
                later = other.identity
        async with spawn(launch(tether, "one", "sleep", "600")):
            pass
        assert is_alive(early.pid)


def test_who_opens_and_closes_files_all_the_time_is_found_every_time(tether: str) -> None:
    busy = "import os\nwhile True:\n  for fd in [os.dup(0) for _ in range(9)]: os.close(fd)"
    with holder(tether, "a mark", busy) as busy_one:
        assert all(processes_holding(tether, "a mark", pids(busy_one.start_time)) == [busy_one] for _ in range(300))


def test_files_that_are_not_the_tether_are_not_touched(tether: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them may be on a server that does not answer, and would make us wait for ever."""
    touched: list[str] = []
    real = os.stat

    def stat(path: str, **how: Any) -> os.stat_result:
        touched.append(path)
        return real(path, **how)

    with holder(tether, "a mark", "file = open('/dev/full', 'w'); input()") as found:
        while not is_open_in_any_process("/dev/full"):
            pass
        monkeypatch.setattr(os, "stat", stat)
        assert processes_holding(tether, candidates=pids(found.start_time)) == [found]
        assert is_open_in_any_process(tether)
    assert len({path for path in touched if path.startswith(f"/proc/{found.pid}/fd/")}) == 1


def test_where_the_kernel_does_not_number_open_files_they_are_found_all_the_same(
    tether: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As before Linux 5.14."""
    real = open

    def without_numbers(path: Any, *how: Any, **more: Any) -> Any:
        file = real(path, *how, **more)
        if "/fdinfo/" not in str(path):
            return file
        with file:
            return io.BytesIO(b"".join(line for line in file if not line.startswith(b"ino:")))

    with holder(tether, "a mark") as found:
        monkeypatch.setattr("builtins.open", without_numbers)
        assert processes_holding(tether, "a mark", pids(found.start_time)) == [found]
        assert is_open_in_any_process(tether)
        os.unlink(tether)
        assert processes_holding(tether) == []
