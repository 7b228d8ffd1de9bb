"""Listening to what agents tell, for those who wait for it: caps, and hooks that follow an edit."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import msgspec

from holdfast.core.events import Event
from holdfast.core.events.budget import UsageRecorded
from holdfast.core.events.conversation import ToolCalled, ToolReturned
from holdfast.engine.hooking import Hooks

_CHANGING = frozenset({"edit", "delete", "move"})


class Observer:
    """Hears each event once it is in the log. What follows from it runs beside the agents, and holds none up."""

    def __init__(self, hooks: Hooks, spent: Callable[[], None]) -> None:
        self._hooks = hooks
        self._spent = spent
        self._changing: dict[tuple[str, str], list[str]] = {}
        self._running: set[asyncio.Task[None]] = set()

    def hear(self, event: Event) -> None:
        match event:
            case UsageRecorded():
                self._spent()
            case ToolCalled() if event.kind in _CHANGING and self._hooks.has("post_edit"):
                self._changing[event.conversation, event.call] = _paths(event.locations)
            case ToolReturned() if (paths := self._changing.pop((event.conversation, event.call), None)) is not None:
                if event.status == "completed":
                    self._follow(event.conversation, paths)

    def _follow(self, conversation: str, paths: list[str]) -> None:
        task = asyncio.create_task(self._hooks.run("post_edit", conversation=conversation, paths=paths))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def settled(self) -> None:
        """All that was begun has ended."""
        await asyncio.gather(*self._running, return_exceptions=True)


def _paths(locations: msgspec.Raw) -> list[str]:
    with suppress(msgspec.MsgspecError):
        return [one.path for one in msgspec.json.decode(locations, type=list[_Place] | None) or []]
    return []


class _Place(msgspec.Struct):
    path: str
