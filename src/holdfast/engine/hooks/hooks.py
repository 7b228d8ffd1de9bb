"""Runs user commands when something happens, with the details as JSON on stdin. They do not delay the run.

A `post_edit` hook works on files that an agent wrote, often by a Makefile that the agent could write too. So it runs
where the agent does. The others run as the user.
"""

import os
import shlex
from collections.abc import Callable

from holdfast.core.config.settings import Hooks as Commands
from holdfast.core.events.work import HookRan
from holdfast.engine.checks.validators import CheckPlace
from holdfast.engine.hooks.process import called_in_runtime, hook_input, run_hook
from holdfast.store.run import OwnedRun

POST_EDIT = "post_edit"
_AFTER_SESSION = frozenset({"session_end", "notify"})  # the session is over: what these start may outlive it


class HookRunner:
    def __init__(
        self,
        run: OwnedRun,
        folder: str,
        commands: Commands,
        worktree_path_of: Callable[[str | None, str | None], CheckPlace],
    ) -> None:
        """`folder` is the run's own. `place_of` is where hooks about a task (or the run) and a conversation run."""
        self._run = run
        self._folder = folder
        self._commands = commands
        self._worktree_path_of = worktree_path_of

    def has(self, hook: str) -> bool:
        return bool(getattr(self._commands, hook))

    async def run(
        self,
        hook: str,
        *,
        task: str | None = None,
        conversation: str | None = None,
        tool: str | None = None,
        **about: object,
    ) -> None:
        """For a conversation that works on a task, the input names the task too."""
        state = self._run.state.conversations.get(conversation or "")
        task = task if task is not None or state is None else state.task
        place = self._worktree_path_of(task, conversation)
        cwd = place.cwd if os.path.isdir(place.cwd) else self._folder
        is_confined = place.role.runtime.is_confined
        inside = is_confined and hook == POST_EDIT
        run_id = self._run.state.run.run_id if self._run.state.run is not None else None
        stdin = hook_input(hook, run_id, task, conversation, folder=self._folder, cwd=cwd, tool=tool, **about)
        for command in getattr(self._commands, hook):
            if inside:
                answer = await called_in_runtime(command, place._replace(cwd=cwd), stdin)
            else:
                marked = None if hook in _AFTER_SESSION else run_id
                untrusted = self._folder if is_confined else None
                answer = await run_hook(command, cwd, stdin, run_id=marked, untrusted=untrusted)
            ran = HookRan(
                hook=hook,
                command=shlex.join(command),
                exit_code=answer.exit_code,
                problem=answer.problem,
                outcome="ran" if answer.exit_code == 0 else "failed",
                reason=None if answer.exit_code == 0 else answer.problem or answer.summary,
                tool=tool,
                task=task,
                conversation=conversation,
                runtime=place.role.runtime.kind if inside else None,
            )
            await self._run.append(ran)
