"""The registry of event handlers."""

from collections.abc import Callable
from typing import Any, TypeVar

from holdfast.core.events import Event
from holdfast.core.log.codec import Line
from holdfast.core.state import RunState

E = TypeVar("E", bound=Event)
Handler = Callable[[RunState, Any, Any], None]  # the second argument is a `Line`, or a `HotLine` without data
HANDLERS: dict[str, Handler] = {}


def on(
    kind: type[E],
) -> Callable[[Callable[[RunState, Line, E], None]], Callable[[RunState, Line, E], None]]:
    def register(handler: Callable[[RunState, Line, E], None]) -> Callable[[RunState, Line, E], None]:
        HANDLERS[kind.type] = handler
        return handler

    return register


def optional_id(task: str | int | None) -> str | None:
    return None if task is None else str(task)
