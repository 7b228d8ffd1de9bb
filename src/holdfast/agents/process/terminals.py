"""Terminals that an agent requests: real processes in its worktree, each owned with everything it starts."""

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
from holdfast.agents.process.tree import ProcessTree, spawn
from holdfast.leaf.errors import BadInput
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.leaf.files.contained import resolve_inside
from holdfast.leaf.process.env_markers import RUN_MARK

_FAILPOINT = failpoint_pair("terminal.create")
_MAX_OUTPUT_BYTES = 1024 * 1024  # kept of a terminal's output, unless the agent asks for less
_MAX_SHOWN_CHARS = 8_192  # from the end of the output, recorded with a tool call
_MAX_RELEASED = 50  # released terminals whose output is remembered


class TerminalOutput(NamedTuple):
    text: str
    is_truncated: bool
    exit_code: int | None
    signal: str | None


class Terminal:
    """A running command. Keeps the end of its output, cut at a character boundary."""

    def __init__(self, tree: ProcessTree, max_bytes: int) -> None:
        self._tree = tree
        self._max_bytes = max_bytes
        self._output = bytearray()
        self._is_truncated = False
        self._now = asyncio.get_running_loop().time
        self.waiters = 0  # requests that wait for its exit
        self.last_output_at = self._now()  # loop time of its start or last output
        self._read_task = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        while piece := await self._tree.stdout.read(64 * 1024):
            self.last_output_at = self._now()
            self._output += piece
            if len(self._output) > self._max_bytes:
                del self._output[: len(self._output) - self._max_bytes]
                self._is_truncated = True

    def output(self) -> TerminalOutput:
        code = self._tree.exit_code if self._tree.is_dead else None
        return TerminalOutput(
            _decode_whole_characters(bytes(self._output), is_final=self._read_task.done()),
            self._is_truncated,
            code if code is not None and code >= 0 else None,
            _signal_name(-code) if code is not None and code < 0 else None,
        )

    async def wait_for_exit(self) -> TerminalOutput:
        self.waiters += 1
        try:
            await self._tree.wait_for_exit()
        finally:
            self.waiters -= 1
        await asyncio.wait({self._read_task}, timeout=1)  # do not wait for an orphan that holds the pipe
        return self.output()

    async def kill(self) -> None:
        await self._tree.kill()
        await asyncio.wait({self._read_task}, timeout=1)

    def close(self) -> None:
        self._read_task.cancel()


class Terminals:
    """The terminals of one agent, in the agent's runtime. `close` ends all of them."""

    def __init__(self, launch: Launch) -> None:
        """Uses the agent's launch, but without its secrets: a command could print them."""
        self._launch = launch
        self._environment = without_secrets(launch.environment)
        self._open: dict[str, tuple[Terminal, AsyncExitStack]] = {}
        self._released: dict[str, str] = {}  # the end of their output

    async def create(
        self, command: str, arguments: list[str], cwd: str | None, environment: Mapping[str, str], max_bytes: int | None
    ) -> str:
        terminal_id = secrets.token_hex(6)
        argv = (command, *arguments) if arguments else ("/bin/sh", "-c", command)
        folder = resolve_inside(self._launch.cwd, cwd or ".")
        if not os.path.isdir(folder):
            raise BadInput(f"{cwd} is not a folder")
        marks = {RUN_MARK: self._environment[RUN_MARK]} if RUN_MARK in self._environment else {}
        launch = self._launch._replace(
            command=argv,
            cwd=folder,
            environment={**self._environment, **environment, **marks},
            mark=f"{self._launch.mark}/{terminal_id}",
            stderr=None,
            worktree=self._launch.cwd,
            reports=None,  # code of another role often runs here: it must not report as this one
        )
        stack = AsyncExitStack()
        _FAILPOINT.before()
        tree = await stack.enter_async_context(spawn(launch))
        tree.stdin.close()
        self._open[terminal_id] = (
            Terminal(tree, _MAX_OUTPUT_BYTES if max_bytes is None else min(max(max_bytes, 0), _MAX_OUTPUT_BYTES)),
            stack,
        )
        _FAILPOINT.after()
        return terminal_id

    def __getitem__(self, terminal_id: str) -> Terminal:
        if terminal_id not in self._open:
            raise BadInput(f"there is no terminal {terminal_id}")
        return self._open[terminal_id][0]

    @property
    def awaited_terminals(self) -> list[Terminal]:
        """Return the terminals whose exit the agent waits for, once per request."""
        return [terminal for terminal, _ in self._open.values() for _ in range(terminal.waiters)]

    def last_output(self, terminal_id: str) -> str | None:
        """Return the end of a terminal's output, also after its release; None when it is unknown."""
        return _output_end(self._open[terminal_id][0]) if terminal_id in self._open else self._released.get(terminal_id)

    async def release(self, terminal_id: str) -> None:
        if terminal_id not in self._open:
            return
        terminal, stack = self._open.pop(terminal_id)
        try:
            await stack.aclose()
        finally:
            self._released[terminal_id] = _output_end(terminal)
            if len(self._released) > _MAX_RELEASED:
                del self._released[next(iter(self._released))]
            terminal.close()

    async def close(self) -> None:
        for terminal_id in list(self._open):
            await self.release(terminal_id)


def _output_end(terminal: Terminal) -> str:
    return terminal.output().text[-_MAX_SHOWN_CHARS:]


def _decode_whole_characters(data: bytes, *, is_final: bool) -> str:
    """Decode text whose first character may be cut, and whose last one may be incomplete."""
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:  # noqa: PLR2004 - a continuation byte
        start += 1
    return getincrementaldecoder("utf-8")("replace").decode(data[start:], final=is_final)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
