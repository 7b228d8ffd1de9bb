"""A run's own tmux: the window of each agent, and how a person attaches to it."""

import os
import shutil

from holdfast.agents.launch import TmuxSlot
from holdfast.agents.registry import AgentDefinition
from holdfast.core.messages.signals import turn_ending_tools
from holdfast.core.state import Conversation
from holdfast.engine.home import Home
from holdfast.leaf.errors import BadInput, NothingToDo
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.leaf.files.disk import make_directories, replace
from holdfast.leaf.process.own_program import holdfast_command

_FAILPOINT = failpoint_pair("tmux.place")
_SOCKET_FILE = (
    "tmux"  # in the folder of the run's agents: the socket, for a process with another environment than the runner
)


def tmux_slot(
    folder: str, run_id: str, conversation_id: str, conversation: Conversation, entry: AgentDefinition
) -> TmuxSlot:
    """Return the window of an agent. The address of its tmux is durable when this returns."""
    if entry.tui is None:
        raise BadInput(
            f"the terminal UI of {conversation.agent} is unknown, so it cannot run in tmux; "
            f"configure how to start it: [agents.{conversation.agent}.terminal] command = …"
        )
    role, home = conversation.role or "agent", os.path.dirname(os.path.dirname(folder))
    return TmuxSlot(
        home=home,
        run=run_id,
        conversation=conversation_id,
        folder=folder,
        socket=_socket_path(folder, run_id),
        title=" ".join(filter(None, (role, conversation.task))),
        tui=entry.tui,
        endings=turn_ending_tools(role),
        monitor=("env", f"HOLDFAST_HOME={home}", *holdfast_command("attach", run_id)),
        proxy=holdfast_command(module="holdfast.engine.agents.tmux_agent"),
    )


def attach_command(home: Home, run_id: str) -> list[str]:
    """Return the command that attaches a terminal to the run's tmux; raises `NothingToDo` if there is none."""
    from holdfast.agents.tmux.server import SESSION_NAME, TmuxServer  # noqa: PLC0415 - slow to import

    program = shutil.which("tmux")
    if program is None:
        raise BadInput("tmux is not installed; install it (Debian, Ubuntu: apt install tmux), or: holdfast attach RUN")
    socket = _recorded_socket(home.folder(run_id))
    if socket is None or not TmuxServer(socket).has_session():
        raise NothingToDo(f"no agent of {run_id} is running in tmux; holdfast attach {run_id} shows the run itself")
    return [program, "-f", os.devnull, "-S", socket, "attach-session", "-t", SESSION_NAME]


def _socket_path(folder: str, run_id: str) -> str:
    from holdfast.agents.tmux.server import socket_path  # noqa: PLC0415 - as above

    known = _recorded_socket(folder)
    if known is None:
        known = socket_path(run_id, folder)
        make_directories(os.path.join(folder, "agents"))
        _FAILPOINT.before()
        replace(os.path.join(folder, "agents", _SOCKET_FILE), known.encode())
        _FAILPOINT.after()
    return known


def _recorded_socket(folder: str) -> str | None:
    try:
        with open(os.path.join(folder, "agents", _SOCKET_FILE), encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None
