"""Facts of process trees: what an agent started is dead when its context is left, and nothing else is."""

import asyncio
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from holdfast.agents.launch import Launch
from holdfast.agents.process.tree import ProcessTree, spawn
from holdfast.leaf.errors import BadInput, Denied
from holdfast.leaf.process.env_markers import CONVERSATION_MARK, RUN_MARK, marked_processes
from tests.agents.company import is_alive, shell, zombies
from tests.support.frozen_process import frozen
from tests.support.hopping_process import hopping
from tests.support.pids import descendants_of, with_pid
from tests.support.wait import PATIENCE, ticks, until

DOUBLE_FORK = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print(os.getpid(), flush=True)
        time.sleep(600)
    os._exit(0)
os.wait()
sys.stdin.read()
"""


@pytest.fixture
def cwd(tmp_path: os.PathLike[str]) -> str:
    return os.fspath(tmp_path)


@pytest.fixture(autouse=True)
def _no_zombies() -> Iterator[None]:
    before = descendants_of(os.getpid())  # what other tests left may die now
    yield
    assert zombies() <= before


async def number(tree: ProcessTree) -> int:
    async with asyncio.timeout(PATIENCE):
        return int(await tree.stdout.readline())


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("sleep 600 & echo $!; wait", id="a fork"),
        pytest.param("sh -c 'sleep 600 & echo $!; wait'; true", id="a wrapper"),
        pytest.param("sh -c 'echo $$; exec sleep 600' & exec sleep 600", id="a root that became another program"),
        pytest.param("(setsid sleep 600 & echo $!); sleep 600", id="a shell in its own session"),
        pytest.param("(setsid sleep 600 & echo $!)", id="an orphan of a root that has left"),
        pytest.param("env -i sleep 600 & echo $!; wait", id="a child without an environment"),
        pytest.param("(setsid env -i sleep 600 & echo $!)", id="an orphan without an environment"),
        pytest.param(
            "setsid sh -c 'cd /; env -i sleep 600 & echo $!; wait' & sleep 0", id="an orphan's child without a trace"
        ),
        pytest.param("exec env -i sh -c 'setsid sleep 600 & echo $!; wait'", id="a root without an environment"),
        pytest.param("trap '' TERM HUP INT; sleep 600 & echo $!; wait; sleep 600", id="a root that ignores signals"),
    ],
)
async def test_nothing_of_a_tree_is_alive_when_its_context_is_left(cwd: str, script: str) -> None:
    async with spawn(shell(cwd, script)) as tree:
        pid = await number(tree)
    assert not is_alive(pid)
    assert not tree.identity.is_alive()


async def test_a_double_forked_daemon_dies_too(cwd: str) -> None:
    async with spawn(Launch((sys.executable, "-S", "-c", DOUBLE_FORK), cwd, {}, "test/double")) as tree:
        pid = await number(tree)
    assert not is_alive(pid)


async def test_who_is_another_process_every_moment_dies_too(cwd: str) -> None:
    with hopping(cwd) as hopper:
        launch = shell(cwd, f"{shlex.join(hopper)}; echo 0; sleep 600")
        async with spawn(launch) as tree:
            await number(tree)
        for _ in range(20):
            assert marked_processes(CONVERSATION_MARK, launch.mark) == []


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The path of each file that is opened from now on."""
    paths: list[object] = []

    def noting(real: Callable[..., Any]) -> Callable[..., Any]:
        def noted(path: object, *how: Any, **more: Any) -> Any:
            paths.append(path)
            return real(path, *how, **more)

        return noted

    monkeypatch.setattr("builtins.open", noting(open))
    monkeypatch.setattr(os, "open", noting(os.open))
    return paths


async def test_who_is_deep_in_a_tree_is_looked_at_no_more_often_than_others(cwd: str, opened: list[object]) -> None:
    with open(os.path.join(cwd, "nest"), "w", encoding="utf-8") as file:
        file.write("[ $1 = 0 ] && echo $$ && read line; sh nest $(($1 - 1)); true")
    async with spawn(shell(cwd, "sh nest 20; true")) as tree:
        deepest = await number(tree)
        opened.clear()
        assert tree.memory_bytes() > 0
        root, last = (opened.count(f"/proc/{pid}/stat") for pid in (tree.identity.pid, deepest))
    assert last <= root < 10


