"""Commands of the user that run when something happens. They are told what as JSON; they cannot hold the run up."""

import asyncio
import os
import shlex
import signal
from contextlib import suppress

import msgspec

from holdfast.core.events.work import HookRan
from holdfast.core.settings import Hooks as Commands
from holdfast.leaf.process import RUN_MARK
from holdfast.store.run import OwnedRun

_PATIENCE = 60.0  # seconds
_AFTERWARDS = frozenset({"session_end", "notify"})  # the sitting is over: what they start may outlive it


class Hooks:
    def __init__(self, run: OwnedRun, run_id: str, folder: str, commands: Commands) -> None:
        self._run = run
        self._run_id = run_id
        self._folder = folder
        self._commands = commands

    def has(self, hook: str) -> bool:
        return bool(getattr(self._commands, hook))

    async def run(self, hook: str, **about: object) -> None:
        told = msgspec.json.encode({"hook": hook, "run": self._run_id, "folder": self._folder, **about})
        for command in getattr(self._commands, hook):
            code, problem = await _called(command, self._folder, self._environment(hook), told)
            await self._run.append(HookRan(hook=hook, command=shlex.join(command), exit_code=code, problem=problem))

    def _environment(self, hook: str) -> dict[str, str]:
        """Whoever goes on with the run after a crash ends what may still write to its worktrees."""
        return {**os.environ} if hook in _AFTERWARDS else {**os.environ, RUN_MARK: self._run_id}


async def _called(
    command: tuple[str, ...], cwd: str, environment: dict[str, str], told: bytes
) -> tuple[int | None, str | None]:
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=cwd,
            env=environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        return None, f"it cannot be run: {error.strerror}"
    try:
        await asyncio.wait_for(process.communicate(told), _PATIENCE)
    except TimeoutError:
        return None, f"it did not end within {_PATIENCE:g} s"
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    return process.returncode, None
