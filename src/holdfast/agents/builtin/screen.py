"""The interface through which a turn shows progress and asks permission. The loop knows no protocol."""

from dataclasses import dataclass
from typing import Literal, Protocol

from holdfast.agents.builtin.tools import PlanItem, ToolDiff, ToolKind

PermissionChoice = Literal["once", "always", "no", "cancelled"]
CallStatus = Literal["pending", "in_progress", "completed", "failed"]


@dataclass(frozen=True, slots=True)
class DisplayedCall:
    """A tool call on the screen."""

    id: str
    title: str
    kind: ToolKind
    arguments: object
    path: str | None = None
    line: int | None = None
    diff: ToolDiff | None = None


@dataclass(slots=True)
class TokenUsage:
    """Tokens and cost."""

    requests: int = 0
    input: int = 0
    output: int = 0
    thought: int = 0
    cached_read: int = 0
    cached_write: int = 0
    cost: float | None = None


class Screen(Protocol):
    async def show_user_text(self, text: str) -> None: ...

    async def show_text(self, piece: str, message_id: str) -> None: ...

    async def show_thought(self, piece: str, message_id: str) -> None: ...

    async def show_call(self, displayed: DisplayedCall, status: CallStatus) -> None: ...

    async def show_progress(self, call_id: str, status: CallStatus, text: str | None = None) -> None: ...

    async def show_plan(self, steps: tuple[PlanItem, ...]) -> None: ...

    async def show_usage(self, used: int, size: int, usage: TokenUsage) -> None: ...

    async def show_title(self, title: str) -> None: ...

    async def ask_permission(self, displayed: DisplayedCall) -> PermissionChoice: ...
