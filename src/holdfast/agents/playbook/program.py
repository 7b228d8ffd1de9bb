"""The process: reads its script, perhaps puts a wrapper around itself, and serves until stdin ends."""

import asyncio
import os
import signal
import sys

from holdfast.agents.playbook.acp_server import Face
from holdfast.agents.playbook.faults import ignore_signals
from holdfast.agents.playbook.mcp_servers import McpServers
from holdfast.agents.playbook.reader import read_playbook
from holdfast.agents.playbook.sessions import Folder, Record
from holdfast.agents.playbook.turn import Stage, TurnFailed

STATE = "HOLDFAST_PLAYBOOK_STATE"

_LINGER = 600.0  # seconds for which an agent that ignores the end of stdin stays at most


def default_state() -> str:
    if given := os.environ.get(STATE):
        return given
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(state, "holdfast", "playbook")


def serve(file: str, state: str) -> int:
    """Be the agent; the exit code, when it comes to an end by itself."""
    playbook = read_playbook(file)
    if playbook.agent.wrapper and (child := os.fork()):
        return _wrap(child)
    if "sigterm" in playbook.agent.ignores:
        ignore_signals()
    code = asyncio.run(_serve(Face(playbook, file, Folder(state)), stays="eof" in playbook.agent.ignores))
    sys.stderr.flush()
    os._exit(code)  # at once: a thread may still wait for stdin, and nothing is left to be written


async def _serve(face: Face, *, stays: bool) -> int:
    nowhere = Stage(face.wire, Record(id="", cwd=os.getcwd()), McpServers([], os.getcwd()), "")
    try:
        await face.player.play_start(nowhere)
    except TurnFailed as failed:
        sys.stderr.write(f"playbook: {failed}\n")
        return 1
    await face.wire.listen()
    if stays:
        await face.wire.finish()
        await asyncio.sleep(_LINGER)
    await face.stop()
    return 0


def _wrap(child: int) -> int:
    """As a script around the real agent does: wait, pass nothing on, end as it ended."""
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        return 128 - code
    return code
