"""Before anything is touched, everybody who worked for the run is dead; and nobody else is."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from holdfast.engine.workspace.effects import fence
from holdfast.leaf.process.env_markers import RUN_MARK, marked_processes
from holdfast.leaf.process.identity import identify, kill_processes
from tests.support.hopping_process import hopping
from tests.support.wait import PATIENCE, until

RUN, OTHER = f"fenced-{os.getpid()}", f"other-{os.getpid()}"

_SLEEPER = [sys.executable, "-S", "-c", "import signal; signal.pause()"]
_SPAWNER = "while true; do {} & wait; done".format("sleep 1000")


@contextmanager
def started(command: Sequence[str], run_id: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(command, env={**os.environ, RUN_MARK: run_id}, start_new_session=True) as running:
        try:
            yield running
        finally:
            kill_processes(marked_processes(RUN_MARK, run_id))
            running.kill()


async def test_it_ends_what_carries_the_runs_mark_and_spares_another_runs() -> None:
    with started(_SLEEPER, RUN) as ours, started(_SLEEPER, OTHER) as others:
        await until(lambda: len(marked_processes(RUN_MARK, RUN)) == 1)
        fence(RUN)
        assert ours.wait() < 0
        assert others.poll() is None


async def test_it_finds_a_daemon_in_a_session_of_its_own() -> None:
    """Forked twice, its parents gone, in another session: only the mark tells whose it is."""
    daemon = "(setsid sleep 1000 >/dev/null 2>&1 </dev/null &) & wait"
    with started(["sh", "-c", daemon], RUN) as parent:
        assert parent.wait() == 0
        await until(lambda: any(is_running(process.pid, "sleep") for process in marked_processes(RUN_MARK, RUN)))
        fence(RUN)
        assert marked_processes(RUN_MARK, RUN) == []


def is_running(pid: int, program: str) -> bool:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
            return file.read().strip() == program
    except OSError:
        return False


async def test_it_finds_who_is_another_process_every_moment(tmp_path: os.PathLike[str]) -> None:
    with hopping(tmp_path) as hopper, started(hopper, RUN) as first:
        first.wait()
        fence(RUN)
        for _ in range(20):
            assert marked_processes(RUN_MARK, RUN) == []


async def test_it_looks_again_for_what_the_dying_started() -> None:
    """A shell that starts another child whenever one dies."""
    with started(["sh", "-c", _SPAWNER], RUN):
        await until(lambda: len(marked_processes(RUN_MARK, RUN)) >= 2)
        fence(RUN)
        assert marked_processes(RUN_MARK, RUN) == []


def test_it_spares_itself_and_those_who_called_it() -> None:
    """An agent of the run may itself call Holdfast, through a shell."""
    code = f"import os; from holdfast.engine.workspace.effects import fence; fence({RUN!r}); print(os.getppid())"
    shell = ["sh", "-c", '"$1" -c "$2"; echo alive', "sh", sys.executable, code]
    done = subprocess.run(
        shell, env={**os.environ, RUN_MARK: RUN}, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.stdout.split()[-1] == "alive", done.stderr


def test_a_process_whose_pid_went_to_another_is_not_ended() -> None:
    with started(_SLEEPER, OTHER) as running:
        now = identify(running.pid)
        assert now is not None
        assert kill_processes([now._replace(start_time=now.start_time - 1)]) == []
        assert running.poll() is None


def test_all_are_killed_before_any_is_waited_for() -> None:
    with started(_SLEEPER, RUN) as one, started(_SLEEPER, RUN) as two:
        found = [process for process in (identify(one.pid), identify(two.pid)) if process is not None]
        assert kill_processes(found) == []
        assert one.wait() < 0
        assert two.wait() < 0


async def test_it_finds_who_holds_the_tether_and_has_no_mark_yet(tmp_path: os.PathLike[str]) -> None:
    """A process that was forked for git and did not come to run it before its parent died."""
    tether = os.path.join(tmp_path, "tether")
    with open(tether, "w", encoding="utf-8") as held:
        unmarked = subprocess.Popen(_SLEEPER, pass_fds=(held.fileno(),), start_new_session=True)
    with unmarked:
        fence(RUN, tether)
        assert unmarked.wait() < 0
