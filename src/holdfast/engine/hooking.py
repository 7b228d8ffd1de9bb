"""Commands of the user that run when something happens. They are told what as JSON; they cannot hold the run up."""

import shlex

import msgspec

from holdfast.core.events.work import HookRan
from holdfast.core.settings import Hooks as Commands
from holdfast.engine.hook_calls import called
from holdfast.store.run import OwnedRun

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
            mark = None if hook in _AFTERWARDS else self._run_id
            code, _, problem = await called(command, self._folder, told, run_id=mark)
            await self._run.append(HookRan(hook=hook, command=shlex.join(command), exit_code=code, problem=problem))
