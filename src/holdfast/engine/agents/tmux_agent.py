"""The process that stands for an agent in a tmux window: `python -m holdfast.engine.agents.tmux_agent`.

It follows the run's inbox for what the agent reports. It ends with its client, and takes the window with it; or with
the window, and then with a code of its own.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator

import msgspec

from holdfast.agents.launch import PANE_LOST
from holdfast.agents.tmux.acp_server import Face, Report
from holdfast.agents.tmux.launch_request import ORDER, Order
from holdfast.core.messages.reports import SIGNAL
from holdfast.leaf.errors import HoldfastError
from holdfast.store.base import START, Received
from holdfast.store.files.store import FileStore

_MOST = 4000  # characters of a report that are shown as said


class _Body(msgspec.Struct):
    signal: msgspec.Raw
    conversation: str | None = None


def main() -> int:
    order = msgspec.json.decode(os.environ.pop(ORDER), type=Order)
    for name in (*order.marks, "TMUX", "TMUX_PANE"):  # what tmux starts for itself is no part of the agent
        os.environ.pop(name, None)
    os.chdir(order.berth.folder)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        lost = asyncio.run(_serve(order))
    except HoldfastError as error:
        sys.stderr.write(f"{error}\n")
        lost = True
    sys.stderr.flush()
    os._exit(PANE_LOST if lost else 0)  # at once: a thread may still wait for stdin


async def _serve(order: Order) -> bool:
    inbox = FileStore(order.berth.home).inbox(order.berth.run)
    end = START
    async for received in inbox.read():
        end = received.cursor
    return await Face(order, _reports(inbox.follow(end), order.berth.conversation)).serve()


async def _reports(received: AsyncIterator[Received], conversation: str) -> AsyncIterator[Report]:
    async for one in received:
        message = one.message
        if message is not None and message.kind.startswith(SIGNAL):
            body = _body(message.body)
            if body is not None and body.conversation == conversation:
                tool = message.kind.removeprefix(SIGNAL)
                yield Report(tool, f"{tool} {bytes(body.signal).decode()}"[:_MOST])


def _body(data: msgspec.Raw) -> _Body | None:
    """None when it is no report: anybody may write to an inbox."""
    try:
        return msgspec.json.decode(data, type=_Body)
    except msgspec.MsgspecError:
        return None


if __name__ == "__main__":
    sys.exit(main())