async def test_a_tree_that_is_killed_is_looked_for_a_few_times_and_then_no_more(cwd: str, opened: list[object]) -> None:
    """Whoever looks for all of it looks at everybody: with many runs at once that takes its time."""
    bystander = subprocess.Popen(["sleep", "600"])
    passed_by = f"/proc/{bystander.pid}/stat"
    try:
        async with spawn(shell(cwd, "sleep 600 & echo $!; wait")) as tree:
            await number(tree)
            opened.clear()
            await tree.kill()
            assert 0 < opened.count(passed_by) <= 5
            opened.clear()
        assert passed_by not in opened
    finally:
        bystander.kill()
        bystander.wait()


async def test_a_shell_that_writes_after_the_death_of_its_agent_writes_no_more(cwd: str) -> None:
    late = os.path.join(cwd, "late")
    writer = f"while :; do echo x >> {late}; done"
    async with spawn(shell(cwd, f"setsid sh -c '{writer}' & echo $!")) as tree:
        pid = await number(tree)
        await tree.wait_for_exit()
        size = os.path.getsize(late) if os.path.exists(late) else 0
        await until(lambda: os.path.exists(late) and os.path.getsize(late) > size)
    after = os.path.getsize(late)
    await ticks(1000)
    assert os.path.getsize(late) == after
    assert not is_alive(pid)


async def test_beside_what_would_not_die_with_an_earlier_tree_none_of_the_same_mark_is_started(cwd: str) -> None:
    launch = shell(cwd, "sleep 600 & echo $!; wait")
    started = []

    async def start(mark: str, cold: ExitStack) -> None:
        async with spawn(launch._replace(mark=mark)) as tree:
            started.append(await number(tree))
            cold.enter_context(frozen(started[0]))

    with ExitStack() as cold:
        for mark in (f"{launch.mark}/terminal", launch.mark):
            with pytest.raises(Denied, match="could not be killed"):
                await start(mark, cold)
        (left,) = started
        async with spawn(shell(cwd, "echo 1")) as other:
            assert await number(other) == 1, "whom it does not concern"
        assert is_alive(left)
    async with spawn(launch) as tree:
        assert not is_alive(left)
        await number(tree)


async def test_a_stopped_tree_dies(cwd: str) -> None:
    async with spawn(shell(cwd, "sleep 600 & echo $!; kill -STOP $! $$; wait")) as tree:
        pid = await number(tree)
        await until(lambda: _state(tree.identity.pid) == _state(pid) == "T")
        await tree.end(wait_s=0.05)
        assert not is_alive(pid)
    assert not tree.identity.is_alive()


async def test_an_agent_whose_input_is_closed_may_leave_by_itself(cwd: str) -> None:
    async with spawn(shell(cwd, "cat > /dev/null; echo bye > farewell; exit 3")) as tree:
        await tree.end(wait_s=PATIENCE)
        assert os.path.exists(os.path.join(cwd, "farewell"))
        assert tree.exit_code == 3


async def test_processes_of_others_in_the_same_folder_are_spared(cwd: str) -> None:
    git = await asyncio.create_subprocess_exec("sleep", "600", cwd=cwd, env={**os.environ, RUN_MARK: f"run of {cwd}"})
    hook = await asyncio.create_subprocess_exec("sleep", "600", cwd=cwd)
    try:
        async with (
            spawn(shell(cwd, "exec sleep 600", {RUN_MARK: "another run"})) as other_run,
            spawn(shell(cwd, "exec sleep 600")) as other_conversation,
            spawn(shell(cwd, "echo 0; exec env -i sleep 600")) as scrubbed,
        ):
            await number(scrubbed)
            await until(lambda: _environment(scrubbed.identity.pid) == b"")
            async with spawn(shell(cwd, "(setsid sleep 600 & echo $!); sleep 600")) as tree:
                pid = await number(tree)
            assert not is_alive(pid)
            for spared in (other_run, other_conversation, scrubbed):
                assert spared.identity.is_alive()
            assert is_alive(git.pid)
            assert is_alive(hook.pid)
    finally:
        for process in (git, hook):
            process.kill()
            await process.wait()


CALLED_BY_ITS_AGENT = """
import asyncio, os, subprocess, sys
from holdfast.agents.launch import Launch
from holdfast.agents.process.tree import spawn
from holdfast.leaf.process.env_markers import CONVERSATION_MARK

async def main():
    mark = os.environ.pop(CONVERSATION_MARK)
    with subprocess.Popen(["sleep", "600"]) as bystander:
        async with spawn(Launch(("sleep", "600"), os.getcwd(), {}, mark, fd_marker="tether")) as tree:
            pass
        print(bystander.poll(), tree.identity.is_alive())
        bystander.kill()

asyncio.run(main())
"""


