"""What is noted of an agent in a window is whole, whoever is killed over it."""

import multiprocessing
import os
import signal

import pytest

from holdfast.agents.launch import TmuxSlot
from holdfast.agents.tmux.files import SessionNames, TmuxFiles
from holdfast.core.conversation.terminal_ui import TerminalUi
from holdfast.leaf import failpoints as crashing

OLD, NEW = SessionNames("session"), SessionNames("session", native="its own")


def notes(folder: str) -> TmuxFiles:
    berth = TmuxSlot(
        home=folder,
        run="run-7ssn2w",
        conversation="f55371ee9f87",
        folder=folder,
        socket=os.path.join(folder, "socket"),
        title="worker T-1",
        tui=TerminalUi(command=("agent",)),
        endings=("submit_done",),
        monitor=(),
        proxy=(),
    )
    return TmuxFiles(berth)


def killed(folder: str, point: str) -> None:
    passes = os.path.join(folder, "passes")
    with open(passes, "wb"):
        os.environ |= {crashing.FAILPOINT_VARIABLE: f"{point}:1", crashing.FAILPOINT_FILE_VARIABLE: passes}
    crashing.arm_failpoints()
    notes(folder).save_session(NEW)


@pytest.mark.parametrize(("point", "found"), [("tmux.note.before", OLD), ("tmux.note.after", NEW)])
def test_a_session_is_remembered_as_it_was_or_as_it_is(
    tmp_path: os.PathLike[str], point: str, found: SessionNames
) -> None:
    folder = os.fspath(tmp_path)
    notes(folder).save_session(OLD)
    child = multiprocessing.get_context("fork").Process(target=killed, args=(folder, point))
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    assert notes(folder).find_session("session") == found
