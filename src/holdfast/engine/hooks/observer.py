"""Passes agents' events to caps and to hooks that follow edits."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from holdfast.core.events import Event
from holdfast.core.events.budget import UsageRecorded
from holdfast.core.events.conversation import ToolCalled, ToolDetailed, ToolReturned, TurnEnded
from holdfast.engine.hooks.edits import EditWatch, ToolUse
from holdfast.engine.hooks.hooks import POST_EDIT, HookRunner
from holdfast.git.worktrees.worktree import Worktree


class Observer:
    """Receives each event once it is in the log. The consequences run beside the agents and delay none."""

    def __init__(
        self,
        hooks: HookRunner,
        worktree_of: Callable[[str], Worktree],
        on_usage: Callable[[], None],
        after_turn: Callable[[str], Coroutine[Any, Any, None]],
    ) -> None:
        """`worktree_of` finds the worktree of a conversation. Worktrees are only compared if a hook follows edits.

        `on_usage` is called when an agent reported usage, `after_turn` with the conversation whose turn ended.
        """
        self._hooks = hooks
        self._on_usage = on_usage
        self._after_turn = after_turn
        self._edits = EditWatch(worktree_of, self._run_edit_hooks) if hooks.has(POST_EDIT) else None
        self._calls: dict[tuple[str, str], ToolUse] = {}
        self._running: set[asyncio.Task[None]] = set()

    def handle_event(self, event: Event) -> None:
        if isinstance(event, UsageRecorded):
            self._on_usage()
        elif isinstance(event, TurnEnded):
            self._start(self._after_turn(event.conversation))
        elif self._edits is not None:
            self._follow_call(self._edits, event)

    def _follow_call(self, edits: EditWatch, event: Event) -> None:
        match event:
            case ToolCalled() | ToolDetailed():
                self._calls[event.conversation, event.call] = ToolUse(event.tool, msgspec.json.decode(event.input))
            case ToolReturned():
                call = self._calls.pop((event.conversation, event.call), None)
                self._start(edits.check(event.conversation, call))

    async def on_turn_start(self, conversation_id: str) -> None:
        if self._edits is not None:
            await self._edits.begin(conversation_id)

    async def on_turn_end(self, conversation_id: str) -> None:
        if self._edits is not None:
            await self._edits.end(conversation_id)

    def _run_edit_hooks(self, conversation_id: str, paths: list[str], tool_use: ToolUse | None) -> None:
        tool, given = tool_use if tool_use is not None else (None, None)
        self._start(self._hooks.run(POST_EDIT, conversation=conversation_id, tool=tool, input=given, paths=paths))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def wait_until_idle(self) -> None:
        """Return when everything that was started has ended, including what that started."""
        while self._running:
            await asyncio.gather(*self._running, return_exceptions=True)
