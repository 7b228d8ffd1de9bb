"""What every endpoint of one server shares."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, NamedTuple

from holdfast.app.web.access import Access
from holdfast.app.web.idempotent_requests import IdempotentRequests, SharedWork
from holdfast.app.web.live.board import Board
from holdfast.app.web.live.feeds import RunFeeds
from holdfast.app.web.live.jobs import Jobs
from holdfast.app.web.live.terminals import Terminals
from holdfast.engine.home import Home
from holdfast.engine.queries.changes import RunChanges
from holdfast.engine.queries.live.run_states import RunStates
from holdfast.engine.queries.timeline import RunTimelines
from holdfast.leaf.clock import now
from holdfast.leaf.errors import HoldfastError
from holdfast.leaf.ids import new_sid


class Options(NamedTuple):
    """What the command line chose. `names` are hosts besides loopback; `page`: the page is served, too."""

    port: int
    bind: str = "127.0.0.1"
    names: tuple[str, ...] = ()
    terminal: bool = True
    supervise: bool = True
    page: bool = True

    @property
    def is_remote(self) -> bool:
        """Whether others than this machine may reach the server."""
        return bool(self.names)


class Site:
    """One server: its home, who may use it, and what it watches."""

    def __init__(self, home: Home, access: Access, options: Options) -> None:
        self.home = home
        self.access = access
        self.options = options
        self.id = new_sid()
        self.started = now()
        self.states = RunStates(home)
        self.board = Board(home)
        self.feeds = RunFeeds(home)
        self.changes = RunChanges(home)
        self.timelines = RunTimelines(home)
        self.jobs = Jobs()
        self.terminals = Terminals(home)
        self.idempotent_requests = IdempotentRequests()
        self.shared_work = SharedWork()
        self._work: set[asyncio.Task[None]] = set()
        self.is_supervising = False
        self.is_closing = asyncio.Event()
        self.background: list[Callable[[], Coroutine[Any, Any, None]]] = [self.board.watch]
        self._code_listeners: list[Callable[[], None]] = []

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something after the answer. Its failure is shown by the run itself."""

        async def run() -> None:
            with suppress(HoldfastError, OSError):
                await work

        task = asyncio.create_task(run())
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    def on_code_used(self, listener: Callable[[], None]) -> None:
        self._code_listeners.append(listener)

    def code_used(self) -> None:
        """A browser was signed in: the next one needs another code."""
        for listener in self._code_listeners:
            listener()
