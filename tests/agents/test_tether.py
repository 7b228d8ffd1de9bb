"""A file that a process was given to hold: by it alone one is found that shed its environment and went elsewhere."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.agents.builtin.shell import Shell
from holdfast.agents.launch import Launch
from holdfast.agents.tree import grown
from holdfast.engine.effects import fence
from holdfast.leaf.process import has_open, holding, tethered
from tests.agents.company import is_alive

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


def launch(tether: str, mark: str, *command: str) -> Launch:
    return Launch(command, os.path.dirname(tether), {}, mark, tether=tether)


@pytest.mark.parametrize(
    "command",
    [("sh", "-c", f"({STRAY}); sleep 600"), ("sh", "-c", STRAY), (sys.executable, "-IS", "-c", LIKE_NODE)],
    ids=["while its root lives", "when its root has left", "let through by an agent that hides what is its own"],
)
async def test_who_went_elsewhere_without_a_trace_dies_with_its_tree_and_no_other(
    tether: str, command: tuple[str, ...]
) -> None:
    async with grown(launch(tether, "run/other", "sh", "-c", f"{STRAY} sleep 600")) as other:
        spared = int(await other.stdout.readline())
        async with grown(launch(tether, "run/one", *command)) as tree:
            stray = int(await tree.stdout.readline())
        assert not is_alive(stray)
        assert is_alive(spared)
    assert not is_alive(spared)


async def test_what_the_built_in_agents_shell_left_is_found_when_all_are_dead(tether: str) -> None:
    folder = os.path.dirname(tether)
    code = (
        f"import asyncio; print(asyncio.run({Shell(folder, dict(os.environ), 's')!r}.run({STRAY!r}, 'c', 20)).output)"
    )
    names = f"from {Shell.__module__} import Shell; "
    with tethered(tether) as held:
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
            while not has_open(tether):
                assert reader.poll() is None
            assert holding(tether) == []
            fence("a run", tether)
            assert is_alive(reader.pid)
        finally:
            reader.kill()


def test_it_is_held_where_few_files_may_be_open(tether: str) -> None:
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
        "from holdfast.leaf.process import has_open, holding, tethered\n"
        f"path = {tether!r}\n"
        "with tethered(path, 'a mark'): print(len(holding(path, 'a mark')), holding(path, 'another'))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "1 []\n"