def test_a_tree_that_carries_our_own_mark_is_ended_without_us_and_those_who_called_us(cwd: str) -> None:
    caller = ["sh", "-c", '"$1" -c "$2"; echo alive', "sh", sys.executable, CALLED_BY_ITS_AGENT]
    environment = {**os.environ, CONVERSATION_MARK: f"test/{cwd}"}
    done = subprocess.run(
        caller, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.stdout.split() == ["None", "False", "alive"], done


async def test_what_this_process_started_without_a_mark_is_spared(cwd: str) -> None:
    child = subprocess.Popen(["sleep", "600"], cwd=cwd)
    try:
        async with spawn(shell(cwd, "true")) as tree:
            await tree.wait_for_exit()
        assert is_alive(child.pid)
    finally:
        child.kill()
        child.wait()


async def test_orphans_that_ended_by_themselves_are_buried(cwd: str) -> None:
    async with spawn(shell(cwd, "(sh -c 'true & echo $!; wait' &) ; (sleep 0 & echo $!); cat > /dev/null")) as tree:
        pids = [await number(tree), await number(tree)]
        await until(lambda: not any(map(is_alive, pids)))
    assert not zombies() & set(pids)


async def test_a_session_that_ends_after_the_death_of_its_agent_is_buried(cwd: str) -> None:
    gate = os.path.join(cwd, "gate")
    os.mkfifo(gate)
    async with spawn(shell(cwd, "setsid sh -c 'echo $$; read line < gate' & cat > /dev/null; exit 0")) as tree:
        pid = await number(tree)
        os.kill(tree.identity.pid, signal.SIGKILL)
        await tree.wait_for_exit()
        with open(gate, "w", encoding="ascii") as file:
            file.write("end\n")
        await until(lambda: not is_alive(pid))
    assert pid not in zombies()


async def test_a_child_of_ours_that_has_the_pid_of_one_that_was_seen_is_ours_to_bury(cwd: str) -> None:
    gate = os.path.join(cwd, "gate")
    os.mkfifo(gate)
    script = "setsid sh -c 'echo $$; read line < gate' & wait; echo 0; cat > /dev/null"
    async with spawn(shell(cwd, script)) as tree:
        pid = await number(tree)
        tree.memory_bytes()  # so that it is seen
        with open(gate, "w", encoding="ascii") as file:
            file.write("end\n")
        await number(tree)
        with ExitStack() as stack:  # which buries it, at its end
            try:
                stack.enter_context(with_pid(pid))
            except OSError as error:
                pytest.skip(f"NOT TESTED: a pid that was given away (a pid cannot be chosen here: {error})")
            os.kill(pid, signal.SIGKILL)
            await until(lambda: not is_alive(pid))
            await tree.kill()


async def test_no_signal_is_sent_by_a_number_alone(cwd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has that pid by then may be somebody else."""
    sent: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, _: sent.append(pid))
    async with spawn(shell(cwd, "sleep 600 & echo $!; wait")) as tree:
        await number(tree)
    assert sent == []


async def test_an_orphan_that_ends_while_its_agent_is_sent_away_is_buried(cwd: str) -> None:
    async with spawn(shell(cwd, "setsid sh -c 'echo $$; read line < gate' & mkfifo gate; cat > /dev/null")) as tree:
        pid = await number(tree)
        ending = asyncio.ensure_future(tree.end(wait_s=5))
        await tree.wait_for_exit()
        await ending
    assert not is_alive(pid)


async def test_death_is_learned_with_its_code_though_an_orphan_holds_the_pipe(cwd: str) -> None:
    async with spawn(shell(cwd, "setsid sleep 600 & echo $!; exit 7")) as tree:
        pid = await number(tree)
        async with asyncio.timeout(PATIENCE):
            assert await tree.wait_for_exit() == "it exited with code 7"
        assert is_alive(pid)
        assert tree.is_dead
        assert tree.exit_code == 7


async def test_how_a_root_died_is_told(cwd: str) -> None:
    async with spawn(shell(cwd, "kill -KILL $$")) as tree:
        assert await tree.wait_for_exit() == "it was killed by SIGKILL"
    async with spawn(shell(cwd, f"kill -{signal.SIGRTMIN + 3} $$")) as tree:
        assert await tree.wait_for_exit() == f"it was killed by signal {signal.SIGRTMIN + 3}"


async def test_whoever_is_cancelled_again_and_again_still_sees_the_tree_dead(cwd: str) -> None:
    pids: list[int] = []

    async def work() -> None:
        async with spawn(shell(cwd, "(setsid sleep 600 & echo $!); sleep 600")) as tree:
            pids.append(await number(tree))
            await asyncio.Event().wait()

    task = asyncio.ensure_future(work())
    await until(lambda: bool(pids))
    while not task.done():
        task.cancel()
        await asyncio.sleep(0)
    assert task.cancelled()
    assert not is_alive(pids[0])


async def test_an_agent_gets_no_secret_that_its_entry_does_not_name(cwd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "gh_token", "DB_PASSWORD", "AUGMENT_SESSION_AUTH", "SMTP_PASS", "SSH_AUTH_SOCK"):
        monkeypatch.setenv(name, "value")
    async with spawn(shell(cwd, "env -0", {"OPENAI_API_KEY": "named"})) as tree:
        said = (await tree.stdout.read()).decode().split("\0")
    assert "OPENAI_API_KEY=named" in said
    assert "SSH_AUTH_SOCK=value" in said
    assert not [line for line in said if line.startswith(("gh_token", "DB_", "AUGMENT_", "SMTP_"))]


async def test_complaints_are_kept_from_the_end_and_their_length_is_bounded(cwd: str) -> None:
    file = os.path.join(cwd, "stderr")
    script = "head -c 5000000 /dev/zero | tr '\\0' x >&2; echo the last word >&2"
    async with spawn(shell(cwd, script, stderr=file)) as tree:
        await tree.wait_for_exit()
    kept = [path for path in (file, f"{file}.old") if os.path.exists(path)]
    assert sum(map(os.path.getsize, kept)) <= 2 * 1024 * 1024
    with open(file, encoding="utf-8") as last:
        assert last.read().endswith("the last word\n")
    assert os.stat(file).st_mode & 0o077 == 0


@pytest.mark.parametrize("command", ["no-such-program", "./plain", "./empty", "a\0b"])
async def test_a_program_that_cannot_be_started_is_told_of(cwd: str, command: str) -> None:
    for name, mode in (("plain", 0o600), ("empty", 0o700)):
        with open(os.path.join(cwd, name), "wb") as file:
            file.write(b"\x7fELF is only its beginning")
        os.chmod(os.path.join(cwd, name), mode)
    with pytest.raises(BadInput):
        async with spawn(Launch((command,), cwd, {}, "test/none")):
            pass


async def test_a_folder_that_is_not_there_is_told_of(cwd: str) -> None:
    missing = os.path.join(cwd, "missing")
    with pytest.raises(BadInput, match="missing was not found"):
        async with spawn(shell(missing, "true")):
            pass


def _state(pid: int) -> str:
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().rpartition(")")[2].split()[0]


def _environment(pid: int) -> bytes:
    with open(f"/proc/{pid}/environ", "rb") as file:
        return file.read()


async def test_whoever_is_cancelled_while_it_starts_leaves_nothing_either(cwd: str) -> None:
    """The program can be far ahead of us: it runs before its pipes are connected."""
    launch = shell(cwd, "(setsid sleep 600 & echo $! > pid); mv pid ready; sleep 600")
    ready = os.path.join(cwd, "ready")

    async def work() -> None:
        async with spawn(launch):
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    while not marked_processes(CONVERSATION_MARK, launch.mark):
        await ticks(1)
    while not os.path.exists(ready):  # our loop stands still
        pass
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with open(ready, encoding="ascii") as file:
        assert not is_alive(int(file.read()))
    assert marked_processes(CONVERSATION_MARK, launch.mark) == []


async def test_its_git_is_not_led_to_the_repository_of_a_hook_that_we_are_called_from(
    cwd: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", "/elsewhere/.git")
    monkeypatch.setenv("GIT_INDEX_FILE", "/elsewhere/.git/index")
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Somebody")
    async with spawn(shell(cwd, "env")) as tree:
        named = {line.partition(b"=")[0] for line in (await tree.stdout.read()).split(b"\n")}
    assert named & {b"GIT_DIR", b"GIT_INDEX_FILE", b"GIT_AUTHOR_NAME"} == {b"GIT_AUTHOR_NAME"}
