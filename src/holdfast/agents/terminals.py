"""Terminals by an agent's request: real processes in its worktree, each owned with all that it starts."""

import asyncio
import os
import secrets
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import NamedTuple

from holdfast.agents.confined import inside
from holdfast.agents.tree import Launch, Tree, grown
from holdfast.leaf.errors import BadInput

_MOST = 1024 * 1024  # bytes of output that are kept, unless the agent wants fewer


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
        self._reading = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        while piece := await self._tree.stdout.read(64 * 1024):
            self._kept += piece
            if len(self._kept) > self._most:
                del self._kept[: len(self._kept) - self._most]
                self._truncated = True

    def output(self) -> Output:
        code = self._tree.code if self._tree.dead else None
        return Output(
            _whole_characters(bytes(self._kept)),
            self._truncated,
            code if code is not None and code >= 0 else None,
            str(-code) if code is not None and code < 0 else None,
        )

    async def exited(self) -> Output:
        await self._tree.death()
        await asyncio.wait({self._reading}, timeout=1)  # an orphan may hold the pipe; what it says is not waited for
        return self.output()

    async def kill(self) -> None:
        await self._tree.kill()


class Terminals:
    """Those of one agent. A context: nothing of them outlives it."""

    def __init__(self, root: str, mark: str, environment: Mapping[str, str]) -> None:
        self._root = root
        self._mark = mark
        self._environment = environment
        self._open: dict[str, tuple[Terminal, AsyncExitStack]] = {}

    async def create(
        self, command: str, arguments: list[str], cwd: str | None, environment: Mapping[str, str], most: int | None
    ) -> str:
        name = secrets.token_hex(6)
        line = (command, *arguments) if arguments else ("/bin/sh", "-c", command)
        folder = inside(self._root, cwd or ".")
        if not os.path.isdir(folder):
            raise BadInput(f"{cwd} is not a folder")
        launch = Launch(line, folder, {**self._environment, **environment}, f"{self._mark}/{name}")
        stack = AsyncExitStack()
        tree = await stack.enter_async_context(grown(launch))
        tree.stdin.close()
        self._open[name] = Terminal(tree, most or _MOST), stack
        return name

    def __getitem__(self, name: str) -> Terminal:
        if name not in self._open:
            raise BadInput(f"there is no terminal {name}")
        return self._open[name][0]

    async def release(self, name: str) -> None:
        _, stack = self._open.pop(name, (None, None))
        if stack is not None:
            await stack.aclose()

    async def close(self) -> None:
        for name in list(self._open):
            await self.release(name)


def _whole_characters(data: bytes) -> str:
    """Text whose beginning may have been cut in the middle of a character."""
    start = 0
    while start < min(4, len(data)) and data[start] & 0xC0 == 0x80:  # noqa: PLR2004 - a continuation byte
        start += 1
    return data[start:].decode(errors="replace")
