"""The view of a run on a real terminal: scrolling lines, and below them an area that is drawn in its place."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import pytest

from holdfast.core.events.issue import WarningLogged
from holdfast.core.events.task import TaskCompleted
from tests.cli.owner import Owner, owner_of
from tests.cli.program import Program
from tests.cli.runs import make_run
from tests.cli.scenes import FIRST_WAVE, SECOND_WAVE

RUN = "auth-abc234"

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


class Screen:
    """A tmux of its own with one window. What the program in it writes is also seen here, byte by byte."""

    def __init__(self, folder: Path, size: tuple[int, int]) -> None:
        self._socket = str(folder / "tmux")
        self._fifo = folder / "written"
        self._size = size

    def __enter__(self) -> Self:
        os.mkfifo(self._fifo)
        width, height = map(str, self._size)
        waiting = "sh -c 'trap : INT; read go; eval \"$go\"; read x'"
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", width, "-y", height, waiting)
        self._tmux("pipe-pane", "-O", f"exec cat > {self._fifo}")
        self._written = self._fifo.open("rb", buffering=0)
        return self

    def __exit__(self, *_: object) -> None:
        self._tmux("kill-server")
        self._written.close()

    def type(self, line: str) -> None:
        self._tmux("send-keys", "-l", f"{line}")
        self._tmux("send-keys", "Enter")

    def press(self, key: str) -> None:
        self._tmux("send-keys", key)

    def resize(self, width: int) -> None:
        self._tmux("resize-window", "-x", str(width), "-y", str(self._size[1]))

    def until(self, words: str) -> bytes:
        """All that is written, until these words are."""
        found = b""
        while words.encode() not in found:
            piece = self._written.read(65536)
            assert piece, found
            found += piece
        return found

    @property
    def lines(self) -> list[str]:
        """What stands on it now."""
        return self._tmux("capture-pane", "-p").rstrip("\n").split("\n")

    def _tmux(self, *arguments: str) -> str:
        command = ["tmux", "-S", self._socket, *arguments]
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
        return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


@contextmanager
def watched(
    holdfast: Program, tmp_path: Path, width: int, *, colour: bool = False, **env: str
) -> Iterator[tuple[Screen, Owner]]:
    """A run at work, and a terminal on which somebody watches it."""
    make_run(holdfast.home, RUN, *FIRST_WAVE)
    with owner_of(holdfast.home, RUN) as owner, Screen(tmp_path, (width, 24)) as screen:
        settings = holdfast.environment({} if colour else {"NO_COLOR": "1"}) | env
        words = " ".join(f"{name}='{value}'" for name, value in settings.items())
        screen.type(f"clear; env {words} {sys.executable} -m holdfast attach {RUN}; echo code $?")
        screen.until("attached to")
        yield screen, owner


def rest(lines: list[str]) -> list[str]:
    """Without the times, which go on."""
    return [line[10:] if line[:2].isdecimal() else line for line in lines]


@pytest.mark.parametrize("width", [80, 200])
def test_lines_scroll_and_the_area_stays_below_them(holdfast: Program, tmp_path: Path, width: int) -> None:
    with watched(holdfast, tmp_path, width) as (screen, owner):
        owner.append(*SECOND_WAVE, WarningLogged(message="the last one"))
        screen.until("the last one")
        screen.until("y allow")
        lines = rest(screen.lines)
        last = lines.index("              warning: the last one")
        head, first, second, *question = lines[last + 1 :]
        assert head.startswith(f"── {RUN} · solo · wave 2 of 3 · 1 of 4 tasks · ")
        assert len(head) in (width - 1, width - 2)
        assert first.startswith("  T-2  work      Run pytest tests/login -q")
        assert second.startswith("  T-3  work      waiting for your answer")
        assert question == ["  ? T-3 asks: Run rm -rf build  y allow · n deny"]
        assert len([line for line in lines if line.startswith("── ")]) == 1, "one area, however often it was drawn"
        owner.append(TaskCompleted(task_id="T-2"))
        owner.end()
        screen.until("code 0")
        assert rest(screen.lines)[-3:] == [
            "T-2           done",
            "              session ended: all tasks done",
            "code 0",
        ]
        assert not any(line.startswith("── ") for line in screen.lines), "the area is taken away at the end"


def test_after_a_resize_the_area_has_the_new_width_and_is_there_once(holdfast: Program, tmp_path: Path) -> None:
    with watched(holdfast, tmp_path, 200) as (screen, owner):
        owner.append(*SECOND_WAVE)
        screen.until("y allow")
        screen.resize(80)
        screen.until("y allow")
        (head,) = [line for line in screen.lines if line.startswith("── ")]
        assert len(head) in (78, 79)
        assert [line for line in screen.lines if "waiting for your answer" in line] != []
        assert sum("T-2  work" in line for line in screen.lines) == 1


def test_colour_is_used_where_it_is_wanted_and_no_log_drives_the_terminal(holdfast: Program, tmp_path: Path) -> None:
    with watched(holdfast, tmp_path, 80, colour=True) as (screen, owner):
        owner.append(WarningLogged(message="\x1b]0;title\x07 \x1b[31mevil"))
        written = screen.until("evil")
        assert b"\x1b[33m" in written
        assert b"\x1b]0" not in written
        assert b"\x1b[31m" not in written


def test_a_terminal_that_can_do_nothing_gets_lines_only(holdfast: Program, tmp_path: Path) -> None:
    with watched(holdfast, tmp_path, 80, TERM="dumb") as (screen, owner):
        owner.append(WarningLogged(message="hello"))
        assert b"\x1b" not in screen.until("warning: hello")
        assert rest(screen.lines)[-1] == "              warning: hello"


def test_ctrl_c_takes_the_area_away_and_leaves_the_run_at_work(holdfast: Program, tmp_path: Path) -> None:
    with watched(holdfast, tmp_path, 80) as (screen, owner):
        owner.append(*SECOND_WAVE)
        screen.until("y allow")
        screen.press("C-c")
        screen.until("code 130")
        assert f"detached; {RUN} continues. Watch it: holdfast attach {RUN}; stop it: holdfast stop {RUN}" in "".join(
            screen.lines
        )
        owner.say("still here")
