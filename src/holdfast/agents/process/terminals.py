"""Terminals by an agent's request: real processes in its worktree, each owned with all that it starts."""

import asyncio
import os
import secrets
import signal
from codecs import getincrementaldecoder
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import NamedTuple

from holdfast.agents.environment import without_secrets
from holdfast.agents.launch import Launch
from holdfast.agents.process.tree import Tree, grown
from holdfast.leaf.errors import BadInput
from holdfast.leaf.failpoints import around
from holdfast.leaf.files.contained import resolve_inside
from holdfast.leaf.process.env_markers import RUN_MARK

_CRASH = around("terminal.create")
_MOST = 1024 * 1024  # bytes of output that are kept, unless the agent wants fewer
_SHOWN = 8_192  # characters of the end of it that are written with a tool call
_REMEMBERED = 50  # terminals that were released, of which that is still known


class Output(NamedTuple):
    text: str
    truncated: bool
    code: int | None
    signal: str | None


class Terminal:
    """One command at work. Its output is kept from the end, cut at a whole character."""

    def __init__(self, tree: Tree, most: int) -> None:
        self._tree = tree
        self._most = most
        self._kept = bytearray()
        self._truncated = False
        self._now = asyncio.get_running_loop().time
        self.awaited = 0  # how many wait for its end
        self.last = self._now()  # when it began, or last put something out: by the loop's clock
        self._reading = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        while piece := await self._tree.stdout.read(64 * 1024):
            self.last = self._now()
            self._kept += piece
            if len(self._kept) > self._most:
                del self._kept[: len(self._kept) - self._most]
                self._truncated = True

    def output(self) -> Output:
        code = self._tree.code if self._tree.dead else None
        return Output(
            _whole_characters(bytes(self._kept), over=self._reading.done()),
            self._truncated,
            code if code is not None and code >= 0 else None,
            _name_of(-code) if code is not None and code < 0 else None,
        )

    async def exited(self) -> Output:
        self.awaited += 1
        try:
            await self._tree.death()
        finally:
            self.awaited -= 1
        await asyncio.wait({self._reading}, timeout=1)  # an orphan may hold the pipe; what it says is not waited for
        return self.output()

    async def kill(self) -> None:
        await self._tree.kill()
        await asyncio.wait({self._reading}, timeout=1)

    def close(self) -> None:
        self._reading.cancel()


class Terminals:
    """Those of one agent, in what it runs in itself. A context: nothing of them outlives it."""

    def __init__(self, launch: Launch) -> None:
        """As that agent was started, but without its secrets: a command can print all it has."""
        self._launch = launch
        self._environment = without_secrets(launch.environment)
        self._open: dict[str, tuple[Terminal, AsyncExitStack]] = {}
        self._released: dict[str, str] = {}  # the end of what they put out

    async def create(
        self, command: str, arguments: list[str], cwd: str | None, environment: Mapping[str, str], most: int | None
    ) -> str:
        name = secrets.token_hex(6)
        line = (command, *arguments) if arguments else ("/bin/sh", "-c", command)
        folder = resolve_inside(self._launch.cwd, cwd or ".")
        if not os.path.isdir(folder):
            raise BadInput(f"{cwd} is not a folder")
        marks = {RUN_MARK: self._environment[RUN_MARK]} if RUN_MARK in self._environment else {}
        launch = self._launch._replace(
            command=line,
            cwd=folder,
            environment={**self._environment, **environment, **marks},
            mark=f"{self._launch.mark}/{name}",
            stderr=None,
            worktree=self._launch.cwd,
            reports=None,  # what runs here was often written by another role: it may not report as this one
        )
        stack = AsyncExitStack()
        _CRASH.before()
        tree = await stack.enter_async_context(grown(launch))
        tree.stdin.close()
        self._open[name] = Terminal(tree, _MOST if most is None else min(max(most, 0), _MOST)), stack
        _CRASH.after()
        return name

    def __getitem__(self, name: str) -> Terminal:
        if name not in self._open:
            raise BadInput(f"there is no terminal {name}")
        return self._open[name][0]

    @property
    def awaited(self) -> list[Terminal]:
        """Those whose end the agent waits for, each as often as it does."""
        return [terminal for terminal, _ in self._open.values() for _ in range(terminal.awaited)]

    def last_output(self, name: str) -> str | None:
        """The end of what one put out, also when it is released; None when it is not known."""
        return _end_of(self._open[name][0]) if name in self._open else self._released.get(name)

    async def release(self, name: str) -> None:
        if name not in self._open:
            return
        terminal, stack = self._open.pop(name)
        try:
            await stack.aclose()
        finally:
            self._released[name] = _end_of(terminal)
            if len(self._released) > _REMEMBERED:
                del self._released[next(iter(self._released))]
            terminal.close()

    async def close(self) -> None:
        for name in list(self._open):
            await self.release(name)


def _end_of(terminal: Terminal) -> str:
    return terminal.output().text[-_SHOWN:]


def _whole_characters(data: bytes, *, over: bool) -> str:
    """Text whose beginning may have been cut in the middle of a character, and whose end may be yet to come."""
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:  # noqa: PLR2004 - a continuation byte
        start += 1
    return getincrementaldecoder("utf-8")("replace").decode(data[start:], final=over)


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
