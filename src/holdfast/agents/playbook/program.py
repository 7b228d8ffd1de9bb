"""The agent's process: reads its script, optionally starts a wrapper, and serves until stdin ends."""

import asyncio
import os
import signal
import sys

from holdfast.agents.playbook.acp_server import PlaybookAcpServer
from holdfast.agents.playbook.faults import ignore_signals
from holdfast.agents.playbook.mcp_servers import McpServers
from holdfast.agents.playbook.reader import read_playbook
from holdfast.agents.playbook.sessions import PlaybookSession, StateFolder
from holdfast.agents.playbook.turn import RunningTurn, TurnFailed

STATE_VARIABLE = "HOLDFAST_PLAYBOOK_STATE"

_MAX_LINGER_S = 600.0  # how long an agent that ignores the end of stdin stays at most


def default_state() -> str:
    if given := os.environ.get(STATE_VARIABLE):
        return given
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(state, "holdfast", "playbook")


def serve(file: str, state: str) -> int:
    """Run the agent; returns the exit code if it ends by itself."""
    playbook = read_playbook(file)
    if playbook.agent.wrapper and (child := os.fork()):
        return _wait_for_child(child)
    if "sigterm" in playbook.agent.ignores:
        ignore_signals()
    code = asyncio.run(
        _serve(PlaybookAcpServer(playbook, file, StateFolder(state)), ignores_eof="eof" in playbook.agent.ignores)
    )
    sys.stderr.flush()
    os._exit(code)  # at once: a thread may still wait for stdin, and nothing is left to write


async def _serve(server: PlaybookAcpServer, *, ignores_eof: bool) -> int:
    nowhere = RunningTurn(server.connection, PlaybookSession(id="", cwd=os.getcwd()), McpServers([], os.getcwd()), "")
    try:
        await server.player.play_start(nowhere)
    except TurnFailed as failed:
        sys.stderr.write(f"playbook: {failed}\n")
        return 1
    await server.connection.listen()
    if ignores_eof:
        await server.connection.finish()
        await asyncio.sleep(_MAX_LINGER_S)
    await server.stop()
    return 0


def _wait_for_child(child: int) -> int:
    """Behave like a wrapper script around an agent: wait, pass nothing on, and exit with its code."""
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        return 128 - code
    return code
