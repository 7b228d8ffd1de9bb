"""A run's own tmux: where each of its agents is to be seen, and how a person gets there."""

import os
import shutil

from holdfast.agents.launch import Berth
from holdfast.agents.registry import Entry
from holdfast.core.messages.signals import endings_of
from holdfast.core.state import Conversation
from holdfast.leaf.errors import BadInput, NothingToDo
from holdfast.leaf.failpoints import around
from holdfast.leaf.process.own_program import own_program
from holdfast.store.files.disk import make_directories, replace
from holdfast.store.files.layout import run_folder

_CRASH = around("tmux.place")
_FILE = "tmux"  # in the folder of the run's agents: the socket, for whoever has another environment than its runner


def berth(folder: str, run_id: str, name: str, talk: Conversation, entry: Entry) -> Berth:
    """The window of an agent. Where its tmux is, is durable when this returns."""
    if entry.tui is None:
        raise BadInput(
            f"we know no terminal UI of {talk.agent}, and it is to run in tmux; "
            f"tell how it is started: [agents.{talk.agent}.terminal] command = …"
        )
    role, home = talk.role or "agent", os.path.dirname(os.path.dirname(folder))
    return Berth(
        home=home,
        run=run_id,
        conversation=name,
        folder=folder,
        socket=_socket(folder, run_id),
        title=" ".join(filter(None, (role, talk.task))),
        tui=entry.tui,
        endings=endings_of(role),
        monitor=("env", f"HOLDFAST_HOME={home}", *own_program("attach", run_id)),
        go_between=own_program(module="holdfast.engine.agents.tmux_agent"),
    )


def attaching(home: str, run_id: str) -> list[str]:
    """The command by which a terminal shows the run's tmux; `NothingToDo` when there is none."""
    from holdfast.agents.tmux.server import SESSION, Server  # noqa: PLC0415 - the library is not for every command

    program = shutil.which("tmux")
    if program is None:
        raise BadInput("tmux is not installed; install it (Debian, Ubuntu: apt install tmux), or: holdfast attach RUN")
    socket = _known(run_folder(home, run_id))
    if socket is None or not Server(socket).has_session():
        raise NothingToDo(f"no agent of {run_id} is at work in tmux; holdfast attach {run_id} shows the run itself")
    return [program, "-f", os.devnull, "-S", socket, "attach-session", "-t", SESSION]


def _socket(folder: str, run_id: str) -> str:
    from holdfast.agents.tmux.server import socket_of  # noqa: PLC0415 - as above

    known = _known(folder)
    if known is None:
        known = socket_of(run_id, folder)
        make_directories(os.path.join(folder, "agents"))
        _CRASH.before()
        replace(os.path.join(folder, "agents", _FILE), known.encode())
        _CRASH.after()
    return known


def _known(folder: str) -> str | None:
    try:
        with open(os.path.join(folder, "agents", _FILE), encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None
