"""The dashboard as people have it: in a real terminal, over a real run."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cli.program import Program
from tests.cli.runs import make_run
from tests.cli.scenes import FIRST_WAVE, SECOND_WAVE
from tests.cli.terminal import CTRL_C, conversation
from tests.support.cli_stage import Stage, outcome, wait_for_event, worker

HANG = {"hang": {"how": "turn", "seconds": 3600}}
ENTERS, LEAVES = "\x1b[?1049h", "\x1b[?1049l"


class Tmux:
    """A server of its own. What a pane writes is read from a pipe, so that nobody has to look again and again."""

    def __init__(self, socket: str, pipe: int) -> None:
        self._socket = socket
        self._pipe = pipe

    def __call__(self, *arguments: str) -> str:
        return subprocess.run(
            ["tmux", "-S", self._socket, *arguments], check=True, capture_output=True, text=True
        ).stdout

    def until(self, *words: str) -> str:
        """All of these stand on the screen."""
        while not all(word in (screen := self("capture-pane", "-p")) for word in words):
            assert os.read(self._pipe, 65536), screen
        return screen


@contextmanager
def tmux(stage: Stage, command: str, size: tuple[int, int] = (80, 24)) -> Iterator[Tmux]:
    fifo, socket = f"{stage.folder}/pipe", f"{stage.folder}/tmux"
    os.mkfifo(fifo)
    pipe = os.open(fifo, os.O_RDWR)  # so that neither end waits for the other
    server = Tmux(socket, pipe)
    environment = [f"{name}={value}" for name, value in stage.holdfast.environment().items()]
    words = [part for one in environment for part in ("-e", one)]
    server("-f", "/dev/null", "new-session", "-d", "-x", str(size[0]), "-y", str(size[1]), *words, "cat")
    server("set-option", "-g", "remain-on-exit", "on")
    server("pipe-pane", f"cat > {fifo}")
    server("respawn-pane", "-k", "-c", stage.project.path, command)
    try:
        yield server
    finally:
        server("kill-server")
        os.close(pipe)


@pytest.mark.torture
@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not here")
def test_attach_shows_the_run_at_work_and_ctrl_c_comes_back_to_the_dashboard(stage: Stage) -> None:
    agent = stage.book(worker(HANG))
    with stage.start("run", "take your time", "--agent", agent) as process:
        try:
            wait_for_event(process, "turn.started")
            run = stage.only_run()
            with tmux(stage, f"{sys.executable} -m holdfast top; echo left with $?; cat") as terminal:
                terminal.until("1 running", run, "thinking", "q quit")
                terminal("send-keys", "Enter")
                terminal.until(f"attached to {run}; Ctrl-C detaches")
                terminal("send-keys", "C-c")
                terminal.until("1 running", "q quit")
                terminal("send-keys", "x")
                terminal.until(f"Stop {run}?")
                terminal("send-keys", "y")
                terminal.until(f"stopped {run}; r resumes it")
                terminal("send-keys", "q")
                terminal.until("left with 0")
            outcome(process)
        finally:
            process.kill()


@pytest.mark.parametrize("colour", [True, False])
def test_it_leaves_the_terminal_as_it_was_and_paints_only_where_that_is_wanted(holdfast: Program, colour: bool) -> None:
    make_run(holdfast.home, "auth-abc234", *FIRST_WAVE, *SECOND_WAVE)
    env = {"TERM": "xterm-256color", **({} if colour else {"NO_COLOR": "1"})}
    with conversation(holdfast, "top", env=env) as terminal:
        text = terminal.until("asks: Run rm -rf build")
        assert ("\x1b[33;49m" in text) == colour
        terminal.type("q")
        text += terminal.until(LEAVES)
        assert terminal.end() == 0
    assert ENTERS in text


def test_ctrl_c_leaves_too(holdfast: Program) -> None:
    with conversation(holdfast, "top", env={"TERM": "xterm-256color"}) as terminal:
        terminal.until("0 runs")
        terminal.type(CTRL_C)
        assert terminal.end() == 0
