"""The process that represents an agent in a tmux window: `python -m holdfast.engine.agents.tmux_agent`.

It follows the run's inbox for the agent's reports. It ends with its client and closes the window; or it ends with the
window, with an exit code of its own.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator

import msgspec

from holdfast.agents.launch import PANE_LOST_CODE
from holdfast.agents.tmux.acp_server import AgentReport, TmuxAcpServer
from holdfast.agents.tmux.launch_request import REQUEST_VARIABLE, TmuxLaunchRequest
from holdfast.core.messages.schema import Report, try_decode_body
from holdfast.engine.home import Home
from holdfast.leaf.errors import HoldfastError
from holdfast.store.base import START, InboxEntry

_MAX_REPORT_CHARS = 4000  # of a report that are shown


def main() -> int:
    request = msgspec.json.decode(os.environ.pop(REQUEST_VARIABLE), type=TmuxLaunchRequest)
    # processes that tmux starts for itself are not part of the agent
    for name in (*request.env_markers, "TMUX", "TMUX_PANE"):
        os.environ.pop(name, None)
    os.chdir(request.slot.folder)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        lost = asyncio.run(_serve(request))
    except HoldfastError as error:
        sys.stderr.write(f"{error}\n")
        lost = True
    sys.stderr.flush()
    os._exit(PANE_LOST_CODE if lost else 0)  # at once: a thread may still wait for stdin


async def _serve(request: TmuxLaunchRequest) -> bool:
    inbox = Home(request.slot.home).store.inbox(request.slot.run)
    end = START
    async for received in inbox.read():
        end = received.cursor
    return await TmuxAcpServer(request, _follow_reports(inbox.follow(end), request.slot.conversation)).serve()


async def _follow_reports(received: AsyncIterator[InboxEntry], conversation_id: str) -> AsyncIterator[AgentReport]:
    async for entry in received:
        report = try_decode_body(entry.message.kind, entry.message.body) if entry.message is not None else None
        if isinstance(report, Report) and report.conversation == conversation_id:
            arguments = msgspec.json.encode(report.arguments).decode()
            yield AgentReport(report.tool, f"{report.tool} {arguments}"[:_MAX_REPORT_CHARS])


if __name__ == "__main__":
    sys.exit(main())
