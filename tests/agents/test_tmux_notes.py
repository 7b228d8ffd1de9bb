"""What is noted of an agent in a window is whole, whoever is killed over it."""

import multiprocessing
import os
import signal

import pytest

from holdfast.agents.launch import Berth
from holdfast.agents.tmux.files import Memory, Notes
from holdfast.core.conversation.terminal_ui import Tui
from holdfast.leaf import failpoints as crashing

OLD, NEW = Memory("session"), Memory("session", native="its own")


def notes(folder: str) -> Notes:
    berth = Berth(
        home=folder,
        run="run-7ssn2w",
        conversation="f55371ee9f87",
        folder=folder,
        socket=os.path.join(folder, "socket"),
        title="worker T-1",
        tui=Tui(command=("agent",)),
        endings=("submit_done",),
        monitor=(),
        go_between=(),
    )
    return Notes(berth)


def killed(folder: str, point: str) -> None:
    passes = os.path.join(folder, "passes")
    with open(passes, "wb"):
        os.environ |= {crashing.WHAT: f"{point}:1", crashing.FILE: passes}
    crashing.arm()
    notes(folder).remember(NEW)


@pytest.mark.parametrize(("point", "found"), [("tmux.note.before", OLD), ("tmux.note.after", NEW)])
def test_a_session_is_remembered_as_it_was_or_as_it_is(tmp_path: os.PathLike[str], point: str, found: Memory) -> None:
    folder = os.fspath(tmp_path)
    notes(folder).remember(OLD)
    child = multiprocessing.get_context("fork").Process(target=killed, args=(folder, point))
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    assert notes(folder).recall("session") == found
