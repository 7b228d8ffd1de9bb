"""What a turn shows, and asks, while it goes on. The loop knows this page and not the protocol behind it."""

from dataclasses import dataclass
from typing import Literal, Protocol

from holdfast.agents.builtin.tools import Diff, Kind, Step

Verdict = Literal["once", "always", "no", "cancelled"]
Status = Literal["pending", "in_progress", "completed", "failed"]


@dataclass(frozen=True, slots=True)
class Shown:
    """A tool call on the screen."""

    id: str
    title: str
    kind: Kind
    arguments: object
    path: str | None = None
    line: int | None = None
    diff: Diff | None = None


@dataclass(slots=True)
class Spent:
    """Tokens and money."""

    requests: int = 0
    input: int = 0
    output: int = 0
    thought: int = 0
    cached_read: int = 0
    cached_write: int = 0
    cost: float | None = None


class Screen(Protocol):
    async def user(self, text: str) -> None: ...

    async def text(self, piece: str, message: str) -> None: ...

    async def thought(self, piece: str, message: str) -> None: ...

    async def call(self, shown: Shown, status: Status) -> None: ...

    async def progress(self, call: str, status: Status, text: str | None = None) -> None: ...

    async def plan(self, steps: tuple[Step, ...]) -> None: ...

    async def usage(self, used: int, size: int, spent: Spent) -> None: ...

    async def title(self, title: str) -> None: ...

    async def ask(self, shown: Shown) -> Verdict: ...
