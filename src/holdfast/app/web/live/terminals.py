"""The terminals of runs: a shell in a worktree, which stays open until it ends, and the run's tmux."""

import asyncio
import os
from typing import NamedTuple

from holdfast.app.web.live.pty import Pty, Size
from holdfast.core.work.names import worktree_names
from holdfast.engine.home import Home
from holdfast.engine.queries.live.terminal import attach_command
from holdfast.leaf.errors import BadInput, HoldfastError, NothingToDo
from holdfast.leaf.ids import new_sid
from holdfast.leaf.process.own_program import without_own_environment

SHELL, TMUX = "shell", "tmux"
_MAX_SHELLS = 32
_NOT_PASSED_ON = ("TMUX", "TMUX_PANE", "STY")


class OpenTerminal(NamedTuple):
    """`is_shared`: it stays when its clients leave, and each later client gets the same."""

    id: str
    title: str
    pty: Pty
    is_shared: bool


class Terminals:
    """The open terminals of one server. They end with it."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._shells: dict[tuple[str, str | None], OpenTerminal] = {}

    async def open(self, run_id: str, kind: str, task: str | None, size: Size) -> OpenTerminal:
        if kind == TMUX:
            command = await asyncio.to_thread(attach_command, self._home, run_id)
            return OpenTerminal(new_sid(), "tmux", Pty(command, "/", _environment(), size), is_shared=False)
        if kind != SHELL:
            raise BadInput(f"kind: {kind!r} is neither {SHELL} nor {TMUX}")
        found = self._shells.get((run_id, task))
        if found is not None and found.pty.exit_code is None:
            return found
        self._shells = {key: shell for key, shell in self._shells.items() if shell.pty.exit_code is None}
        if len(self._shells) >= _MAX_SHELLS:
            raise NothingToDo(f"{_MAX_SHELLS} shells are open; end one of them with `exit`")
        folder = self.folder(run_id, task)
        if not os.path.isdir(folder):
            raise NothingToDo(f"{folder} does not exist; `holdfast resume` creates it again")
        shell = os.environ.get("SHELL") or "/bin/sh"
        opened = OpenTerminal(
            new_sid(), f"{os.path.basename(shell)} in {folder}", Pty((shell,), folder, _environment(), size), True
        )
        self._shells[run_id, task] = opened
        return opened

    def folder(self, run_id: str, task: str | None) -> str:
        return os.path.join(self._home.folder(run_id), worktree_names(run_id, task).folder)

    async def why_no_tmux(self, run_id: str) -> str | None:
        """Return None when the run has a tmux to attach to."""
        try:
            await asyncio.to_thread(attach_command, self._home, run_id)
        except HoldfastError as error:
            return str(error)
        return None

    def has_tmux(self, run_id: str) -> bool:
        """Whether agents of the run were in tmux at some time."""
        return os.path.exists(os.path.join(self._home.folder(run_id), "agents", "tmux"))

    def close(self) -> None:
        for shell in self._shells.values():
            shell.pty.close()


def _environment() -> dict[str, str]:
    given = without_own_environment(os.environ)
    for name in _NOT_PASSED_ON:
        given.pop(name, None)
    return {**given, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
